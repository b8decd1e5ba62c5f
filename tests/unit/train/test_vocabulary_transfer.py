"""The old rows that begin each row of another vocabulary: tokens are compared by what they stand for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from jprep.engine.executors.local import Local
from jprep.engine.runner import SilentProgress
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.train import train
from jprep.tokenizer.training_data import WordCountTrainingData
from jprep.train.pretrained.piece_texts import guessed_spelling, spelling_of
from jprep.train.pretrained.vocabulary import row_sources
from tests.fakes.config_sections import tokenizer_config
from tests.fakes.hugging_face import write_wordpiece

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LETTERS = ["▁", "東", "京", "都", "ã", "#", "##", "▁the", "the", "ing"]


def saved(built: tokenizers.Tokenizer, folder: Path, **roles: str) -> Tokenizer:
    folder.mkdir()
    built.add_special_tokens(sorted(set(roles.values())))
    built.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **{f"{role}_token": name for role, name in roles.items()}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return load_tokenizer(folder)


@pytest.fixture
def characters(tmp_path: Path) -> Tokenizer:
    """A Unigram that puts a space before each text, with byte fallback."""
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *((piece, -3.0) for piece in LETTERS)]
    vocabulary = [*pieces, *((byte, -20.0) for byte in BYTES)]
    built = tokenizers.Tokenizer(models.Unigram(vocabulary, 0, byte_fallback=True))
    built.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    built.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Fuse(), decoders.Metaspace(prepend_scheme="always")]
    )
    return saved(built, tmp_path / "characters", unk="<unk>", bos="<s>", eos="</s>")


@pytest.fixture
def byte_level(tmp_path: Path) -> Tokenizer:
    """A BPE of bytes whose only special token has all roles, as GPT-2's."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "."), ("#", "#"), ("##", "#"), ("æ", "Ŀ"), ("æĿ", "±"), ("ä", "º"), ("äº", "¬"), ("æĿ±", "äº¬"),
              ("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e")]  # fmt: skip
    pieces = [*alphabet, *map("".join, merges)]
    built = tokenizers.Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, merges))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    end = "<|endoftext|>"
    return saved(built, tmp_path / "bytes", unk=end, bos=end, eos=end)


def sources(old: Tokenizer, new: Tokenizer) -> dict[str, list[str]]:
    """Return the old pieces of each new piece."""
    rows = row_sources(old, new)
    return {new.piece_of(number): [old.piece_of(one) for one in ids] for number, ids in enumerate(rows)}


@pytest.mark.parametrize(
    ("piece", "begins_as"),
    [
        ("ã", ["<0xE3>"]),
        ("æĿ", ["<0xE6>", "<0x9D>"]),
        ("æĿ±", ["東"]),
        ("æĿ±äº¬", ["東", "京"]),
        ("###", ["#", "##"]),
        ("Ċ", ["<0x0A>"]),
        ("Ġ", ["▁"]),
        ("Ġthe", ["▁the"]),
        ("<|endoftext|>", ["</s>"]),
    ],
)
def test_bytes_begin_as_what_they_stand_for(
    piece: str, begins_as: list[str], characters: Tokenizer, byte_level: Tokenizer
) -> None:
    assert sources(characters, byte_level)[piece] == begins_as


@pytest.mark.parametrize(
    ("piece", "begins_as"),
    [
        ("ã", ["Ã", "£"]),
        ("<0xE3>", ["ã"]),
        ("東", ["æĿ±"]),
        ("▁the", ["Ġthe"]),
        ("the", ["t", "h", "e"]),
        ("▁", ["Ġ"]),
        ("</s>", ["<|endoftext|>"]),
    ],
)
def test_characters_begin_as_what_they_stand_for(
    piece: str, begins_as: list[str], characters: Tokenizer, byte_level: Tokenizer
) -> None:
    assert sources(byte_level, characters)[piece] == begins_as


def test_a_continued_word_is_text_inside_of_one(characters: Tokenizer, tmp_path: Path) -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##ing", "東京", "##東"]
    found = sources(characters, load_tokenizer(write_wordpiece(tmp_path / "words", pieces)))
    assert found["the"] == ["▁the"] and found["##ing"] == ["ing"]
    assert found["東京"] == ["東", "京"] and found["##東"] == ["東"], "no space stands before them"
    assert found["[UNK]"] == ["<unk>"] and found["[MASK]"] == []


def test_a_vocabulary_that_grew_keeps_its_rows(byte_level: Tokenizer, characters: Tokenizer) -> None:
    for tokenizer in (byte_level, characters):
        assert row_sources(tokenizer, tokenizer) == [[number] for number in range(tokenizer.vocab_size)]


def test_signs_follow_no_space(byte_level: Tokenizer, tmp_path: Path) -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "."]
    found = sources(byte_level, load_tokenizer(write_wordpiece(tmp_path / "words", pieces)))
    assert found["."] == ["."] and found["the"] == ["Ġthe"]


def test_latin_words_follow_a_space(byte_level: Tokenizer, characters: Tokenizer, tmp_path: Path) -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "thin", "ha", "h", "##thin", "ing"]
    words = load_tokenizer(write_wordpiece(tmp_path / "words", pieces))
    found = sources(byte_level, words)
    assert found["thin"] == ["Ġth", "i", "n"] and found["##thin"] == ["t", "h", "i", "n"]
    assert found["ha"] == ["h", "a"], "a piece that is the space alone does not count"
    assert found["h"] == ["h"] and sources(characters, words)["ing"] == ["ing"], "the same word without a space"


def test_a_copy_from_another_program_keeps_the_rows(tmp_path: Path) -> None:
    (tmp_path / "counts.tsv").write_text("the\t9\nthing\t8\nthin\t7\n東京\t9\n")
    section = {"model": "wordpiece", "vocab_size": 26, "boundaries": "none", "special": ["bert"]}
    own, copied = tmp_path / "own", tmp_path / "copied"
    train(
        WordCountTrainingData(tmp_path / "counts.tsv"),
        tokenizer_config(section, "test"),
        own,
        Local(1),
        SilentProgress(),
    )
    shutil.copytree(own, copied, ignore=shutil.ignore_patterns("card.json"))
    before, after = load_tokenizer(own), load_tokenizer(copied)
    assert spelling_of(before) != spelling_of(after), "the file does not tell that jprep's has no ##"
    assert row_sources(before, after) == [[number] for number in range(after.vocab_size)]


def test_a_bpe_that_marks_what_continues_a_word(byte_level: Tokenizer, tmp_path: Path) -> None:
    pieces = ["<unk>", "t", "##h", "##e", "th", "the"]
    merges = [("t", "##h"), ("th", "##e")]
    ids = {piece: number for number, piece in enumerate(pieces)}
    built = tokenizers.Tokenizer(models.BPE(ids, merges, unk_token="<unk>", continuing_subword_prefix="##"))
    found = sources(byte_level, saved(built, tmp_path / "marked", unk="<unk>"))
    assert found["##h"] == ["h"] and found["the"] == ["Ġthe"]


@pytest.mark.parametrize(
    ("pieces", "spelling"),
    [
        (["▁", "▁the", "###", "東"], "characters"),
        (["<0x0A>", "###", "東"], "characters"),
        (["the", "##ing", "東"], "wordpiece"),
        (["the", "東"], "characters"),
    ],
)
def test_the_spelling_of_pieces_without_a_file_is_guessed(pieces: list[str], spelling: str) -> None:
    assert guessed_spelling(pieces) == spelling
