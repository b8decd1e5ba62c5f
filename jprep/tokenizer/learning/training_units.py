"""Prepare counted units for the trainer: cut them where no piece may cross, and convert them to its symbols."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from jprep.errors import ConfigError
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.special_tokens import SPECIAL_TOKEN_SETS, SpecialTokens

CUT = "\x1f"
"""Where a unit is cut. No unit contains it."""

MAX_SYMBOLS = 250
"""Maximum symbols per unit; longer ones are cut. sentencepiece uses 16-bit positions, and is slow on repetitions."""

MAX_TOTAL_COUNT = 2**61
"""Maximum sum of all characters' counts; the trainer adds in 64 signed bits, and the ballast doubles the sum."""

_MAX_BLOCK = 2**31 - 1  # bytes

_BYTE_NAMES = re.compile("<(?=0x[0-9A-F]{2}>)")


def read_units(words: Path) -> tuple[str, list[int]]:
    """Return the units, joined by newlines, and the count of each.

    Raises:
        ConfigError: there are no units.
    """
    from pyarrow import csv

    size = words.stat().st_size
    if not size:
        raise ConfigError("the corpus has no words to learn from", fix="use a corpus with text")
    table = csv.read_csv(
        words,
        # One block, because a line must fit into a block and units have no maximum length.
        read_options=csv.ReadOptions(
            column_names=["unit", "count"], use_threads=False, block_size=min(size + 1, _MAX_BLOCK)
        ),
        parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=csv.ConvertOptions(column_types={"unit": "string", "count": "int64"}),
    )
    return "\n".join(table["unit"].to_pylist()), table["count"].to_pylist()


def cut_reserved(text: str, config: TokenizerConfig, special: SpecialTokens) -> str:
    """Cut units so that no piece equals a special token of a set or the name of a byte; such text stays text."""
    further = [token for token in config.special if token not in SPECIAL_TOKEN_SETS]
    reserved = [token for token in special.tokens if token not in further]
    if reserved:
        found = "|".join(f"{re.escape(token[0])}(?={re.escape(token[1:])})" for token in reserved)
        text = re.sub(found, rf"\g<0>{CUT}", text)
    return _BYTE_NAMES.sub(rf"\g<0>{CUT}", text)


def cut_unknown(text: str, alphabet: str) -> str:
    """Replace every character outside the alphabet by a cut."""
    return text.translate(dict.fromkeys(map(ord, set(text) - set(alphabet) - {"\n", CUT}), CUT))


def write_units(path: Path, text: str, counts: list[int], ballast: str = "") -> int:
    """Write the trainer's input.

    Args:
        path: output file.
        text: units in the trainer's symbols, joined by newlines, with cuts.
        counts: count of each unit. If their sum exceeds the maximum, all are halved until it does not, but none to 0.
        ballast: a symbol that is in no unit, with the sum of all other counts; see `sentencepiece_trainer.train_bpe`.

    Returns:
        The number of parts.

    Raises:
        ConfigError: no part is left.
    """
    parts = list(_parts(text.split("\n"), counts))
    total = sum(len(part) * count for part, count in parts)
    shift = max(0, (total // MAX_TOTAL_COUNT).bit_length())
    if not parts:
        raise ConfigError("the corpus has no words to learn from", fix="use more text, or a larger `alphabet`")
    with path.open("w", encoding="utf-8", newline="\n") as lines:
        lines.writelines(f"{part}\t{max(count >> shift, 1)}\n" for part, count in parts)
        if ballast:
            lines.write(f"{ballast}\t{max(total >> shift, 1)}\n")
    return len(parts)


def _parts(units: Iterable[str], counts: list[int]) -> Iterable[tuple[str, int]]:
    for unit, count in zip(units, counts, strict=True):
        if CUT not in unit and len(unit) <= MAX_SYMBOLS:
            yield unit, count
            continue
        for part in unit.split(CUT):
            for at in range(0, len(part), MAX_SYMBOLS):
                yield part[at : at + MAX_SYMBOLS], count
