"""The signal `language`: Japanese, Chinese, Korean, mojibake, machine junk, other."""

from __future__ import annotations

import gzip
import io
import json
import os
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
from jprep.corpus.signals.language.model import NAMES, read_model, shipped_model, write_model
from jprep.corpus.signals.language.ngrams import HASH_BITS, LEVELS, UNIGRAMS, ZERO, pack, sum_weights
from jprep.corpus.signals.language.samples import MISREADINGS, junk, misread

JAPANESE = (
    "昨日は雨が降っていたので、家で本を読んでいました。夕方になってから近所の店に出かけ、魚と野菜を買いました。",
    "この関数は配列を受け取り、並べ替えた新しい配列を返す。\nfor (int i = 0; i < n; ++i) {\n  print(values[i]);\n}",
    "おばあさんは、かわへせんたくにいきました。すると、おおきなももがながれてきました。",
    "寛永三年三月、藩主家光公、京都ニ上ル。同年八月帰城、家臣五名ヲ加増ス。",
    "第一条　この法律は、国民の権利利益を保護することを目的とする。",
    "データベースサーバーのインストールおよびセットアップ方法",
)
CHINESE = (
    "昨天下了一整天的雨，所以我一直在家里看书。傍晚我去附近的商店买了一些鱼和蔬菜。",
    "這個函式會接收一個陣列，並且傳回排序之後的新陣列。如果陣列是空的，就會傳回錯誤。",
    "本法的目的是保护公民的合法权益，任何单位和个人都不得侵犯。",
)
KOREAN = (
    "어제는 하루 종일 비가 와서 집에서 책을 읽었습니다. 저녁에는 근처 가게에 가서 생선과 야채를 샀어요.",
    "이 함수는 배열을 받아서 정렬된 새 배열을 반환한다.",
)
OTHER = (
    "Yesterday it rained all day, so I stayed at home and read a book. In the evening I went to the shop.",
    "Hier il a plu toute la journée, je suis donc resté à la maison pour lire un livre.",
    "Вчера весь день шёл дождь, поэтому я остался дома и читал книгу.",
)


def _scores(texts: list[str]) -> dict[str, np.ndarray]:
    docs = [Document(id=str(number), source="s", title="", url="", text=text) for number, text in enumerate(texts)]
    return dict(make_step("signal", "language").measure(TextBatch(docs)))


def _best(texts: list[str]) -> list[str]:
    columns = _scores(texts)
    return [NAMES[k] for k in np.stack([columns[f"{name}_score"] for name in NAMES]).argmax(axis=0)]


@pytest.mark.parametrize(
    ("name", "texts"), [("japanese", JAPANESE), ("chinese", CHINESE), ("korean", KOREAN), ("other", OTHER)]
)
def test_languages_are_told_apart(name: str, texts: tuple[str, ...]) -> None:
    assert _best(list(texts)) == [name] * len(texts)


@pytest.mark.parametrize(("written", "read"), MISREADINGS)
def test_mojibake_is_found(written: str, read: str) -> None:
    assert _best([misread(JAPANESE[0] + JAPANESE[2], written, read)]) == ["mojibake"]


def test_junk_is_found() -> None:
    rng = random.Random(5)
    lines = [
        "ああああああああああああああ",
        "aGVsbG8gd29ybGQgdGhpcyBpcyBiYXNlNjQ" * 4,
        "をがにのはともへでをからにがものとはをにでよりはがをもにまで",
    ]
    lines += [" ".join(str(rng.randrange(10**6)) for _ in range(40))]
    found = _best(lines + [junk(300, rng) for _ in range(200)])
    assert found[:4] == ["junk"] * 4
    assert found[4:].count("junk") >= 190


def test_scores_are_probabilities_and_do_not_apply_to_an_empty_text() -> None:
    columns = _scores(["", *JAPANESE, "", "あ", "\U0001f600", "\ud800"])
    together = np.stack(list(columns.values()))
    empty = np.isnan(together).all(axis=0)
    assert np.flatnonzero(empty).tolist() == [0, len(JAPANESE) + 1]
    assert (together[:, ~empty] >= 0).all()
    assert np.allclose(together[:, ~empty].sum(axis=0), 1)


def test_no_documents_have_no_scores() -> None:
    assert {len(values) for values in _scores([]).values()} == {0}


def test_a_score_does_not_depend_on_the_other_texts_of_the_batch() -> None:
    texts = [*JAPANESE, *CHINESE, "", *OTHER, "".join(JAPANESE) * 400, *KOREAN]
    together = _scores(texts)
    for number, text in enumerate(texts):
        alone = _scores([text])
        assert all(np.array_equal(alone[name], together[name][[number]], equal_nan=True) for name in alone)


