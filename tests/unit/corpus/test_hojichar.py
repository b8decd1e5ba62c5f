"""The filter `hojichar`, with the real HojiChar."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from jprep import Corpus
from jprep.corpus.config import decode_recipe, make_step
from jprep.corpus.document import Document
from jprep.corpus.filters.adapters.hojichar import HojicharFilter, _plain
from jprep.corpus.originals import Original, Originals
from jprep.errors import ConfigError, MachineError, MismatchError
from jprep.pipeline.recipe import load_recipe
from jprep.plugins import recipe_options
from jprep.testing.conformance.filter import FilterSuite

pytest.importorskip("hojichar")
LENGTH = {"filter": "document_filters.DocumentLengthFilter", "options": {"min_doc_len": 8}}
PROFILE = """
from hojichar import Compose, document_filters

FILTER = Compose([
    document_filters.DocumentNormalizer(),
    document_filters.DocumentLengthFilter(min_doc_len=8),
    document_filters.DiscardRareKuten(max_average_sentence_length=30),
])
"""
DEDUPLICATES = """
from hojichar import Compose
from hojichar.filters.deduplication import InlineDeduplicator

class Mine(InlineDeduplicator):
    def __init__(self):
        self.p = 1

    def _set_rng_if_not_initialized(self, rng): pass

    _statistics = type("S", (), {})()

FILTER = Compose([Mine()])
"""
READS = """
from pathlib import Path
from hojichar import Compose, Filter

class Words(Filter):
    def __init__(self, path):
        super().__init__()
        self.words = set(Path(path).read_text().split())

    def apply(self, document):
        document.is_rejected = any(word in document.text for word in self.words)
        return document

