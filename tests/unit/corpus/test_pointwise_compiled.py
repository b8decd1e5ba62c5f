"""The compiled kernel of `pointwise` decides exactly as numpy, which finds words where the kernel does not work."""

from __future__ import annotations

import fcntl
import gzip
import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.code_points import code_points
from jprep.corpus.document import WORD
from jprep.corpus.segmenters.pointwise import Pointwise, compiled
from jprep.corpus.segmenters.pointwise.dictionary import make_dictionary
from jprep.corpus.segmenters.pointwise.features import LANES, FeatureConfig
from jprep.corpus.segmenters.pointwise.marking import mark_codes
from jprep.corpus.segmenters.pointwise.model_file import find_model, read_model
from jprep.corpus.segmenters.pointwise.packed_tables import pack_tables
from jprep.corpus.segmenters.pointwise.second_look import MAX_SECOND
from jprep.corpus.segmenters.pointwise.weights import CERTAIN, MAX_DIRECT, MAX_LANE, Weights
from jprep.corpus.step import describe_step
from jprep.errors import MachineError
from jprep.testing.conformance.segmenter import HARD, SENTENCES

SHARED = Path(os.environ.get("JPREP_SHARED") or Path(__file__).parents[4] / "shared")
TEXTS = ["東京タワーへ行く。", "すもももももももものうち", "あ"]
WORDS = ["東京", "タワー", "東京タワー", "すもも", "もものうち", "ものうちに", "図書館を読む", "東京タワすもも図書"]
SIZES = {
    "each hash of the dictionary in several rows": FeatureConfig(9, 15, 14, 15, 9, 8, 8),
    "a part of the dictionary in each row": FeatureConfig(8, 10, 11, 12, 10, 13, 9),
    "more rows than in the model": FeatureConfig(10, 8, 8, 8, 8, 16, 10),
}
CLOSE = st.text(
    st.sampled_from(
        "東京タワすものうちに図書館を読む aｂ１2\t\n\0\x01\x7f\u3000\u2028。、𠮟👍\U0003ffff\uffff\ufffe～"
    ),
    min_size=1,
)
ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=WORD), min_size=1)


def random_weights(config: FeatureConfig, extreme: bool) -> Weights:
    """Small weights, which leave many boundaries in doubt, or the largest."""
    draw = np.random.default_rng(1)

    def table(limit: int, shape: tuple[int, ...], kind: type) -> np.ndarray:
        if extreme:
            return draw.choice([-limit, limit], shape).astype(kind)
        return draw.integers(-6, 7, shape).astype(kind)

    rows = [table(MAX_LANE, (1 << bits, lanes), np.int8) for bits, lanes in zip(config.row_bits, LANES, strict=True)]
    direct = [table(MAX_DIRECT, (1 << bits,), np.int16) for bits in config.direct_bits]
    second = table(MAX_SECOND, (10, 1 << config.second), np.int8)
    return Weights(config, rows, direct, make_dictionary(WORDS, config), second, 8000 if extreme else 3)


