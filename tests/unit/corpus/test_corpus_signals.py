"""Signals: batches, the built-in measures, columns of a corpus, thresholds."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep import Corpus
from jprep.corpus.config import make_step
from jprep.corpus.document import SENTENCE, UNMARK, WORD, Document
from jprep.corpus.reasons import describe_reason
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.lines import LineSignals
from jprep.corpus.signals.repetition import RepetitionSignal
from jprep.corpus.signals.urls import URL, count_urls
from jprep.corpus.step import Filter, Signal
from jprep.errors import ConfigError
from jprep.report.corpus.measures import SampleMeasures
from tests.fakes.small_corpus import GOOD, build_corpus, posts
from tests.unit.corpus.test_filter_batches import MANY, documents

SIGNALS = ["characters", "lines", "urls"]


def measured(name: Any, docs: list[Document]) -> list[dict[str, float]]:
    """Return the columns of each document."""
    signal: Signal = make_step("signal", name)
    columns = signal.measure(TextBatch(docs))
    assert tuple(columns) == signal.columns
    assert all(values.shape == (len(docs),) and values.dtype == np.float64 for values in columns.values())
    return [{column: float(values[index]) for column, values in columns.items()} for index in range(len(docs))]


@given(MANY)
def test_the_layout_of_a_batch(texts: list[str]) -> None:
    docs = documents(texts)
    batch = TextBatch(docs)
    kept = [doc.text for doc in docs]
    starts = batch.starts.tolist()
    joined = "".join(map(chr, batch.codes.tolist()))
    assert [joined[start : end - 1] for start, end in pairwise(starts)] == kept
    lines = [(number, line) for number, text in enumerate(kept) for line in text.split("\n")]
    found = [batch.line(index) for index in range(len(batch.line_lengths))]
    assert list(zip(batch.line_docs.tolist(), found, strict=True)) == lines
    hashes = dict(zip(found, batch.line_hashes.tolist(), strict=True))
    assert [hashes[line] for line in found] == batch.line_hashes.tolist()
    assert batch.line_lengths.tolist() == [len(line) for _, line in lines]
    assert batch.sums(batch.codes == ord("あ")).tolist() == [text.count("あ") for text in kept]


@given(MANY)
def test_the_sentences_of_a_batch_are_those_of_the_documents(texts: list[str]) -> None:
    docs = [Document("", "", "", "", words.replace(SENTENCE, ""), words) for words in map(_marked, texts)]
    batch = TextBatch(docs)
    expected = [
        (number, len(sentence))
        for number, doc in enumerate(docs)
        for line in doc.words.split("\n")
        for sentence in line.split(SENTENCE)
        if line
    ]
    assert list(zip(batch.sentence_docs.tolist(), batch.sentence_lengths.tolist(), strict=True)) == expected


def _marked(text: str) -> str:
    """Mark sentences as a splitter does: between two of them, never at the end of a line. Texts have no marks."""
    lines = text.translate(UNMARK).replace("\r", "").split("\n")
    return "\n".join(SENTENCE.join(part for part in line.replace("。", "。\0").split("\0") if part) for line in lines)


def test_word_marks_do_not_move_sentences() -> None:
    plain = Document("", "", "", "", "今日は。雨です。", f"今日は。{SENTENCE}雨です。")
    split = Document("", "", "", "", plain.text, f"今日{WORD}は{WORD}。{SENTENCE}雨{WORD}です{WORD}。")
    assert TextBatch([plain, split]).sentence_starts.tolist() == [0, 4, 9, 13]


@pytest.mark.parametrize("name", SIGNALS)
@given(texts=MANY)
def test_a_measure_does_not_depend_on_the_other_documents(name: str, texts: list[str]) -> None:
    docs = documents(texts)
    together = measured(name, docs)
    for doc, found in zip(docs, together, strict=True):
        np.testing.assert_equal(measured(name, [doc])[0], found)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("length", {}),
        ("japanese", {}),
        ("symbols", {}),
        ("urls", {}),
        ("sentence_end", {"min_lines": 2}),
        ("repeated_lines", {}),
    ],
)
@given(texts=MANY)
def test_signals_measure_what_the_filters_measure(name: str, options: dict[str, int], texts: list[str]) -> None:
    step: Filter = make_step("filter", {"use": name} | options)
    docs = [doc for doc in documents(texts) if doc.text]
    signals = [measured(each, docs) for each in ("characters", {"use": "lines", "min_lines": 2}, "urls")]
    for index, doc in enumerate(docs):
        found = signals[0][index] | signals[1][index] | signals[2][index]
        for measure, value in step.measure(doc).items():
            if measure != "sentence_ends":
                assert found[measure] == pytest.approx(value), measure


URLS = st.lists(st.sampled_from(["http", "https", "ftp", "s", "://", "www.", "a", "あ", " ", "\n"]), max_size=12)


@given(st.lists(URLS.map("".join), min_size=1, max_size=4))
def test_urls_are_the_matches_of_the_expression(texts: list[str]) -> None:
    number, characters = count_urls(TextBatch(documents(texts)))
    expected = [URL.findall(doc.text) for doc in documents(texts)]
    assert number.tolist() == [len(urls) for urls in expected]
    assert characters.tolist() == [sum(map(len, urls)) for urls in expected]


@given(MANY)
def test_lines_of_one_hash_are_compared(texts: list[str]) -> None:
    docs = documents(texts)
    colliding = TextBatch(docs)
    colliding.__dict__["line_hashes"] = np.zeros(len(colliding.line_lengths), np.uint64)
    expected, found = LineSignals().measure(TextBatch(docs)), LineSignals().measure(colliding)
    for column, values in expected.items():
        np.testing.assert_array_equal(values, found[column])


def test_repetition_beside_many_texts_without_ngrams() -> None:
    texts = ["あいうえおかきく" * 3, *["", "短"] * 40_000, "あいうえおかきく" * 2]
    [column] = RepetitionSignal().measure(TextBatch([Document("", "", "", "", text) for text in texts])).values()
    assert column[[0, -1]].tolist() == [9 / 17, 1 / 9] and np.isnan(column[1:-1]).all()


def test_scripts() -> None:
    [found] = measured("characters", [Document("", "", "", "", "ひらカタ漢ー A1。★\n𠮷")])
    assert found["characters"] == 13
    assert found["hiragana_share"] == pytest.approx(2 / 11)
    assert found["katakana_share"] == pytest.approx(3 / 11)
    assert found["kanji_share"] == pytest.approx(2 / 11)
    assert math.isnan(measured("characters", [Document("", "", "", "", " \n ")])[0]["kana_share"])


@pytest.mark.parametrize("dedup", [{"documents": True}, {"documents": False}], ids=["dedup", "plain"])
@pytest.mark.parametrize("segmenter", ["none", "spaces"])
def test_a_corpus_keeps_signals(tmp_path: Path, dedup: dict[str, bool], segmenter: str) -> None:
    keys = {"filters": ["length"], "dedup": dedup | {"lines": dedup["documents"], "line_min_chars": 3}}
    records = [*posts(), {"title": "二行", "text": f"{GOOD}\n短い行\n{GOOD}"}]
    corpus = build_corpus(tmp_path, records, signals=SIGNALS, segmenter=segmenter, **keys)
    docs = list(corpus)
    columns = [column for name in SIGNALS for column in make_step("signal", name).columns]
    assert corpus.manifest.signals == columns
    assert [list(doc.signals) for doc in docs] == [columns] * len(docs)
    assert docs[0].signals["hiragana_share"] == np.float32(measured("characters", docs)[0]["hiragana_share"])
    assert corpus.to_arrow(["id", "signals"]).column("signals").to_pylist()[0].keys() == set(columns)
    assert not list(corpus.verify())


def test_a_corpus_without_signals_has_no_column(tmp_path: Path) -> None:
    corpus = build_corpus(tmp_path, posts())
    assert "signals" not in corpus.manifest.made_from["documents"]
    assert "signals" not in pq.read_schema(corpus.folder / corpus.manifest.parts[0].path).names
    assert "signals" not in corpus.to_arrow().column_names


def test_signals_measure_what_filters_leave_of_a_document(tmp_path: Path) -> None:
    filters = [{"use": "sentence_end", "drop_lines": True}]
    records = [{"title": "t", "text": f"見出し\n{GOOD}"}]
    [doc] = build_corpus(tmp_path, records, signals=["characters"], filters=filters, splitter="none")
    assert doc.signals["characters"] == len(GOOD)


@pytest.mark.parametrize("dedup", [{"lines": True, "line_min_chars": 5}, {"paragraphs": {"min_chars": 5}}])
@pytest.mark.parametrize("segmenter", ["none", "spaces"])
def test_signals_measure_what_deduplication_leaves_of_a_document(
    tmp_path: Path, dedup: dict[str, Any], segmenter: str
) -> None:
    texts = [GOOD, f"{GOOD}\nこの文は一つの文書にしかありません。", GOOD]
    keys = {"signals": ["characters"], "filters": [], "dedup": {"documents": False} | dedup}
    first, second = build_corpus(tmp_path, [{"text": text} for text in texts], segmenter=segmenter, **keys)
    kept = [(doc.signals["characters"], doc.signals["sentences"]) for doc in (first, second)]
    assert kept == [(len(GOOD), 2), (len(second.text), 1)]


def test_two_signals_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="both have the column 'url_share'"):
        build_corpus(tmp_path, posts(), signals=["urls", "urls"])


def threshold(**options: Any) -> Filter:
    step: Filter = make_step("filter", options)
    return step


@pytest.mark.parametrize(
    ("limit", "kept"),
    [({"min": 4}, True), ({"max": 4}, True), ({"above": 4}, False), ({"below": 4}, False), ({"above": 3.9}, True)],
)
def test_limits(limit: dict[str, float], kept: bool) -> None:
    verdict = threshold(signal="characters", **limit).judge(Document("", "", "", "", "四文字だ"))
    assert (verdict.keep, verdict.reason) == ((True, "") if kept else (False, "characters"))


@given(part=st.integers(0, 200), whole=st.integers(1, 200))
def test_a_limit_that_is_the_value_keeps_it(part: int, whole: int) -> None:
    """Thresholds are compared in 32 bits, in which 0.7 is less than 0.7 in 64 bits."""
    text = "あ" * min(part, whole) + "漢" * (whole - min(part, whole))
    limit = min(part, whole) / whole
    doc = Document("", "", "", "", text)
    assert threshold(signal="hiragana_share", min=limit, max=limit).judge(doc).keep
    assert not threshold(signal="hiragana_share", above=limit).judge(doc).keep


def test_a_signal_that_does_not_apply_keeps_the_document() -> None:
    step = threshold(signal="hiragana_share", min=1)
    assert step.judge(Document("", "", "", "", "  ")).keep
    assert step.measure(Document("", "", "", "", "  ")) == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"signal": "hiragana_share"}, "needs a lower limit, an upper limit"),
        ({"signal": "hiragana_share", "min": 0.1, "above": 0.1}, "needs a lower limit, an upper limit"),
        ({"signal": "hiragana_share", "max": float("nan")}, "needs a lower limit, an upper limit"),
        ({"signal": "hiragana_shar", "min": 0.1}, "signals that need options or a library: fasttext, hosts, judge"),
        ({"signal": "quality_score", "min": 0.5}, 'name it by `of`: { use = "quality", model = "DIR" }'),
        ({"signal": "hiragana_shar", "min": 0.1}, "did you mean 'hiragana_share'"),
        ({"preset": "no-such"}, "there is no preset 'no-such'"),
    ],
)
def test_thresholds_that_cannot_work(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_corpus(tmp_path, posts(), filters=[options])
    assert said in f"{caught.value}"


def test_rejects_of_thresholds(tmp_path: Path) -> None:
    filters = [
        {"signal": "characters", "min": 10, "reason": "too_short"},
        {"signal": "sentence_end_share", "min": 0.1, "of": {"use": "lines", "min_lines": 1}},
    ]
    records = [*posts(), {"title": "見出し", "text": "これは見出しの行で文ではない"}]
    corpus = build_corpus(tmp_path, records, filters=filters, dedup={"documents": False})
    found = {(reject.title, reject.step, reject.reason) for reject in corpus.rejects()}
    assert found == {
        ("捨てる0", "filter.threshold", "too_short"),
        ("見出し", "filter.threshold", "sentence_end_share"),
    }
    [described] = corpus.manifest.made_from["documents"]["sources"]
    assert described["filters"][1]["signals"][0]["config"]["min_lines"] == 1
    assert Corpus(corpus.folder).manifest.signals == []


def test_reasons_of_thresholds_are_explained(tmp_path: Path) -> None:
    filters = [{"signal": "characters", "min": 10, "max": 99, "reason": "size"}, {"signal": "url_share", "below": 0.4}]
    made_from = build_corpus(tmp_path, posts(), filters=filters).manifest.made_from
    assert describe_reason(made_from, "filter.threshold", "size") == (
        "`characters` is less than 10 or more than 99 (filter.threshold/size)"
    )
    assert describe_reason(made_from, "filter.threshold", "url_share").startswith("`url_share` is at least 0.4")


def test_a_report_shows_what_thresholds_measure(tmp_path: Path) -> None:
    corpus = build_corpus(tmp_path, posts(), filters=[{"signal": "characters", "min": 10}])
    measures = SampleMeasures(corpus.manifest)
    measures.add(list(corpus))
    assert [(each.step, each.name, each.thresholds) for each in measures.measured()] == [
        ("threshold", "characters", [(10, None)])
    ]
