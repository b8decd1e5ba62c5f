"""Prepares counted units for the trainer: cut where no piece may lie, and spelt in the trainer's symbols."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from jprep.errors import ConfigError
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.special_tokens import SPECIAL_TOKEN_SETS, SpecialTokens

CUT = "\x1f"
"""Where a unit is cut. No unit holds it."""

LONGEST = 250
"""Symbols of a unit; longer ones are cut: sentencepiece has 16 bits for a position, and is slow on repetitions."""

LARGEST = 2**61
"""The sum of all characters' counts that the trainer sees; it adds them in 64 signed bits, and we add as much again."""

_MOST_AT_ONCE = 2**31 - 1  # bytes

_BYTE_NAMES = re.compile("<(?=0x[0-9A-F]{2}>)")


def read_units(words: Path) -> tuple[str, list[int]]:
    """The units, joined by newlines, and the count of each.

    Raises:
        ConfigError: there are none.
    """
    from pyarrow import csv

    size = words.stat().st_size
    if not size:
        raise ConfigError("the corpus holds no words to learn from", fix="give a corpus that is not empty")
    table = csv.read_csv(
        words,
        # One block: a line must not be longer than that, and nothing bounds a unit.
        read_options=csv.ReadOptions(
            column_names=["unit", "count"], use_threads=False, block_size=min(size + 1, _MOST_AT_ONCE)
        ),
        parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=csv.ConvertOptions(column_types={"unit": "string", "count": "int64"}),
    )
    return "\n".join(table["unit"].to_pylist()), table["count"].to_pylist()


def cut_reserved(text: str, config: TokenizerConfig, special: SpecialTokens) -> str:
    """Cut units so that no piece can spell a special token of a set, or a byte's name: text that does stays text."""
    further = [token for token in config.special if token not in SPECIAL_TOKEN_SETS]
    reserved = [token for token in special.tokens if token not in further]
    if reserved:
        found = "|".join(f"{re.escape(token[0])}(?={re.escape(token[1:])})" for token in reserved)
        text = re.sub(found, rf"\g<0>{CUT}", text)
    return _BYTE_NAMES.sub(rf"\g<0>{CUT}", text)


def cut_strangers(text: str, alphabet: str) -> str:
    """Put a cut in the place of every character outside the alphabet."""
    return text.translate(dict.fromkeys(map(ord, set(text) - set(alphabet) - {"\n", CUT}), CUT))


def write_units(path: Path, text: str, counts: list[int], ballast: str = "") -> int:
    """Write the trainer's input.

    Args:
        path: where.
        text: units in the trainer's symbols, joined by newlines, with their cuts.
        counts: of each unit. Where they add up to more than `LARGEST` all are halved as often as it takes, none to 0.
        ballast: a symbol that is no unit's, which gets as many counts as all others together; see `trainer.merges`.

    Returns:
        the number of parts.

    Raises:
        ConfigError: no part is left.
    """
    parts = list(_parts(text.split("\n"), counts))
    total = sum(len(part) * count for part, count in parts)
    shift = max(0, (total // LARGEST).bit_length())
    if not parts:
        raise ConfigError("the corpus holds no words to learn from", fix="give more text, or a larger `alphabet`")
    with path.open("w", encoding="utf-8", newline="\n") as lines:
        lines.writelines(f"{part}\t{max(count >> shift, 1)}\n" for part, count in parts)
        if ballast:
            lines.write(f"{ballast}\t{max(total >> shift, 1)}\n")
    return len(parts)


def _parts(units: Iterable[str], counts: list[int]) -> Iterable[tuple[str, int]]:
    for unit, count in zip(units, counts, strict=True):
        if CUT not in unit and len(unit) <= LONGEST:
            yield unit, count
            continue
        for part in unit.split(CUT):
            for at in range(0, len(part), LONGEST):
                yield part[at : at + LONGEST], count