_MASK = (1 << 32) - 1


def _naive(text: str, weights: np.ndarray) -> np.ndarray:
    """Sum the weights one n-gram at a time."""
    codes = [*map(ord, text), 10, 0]
    total = np.zeros(weights.shape[1], np.int64)
    for at in range(len(text)):
        pair = (codes[at] * 0x9E3779B1 + codes[at + 1] * 0x85EBCA77) & _MASK
        pair *= codes[at] != codes[at + 1]
        triple = (pair * 0xC2B2AE3D + codes[at + 2] * 0x85EBCA77) & _MASK
        places = [min(codes[at], UNIGRAMS - 1), UNIGRAMS + (pair >> 32 - HASH_BITS)]
        if at + 1 < len(text):
            places.append(UNIGRAMS + (1 << HASH_BITS) + (triple >> 32 - HASH_BITS))
        total += weights[places].astype(np.int64).sum(axis=0) - ZERO * len(places)
    return total


_WEIGHTS = np.random.default_rng(0).integers(0, LEVELS, (UNIGRAMS + 2 * (1 << HASH_BITS), 5)).astype(np.uint8)
_TABLES = tuple(pack(part) for part in np.split(_WEIGHTS, [UNIGRAMS, UNIGRAMS + (1 << HASH_BITS)]))


@given(st.lists(st.text(st.characters(), max_size=60), max_size=8))
@settings(max_examples=60, deadline=None)
def test_sums_are_those_of_single_ngrams(texts: list[str]) -> None:
    batch = TextBatch([Document(id="", source="", title="", url="", text=text) for text in texts])
    sums = sum_weights(batch.codes, batch.starts, _TABLES)
    assert sums.tolist() == [_naive(text, _WEIGHTS).tolist() for text in texts]


def test_sums_are_those_of_single_ngrams_across_chunks() -> None:
    rng = random.Random(1)
    texts = ["".join(rng.choices("あいう漢字 ab\n", k=size)) for size in (32767, 0, 1, 2, 70000, 5, 32760)]
    batch = TextBatch([Document(id="", source="", title="", url="", text=text) for text in texts])
    sums = sum_weights(batch.codes, batch.starts, _TABLES)
    assert sums.tolist() == [_naive(text, _WEIGHTS).tolist() for text in texts]


def test_a_model_is_read_as_it_was_written() -> None:
    file = io.BytesIO()
    points = np.array([3.0, 10.0])
    write_model(file, _WEIGHTS, 0.25, np.arange(5.0), points, points / 2)
    file.seek(0)
    model = read_model(file)
    assert all(np.array_equal(read, made) for read, made in zip(model.tables, _TABLES, strict=True))
    assert (model.scale, model.bias.tolist(), model.sharpness.tolist()) == (0.25, [0, 1, 2, 3, 4], [1.5, 5])


def test_the_model_is_small_and_its_hash_enters_the_fingerprint() -> None:
    import jprep.corpus.signals.language as package

    assert (Path(package.__file__).parent / "model.npz").stat().st_size <= 1_000_000
    assert make_step("signal", "language").provenance() == {"model": shipped_model()[1]}


def test_training_makes_a_model_that_tells_two_languages_apart(tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    rows = [{"class": name, "source": f"{name}-{source}", "text": text * 3}
            for name, samples in (("japanese", JAPANESE), ("chinese", CHINESE), ("korean", KOREAN), ("other", OTHER))
            for source in range(6) for text in samples]  # fmt: skip
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    made = tmp_path / "model.npz"
    command = [sys.executable, "-m", "jprep.corpus.signals.language.training", str(texts)]
    options = ["--held-out", "japanese-5", "--samples", "1500", "-o", str(made)]
    printed = subprocess.run([*command, *options], check=True, capture_output=True, text=True).stdout
    assert "held-out sources" in printed and "japanese-5" in printed
    with made.open("rb") as file:
        model = read_model(file)
    batch = TextBatch([Document(id="", source="", title="", url="", text=text) for text in (JAPANESE[0], CHINESE[0])])
    assert model.scores(batch.codes, batch.starts).argmax(axis=1).tolist() == [0, 1]


def test_real_japanese_is_japanese() -> None:
    shared = Path(os.environ.get("JPREP_SHARED", "/nonexistent")) / "data" / "web"
    if not shared.exists():
        pytest.skip("no shared data")
    with gzip.open(shared / "jaquad_contexts.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    assert np.mean(_scores(texts)["japanese_score"] > 0.5) > 0.995
