"""Choose the characters that have a piece of their own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from jprep.errors import ConfigError, Setting
from jprep.tokenizer.config import SENTENCEPIECE_MODELS, TokenizerConfig
from jprep.tokenizer.counting.results import read_characters
from jprep.tokenizer.vocabulary import NEWLINE_PIECE, SPACE_PIECE

DEFAULT_COVERAGE = 0.9995
"""Share of all characters that an alphabet covers by default, as in sentencepiece."""

MINIMUM_COVERAGE = 0.9
"""An alphabet that covers less is rejected."""

_EXCLUDED = "\0\n\r\x1e\x1f" + SPACE_PIECE
# Tab is encoded by its byte, and so is U+2585, which sentencepiece's trainer uses for unknown characters.
_EXCLUDED_BY_MODEL = dict.fromkeys(SENTENCEPIECE_MODELS, "\t▅") | {"wordpiece": NEWLINE_PIECE}


def choose_alphabet(characters: Path, config: TokenizerConfig) -> str:
    """Return the alphabet, most frequent characters first, ties by code point, then those that only occur in required
    pieces.

    It always contains a space, and WordPiece's newline if a newline is a token; neither under `bert` boundaries.

    Args:
        characters: file with lines of a hexadecimal code point, a tab and a count.
        config: `alphabet` is the number of characters; 0 covers 99.95 % of the text.

    Raises:
        ConfigError: there are no characters, or the requested ones cover less than 90 % of the text.
    """
    counts = _counts(characters, _EXCLUDED + _EXCLUDED_BY_MODEL[config.model])
    if not counts:
        raise ConfigError("the corpus has no text to learn from", fix="use a corpus with text")
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    totals = [counts[character] for character in ranked]
    enough = default_size(totals)
    if config.alphabet:
        _check_coverage(config.alphabet, totals, enough)
    return _with_required(_with_pieces(ranked[: config.alphabet or enough], config), config)


def default_size(totals: Sequence[int]) -> int:
    """Return how many characters cover `DEFAULT_COVERAGE` of a text; 0 without any.

    Args:
        totals: how often each character occurs, the most frequent first.
    """
    covered = list(accumulate(totals))
    return next((n for n, sum_ in enumerate(covered, 1) if sum_ >= DEFAULT_COVERAGE * covered[-1]), 0)


def _counts(characters: Path, excluded: str) -> dict[str, int]:
    counted = {chr(point): count for point, count in read_characters(characters).items()}
    return {character: count for character, count in counted.items() if character not in excluded}


def _check_coverage(size: int, totals: Sequence[int], enough: int) -> None:
    share = sum(totals[:size]) / sum(totals)
    if share < MINIMUM_COVERAGE:
        what = f"alphabet too small: {size} characters cover {share:.1%} of the text"
        fix = f"alphabet = {enough} covers {DEFAULT_COVERAGE:.2%}; 0 chooses this size"
        raise ConfigError(what, where="tokenizer.alphabet", fix=fix, setting=Setting("alphabet", enough))


def _with_pieces(chosen: list[str], config: TokenizerConfig) -> list[str]:
    """Return the alphabet with the characters of required pieces, in place of the rarest ones if its size is given."""
    needed = dict.fromkeys("".join(config.required_list))
    missing = [character for character in needed if character not in chosen]
    if not config.alphabet:
        return [*chosen, *missing]
    if len(needed) > config.alphabet:
        fix = f"alphabet = {len(needed)} or more, or 0"
        what = f"alphabet too small: the required pieces have {len(needed)} characters"
        raise ConfigError(what, where="tokenizer.alphabet", fix=fix, setting=Setting("alphabet", len(needed)))
    own = [character for character in chosen if character not in needed]
    kept = set(own[: config.alphabet - len(needed)]) | needed.keys()
    return [*(character for character in chosen if character in kept), *missing]


def _with_required(chosen: list[str], config: TokenizerConfig) -> str:
    if config.whole_words:
        return "".join(chosen)
    newline = ["\n"] if config.model == "wordpiece" and config.newline == "token" else []
    room = (config.alphabet or len(chosen) + 2) - len(newline)  # the requested number includes the newline
    chosen = chosen[: max(room, 0)]
    if " " not in chosen:
        chosen = [*chosen[: max(room - 1, 0)], " "]
    return "".join([*chosen, *newline])
