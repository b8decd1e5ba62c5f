"""N-grams and their buckets: block boundaries, text boundaries, and the signal."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.config import make_step
from jprep.corpus.document import Document
from jprep.corpus.quality import ngrams
from jprep.corpus.quality.model import QualityCard, encode_weights, mean_weights
from jprep.corpus.quality.ngrams import NgramConfig, count_ngrams, hash_ngrams
from jprep.corpus.signals.batch import TextBatch
from jprep.engine.manifest import write_manifest
from jprep.errors import ConfigError

CONFIG = NgramConfig(bits=12)
WEIGHTS = np.random.default_rng(0).integers(-1000, 1000, 1 << CONFIG.bits).astype(np.int16)
TEXTS = st.lists(st.text("あいう漢字ABCａ１\n 𠮷", max_size=12), min_size=1, max_size=6)


def batch(*texts: str) -> TextBatch:
    return TextBatch([Document("", "", "", "", each) for each in texts])


def found(made: TextBatch) -> Counter[int]:
    counted = Counter[int]()
    for block in hash_ngrams(made.codes, made.starts[1:], CONFIG):
        for buckets, crossing in zip(block.buckets, block.crossing, strict=True):
            counted.update(np.delete(buckets, crossing).tolist())
    return counted


@given(TEXTS)
def test_a_text_has_the_same_ngrams_beside_others(texts: list[str]) -> None:
    together = mean_weights(batch(*texts), WEIGHTS, CONFIG)
    alone = [mean_weights(batch(each), WEIGHTS, CONFIG)[0] for each in texts]
    np.testing.assert_array_equal(together, alone)
    assert [np.isnan(value) for value in alone] == [not each for each in texts]


@given(TEXTS)
def test_ngrams_are_counted(texts: list[str]) -> None:
    counts = count_ngrams(np.array(list(map(len, texts))), CONFIG)
    for text, count in zip(texts, counts, strict=True):
        marked = text + "\n"
        expected = sum(max(0, len(marked) - n + 1) for n in CONFIG.lengths) if text else 0
        assert count == expected == (found(batch(text)).total() if text else 0)


def test_blocks_do_not_change_the_ngrams(monkeypatch: pytest.MonkeyPatch) -> None:
    made = batch("吾輩は猫である。名前はまだ無い。", "", "どこで生れたか", "ニャー", "a", "とんと見当がつかぬ。")
    expected = found(made), mean_weights(made, WEIGHTS, CONFIG)
    for block in (1, 2, 3, 5, 8):
        monkeypatch.setattr(ngrams, "_BLOCK", block)
        assert found(made) == expected[0]
        np.testing.assert_array_equal(mean_weights(made, WEIGHTS, CONFIG), expected[1])


def test_width_case_and_digits_do_not_count() -> None:
    assert found(batch("Ａｂｃ１２３！")) == found(batch("aBC908!")) != found(batch("abd908!"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = encode_weights(WEIGHTS)
    (tmp_path / "weights.npy").write_bytes(data)
    card = QualityCard(
        jprep="0",
        fingerprint="f",
        made_from={},
        ngrams=CONFIG,
        scale=1e-3,
        slope=2.0,
        offset=-0.5,
        documents={},
        figures={},
        weights_sha256=hashlib.sha256(data).hexdigest(),
    )
    write_manifest(tmp_path / "quality.json", card)
    return tmp_path


def test_the_signal_scores_and_records_the_model(folder: Path) -> None:
    signal = make_step("signal", {"use": "quality", "model": str(folder), "name": "edu"})
    assert signal.columns == ("edu_score",)
    assert signal.local == {"model"} and len(signal.provenance()["weights"]) == 64
    scores = signal.measure(batch("良い文章。", ""))["edu_score"]
    assert 0 < scores[0] < 1 and np.isnan(scores[1])
    assert len(signal.measure(TextBatch([]))["edu_score"]) == 0


def test_the_signal_needs_a_model() -> None:
    with pytest.raises(ConfigError, match="needs a model"):
        make_step("signal", "quality")
    with pytest.raises(ConfigError):
        make_step("signal", {"use": "quality", "model": "m", "name": "a b"})
