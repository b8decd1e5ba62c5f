"""`jprep.tokenizer.tokenizer`: encoding is reversible, and gives the same ids as the exported directory."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Exported
from vocabularies import WORDS, finished, small

from jprep.corpus.config import make_step
from jprep.corpus.step import describe_step
from jprep.errors import ConfigError, JprepError, MismatchError
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.card import read_card, write_card
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting.units import pieces as pieces_of
from jprep.tokenizer.counting.units import to_units
from jprep.tokenizer.encoding.batch import EncodedBatch
from jprep.tokenizer.encoding.word_encoder import WordEncoder
from jprep.tokenizer.tokenizer import Tokenizer

CASES: dict[str, dict[str, Any]] = {
    "bpe": {},
    "unigram": {"model": "unigram"},
    "unigram [CLS]": {"model": "unigram", "special": ["hf-unigram"]},
    "byte-bpe": {"model": "byte-bpe"},
    "byte-bpe none": {"model": "byte-bpe", "boundaries": "none"},
    "wordpiece": {"model": "wordpiece"},
    "bpe space": {"newline": "space"},
    "wordpiece space": {"model": "wordpiece", "newline": "space"},
    "bpe hard": {"boundaries": "hard"},
    "unigram hard": {"model": "unigram", "boundaries": "hard"},
    "byte-bpe hard": {"model": "byte-bpe", "boundaries": "hard", "digits": "split"},
    "wordpiece hard": {"model": "wordpiece", "boundaries": "hard"},
    "wordpiece hard alone": {"model": "wordpiece", "boundaries": "hard", "spaces": "alone", "digits": "split"},
    "wordpiece hard space": {"model": "wordpiece", "boundaries": "hard", "newline": "space", "digits": "split"},
}
LOSSLESS = ("bpe", "unigram", "unigram [CLS]", "byte-bpe", "byte-bpe none", "bpe hard", "unigram hard", "byte-bpe hard")
MIXED = (
    "東京都のPython 3.11はdef f():\n\treturn '日本語'  # ゲーム",
    "家族👨‍👩‍👧‍👦と🇯🇵、が\u3099か\u0301 e\u0301",
    "if x:\n    for y in z:\n\t\tprint(y)\r\n\n\n",
    "a\0b\0\0 \ufeff\u200b\u3000 \n \t ▔",
    "すもももももももものうち。Hello, the world is code",
)
_PARTS = [word.replace("▁", " ") for word in WORDS] + [" ", "  ", "\n", "龘", "<0x41>"]
_UNITS = [word.strip("▁") or "x" for word in WORDS] + [" ", "   ", "2", "9a", "\n", "龘", "\t", "\x1e"]
TEXTS = st.one_of(
    st.sampled_from(MIXED),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x1e\x1f▁␤")),
    st.lists(st.sampled_from(_PARTS)).map("".join),
)
MARKED = st.lists(st.sampled_from(_UNITS), min_size=1).map(
    lambda words: "\x1f" + "\x1f".join(words).replace("\x1f\x1e\x1f", "\x1e")
)


@pytest.fixture(scope="module", params=CASES)
def name(request: pytest.FixtureRequest) -> str:
    """Name of each case."""
    return str(request.param)


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    """Return the tokenizer of each case, without a normalizer."""
    root = tmp_path_factory.mktemp("tokenizers")
    return {name: Tokenizer(finished(root / name, small(**options))) for name, options in CASES.items()}


@pytest.fixture(scope="module")
def exported(tokenizers: dict[str, Tokenizer]) -> dict[str, Exported]:
    """Return what the library `tokenizers` loads for each case."""
    return {
        name: Exported.from_file(str(tokenizer.folder / "tokenizer.json")) for name, tokenizer in tokenizers.items()
    }


def of(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    ids, offsets = tokenizer.encode_batch(texts, normalized=True)
    assert (ids.dtype, offsets.dtype, len(offsets)) == (np.int32, np.int64, len(texts) + 1)
    return [ids[start:end].tolist() for start, end in pairwise(offsets)]


@settings(max_examples=60)
@given(data=st.data())
def test_exported_tokenizer_gives_the_same_ids_and_text(name, tokenizers, exported, data) -> None:
    texts = data.draw(st.lists(MARKED if "hard" in name else TEXTS, max_size=5))
    assume(
        not any(token in text for token in tokenizers[name].special.tokens for text in texts)
    )  # the exported tokenizer parses these
    ours = of(tokenizers[name], texts)
    assert ours == [encoding.ids for encoding in exported[name].encode_batch(texts, add_special_tokens=False)]
    theirs = exported[name].decode_batch(ours, skip_special_tokens=False)
    assert theirs == [tokenizers[name].decode(ids) for ids in ours]


@pytest.mark.parametrize("lossless", LOSSLESS)
@settings(max_examples=60)
@given(data=st.data())
def test_round_trip(lossless, tokenizers, data) -> None:
    texts = data.draw(st.lists(MARKED if "hard" in lossless else TEXTS, max_size=5))
    encoded = tokenizers[lossless].encode_batch(texts, normalized=True)
    plain = [text.replace("\x1f", "").replace("\x1e", "") if "hard" in lossless else text for text in texts]
    assert tokenizers[lossless].decode_batch(*encoded) == plain


@given(text=st.text(st.characters(exclude_characters="\x1e\x1f")))
def test_byte_bpe_is_lossless_except_for_lone_surrogates(tokenizers, text) -> None:
    expected = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    for case in ("byte-bpe", "byte-bpe none"):
        assert tokenizers[case].decode(tokenizers[case].encode(text)) == expected


def test_every_model_type_accepts_lone_surrogates(name, tokenizers) -> None:
    text = "日本\ud800語\x1f\udc00"
    ids = tokenizers[name].encode(text, normalized=True)
    assert ids == tokenizers[name].encode("日本\ufffd語\x1f\ufffd", normalized=True)


@settings(max_examples=40)
@given(data=st.data())
def test_ids_do_not_depend_on_other_texts(name, tokenizers, data) -> None:
    texts = data.draw(st.lists(MARKED if "hard" in name else TEXTS, max_size=6))
    assert of(tokenizers[name], texts) == [of(tokenizers[name], [text])[0] for text in texts]


def test_many_texts_at_once(name, tokenizers) -> None:
    """More than one block of sentencepiece's input."""
    texts = [f"\x1f{text}" if "hard" in name else text for text in MIXED] * 200 + ["", "\x1f"]
    assert of(tokenizers[name], texts)[:-2] == [of(tokenizers[name], [text])[0] for text in texts[: len(MIXED)]] * 200


