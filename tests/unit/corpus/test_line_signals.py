"""Values of lines that a corpus keeps: `line_signals = ["characters"]`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from jprep import Corpus
from jprep.corpus.config import make_step
from jprep.corpus.document import UNMARK, Document
from jprep.corpus.refilter.request import FilterRequest
from jprep.corpus.refilter.run import refilter
from jprep.corpus.refilter.survey import survey
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.characters import CharacterSignals
from jprep.engine.executors.local import Local
from jprep.engine.runner import SilentProgress
from jprep.errors import ConfigError
from tests.fakes.small_corpus import GOOD, build_corpus

MENU = "Home About Contact"
RECORDS = [
    {"title": "一", "text": f"{MENU}\n{GOOD}\n短い行\n{MENU}"},
    {"title": "二", "text": f"{GOOD}もう一度です。\n短い行"},
    {"title": "三", "text": f"夕方に帰りました。\n{GOOD}"},
]
MENUS = {"signal": "latin_share", "max": 0.5, "per": "line"}


def build(folder: Path, **keys: Any) -> Corpus:
    folder.mkdir(exist_ok=True)
    return build_corpus(folder, RECORDS, **({"filters": [], "line_signals": ["characters"]} | keys))


def filtered(corpus: Corpus, folder: Path, *filters: Any, workers: int = 1, **more: Any) -> list[Document]:
    refilter(corpus.folder, FilterRequest([*filters], {}, **more), folder, Local(workers), SilentProgress())
    return list(Corpus(folder))


def expected(doc: Document) -> dict[str, list[float]]:
    lines = [Document("", "", "", "", line.translate(UNMARK), line) for line in doc.words.split("\n")]
    measured = make_step("signal", "characters").measure(TextBatch(lines))
    return {column: values.astype(np.float32).tolist() for column, values in measured.items()}


@pytest.mark.parametrize("segmenter", ["none", "spaces"])
@pytest.mark.parametrize("filters", [[], [MENUS]], ids=["plain", "menus dropped"])
@pytest.mark.parametrize("lines", [False, True], ids=["", "without repeated lines"])
def test_every_line_has_its_values(tmp_path: Path, segmenter: str, filters: list[Any], lines: bool) -> None:
    dedup = {"documents": True, "lines": lines, "line_min_chars": 3}
    docs = list(build(tmp_path, segmenter=segmenter, filters=filters, dedup=dedup))
    assert sum(doc.text.count("短い行") for doc in docs) == 2 - lines
    for doc in docs:
        assert str(doc.line_signals) == str(expected(doc)) and not doc.signals


def test_the_column_beside_that_of_documents(tmp_path: Path) -> None:
    corpus = build(tmp_path, signals=["characters", "urls"])
    assert corpus.manifest.line_signals == list(CharacterSignals().columns)
    assert [doc.signals["characters"] for doc in corpus] == [len(doc.text) for doc in corpus]
    table = corpus.to_arrow(["line_signals"])
    assert table.column("line_signals").to_pylist()[0]["characters"] == [18, len(GOOD), 3, 18]
    assert not list(corpus.verify())


def test_without_the_key_there_is_no_column(tmp_path: Path) -> None:
    corpus = build(tmp_path, line_signals=[])
    assert "line_signals" not in pq.read_schema(corpus.folder / corpus.manifest.parts[0].path).names
    assert "line_signals" not in corpus.manifest.made_from["documents"]


def test_two_signals_of_lines_with_one_column_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="both have the column") as caught:
        build(tmp_path, line_signals=["urls", "urls"])
    assert "corpus.line_signals" in caught.value.where


@pytest.mark.parametrize("workers", [1, 2])
def test_kept_values_decide_like_measured_ones(tmp_path: Path, workers: int) -> None:
    kept, bare = build(tmp_path / "kept"), build(tmp_path / "bare", line_signals=[])
    limits = [MENUS, {"signal": "characters", "min": 4, "per": "line"}]
    made = [filtered(each, tmp_path / each.folder.parent.name / "f", *limits, workers=workers) for each in (kept, bare)]
    assert [doc.text for doc in made[0]] == [doc.text for doc in made[1]]
    assert "短い行" not in "".join(doc.text for doc in made[0]) and MENU not in "".join(doc.text for doc in made[0])
    for doc in made[0]:
        assert str(doc.line_signals) == str(expected(doc))


def test_kept_values_are_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = build(tmp_path / "kept")

    def refuse(*_: Any) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(CharacterSignals, "measure", refuse)
    none = {"signal": "characters", "max": 1000, "per": "line"}
    assert [doc.text for doc in filtered(corpus, tmp_path / "f", none)] == [doc.text for doc in corpus]
    found = survey(corpus.folder, corpus.manifest, [], [], "line")
    assert found.measured == 8 and found.signals[0].quantiles["1"] == max(len(GOOD) + 7, 18)


def test_values_of_lines_can_be_added(tmp_path: Path) -> None:
    corpus = build(tmp_path / "bare", line_signals=[])
    for doc in filtered(corpus, tmp_path / "f", line_signals=["urls"]):
        assert {*doc.line_signals} == {"url_share", "urls_per_1000"}
        assert [*map(math.isnan, doc.line_signals["url_share"])] == [False] * (doc.text.count("\n") + 1)
