"""Required pieces and reserved ids: they are in the vocabulary and are used, and impossible ones are refused."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Exported

from jprep.engine.executors.local import Local
from jprep.engine.runner import SilentProgress
from jprep.errors import ConfigError
from jprep.tokenizer.sources.joins import PieceJoins, complete, merged
from jprep.tokenizer.sources.required import resolve_required
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.train import train
from jprep.tokenizer.training_data import WordCountTrainingData
from tests.fakes.config_sections import tokenizer_config

COUNTS = {"東京都": 9, "東京": 7, "京都": 5, " a": 3, " the": 4, " then": 2, "学習": 6, "大学": 6}
RARE = ["常用漢字", "    ", "한", "ab", "東京タワー", "ゐ"]
KINDS: dict[str, dict[str, Any]] = {
    "bpe": {"vocab_size": 306},
    "byte-bpe": {"vocab_size": 320, "required": [*RARE, "\t\t"]},
    "unigram": {"vocab_size": 290},
}


def trained(folder: Path, **options: Any) -> Tokenizer:
    folder.mkdir(parents=True)
    counts = folder.with_suffix(".tsv")
    counts.write_text("".join(f"{word}\t{count}\n" for word, count in COUNTS.items()), encoding="utf-8")
    config = tokenizer_config({"required": RARE} | options, "test")
    train(WordCountTrainingData(counts), config, folder, Local(1), SilentProgress())
    return Tokenizer(folder)


@pytest.mark.parametrize("model", KINDS)
def test_required_pieces_are_pieces_and_texts_of_their_own_are_one_token(model: str, tmp_path: Path) -> None:
    tokenizer = trained(tmp_path / "all", model=model, **KINDS[model])
    exported = Exported.from_file(str(tokenizer.folder / "tokenizer.json"))
    for piece in tokenizer.card.config.required_list:
        assert len(tokenizer.encode(piece)) == len(exported.encode(piece, add_special_tokens=False).ids) == 1
        assert tokenizer.decode(tokenizer.encode(piece)) == piece
    assert tokenizer.vocab_size == KINDS[model]["vocab_size"]


PIECES = st.lists(st.text("abc", min_size=2, max_size=5), max_size=6, unique=True)


@settings(deadline=None)
@given(PIECES, PIECES, st.text("abcd", max_size=12))
def test_text_is_cut_as_without_required_pieces_and_then_joined(
    learnt: list[str], required: list[str], text: str
) -> None:
    def ends(parts: list[str]) -> set[int]:
        return set(accumulate(map(len, parts)))

    before = PieceJoins(learnt)
    room = len(learnt) + 4 * len(required)
    _, after = complete(learnt, lambda size: PieceJoins(learnt[:size]), required, room, tokenizer_config({}, "test"))
    assert ends(merged(text, after)) <= ends(merged(text, before))
    assert all(merged(piece, after) == [piece] for piece in required)


def test_required_pieces_are_read_from_files_and_each_counts_once(tmp_path: Path) -> None:
    (tmp_path / "kana.txt").write_text("あ\r\nい\n\n    \n", encoding="utf-8")
    sources = [{"name": "ja", "required": str(tmp_path / "kana.txt")}, {"name": "zh", "required": ["あ", "学"]}]
    config = resolve_required(tokenizer_config({"sources": sources, "required": ["い"]}, "test"))
    assert config.required == ["い", "あ", "    ", "学"]


def test_pieces_are_completed_and_the_rest_is_filled() -> None:
    config = tokenizer_config({}, "test")
    learnt = ["ab", "abc", "de", "def", "gh"]
    pieces, joins = complete(learnt, lambda size: PieceJoins(learnt[:size]), ["abcx", "zz"], 5, config)
    assert pieces == ["ab", "abc", "de", "abcx", "zz"]
    assert merged("abcx", joins) == ["abcx"] and merged("abcdef", joins) == ["abc", "de", "f"]
    assert complete(learnt, lambda size: PieceJoins(learnt[:size]), ["gh"], 5, config)[0] == learnt
    with pytest.raises(ConfigError, match="1 more ids are needed for the 2 required pieces"):
        complete([], lambda size: PieceJoins([]), ["ab", "cd"], 1, config)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"required": ["あ", "あ"]}, "'あ' is required twice"),
        ({"required": [""]}, "it is empty"),
        ({"required": ["a\tb"]}, r"bpe has no piece with '\\t'"),
        ({"required": ["a\nb"], "model": "byte-bpe"}, r"byte-bpe has no piece with '\\n'"),
        ({"required": ["▁"]}, "bpe has no piece with '▁'"),
        ({"required": ["x<s>"]}, "it contains the special token <s>"),
        ({"required": ["<|reserved_1|>"], "reserved": 2}, "it contains the special token"),
        ({"required": ["<0x0A>"]}, "name of a byte"),
        ({"required": ["12"], "digits": "split"}, "each digit a piece"),
        ({"required": [" a"], "spaces": "alone"}, "keeps spaces apart"),
        ({"required": ["a b"], "boundaries": "none", "model": "byte-bpe"}, "regular expression divides it"),
        ({"required": ["a"], "model": "wordpiece"}, "not for the model wordpiece"),
        ({"required": ["a"], "boundaries": "hard"}, "boundaries = 'hard'"),
        ({"required": "no-such-file.txt"}, "cannot read the required pieces"),
    ],
)
def test_impossible_pieces_are_refused(section: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve_required(tokenizer_config(section, "test"))


def test_a_vocabulary_or_an_alphabet_that_is_too_small_is_refused(tmp_path: Path) -> None:
    hangul = [chr(code) for code in range(0xAC00, 0xAC00 + 300)]
    with pytest.raises(ConfigError, match="vocab_size is too small") as error:
        trained(tmp_path / "a", vocab_size=400, required=hangul)
    assert error.value.fix.startswith("vocab_size = ")
    with pytest.raises(ConfigError, match="the required pieces have 300 characters"):
        trained(tmp_path / "b", vocab_size=900, required=hangul, alphabet=20)


def test_reserved_tokens_are_special_and_have_ids(tmp_path: Path) -> None:
    tokenizer = trained(tmp_path / "r", vocab_size=309, reserved=3)
    assert [tokenizer.id_of(f"<|reserved_{number}|>") for number in range(3)] == [305, 306, 307]  # before <mask>
    exported = Exported.from_file(str(tokenizer.folder / "tokenizer.json"))
    assert 306 in exported.encode("東京<|reserved_1|>京都").ids
    assert exported.decode([306]) == ""


def test_pieces_that_the_normalizers_change_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="its normalizers change it") as error:
        trained(tmp_path / "wide", vocab_size=306, required=["ＡＢＣ"], normalizers=["neologdn"])
    assert error.value.fix and "'ABC'" in error.value.fix
    kept = trained(tmp_path / "spaces", vocab_size=290, required=["ABC", " the"], normalizers=["neologdn"])
    assert kept.encode("ＡＢＣ") == [kept.id_of("ABC")]
