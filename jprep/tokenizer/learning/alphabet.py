"""Chooses the characters that have a piece of their own."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

from jprep.errors import ConfigError
from jprep.tokenizer.config import SENTENCEPIECE_MODELS, TokenizerConfig
from jprep.tokenizer.counting.results import read_characters
from jprep.tokenizer.vocabulary import NEWLINE, SPACE

COVERED = 0.9995
"""The share of all characters that an alphabet covers by default: sentencepiece's own."""

LEAST = 0.9
"""An alphabet that covers less is refused."""

_NEVER = "\0\n\r\x1e\x1f" + SPACE
# Tab has its byte. U+2585 is the mark that sentencepiece's trainer writes for unknown characters: it has its bytes too.
_NEVER_OF = dict.fromkeys(SENTENCEPIECE_MODELS, "\t▅") | {"wordpiece": NEWLINE}


def choose_alphabet(characters: Path, config: TokenizerConfig) -> str:
    """The alphabet, most frequent character first, ties by code point.

    A space is always in it, and WordPiece's newline where a newline is a token.

    Args:
        characters: lines of a code point in hexadecimal, a tab and a count.
        config: `alphabet` says how many characters, 0: as many as cover 99.95 % of the text.

    Raises:
        ConfigError: there are no characters, or those asked for cover less than 90 % of the text.
    """
    counts = _counts(characters, _NEVER + _NEVER_OF[config.model])
    if not counts:
        raise ConfigError("the corpus holds no text to learn from", fix="give a corpus that is not empty")
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    covered = list(accumulate(counts[character] for character in ranked))
    enough = next(n for n, sum_ in enumerate(covered, 1) if sum_ >= COVERED * covered[-1])
    if config.alphabet:
        _refuse_too_small(config.alphabet, covered, enough)
    return _with_forced(ranked[: config.alphabet or enough], config)


def _counts(characters: Path, never: str) -> dict[str, int]:
    counted = {chr(point): count for point, count in read_characters(characters).items()}
    return {character: count for character, count in counted.items() if character not in never}


def _refuse_too_small(size: int, covered: list[int], enough: int) -> None:
    share = covered[min(size, len(covered)) - 1] / covered[-1]
    if share < LEAST:
        what = f"alphabet too small: {size} characters cover {share:.1%} of the text"
        fix = f"alphabet = {enough} covers {COVERED:.2%}; 0 chooses as many by itself"
        raise ConfigError(what, where="tokenizer.alphabet", fix=fix)


def _with_forced(chosen: list[str], config: TokenizerConfig) -> str:
    newline = ["\n"] if config.model == "wordpiece" and config.newline == "token" else []
    room = (config.alphabet or len(chosen) + 2) - len(newline)  # what is asked for is the whole alphabet
    chosen = chosen[: max(room, 0)]
    if " " not in chosen:
        chosen = [*chosen[: max(room - 1, 0)], " "]
    return "".join([*chosen, *newline])
