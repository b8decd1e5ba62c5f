"""Learning at its limits: units of a megabyte, pieces of one character, an alphabet with a space too many."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_learning import ALL, counted, learnt

from jprep.tokenizer.config import ModelType, TokenizerConfig
from jprep.tokenizer.learning.alphabet import choose_alphabet
from jprep.tokenizer.learning.unigram_seeds import write_seeds


def test_a_unit_longer_than_a_megabyte(tmp_path: Path) -> None:
    vocabulary = learnt(tmp_path, {"ab": 9, "cd": 4, "a" * 1_500_000: 2}, vocab_size=264)
    assert len(vocabulary.pieces) == 264


@pytest.mark.parametrize("model", ALL)
def test_pieces_of_one_character_only(model: ModelType, tmp_path: Path) -> None:
    size = {"byte-bpe": 257, "wordpiece": 9}.get(model, 264)
    vocabulary = learnt(tmp_path, {"ab": 9, "a": 4}, model=model, vocab_size=size, max_piece_chars=1)
    assert len(vocabulary.pieces) == size
    assert max(len(piece.text) for piece in vocabulary.pieces if piece.kind == "normal") == 1


@pytest.mark.parametrize("size", range(10, 13))
def test_an_alphabet_is_as_large_as_asked_for(size: int, tmp_path: Path) -> None:
    """Whatever place the space has: last, behind the last, or nowhere."""
    characters = {"abcdefghijk"[n]: 1000 - n for n in range(10)}
    for space in ({}, {" ": 3}, {" ": 2000}):
        counts = counted(tmp_path, characters | space, more="z")
        for newline in ("token", "space"):
            config = TokenizerConfig(model="wordpiece", alphabet=size, newline=newline)
            alphabet = choose_alphabet(counts.characters, config)
            assert len(alphabet) == len(set(alphabet)) == size and " " in alphabet
            assert ("\n" in alphabet) == (newline == "token")


def test_seeds_of_the_largest_counts_come_first(tmp_path: Path) -> None:
    """What a seed covers is more than 64 bits hold: its count may reach 2**61, and is multiplied by its length."""
    long, count = "a" * 200, 2**52
    (tmp_path / "units.tsv").write_text(f"{long}\t{count}\nbcd\t5\nbce\t5\n")
    write_seeds(tmp_path / "units.tsv", tmp_path / "seeds.tsv", 16)
    seeds = [line.split("\t") for line in (tmp_path / "seeds.tsv").read_text().splitlines()]
    assert [seed for seed, _ in seeds[:2]] == ["a" * 16, "a" * 15] and seeds[0][1] == str(185 * count)
    assert {seed for seed, _ in seeds[15:]} == {"bc", "bcd", "bce", "cd", "ce"}