@settings(max_examples=40)
@given(texts=st.lists(TEXTS))
@pytest.mark.parametrize("case", ["bpe", "unigram", "byte-bpe", "byte-bpe none", "wordpiece"])
def test_characters_sum_to_the_text(case, tokenizers, texts) -> None:
    ids, offsets = tokenizers[case].encode_batch(texts, normalized=True)
    before = np.concatenate([[0], np.cumsum(tokenizers[case].characters[ids])])
    assert np.diff(before[offsets]).tolist() == [len(text) for text in texts]


def test_special_tokens_in_text_are_treated_as_text(name, tokenizers) -> None:
    tokenizer = tokenizers[name]
    special = {tokenizer.id_of(token) for token in tokenizer.special.tokens} - {tokenizer.unk}
    text = "the".join(tokenizer.special.tokens)
    assert not special & set(tokenizer.encode(f"\x1f{text}" if "hard" in name else text, normalized=True))


def test_ids_of_roles(tokenizers) -> None:
    ours, gpt, bert = tokenizers["bpe"], tokenizers["byte-bpe"], tokenizers["wordpiece"]
    assert (ours.bos, ours.pad, ours.eos, ours.unk, ours.mask) == (0, 1, 2, 3, ours.vocab_size - 1)
    assert (gpt.bos, gpt.mask, gpt.unk) == (gpt.vocab_size - 1, None, None)
    assert (bert.pad, bert.unk, bert.mask, bert.bos) == (0, 1, 4, None)
    for tokenizer in (ours, gpt, bert):
        assert tokenizer.encode("\n", normalized=True) == [tokenizer.newline_id]
        assert tokenizer.piece_of(tokenizer.id_of("す" if tokenizer is not gpt else "Ġ")) in ("す", "Ġ")
    assert tokenizers["bpe space"].newline_id is None
    assert tokenizers["bpe space"].encode("a\nb", normalized=True) == tokenizers["bpe space"].encode("a b")


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.piece_of(number) for number in tokenizer.encode(text, normalized=True)]


