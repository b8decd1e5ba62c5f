"""Exact and near-duplicates together: of equal texts, one stays that near-duplicates do not drop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jprep.corpus.api import Corpus
from jprep.corpus.dedup.near import clusters
from jprep.engine.stage import Output
from tests.fakes.dedup_corpus import build_deduplicated

pytestmark = pytest.mark.usefixtures("many_parts")

LETTERS = list("あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろ東西南北山川海")


def line(seed: int, length: int = 40) -> str:
    return "".join(np.random.default_rng(seed).choice(LETTERS, length)) + "。"


def lines(*seeds: int) -> str:
    return "\n".join(map(line, seeds))


SHARED = range(12)
EXTRA = 100


def build(folder: Path, texts: Sequence[str], dedup: dict[str, Any], workers: int = 1) -> Corpus:
    """Build a corpus from files of two documents, whose `score` is their number."""
    records = [{"score": str(number), "text": text} for number, text in enumerate(texts)]
    return build_deduplicated(folder, records, 2, workers, dedup=dedup)


def test_the_best_of_equal_documents_stays(tmp_path: Path) -> None:
    texts = [lines(*SHARED), line(300, 200), lines(*SHARED)]
    corpus = build(tmp_path / "a", texts, {"near": {"keep": "best", "score": "score"}})
    assert [(doc.id, doc.text) for doc in corpus] == [("s:1", texts[1]), ("s:2", texts[2])]
    assert [(each.id, each.reason) for each in corpus.rejects()] == [("s:0", "duplicate")]


def test_a_line_of_a_dropped_document_stays_where_it_occurs_later(tmp_path: Path) -> None:
    texts = [lines(*SHARED), lines(*SHARED, EXTRA), lines(200, EXTRA, 201)]
    corpus = build(tmp_path / "a", texts, {"lines": True, "near": {}})
    assert [(doc.id, doc.text) for doc in corpus] == [("s:0", texts[0]), ("s:2", texts[2])]


def test_the_longest_document_keeps_its_lines(tmp_path: Path) -> None:
    texts = [lines(*SHARED), lines(*SHARED, EXTRA)]
    corpus = build(tmp_path / "a", texts, {"lines": True, "near": {"keep": "longest"}})
    assert [(doc.id, doc.text) for doc in corpus] == [("s:1", texts[1])]


@given(
    members=st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 40)), st.booleans(), max_size=20),
    asked=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 50)), max_size=30),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_dropped_documents_are_those_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, members: dict[tuple[int, int], bool], asked: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("members")
    records = np.array([(*place, 0, 0, 2, keep) for place, keep in sorted(members.items())], clusters._member_type())
    (folder / "clusters").write_bytes(records.tobytes())
    output = Output("clusters", len(records), str(folder))
    shards, rows = np.array(asked, np.uint32).reshape(-1, 2).T
    found = clusters.are_dropped(shards, rows, folder, output)
    assert found.tolist() == [not members.get(place, True) for place in asked]


NEARS = [{}, {"keep": "longest"}, {"keep": "best", "score": "score"}, {"drop": False}]


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_do_not_change_the_bytes(tmp_path: Path, workers: int) -> None:
    texts = [lines(*SHARED[: 6 + number % 7], 100 + number % 5) for number in range(30)]
    dedup = {"lines": True, "near": {"keep": "longest"}}
    one = build(tmp_path / "one" / "same", texts, dedup).manifest
    assert build(tmp_path / str(workers) / "same", texts, dedup, workers).manifest == one


@pytest.mark.parametrize("near", NEARS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=1, max_size=7))
def test_no_line_is_lost_that_a_remaining_document_had(
    tmp_path_factory: pytest.TempPathFactory, near: dict[str, Any], documents: list[list[int]]
) -> None:
    texts = [lines(*SHARED, *(EXTRA + extra for extra in extras)) for extras in documents]
    corpus = build(tmp_path_factory.mktemp("build") / "a", texts, {"lines": True, "near": near})
    dropped = {
        int(each.id[2:]): each.step for each in corpus.rejects() if each.step in ("dedup.near", "dedup.documents")
    }
    staying = [one for number, one in enumerate(texts) if number not in dropped]
    near_dropped = [texts[number] for number, step in dropped.items() if step == "dedup.near"]
    assert all(texts[number] in staying + near_dropped for number in dropped)
    expected = {each for one in staying for each in one.split("\n")}
    written = [each for doc in corpus for each in doc.text.split("\n")]
    assert len(written) == len(set(written))
    assert set(written) == expected


@pytest.mark.parametrize(
    ("dedup", "named"),
    [
        ({"near": {}}, False),
        ({"lines": True, "near": {"drop": False}}, False),
        ({"documents": False, "near": {"keep": "longest"}}, False),
        ({"lines": True, "near": {}}, True),
        ({"paragraphs": {"max_count": 3, "keep": 1}, "near": {}}, True),
        ({"near": {"keep": "longest"}}, True),
    ],
)
def test_the_order_is_part_of_the_fingerprint_where_it_matters(
    tmp_path: Path, dedup: dict[str, Any], named: bool
) -> None:
    made_from = build(tmp_path / "a", [lines(1)], dedup).manifest.made_from["documents"]["dedup"]["near"]
    assert made_from.get("order") == ("near, exact" if named else None)
