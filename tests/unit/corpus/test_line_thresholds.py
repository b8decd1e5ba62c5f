"""Thresholds per line: `{ signal = "latin_share", max = 0.5, per = "line" }`."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.corpus.api import Corpus
from jprep.corpus.config import decode_recipe, make_step
from jprep.corpus.document import KEEP, SENTENCE, Document
from jprep.corpus.filters.line_thresholds import LineThresholdFilter
from jprep.corpus.filters.thresholds import ThresholdFilter
from jprep.corpus.signals.batch import TextBatch
from jprep.errors import ConfigError
from jprep.pipeline.recipe import load_recipe
from jprep.testing.conformance.filter import FilterSuite

PROSE = "山道を歩くと、古い石の道しるべが見えてくる。"
MENU = "Home About Contact"


class TestLineThresholds(FilterSuite):
    step = LineThresholdFilter
    options = {"signal": "latin_share", "max": 0.5}
    kept = (PROSE, f"{PROSE}\n{PROSE}", "")
    dropped = (MENU, f"{MENU}\n{MENU}")
    trimmed = ((f"{MENU}\n{PROSE}\n{MENU}\n{PROSE}", f"{PROSE}\n{PROSE}"),)


def documents(*texts: str) -> TextBatch:
    return TextBatch([Document(str(n), "s", "", "", text, text) for n, text in enumerate(texts)])


def test_the_key_per_chooses_the_filter() -> None:
    line = make_step("filter", {"signal": "latin_share", "max": 0.5, "per": "line"})
    assert isinstance(line, LineThresholdFilter)
    whole = make_step("filter", {"signal": "latin_share", "max": 0.5, "per": "document"})
    assert isinstance(whole, ThresholdFilter) and not isinstance(whole, LineThresholdFilter)
    with pytest.raises(ConfigError, match="'word' has no thresholds"):
        make_step("filter", {"signal": "latin_share", "max": 0.5, "per": "word"})


def test_a_recipe_s_file_may_have_the_key(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text('name = "t"\n[corpus]\nfilters = [{ signal = "latin_share", max = 0.5, per = "line" }]\n')
    assert load_recipe(path).corpus.filters == [{"signal": "latin_share", "max": 0.5, "per": "line"}]
    path.write_text('name = "t"\n[corpus]\nfilters = [{ preset = "web-ja", per = "line" }]\n')
    with pytest.raises(ConfigError, match="unknown field `per`"):
        load_recipe(path)


def test_lines_are_judged_as_documents_are() -> None:
    texts = [PROSE, f"{MENU}\n{PROSE}\n\n{PROSE}", MENU, "", f"{PROSE}\n{MENU}"]
    for signal in ("latin_share", "characters", "url_share", "repeated_ngram_share"):
        limit = {"signal": signal, "max": 18}
        lines, whole = make_step("filter", limit | {"per": "line"}), make_step("filter", limit)
        for text, verdict in zip(texts, lines.judge_all(documents(*texts)), strict=True):
            split = text.split("\n")
            judged = whole.judge_all(documents(*split))
            dropped = tuple(n for n, each in enumerate(judged) if split[n] and not each.keep)
            left = not dropped or any(line for n, line in enumerate(split) if n not in dropped)
            assert (verdict.keep, verdict.lines) == (left, dropped if left else ())
            assert (verdict == KEEP) == (not dropped)


def test_a_document_of_which_blank_lines_remain_is_dropped() -> None:
    step = make_step("filter", {"signal": "latin_share", "max": 0.5, "per": "line"})
    (verdict,) = step.judge_all(documents(f"{MENU}\n\n \n{MENU}"))
    assert not verdict.keep


def test_sentences_of_a_line_are_those_of_the_document() -> None:
    doc = Document("a", "s", "", "", "一。二。\n三。", f"一。{SENTENCE}二。\n三。")
    assert TextBatch([doc]).per_line.sentence_docs.tolist() == [0, 0, 1]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_build_drops_lines_and_counts_them(workers: int, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join([f"{PROSE}\n{MENU}\n{PROSE}", MENU, PROSE]))
    corpus = {
        "sources": [
            {"name": "web", "reader": {"use": "text", "documents": "blank_line"}, "paths": [str(tmp_path / "a.txt")]}
        ],
        "filters": [{"signal": "latin_share", "max": 0.5, "per": "line", "reason": "menu"}],
        "signals": ["characters"],
    }
    Corpus.build(decode_recipe({"name": "t", "corpus": corpus}), tmp_path / "corpus", workers=workers)
    built = Corpus(tmp_path / "corpus")
    assert [doc.text for doc in built] == [f"{PROSE}\n{PROSE}", PROSE]
    assert [doc.signals["characters"] for doc in built] == [len(PROSE) * 2 + 1, len(PROSE)]
    assert built.manifest.rejects == {"filter.line_threshold/menu": 1}
    counts = built.manifest.counts
    assert counts["filter.line_threshold.menu.lines"] == 2
    assert counts["filter.line_threshold.menu.characters"] == 2 * len(MENU)
    assert counts["filter.line_threshold.lines_dropped"] == 1