FILTER = Compose([Words(Path(__file__).parent / "words.txt")])
"""
GOOD = "今日は晴れです。明日は雨です。"
WIDE = "ﾊﾝｶｸの文です。\n\n次の段落です。"


class TestHojichar(FilterSuite):
    step = HojicharFilter
    options = LENGTH
    kept = (GOOD,)
    dropped = ("短い。",)


def build(tmp_path: Path, texts: list[str], name: str = "corpus", **options: Any) -> Corpus:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    source = {"name": "s", "paths": [str(path)], "reader": "jsonl"}
    steps = {"normalizers": [], "filters": [{"use": "hojichar"} | options], "segmenter": "none"}
    return Corpus.build(decode_recipe({"name": "r", "corpus": {"sources": [source]} | steps}), tmp_path / name)


def test_a_profile_rejects_by_filter_and_changes_text(tmp_path: Path) -> None:
    (tmp_path / "profile.py").write_text(PROFILE)
    corpus = build(tmp_path, [GOOD, WIDE, "短い。", "長" * 99], profile=str(tmp_path / "profile.py"))
    assert [doc.text for doc in corpus] == [GOOD, "ハンカクの文です。\n次の段落です。"]
    assert [doc.words.count("\x1e") for doc in corpus] == [1, 0]
    assert corpus.manifest.rejects == {
        "filter.hojichar/document_length_filter": 1,
        "filter.hojichar/discard_rare_kuten": 1,
    }
    assert corpus.manifest.counts["filter.hojichar.document_normalizer.changed"] == 1
    assert corpus.manifest.counts["filter.hojichar.documents_changed"] == 1


def test_version_and_profile_are_in_the_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "profile.py"
    path.write_text(PROFILE)
    corpus = build(tmp_path, [GOOD], profile=str(path))
    [described] = corpus.manifest.made_from["documents"]["sources"][0]["filters"]
    assert (
        described["provenance"].keys() == {"hojichar", "profile", "profile.filters"}
        and "profile" not in described["config"]
    )
    path.write_text(PROFILE.replace("30", "31"))
    with pytest.raises(MismatchError, match="provenance of the filter hojichar of the source s: profile"):
        build(tmp_path, [GOOD], profile=str(path))


def test_a_word_list_is_in_the_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("雨\n")
    step = make_step(
        "filter",
        {"use": "hojichar", "filter": "document_filters.NgWordsFilterJa", "options": {"dict_path": str(path)}},
    )
    assert not step.judge(Document("", "", "", "", GOOD)).keep
    before = step.provenance()
    path.write_text("雪\n")
    assert step.provenance()["options.dict_path"] != before["options.dict_path"]


def test_what_a_profile_reads_is_in_the_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "profile.py").write_text(READS)
    words = tmp_path / "words.txt"

    def provenance(text: str) -> dict[str, str]:
        words.write_text(text)
        for name in [name for name in sys.modules if name.startswith("jprep_step_file.")]:
            del sys.modules[name]
        return dict(make_step("filter", {"use": "hojichar", "profile": str(tmp_path / "profile.py")}).provenance())

    first = provenance("雨\n雪\n")
    assert provenance("雨\n雪\n") == first
    changed = provenance("雨\n霧\n")
    assert {name for name in first if first[name] != changed[name]} == {"profile.filters"}


def test_values_print_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    long = re.compile("あ" * 300 + "い")
    assert _plain({"b": {3, 1}, "_a": 1, "a": [object(), long]}) == [
        ("a", [None, (long.pattern, 32)]),
        ("b", ["1", "3"]),
    ]
    assert _plain(tmp_path / "a") == _plain(str(tmp_path / "a")) != _plain("a")


def test_an_option_of_any_length_is_no_path() -> None:
    options = {"filter": LENGTH["filter"], "options": {"min_doc_len": "x" * 9999}}
    assert make_step("filter", {"use": "hojichar"} | options).provenance().keys() == {"hojichar"}


def test_originals_show_the_changed_text(tmp_path: Path) -> None:
    options = {"filter": "document_filters.DocumentNormalizer"}
    corpus = build(tmp_path, [WIDE], **options)
    [found] = Originals(corpus.folder, [str(tmp_path / "in.jsonl")]).find([doc.id for doc in corpus]).values()
    assert isinstance(found, Original) and [found.text] == [doc.text for doc in corpus]


def test_a_profile_is_used_again_where_a_recipe_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_options, "_options", defaultdict(list))
    profile, recipe = tmp_path / "profile.py", tmp_path / "r.toml"
    profile.write_text(PROFILE)
    corpus = build(tmp_path, [GOOD], profile=str(profile))
    filters = f'filters = [{{ use = "hojichar", profile = "{profile}" }}]'
    recipe.write_text(f'name = "r"\n[corpus]\nsources = [{{ name = "s", paths = [], reader = "jsonl" }}]\n{filters}')

    def trace() -> Original:
        [found] = Originals(corpus.folder, [str(tmp_path / "in.jsonl")]).find([doc.id for doc in corpus]).values()
        assert isinstance(found, Original)
        return found

    assert "records the hash of its `profile`, and not where it is" in trace().problem
    load_recipe(recipe)
    assert trace().problem == "" and [each.name for each in trace().filters] == ["hojichar"]
    profile.write_text("raise SystemExit('run')")
    assert f"its `profile` {profile} is not the one that the corpus was built with" in trace().problem
    profile.unlink()
    assert f"its `profile` {profile} cannot be read" in trace().problem


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, "neither `filter` nor `profile` is given"),
        ({"filter": "x.Y", "profile": "p.py"}, "give either"),
        ({"filter": "document_filters.DocumentLengthFilte"}, "HojiChar has no filter"),
        ({"filter": "deduplication.InlineDeduplicator"}, "HojiChar has no filter"),
        ({"filter": "document_filters.NgWordsFilterJa", "options": {"x": 1}}, "does not take these options"),
        ({"filter": LENGTH["filter"], "options": {"p": 0.5}}, "random share"),
        ({"profile": "none.py"}, "no such profile"),
    ],
)
def test_wrong_options(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        make_step("filter", {"use": "hojichar"} | options).provenance()
    assert caught.value.fix


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("FILTER = 3", "no Compose object FILTER"),
        ("from hojichar import Compose\nFILTER = Compose([])", "the profile has no filters"),
        (DEDUPLICATES, "compares documents with earlier ones"),
    ],
)
def test_a_wrong_profile(code: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "profile.py"
    path.write_text(code)
    with pytest.raises(ConfigError, match=what):
        make_step("filter", {"use": "hojichar", "profile": str(path)}).provenance()


def test_without_hojichar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hojichar", None)
    with pytest.raises(MachineError) as caught:
        make_step("filter", {"use": "hojichar"} | LENGTH).provenance()
    assert caught.value.fix == "pip install 'jprep[hojichar]'"
