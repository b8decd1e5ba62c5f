"""Differences of two outputs are described by the names of inputs, options, steps and libraries."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.engine.mismatch import describe_mismatch


def step(name: str, **config: object) -> dict[str, Any]:
    return {"name": name, "version": 1, "config": config, "provenance": {"dictionary": "1.0"}}


FILES = [{"name": "a.xml", "size": 1000, "sha256": "aa"}, {"name": "b.xml", "size": 5, "sha256": "bb"}]
SOURCE = {
    "name": "wiki",
    "reader": step("wikipedia", shard_mb=32),
    "files": FILES,
    "filters": [step("length", least=1)],
}
CORPUS: dict[str, Any] = {
    "documents": {
        "format": 1,
        "sources": [SOURCE],
        "normalizers": [step("neologdn")],
        "splitter": step("rules"),
        "dedup": {"documents": True},
        "libraries": {"pyarrow": "15"},
    },
    "words": {"segmenter": step("jumandic")},
}


def put(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(fields: dict[str, Any]) -> None:
        here: Any = fields
        for key in path[:-1]:
            here = here[key]
        here[path[-1]] = to

    return change


SOURCES = ("documents", "sources")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (put(*SOURCES, 0, "files", 0, "sha256", to="cc"), "the input file a.xml of the source wiki has changed"),
        (put(*SOURCES, 0, "files", 0, to=FILES[0] | {"size": 1500, "sha256": "cc"}),
         "the input file a.xml of the source wiki has changed: it had 1,000 bytes, and has 1,500"),
        (put(*SOURCES, 0, "files", to=FILES[:1]), "the input file b.xml of the source wiki is missing"),
        (put(*SOURCES, 0, "files", to=FILES[::-1]), "the input files of the source wiki are in a different order"),
        (put(*SOURCES, 0, "reader", "config", "shard_mb", to=1),
         "the reader wikipedia of the source wiki: shard_mb: was 32, is 1"),
        (put(*SOURCES, 0, "filters", 0, "config", "least", to=2),
         "the filter length of the source wiki: least: was 1, is 2"),
        (put(*SOURCES, to=[]), "sources: was wiki, is none"),
        (put("documents", "normalizers", to=[step("nfkc")]), "normalizers: was neologdn, is nfkc"),
        (put("documents", "dedup", "documents", to=False), "dedup.documents: was true, is false"),
        (put("documents", "libraries", "pyarrow", to="16"), 'libraries.pyarrow: was "15", is "16"'),
        (put("words", "segmenter", to=step("none")), "segmenter: was jumandic, is none"),
        (put("words", "segmenter", "version", to=2),
         "the segmenter jumandic works differently in this jprep (version 2, was 1)"),
        (put("words", "segmenter", "provenance", "dictionary", to="2.0"),
         'provenance of the segmenter jumandic: dictionary: was "1.0", is "2.0"'),
    ],
)  # fmt: skip
def test_a_corpus(change: Callable[[dict[str, Any]], None], expected: str) -> None:
    ours = copy.deepcopy(CORPUS)
    change(ours)
    assert describe_mismatch(ours, CORPUS) == [expected]


@pytest.mark.parametrize("key", ["material", "corpus"])
def test_outputs_of_earlier_commands_are_named_as_a_whole(key: str) -> None:
    made = {"format": 1, key: {"corpus": "aa", "files": "ff"}, "config": {"vocab_size": 5}}
    other = made | {key: {"corpus": "bb", "files": "gg"}, "config": {"vocab_size": 6}}
    assert set(describe_mismatch(made, other)) == {
        "vocab_size: was 6, is 5",
        "the corpus is a different one, or has changed",
    }


def test_a_job() -> None:
    ours = {"train": {"batch": 4, "model": {"preset": "a"}}, "steps": 7}
    theirs = {"train": {"batch": 8, "model": {"preset": "a"}}, "steps": 7}
    assert describe_mismatch(ours, theirs) == ["train.batch: was 8, is 4"]


plain = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["files", "sources", "config", "corpus", "name", "version", "x"]), inner)
    ),
    max_leaves=12,
)


@given(plain, plain)
def test_a_difference_is_described_exactly_if_values_differ(ours: Any, theirs: Any) -> None:
    found = describe_mismatch({"a": ours}, {"a": theirs})
    assert bool(found) == (ours != theirs)
