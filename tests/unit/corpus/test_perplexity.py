"""The signal `perplexity` and its character n-gram model."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.config import make_step
from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.perplexity.model import PerplexityModel, read_model
from jprep.errors import ConfigError, InputError

TEXTS = (
    "昨日は雨が降っていたので、家で本を読んでいました。",
    "夕方になってから近所の店に出かけ、魚と野菜を買いました。",
    "本を読んでいると、近所の人が家に来ました。",
)


def _batch(texts: list[str]) -> TextBatch:
    return TextBatch([Document(id="", source="", title="", url="", text=text) for text in texts])


def _trained(texts: list[str], order: int = 3, bits: int = 16) -> PerplexityModel:
    model = PerplexityModel(order, bits)
    model.train(texts)
    return model


def _bits(model: PerplexityModel, texts: list[str]) -> list[float]:
    return model.bits_per_character(_batch(texts)).tolist()


def test_known_text_is_less_perplexing_than_shuffled_and_unknown_text() -> None:
    model = _trained(list(TEXTS) * 3)
    shuffled = "".join(random.Random(1).sample(TEXTS[0], len(TEXTS[0])))
    known, mixed, unknown = _bits(model, [TEXTS[0], shuffled, "한국어로 쓴 글입니다"])
    assert known < 2 < mixed < unknown


def test_an_empty_text_has_no_measure_and_no_documents_have_none() -> None:
    model = _trained(list(TEXTS))
    assert np.isnan(_bits(model, ["", "雨"])).tolist() == [True, False]
    assert _bits(model, []) == []


def test_without_training_each_code_point_is_as_likely_as_the_others() -> None:
    assert _bits(PerplexityModel(3, 8), ["雨", "本を"]) == pytest.approx([np.log2(0x110000)] * 2, abs=1e-5)


@given(st.lists(st.text("あいう\n", max_size=12), min_size=1, max_size=5), st.text("あいう\n", max_size=4))
@settings(max_examples=60, deadline=None)
def test_the_chances_of_all_next_characters_add_up_to_one(texts: list[str], before: str) -> None:
    model = _trained(texts, order=4, bits=20)
    alphabet = "あいう\n"
    each = _bits(model, [before + char for char in (*alphabet, "漢")])
    start = _bits(model, [before])[0] * len(before) if before else 0
    chances = 2 ** (start - np.array(each) * (len(before) + 1))
    assert chances[:-1].sum() + chances[-1] * (0x110000 - len(alphabet)) == pytest.approx(1, abs=1e-3)


def test_unseen_characters_are_unlikely_where_all_ngrams_of_a_context_share_hashes_with_others() -> None:
    model = _trained(list(TEXTS), order=2)
    for counts in model.counts:
        counts.followers[:] = 0
    assert _bits(model, ["한국어로 쓴 글입니다"])[0] > 15


def test_more_characters_than_can_be_counted_are_refused() -> None:
    model = PerplexityModel(2, 8)
    model.train(["雨"])
    assert model.counts[0].contexts[0] == 1
    model.counts[0].contexts[0] = (1 << 32) - 5
    with pytest.raises(ConfigError, match="at most"):
        model.train(["本を読んでいる"])


@given(st.lists(st.text("あいう", max_size=6), max_size=6))
@settings(max_examples=40, deadline=None)
def test_a_measure_does_not_depend_on_the_other_texts_of_the_batch(texts: list[str]) -> None:
    model = _trained(["あいうあい", "いいう"], bits=12)
    together = model.bits_per_character(_batch(texts))
    alone = [model.bits_per_character(_batch([text]))[0] for text in texts]
    assert np.array_equal(together, np.array(alone), equal_nan=True)


def test_training_does_not_depend_on_how_texts_come_in() -> None:
    whole, parts = _trained(list(TEXTS)), PerplexityModel(3, 16)
    for text in TEXTS:
        parts.train([text])
    for left, right in zip(whole.counts, parts.counts, strict=True):
        assert all(np.array_equal(one, other) for one, other in zip(left, right, strict=True))


def test_a_model_is_read_as_it_was_written(tmp_path: Path) -> None:
    model = _trained(list(TEXTS))
    model.write(tmp_path / "model.npz")
    assert _bits(read_model(tmp_path / "model.npz"), list(TEXTS)) == _bits(model, list(TEXTS))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"text"])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.npz").write_bytes(content)
    with pytest.raises(InputError, match="not a perplexity model"):
        read_model(tmp_path / "model.npz")


def test_a_truncated_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    _trained(list(TEXTS), bits=8).write(path)
    whole = path.read_bytes()
    for size in range(0, len(whole), len(whole) // 20):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match="not a perplexity model"):
            read_model(path)


def test_a_model_with_any_flipped_byte_is_refused_or_unchanged(tmp_path: Path) -> None:
    path, model = tmp_path / "model.npz", _trained(list(TEXTS), order=2, bits=5)
    model.write(path)
    whole, expected = path.read_bytes(), _bits(model, list(TEXTS))
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            assert _bits(read_model(path), list(TEXTS)) == expected
        except InputError as error:
            assert "not a perplexity model" in error.what


def _write_arrays(path: Path, **changes: np.ndarray) -> None:
    tables = {f"{name}_1": np.ones(16, np.uint32) for name in ("grams", "contexts", "followers")}
    with path.open("wb") as file:
        np.savez_compressed(file, **({"format": np.array([1, 1, 4])} | tables | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"grams_1": np.ones(1 << 22, np.uint32)},
        {"grams_1": np.ones(16, np.uint8)},
        {"grams_1": np.ones((4, 4), np.uint32)},
        {"grams_1": np.array([None] * 16)},
        {"format": np.array([2, 1, 4])},
        {"format": np.array([1, 1, 60])},
        {"format": np.array([1.0, 1.0, 4.0])},
    ],
)
def test_tables_of_another_kind_or_size_are_refused(tmp_path: Path, changes: dict[str, np.ndarray]) -> None:
    path = tmp_path / "model.npz"
    _write_arrays(path)
    read_model(path)
    _write_arrays(path, **changes)
    with pytest.raises(InputError, match="not a perplexity model"):
        read_model(path)


def test_a_plain_array_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "model.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InputError, match="not a perplexity model"):
        read_model(tmp_path / "model.npz")


@pytest.mark.parametrize(("order", "bits"), [(0, 20), (7, 20), (3, 3), (3, 29)])
def test_sizes_out_of_range_are_refused(order: int, bits: int) -> None:
    with pytest.raises(ConfigError, match="no n-gram model"):
        PerplexityModel(order, bits)


def test_the_signal_reads_what_the_program_wrote(tmp_path: Path) -> None:
    text, model = tmp_path / "text.txt", tmp_path / "model.npz"
    text.write_text("\n".join(TEXTS), encoding="utf-8")
    command = [sys.executable, "-m", "jprep.corpus.signals.perplexity.training", str(text), "--bits", "12"]
    subprocess.run([*command, "-o", str(model)], check=True)
    signal = make_step("signal", {"use": "perplexity", "model": str(model)})
    assert list(signal.provenance()) == ["model"]
    found = signal.measure(_batch([TEXTS[0], "한국어로 쓴 글입니다"]))
    assert signal.columns == tuple(found) == ("perplexity_bits",)
    assert found["perplexity_bits"][0] < 3 < 10 < found["perplexity_bits"][1]


def test_a_missing_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a model"):
        make_step("signal", "perplexity")
    with pytest.raises(ConfigError, match="no such file"):
        make_step("signal", {"use": "perplexity", "model": str(tmp_path / "none.npz")}).provenance()
