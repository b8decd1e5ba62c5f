"""What a unit is: the vectorised way against a plain one, character by character."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import InputError
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting import units
from jprep.tokenizer.counting.sorted_runs import SpilledRuns
from jprep.tokenizer.counting.unit_counter import UnitCounter
from jprep.tokenizer.counting.units import pieces, shaped
from jprep.tokenizer.counting.unsegmented import count_pieces

CONFIGS = [
    TokenizerConfig(spaces=spaces, digits=digits, newline=newline)  # type: ignore[arg-type]
    for spaces in ("prefix", "alone")
    for digits in ("keep", "split")
    for newline in ("token", "space")
]
ROWS = st.lists(st.text(st.sampled_from("aあ𠮷   \u3000\x1f\x1f\x1e\n\t\r\x00\x01\x1c7５▁'ｱ"), max_size=24), max_size=6)


def plain_units(rows: list[str], config: TokenizerConfig) -> Counter[str]:
    """The contract, said once more in the slowest way."""
    found: Counter[str] = Counter()
    for row in rows:
        word, spaces = "", 0
        for character in (row.replace("\n", " ") if config.newline == "space" else row) + "\n":
            digit = config.digits == "split" and character in "0123456789０１２３４５６７８９"
            if character in "\t\n\r\x00":
                found.update([word, " " * spaces])
                word, spaces = "", 0
            elif character in "\x1e\x1f":
                found[word] += 1
                word = ""
            elif character == " ":
                found[word] += 1
                word, spaces = "", spaces + 1
            elif digit:
                found.update([word, " " * spaces, character])
                word, spaces = "", 0
            elif config.spaces == "prefix" and spaces:
                found[" " * (spaces - 1)] += 1
                word, spaces = f" {character}", 0
            else:
                found[" " * spaces] += 1
                word, spaces = word + character, 0
    del found[""]
    return found


def counted(rows: list[str], config: TokenizerConfig) -> Counter[str]:
    values = pieces(pa.array(rows, pa.string()), newline_is_space=config.newline == "space")
    distinct = pc.value_counts(values)
    total: Counter[str] = Counter()
    made, counts = shaped(distinct.field(0), distinct.field(1).to_numpy(), config)
    for unit, count in zip(made.to_pylist(), counts.tolist(), strict=True):
        total[unit.decode()] += count
    return total


@given(ROWS, st.sampled_from(CONFIGS), st.sampled_from([1, 2, 5, 1 << 18]))
def test_units_are_those_of_the_plain_way(rows: list[str], config: TokenizerConfig, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "_BLOCK", block)
        assert counted(rows, config) == plain_units(rows, config)


@given(ROWS, st.integers(0, 5), st.sampled_from([pa.string(), pa.large_string()]))
def test_a_slice_of_a_column_is_counted_as_itself(rows: list[str], start: int, kind: pa.DataType) -> None:
    values = pieces(pa.array(rows, kind)[start:])
    assert "".join(value.decode() for value in values.to_pylist()) == "".join(rows[start:])


@given(ROWS, st.sampled_from(CONFIGS))
def test_no_character_is_lost_and_none_is_added(rows: list[str], config: TokenizerConfig) -> None:
    text = "".join(rows).translate(dict.fromkeys(map(ord, "\t\r\x00\x1e\x1f")))
    text = text.replace("\n", " " if config.newline == "space" else "")
    characters: Counter[str] = Counter()
    for unit, count in counted(rows, config).items():
        characters.update({character: count * times for character, times in Counter(unit).items()})
    assert characters == Counter(text)


@pytest.mark.parametrize(
    ("text", "prefix", "alone"),
    [
        ("a\x1f \x1fb", ["a", " b"], ["a", " ", "b"]),
        ("a b", ["a", " b"], ["a", " ", "b"]),
        ("a \x1e\x1f b", ["a", " ", " b"], ["a", "  ", "b"]),
        ("a\x1f \x1f \x1f \x1fb", ["a", "  ", " b"], ["a", "   ", "b"]),
        ("a \nb", ["a", " ", "b"], ["a", " ", "b"]),
        (" \x1f\x1f\x1fb ", [" b", " "], [" ", "b", " "]),
        ("\x1f\x1fa\u3000b\x1f", ["a\u3000b"], ["a\u3000b"]),
    ],
)
def test_spaces_go_to_the_word_behind_them(text: str, prefix: list[str], alone: list[str]) -> None:
    assert counted([text], TokenizerConfig(spaces="prefix")) == Counter(prefix)
    assert counted([text], TokenizerConfig(spaces="alone")) == Counter(alone)


def test_digits_stand_alone_when_they_are_split() -> None:
    split = TokenizerConfig(digits="split")
    assert counted(["第12回\x1f １０ 個"], split) == Counter(["第", "1", "2", "回", " ", "１", "０", " 個"])
    assert counted(["٣一\x1f②"], split) == Counter(["٣一", "②"])  # other scripts' digits are letters here
    assert counted(["第12回"], TokenizerConfig()) == Counter(["第12回"])


def test_nothing_reaches_from_one_document_to_the_next() -> None:
    assert counted(["a ", "\x1f\x1fb", "c"], TokenizerConfig()) == Counter(["a", " ", "b", "c"])


def test_a_count_that_digits_multiply_beyond_64_bits_is_refused() -> None:
    values, counts = pa.array([b"1111"], pa.large_binary()), np.array([2**61])
    with pytest.raises(InputError, match=r"2\*\*63"):
        shaped(values, counts, TokenizerConfig(digits="split"))


def none(text: str, model: str = "bpe", **options: object) -> Counter[str]:
    return count_pieces([text], TokenizerConfig(model=model, boundaries="none", **options))  # type: ignore[arg-type]


def test_without_boundaries_a_run_of_one_script_is_a_piece() -> None:
    text = "東京タワーは333メートル、Tokyo Towerです!? Москва  и"
    runs = ["東京タワーは", "333", "メートル", "、", "Tokyo", " Tower", "です", "!?", " Москва", " ", " и"]
    assert none(text) == Counter(runs)
    parted = ["東京タワーは", "333", "メートル", "、", "Tokyo", "Tower", "です", "!?", "Москва", "и", " ", " ", "  "]
    assert none(text, spaces="alone") == Counter(parted)
    marked = ["が\u3099", "é", " e\u0301a"]  # combining marks stay with their letters
    assert none("".join(marked)) == Counter(marked)


def test_without_boundaries_byte_bpe_takes_gpt2s_pieces() -> None:
    assert none("I'm 12  ok!\n x\ty", "byte-bpe") == Counter(["I", "'m", " 12", " ", " ok", "!", " x", "y"])


@given(st.text(st.sampled_from("aéЖ東ター가١1½ 。'!\u3000\u200d\u3099👨\n\t\r\x00\u0378"), max_size=30))
def test_without_boundaries_no_character_is_lost(text: str) -> None:
    kept = Counter(text.translate(dict.fromkeys(map(ord, "\t\n\r\x00"))))
    for model in ("bpe", "byte-bpe"):
        found = none(text, model)
        assert Counter("".join(piece * count for piece, count in found.items())) == kept
        assert not any(set(piece) & set("\t\n\r\x00") for piece in found)


@given(ROWS, st.sampled_from(CONFIGS))
def test_pieces_without_boundaries_follow_the_policies(rows: list[str], config: TokenizerConfig) -> None:
    text = "\n".join(rows).translate(dict.fromkeys(map(ord, "\x1e\x1f")))
    tally = UnitCounter(config, SpilledRuns(Path(), "none"), "here")
    tally.add_counts(count_pieces([text], config))
    for block, _ in tally.blocks():
        for unit in block.to_pylist():
            alone = config.spaces == "alone" and b" " in unit
            assert not alone or not unit.strip(b" ")
            digits = [c for c in unit.decode() if c in "7５"]
            assert config.digits == "keep" or not digits or len(unit.decode()) == 1