def test_hard_boundaries_apply_the_policies(tokenizers) -> None:
    text = "東京\x1f都\x1e \x1fthe\x1f   \x1fthe\x1f \x1f20"
    assert pieces(tokenizers["bpe hard"], text) == ["東京", "都", "▁the", "▁▁", "▁the", "▁", "20"]
    assert pieces(tokenizers["bpe hard"], "東京\x1f\x1e都") == ["東京", "都"]
    alone = pieces(tokenizers["wordpiece hard alone"], text)
    assert alone == ["東京", "都", "▁", "the", "▁▁▁", "the", "▁", "2", "0"]
    assert pieces(tokenizers["wordpiece hard"], "ゲームの\x1f龘a\x1fxy") == ["ゲーム", "##の", "[UNK]", "x", "##y"]


@pytest.mark.parametrize("spaces", ["prefix", "alone"])
@pytest.mark.parametrize("digits", ["keep", "split"])
@pytest.mark.parametrize("newline", ["token", "space"])
@given(text=st.text("a東2９ \n\t\x1e\x1f", min_size=1))
def test_encoded_words_equal_the_training_units(spaces, digits, newline, text) -> None:
    config = TokenizerConfig(boundaries="hard", spaces=spaces, digits=digits, newline=newline)
    cut = pieces_of(pa.array([text]), newline_is_space=newline == "space")
    units, _ = to_units(cut, np.ones(len(cut), np.int64), config)
    used: list[str] = []

    def encoder(words: Sequence[str]) -> EncodedBatch:
        used.extend(words)
        return EncodedBatch(np.arange(len(words), dtype=np.int32), np.arange(len(words) + 1))

    WordEncoder(encoder, config, " ")([text])
    assert {part.encode() for word in used for part in re.split("[\n\t]", word) if part} == set(units.to_pylist())


def test_wordpiece_without_words_only_loses_unknown_characters(tokenizers) -> None:
    tokenizer = tokenizers["wordpiece"]
    assert pieces(tokenizer, "日本語龘龘 the\nthe") == ["日本語", "[UNK]", "[UNK]", "▁the", "␤", "the"]


def test_long_line_is_encoded_in_linear_time(tokenizers) -> None:
    """`tokenizers` would need hours for a WordPiece line of this length."""
    line = "すも" * 30_000
    assert tokenizers["wordpiece"].decode(tokenizers["wordpiece"].encode(line)) == line


NEOLOGDN = describe_step(make_step("normalizer", {"use": "neologdn", "tilde": "ignore"}))
RAW = ["ﾊﾝｶｸ　と Ｐｙｔｈｏｎ", "", " 東京 〜 都ーー\n\n　the　code ", "すもも\x1fも\x1eも"]