@pytest.fixture(autouse=True)
def fresh_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process knows about the kernel, and share its lock with no other process that runs tests."""
    lock = compiled._compiling
    monkeypatch.setattr(compiled, "_compiling", lambda folder, wait: lock(tmp_path, wait))
    for name, value in (("segmented", 0), ("kernel", None), ("refused", False)):
        monkeypatch.setattr(compiled._Process, name, value)


@pytest.fixture(scope="module")
def words_model() -> Weights:
    return read_model(find_model("")).weights


@pytest.fixture(scope="module")
def kernel(words_model: Weights) -> compiled.Kernel:
    pytest.importorskip("numba", reason="numba is not installed: pip install 'jprep[numba]'")
    found = compiled.load_kernel(words_model, wait=True)
    assert found
    return found


@pytest.fixture(scope="module", params=[(name, extreme) for name in SIZES for extreme in (False, True)], ids=str)
def weights(request: pytest.FixtureRequest) -> Weights:
    name, extreme = request.param
    return random_weights(SIZES[name], extreme)


def assert_same(texts: list[str], kernel: compiled.Kernel, weights: Weights) -> None:
    codes, lengths = code_points("".join(texts)), np.array([len(text) for text in texts])
    found, expected = kernel.mark(codes, lengths, weights), mark_codes(codes, lengths, weights)
    for name, values in found._asdict().items():
        assert values.tolist() == getattr(expected, name).tolist(), name


@given(texts=st.lists(CLOSE | ANY, min_size=1, max_size=12))
@settings(deadline=None, max_examples=60)
def test_random_text_and_weights(texts: list[str], kernel: compiled.Kernel, weights: Weights) -> None:
    assert_same(texts, kernel, weights)


@given(texts=st.lists(CLOSE | ANY, min_size=1, max_size=12))
@settings(deadline=None, max_examples=100)
def test_random_text_and_the_default_model(texts: list[str], kernel: compiled.Kernel, words_model: Weights) -> None:
    assert_same(texts, kernel, words_model)


def test_hard_texts(kernel: compiled.Kernel, weights: Weights, words_model: Weights) -> None:
    texts = [text.replace(WORD, "") for text in (*SENTENCES, *HARD)]
    texts = [text.encode(errors="ignore").decode() for text in texts]
    for each in (weights, words_model):
        assert_same([text for text in texts if text], kernel, each)


def test_every_character(kernel: compiled.Kernel, weights: Weights) -> None:
    codes = [code for code in (*range(1 << 16), *range(1 << 16, 0x110000, 4099)) if not 0xD800 <= code < 0xE000]
    text = "".join(map(chr, codes)).replace(WORD, "")
    assert_same([text, *(text[at : at + 100] for at in range(0, len(text), 700))], kernel, weights)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 2041, 2045, 2046, 2047, 2048, 2049, 5000])
def test_texts_around_the_size_of_a_block(length: int, kernel: compiled.Kernel, weights: Weights) -> None:
    text = ("東京タワーもものうちに図書館を読む。" * (length // 18 + 1))[:length]
    assert_same([text] * 3, kernel, weights)
    assert_same([text, "あ", "東京", *("すもも" for _ in range(700)), text], kernel, weights)


def test_runs_of_one_character(kernel: compiled.Kernel, weights: Weights) -> None:
    assert_same([each * 3000 for each in "あア漢aA1 \t。𠮟"], kernel, weights)


def real_texts() -> Iterator[str]:
    for path in sorted((SHARED / "data" / "web").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for _, line in zip(range(60), file, strict=False):
                yield json.loads(line).get("text", "").replace(WORD, "")


@pytest.mark.skipif(not SHARED.exists(), reason="no shared data here: set JPREP_SHARED")
def test_real_text(kernel: compiled.Kernel, words_model: Weights) -> None:
    texts = [line for text in real_texts() for line in text.splitlines() if line]
    assert len(texts) > 100
    assert_same(texts, kernel, words_model)


def test_a_text_of_one_character_is_certain(kernel: compiled.Kernel, words_model: Weights) -> None:
    assert kernel.mark(code_points("あ"), np.array([1]), words_model).sure.tolist() == [CERTAIN]


def test_tables_of_two_models_are_kept(
    kernel: compiled.Kernel, words_model: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = list[Weights]()
    monkeypatch.setattr(compiled, "pack_tables", lambda weights: packed.append(weights) or pack_tables(weights))
    fresh, other = (
        compiled.Kernel(kernel._function, kernel._make_scratch),
        random_weights(next(iter(SIZES.values())), True),
    )
    for weights in (words_model, other, words_model, other):
        assert_same(TEXTS, fresh, weights)
    assert packed == [words_model, other]


def segment(option: str = "auto") -> list[str]:
    return Pointwise(Pointwise.Config(compiled=option)).segment(TEXTS)


def test_numpy_is_used_for_the_first_text(kernel: compiled.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "AFTER", 30)
    expected = segment("off")
    assert compiled._Process.segmented == 0
    assert segment() == expected and compiled._Process.segmented == 22 and not compiled._Process.kernel
    assert segment() == expected and not compiled._Process.kernel
    assert segment() == expected and compiled._Process.kernel
    assert segment() == expected and segment("off") == expected


def test_the_kernel_can_be_used_from_the_first_text_on(kernel: compiled.Kernel) -> None:
    assert segment("on") == segment("off") and compiled._Process.kernel


def test_while_another_process_compiles_numpy_is_used(
    kernel: compiled.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "AFTER", 0)
    with (tmp_path / "jprep-kernel.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert segment() == segment("off") and not compiled._Process.kernel
    assert segment() == segment("off") and compiled._Process.kernel


def test_the_option_is_not_part_of_fingerprints() -> None:
    described = [describe_step(Pointwise(Pointwise.Config(compiled=option))) for option in ("auto", "on", "off")]
    assert described[0] == described[1] == described[2] and "compiled" not in described[0]["config"]


def modules_of_the_kernel() -> list[str]:
    return [name for name in sys.modules if name == compiled._MODULE or name.partition(".")[0] == "numba"]


@pytest.fixture
def another_numba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that is imported as numba."""
    for name in modules_of_the_kernel():
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(compiled, "AFTER", 0)
    yield tmp_path / "numba.py"
    # `monkeypatch` gives back what was imported before. What was not, the next test must import anew.
    for name in modules_of_the_kernel():
        del sys.modules[name]


def test_without_numba_nothing_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(compiled, "AFTER", 0)
    assert segment() == segment("off") and compiled._Process.refused and not caplog.records
    with pytest.raises(MachineError) as raised:
        segment("on")
    assert "pip install --upgrade 'jprep[numba]'" in str(raised.value.fix)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("raise ImportError('numba needs an older numpy')", "numba needs an older numpy"),
        ("raise SystemError('initialization failed')", "initialization failed"),
        ("version_info, __version__ = (0, 59, 1), '0.59.1'", "numba 0.59.1 is too old, 0.60 is needed"),
        (
            "class config: DISABLE_JIT = 1\nversion_info, __version__ = (0, 68, 1), '0.68.1'",
            "NUMBA_DISABLE_JIT is set",
        ),
        (
            "class config: DISABLE_JIT = 0\nversion_info, __version__ = (0, 68, 1), '0.68.1'\n"
            "def njit(*_, **__): raise RuntimeError('cannot cache function: no locator available')",
            "no locator available",
        ),
    ],
)
def test_numba_that_does_not_work_gives_one_warning(
    source: str, what: str, another_numba: Path, caplog: pytest.LogCaptureFixture
) -> None:
    another_numba.write_text(source)
    expected = segment("off")
    with caplog.at_level(logging.WARNING):
        assert [segment() for _ in range(3)] == [expected] * 3
    (record,) = caplog.records
    assert what in record.getMessage() and "To use it: " in record.getMessage()
    with pytest.raises(MachineError, match=what):
        segment("on")


def test_code_of_another_version_is_not_used(
    kernel: compiled.Kernel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "AFTER", 0)
    mark = compiled.Kernel.mark

    def stale(self: compiled.Kernel, codes: np.ndarray, lengths: np.ndarray, weights: Weights) -> compiled.Marked:
        found = mark(self, codes, lengths, weights)
        return found._replace(sure=found.sure + 1)

    monkeypatch.setattr(compiled.Kernel, "mark", stale)
    assert segment() == segment("off") and not compiled._Process.kernel
    assert "numpy disagree" in caplog.text and "NUMBA_CACHE_DIR" in caplog.text
