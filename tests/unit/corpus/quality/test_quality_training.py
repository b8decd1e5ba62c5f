"""Train small quality classifiers and check their files, figures and limits."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from jprep.corpus.document import Document
from jprep.corpus.quality import samples
from jprep.corpus.quality.figures import area_under_curve, fit_logistic, held_out_figures
from jprep.corpus.quality.inputs import describe_inputs, read_documents
from jprep.corpus.quality.model import WEIGHTS, load_model, logistic
from jprep.corpus.quality.ngrams import NgramConfig
from jprep.corpus.quality.samples import SampleWriter
from jprep.corpus.quality.training import QualityConfig, TrainingInput, train
from jprep.corpus.signals.batch import TextBatch
from jprep.errors import ConfigError, DamagedError, JprepError, MismatchError
from tests.fakes.written_corpus import write_corpus

GOOD = ("山", "川", "空", "雨が降る", "本を読む", "歴史は", "学校で", "研究した。", "という", "である。", "春の")
BAD = ("激安", "今すぐ", "クリック", "送料無料", "ポイント", "登録", "！！", "→", "詳しくは", "こちら", "人気")
CONFIG = QualityConfig(ngrams=NgramConfig(bits=12))


def text(words: tuple[str, ...], seed: int) -> str:
    draw = random.Random(seed)
    return "".join(draw.choice(words if draw.random() < 0.8 else GOOD + BAD) for _ in range(draw.randint(5, 40)))


def made(words: tuple[str, ...], count: int, name: str) -> TrainingInput:
    docs = [Document(str(number), "", "", "", text(words, number)) for number in range(count)]
    return TrainingInput([{"file": name}], lambda: iter(docs))


def batch(*texts: str) -> TextBatch:
    return TextBatch([Document("", "", "", "", each) for each in texts])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quality") / "model"
    train(made(GOOD, 400, "a"), made(BAD, 200, "b"), CONFIG, folder)
    return folder


def test_equal_texts_of_a_class_count_once(tmp_path: Path) -> None:
    good = [Document(str(number), "", "", "", f"文書{number % 50}") for number in range(1000)]
    bad = [Document(str(number), "", "", "", f"文書{number}") for number in range(100)]
    sample = SampleWriter(tmp_path, 30, 0).write(good, bad)
    found = [each for examples in sample.files(0) for each in examples]
    assert len({each.text for each in found if each.good}) == sum(each.good for each in found) == 30
    assert sum(not each.good for each in found) == 30


def test_a_text_shorter_than_all_ngrams_does_not_spoil_the_training(tmp_path: Path) -> None:
    good = [Document(str(number), "", "", "", text(GOOD, number)) for number in range(200)]
    good[50] = Document("short", "", "", "", "。")
    config = QualityConfig(ngrams=NgramConfig(shortest=4, longest=5, bits=12))
    card = train(TrainingInput([], lambda: iter(good)), made(BAD, 200, "b"), config, tmp_path / "model")
    assert np.isfinite([card.scale, card.slope, card.offset, *card.figures.values()]).all()
    scores = load_model(tmp_path / "model").score(batch("。", "", text(GOOD, 9000)))
    assert np.isnan(scores).tolist() == [False, True, False] and scores[2] > 0.5


@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (1e-4, 0), (1e4, 0), (0.01, 5)])
def test_a_calibration_does_not_depend_on_the_scale_and_the_zero_of_the_values(scale: float, shift: float) -> None:
    values = np.random.default_rng(1).normal(size=400)
    labels = (values + np.random.default_rng(2).normal(size=400) > 0).astype(np.int64)
    slope, offset = fit_logistic(values, labels)
    other, own = fit_logistic(values * scale + shift, labels)
    assert other * scale == pytest.approx(slope, rel=1e-6)
    assert own + other * shift == pytest.approx(offset, abs=1e-5)


def test_equal_values_give_a_finite_calibration() -> None:
    assert np.isfinite(fit_logistic(np.full(10, 0.3), np.arange(10) % 2)).all()


def test_a_classifier_separates_unseen_text_and_is_calibrated(model: Path) -> None:
    loaded = load_model(model)
    scores = loaded.score(batch(*(text(GOOD, seed) for seed in range(9000, 9200))))
    others = loaded.score(batch(*(text(BAD, seed) for seed in range(9000, 9200))))
    assert np.median(scores) > 0.9 and np.median(others) < 0.1
    assert loaded.card.figures["auc"] > 0.98 and loaded.card.figures["accuracy"] > 0.9
    assert loaded.card.figures["calibration_error"] < 0.1
    parts = loaded.card.documents
    assert sum(parts[part]["good"] for part in parts) == 400 and sum(parts[part]["bad"] for part in parts) == 200


def test_the_same_inputs_give_the_same_bytes_in_any_order(model: Path, tmp_path: Path) -> None:
    def reverse(side: TrainingInput) -> TrainingInput:
        docs = list(side.read())[::-1]
        return TrainingInput(side.described, lambda: iter(docs))

    train(reverse(made(GOOD, 400, "a")), reverse(made(BAD, 200, "b")), CONFIG, tmp_path / "again")
    for name in (WEIGHTS, "quality.json"):
        assert (tmp_path / "again" / name).read_bytes() == (model / name).read_bytes()


def test_a_finished_classifier_is_verified_and_another_one_refused(model: Path) -> None:
    def unread() -> None:
        raise AssertionError("read again")

    good, bad = (TrainingInput([{"file": name}], unread) for name in "ab")  # type: ignore[arg-type]
    before = (model / WEIGHTS).stat().st_mtime_ns
    train(good, bad, CONFIG, model)
    assert (model / WEIGHTS).stat().st_mtime_ns == before
    with pytest.raises(MismatchError):
        train(good, bad, QualityConfig(ngrams=NgramConfig(bits=13)), model)


def test_a_damaged_model_is_refused(model: Path, tmp_path: Path) -> None:
    for name in (WEIGHTS, "quality.json"):
        copy = tmp_path / name
        copy.mkdir()
        for file in (WEIGHTS, "quality.json"):
            data = bytearray((model / file).read_bytes())
            if file == name:
                data[len(data) // 2] ^= 4
            (copy / file).write_bytes(data)
        with pytest.raises(DamagedError):
            load_model(copy)
    with pytest.raises(ConfigError, match="no finished quality model"):
        load_model(tmp_path / "nothing")


def test_a_class_without_documents_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JprepError, match="bad inputs have no text"):
        train(made(GOOD, 50, "a"), made(BAD, 0, "b"), CONFIG, tmp_path / "model")
    with pytest.raises(JprepError, match="the same texts"):
        train(made(GOOD, 50, "a"), made(GOOD, 50, "a"), CONFIG, tmp_path / "same")
    with pytest.raises(JprepError, match="no document for the part"):
        train(made(GOOD, 100, "a"), made(BAD, 3, "b"), CONFIG, tmp_path / "model")
    train(made(GOOD, 200, "a"), made(BAD, 200, "c"), CONFIG, tmp_path / "model", restart=True)


def test_a_sample_is_bounded_and_independent_of_the_order(tmp_path: Path) -> None:
    docs = [Document(str(number), "", "", "", f"文書{number}") for number in range(500)]
    found = []
    for name, order in (("a", docs), ("b", docs[::-1])):
        (tmp_path / name).mkdir()
        sample = SampleWriter(tmp_path / name, 50, 0).write(order, docs[:60])
        found.append([each for part in sample.files(0) for each in part])
    assert found[0] == found[1]
    assert [sum(each.good == label for each in found[0]) for label in (0, 1)] == [50, 50]
    long = SampleWriter(tmp_path / "a", 50, 0)
    sample = long.write([Document("", "", "", "", "長" * 50_000)], docs[:1])
    assert max(len(each.text) for part in sample.files(0) for each in part) == samples.MAX_CHARACTERS


def test_calibration_finds_the_slope_and_the_offset() -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(size=20_000)
    labels = (draw.random(20_000) < logistic(2 * values + 1)).astype(np.int64)
    slope, offset = fit_logistic(values, labels)
    good = labels.mean()
    assert slope == pytest.approx(2, rel=0.1)
    assert offset == pytest.approx(1 - np.log(good / (1 - good)), abs=0.15)  # the classes are balanced
    figures = held_out_figures(logistic(slope * values + offset), labels)
    assert figures["calibration_error"] < 0.03


def test_the_area_under_the_curve_counts_pairs() -> None:
    labels = np.array([0, 0, 1, 1])
    assert area_under_curve(np.array([0.1, 0.4, 0.35, 0.8]), labels) == 0.75
    assert area_under_curve(np.array([0.5, 0.5, 0.5, 0.5]), labels) == 0.5


def test_inputs_of_each_kind_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("一行目\n二行目\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("一行目\n二行目\n\n次の文書\n", encoding="utf-8")
    (tmp_path / "c.jsonl").write_text(json.dumps({"body": "本文"}) + "\n", encoding="utf-8")
    corpus = write_corpus(tmp_path / "corpus", [[Document("1", "own", "", "", "文書")]])
    assert [doc.text for doc in read_documents(tmp_path / "a.txt")] == ["一行目", "二行目"]
    assert [doc.text for doc in read_documents(tmp_path / "b.txt")] == ["一行目\n二行目", "次の文書"]
    assert [doc.text for doc in read_documents(tmp_path / "c.jsonl", "body")] == ["本文"]
    assert [doc.text for doc in read_documents(corpus)] == ["文書"]
    with pytest.raises(ConfigError, match="no such"):
        describe_inputs([tmp_path / "none.txt"])
    (tmp_path / "d.pdf").write_bytes(b"")
    with pytest.raises(ConfigError, match="not a kind"):
        describe_inputs([tmp_path / "d.pdf"])
