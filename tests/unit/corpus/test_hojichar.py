"""The filter `hojichar`, with the real HojiChar."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from jprep import Corpus
from jprep.corpus.config import decode_recipe, make_step
from jprep.corpus.document import Document
from jprep.corpus.filters.adapters.hojichar import HojicharFilter
from jprep.corpus.originals import Original, Originals
from jprep.errors import ConfigError, MachineError, MismatchError
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
    assert described["provenance"].keys() == {"hojichar", "profile"} and "profile" not in described["config"]
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


def test_originals_show_the_changed_text(tmp_path: Path) -> None:
    options = {"filter": "document_filters.DocumentNormalizer"}
    corpus = build(tmp_path, [WIDE], **options)
    [found] = Originals(corpus.folder, [str(tmp_path / "in.jsonl")]).find([doc.id for doc in corpus]).values()
    assert isinstance(found, Original) and [found.text] == [doc.text for doc in corpus]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, "give either"),
        ({"filter": "x.Y", "profile": "p.py"}, "give either"),
        ({"filter": "document_filters.DocumentLengthFilte"}, "HojiChar has no filter"),
        ({"filter": "deduplication.InlineDeduplicator"}, "HojiChar has no filter"),
        ({"filter": "document_filters.NgWordsFilterJa", "options": {"x": 1}}, "does not take these options"),
        ({"filter": LENGTH["filter"], "options": {"p": 0.5}}, "random share"),
        ({"profile": "none.py"}, "cannot read the file"),
    ],
)
def test_wrong_options(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        make_step("filter", {"use": "hojichar"} | options).provenance()
    assert caught.value.fix


def test_a_profile_without_filter(tmp_path: Path) -> None:
    path = tmp_path / "profile.py"
    path.write_text("FILTER = 3")
    with pytest.raises(ConfigError, match="no Compose object FILTER"):
        make_step("filter", {"use": "hojichar", "profile": str(path)}).provenance()


def test_without_hojichar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hojichar", None)
    with pytest.raises(MachineError) as caught:
        make_step("filter", {"use": "hojichar"} | LENGTH).provenance()
    assert caught.value.fix == "pip install 'jprep[hojichar]'"