def test_raw_text_is_normalized(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(finished(tmp_path, small(), [NEOLOGDN]))
    step = make_step("normalizer", {"use": "neologdn", "tilde": "ignore"})
    done = [step.apply(text.replace("\x1f", "").replace("\x1e", "")) for text in RAW]
    assert done[0] == "ハンカクとPython"
    assert tokenizer.decode_batch(*tokenizer.encode_batch(RAW)) == done
    assert tokenizer.decode_batch(*tokenizer.encode_batch(RAW[:3], normalized=True)) == RAW[:3]
    pages = [f"{text}ＡＢＣ" for text in RAW[:3]] * 2_000
    assert tokenizer.decode_batch(*tokenizer.encode_batch(pages)) == [step.apply(text) for text in pages]


def test_hard_boundaries_segment_raw_text(tmp_path: Path) -> None:
    segmenter = make_step("segmenter", "pointwise")
    tokenizer = Tokenizer(finished(tmp_path, small(boundaries="hard"), [NEOLOGDN], describe_step(segmenter)))
    raw = ["すもももももも。東京都の「日本」です。", "Ｐｙｔｈｏｎ is code", "a\nb", ""]
    sentences = [["すもももももも。", "東京都の「日本」です。"], ["Python is code"]]
    marked = ["\x1e".join(segmenter.segment(each)) for each in sentences]
    assert tokenizer.encode_batch(raw).ids.tolist()[:-3] == tokenizer.encode_batch(marked).ids.tolist()
    assert tokenizer.encode("東京\x1fへ\x1f行く\x1f。") == tokenizer.encode("東京へ行く。")
    segmenter.close()


def test_raw_text_without_a_segmenter_is_rejected(tokenizers) -> None:
    with pytest.raises(ConfigError, match="no segmenter"):
        tokenizers["bpe hard"].encode("すもも")


def test_tokenizer_is_pickled_by_its_directory(tokenizers) -> None:
    again = pickle.loads(pickle.dumps(tokenizers["unigram"]))
    assert again.encode(MIXED[0]) == tokenizers["unigram"].encode(MIXED[0])


def test_changed_step_is_rejected(tmp_path: Path) -> None:
    card = read_card(finished(tmp_path, small(), [NEOLOGDN]))
    write_card(tmp_path, msgspec.structs.replace(card, normalizers=[NEOLOGDN | {"version": 0}]))
    tokenizer = Tokenizer(tmp_path)
    assert tokenizer.encode("すもも", normalized=True)
    with pytest.raises(MismatchError, match="'neologdn' has version 1, expected 0"):
        tokenizer.encode("すもも")


def test_directory_without_a_tokenizer_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no finished tokenizer"):
        load_tokenizer(tmp_path)


def test_later_format_is_rejected(tmp_path: Path) -> None:
    write_card(tmp_path, msgspec.structs.replace(read_card(finished(tmp_path, small())), format=2, jprep="9.9"))
    with pytest.raises(ConfigError, match="format 2") as refused:
        Tokenizer(tmp_path)
    assert refused.value.fix == "install jprep 9.9 or later"


@pytest.mark.parametrize("apply", [lambda lines: lines.replace("\n", ""), lambda lines: lines + "\n"])
def test_normalizer_that_changes_lines_is_rejected(apply: Any, tmp_path: Path) -> None:
    tokenizer = Tokenizer(finished(tmp_path, small()))
    tokenizer._normalizers = [SimpleNamespace(name="mine", apply=apply)]
    with pytest.raises(JprepError, match="changed the number of lines"):
        tokenizer.encode_batch(["a\nb", "c", "d"])


def test_unknown_ids_are_not_decoded(tokenizers) -> None:
    for ids in ([5, -100], [5, tokenizers["bpe"].vocab_size]):
        with pytest.raises(IndexError):
            tokenizers["bpe"].decode(ids)


def test_other_dictionary_is_rejected(tmp_path: Path) -> None:
    described = describe_step(make_step("segmenter", "pointwise"))
    folder = finished(tmp_path / "t", small("bpe", boundaries="hard"), segmenter=described)
    assert load_tokenizer(folder).encode("すもももももも")
    other = described["provenance"] | {"model": "sha256:0"}
    card = read_card(folder)
    write_card(folder, msgspec.structs.replace(card, segmenter=described | {"provenance": other}))
    with pytest.raises(MismatchError, match=r"another model"):
        load_tokenizer(folder).encode("すもももももも")
