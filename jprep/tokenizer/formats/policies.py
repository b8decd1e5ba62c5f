"""What is done to a text beside its normalisation, so that it is cut as the units of training were: by policies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from jprep.corpus.document import SENTENCE, WORD
from jprep.tokenizer.config import DIGITS, TokenizerConfig
from jprep.tokenizer.vocabulary import DOUBLE_HASH, NEWLINE, SPACE, Vocabulary

Component = dict[str, Any]
"""A part of a `tokenizer.json`, with its `type`."""

MAX_STRETCH = 100
"""WordPiece without words looks for its longest match in stretches of so many characters: `tokenizers` begins at the
end of what it is given, and the time would grow with the cube of the line."""

_MARKS = r"\x1e\x1f"


def space_of(vocabulary: Vocabulary) -> str:
    """The character that the model sees for a space."""
    return " " if vocabulary.config.model == "byte-bpe" else SPACE


def marked(vocabulary: Vocabulary) -> list[Component]:
    """What comes before the normalisers, which know marks of words only: where sentences end, words do."""
    return [replace({"String": SENTENCE}, WORD)] if vocabulary.config.boundaries == "hard" else []


def spelling(vocabulary: Vocabulary) -> list[Component]:
    """How normalised text, its spaces spelt already, becomes what pieces are spelt with."""
    config, space = vocabulary.config, space_of(vocabulary)
    parts = [replace({"String": "\n"}, space)] if config.newline == "space" else []
    if config.boundaries == "hard":
        parts += [replace({"Regex": pattern}, to) for pattern, to in respaced(config, space)]
    if config.model == "wordpiece":
        parts.append(replace({"String": "\n"}, NEWLINE))
    return parts


def respaced(config: TokenizerConfig, space: str) -> list[tuple[str, str]]:
    """What joins spaces of marked text through marks, and gives the last of a run to its word under `prefix`.

    Returns:
        regular expressions, for Python and for `tokenizers`, and what stands in their places.
    """
    joined = [(f"(?<={space})[{_MARKS}]+", "")]
    if config.spaces == "alone":
        return joined
    digits = DIGITS if config.digits == "split" else ""
    before_word = rf"{space}(?=[^{space}{_MARKS}{digits}\x00\t\n\r])"
    return [*joined, (f"(?<=[^{space}]){space}|{before_word}", WORD + space)]


def cuts(vocabulary: Vocabulary) -> list[Component]:
    """Where no piece may lie across."""
    config, byte_level = vocabulary.config, vocabulary.config.model == "byte-bpe"
    parts = _words(vocabulary) if config.boundaries == "hard" else []
    if byte_level:
        parts.append(split({"String": "\n"}))
        use_regex = config.boundaries == "none"
        parts.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex})
    elif config.model == "unigram" and (strange := _strange(vocabulary)):
        parts.append(split({"Regex": f"[{strange}]"}))
    elif config.model == "wordpiece":
        parts.append(split({"String": NEWLINE} if config.boundaries == "hard" else {"Regex": _stretches(vocabulary)}))
    return parts


def _words(vocabulary: Vocabulary) -> list[Component]:
    """Pieces stay within words, and the policies hold where marks do not say so."""
    config = vocabulary.config
    parts = [split({"Regex": f"[{_MARKS}]+"}, "Removed")]
    if config.spaces == "alone":
        parts.append(split({"Regex": f"{space_of(vocabulary)}+"}))
    if config.digits == "split":
        parts.append(split({"Regex": f"[{DIGITS}]"}))
    if config.model == "wordpiece":
        parts.append(split({"Regex": DOUBLE_HASH}))
    return parts


def _strange(vocabulary: Vocabulary) -> str:
    """Characters of special tokens and of the names of bytes that are in no other piece, for a regular expression.

    `tokenizers` looks for these names in text, and no score could keep it from preferring them to unknown characters.
    A cut at what is in no piece changes nothing else.
    """
    known = {character for piece in vocabulary.pieces if piece.kind == "normal" for character in piece.text}
    named = {character for piece in vocabulary.pieces if piece.kind != "normal" for character in piece.text}
    return _ranges(sorted(named - known))


def _stretches(vocabulary: Vocabulary) -> str:
    """What WordPiece is given at a time: spaces and those characters after them that longer pieces hold; or one other.

    No piece lies across the ends of these, but for the limit of their length; and a character without a piece, alone
    here, becomes the unknown token alone.
    """
    texts = [piece.text for piece in vocabulary.pieces if piece.kind == "normal"]
    single, joined = {text for text in texts if len(text) == 1}, {c for text in texts if len(text) > 1 for c in text}
    letters = _ranges(sorted((single & joined) - {SPACE, NEWLINE}))
    if not letters:
        return f"{SPACE}{{1,{MAX_STRETCH}}}|[^{SPACE}]"
    some = f"{{1,{MAX_STRETCH}}}"
    return f"{SPACE}{{0,{MAX_STRETCH}}}[{letters}]{some}|{SPACE}{some}|[^{letters}{SPACE}]"


def _ranges(characters: Sequence[str]) -> str:
    """Characters in order as the inside of a regular expression's brackets."""
    parts = []
    for _, run in groupby(enumerate(characters), lambda item: ord(item[1]) - item[0]):
        codes = [f"\\x{{{ord(character):X}}}" for _, character in run]
        parts.append(codes[0] if len(codes) == 1 else f"{codes[0]}-{codes[-1]}")
    return "".join(parts)


def sequence(name: str, parts: Sequence[Component]) -> Component | None:
    """Parts one after another; `name` is what that kind of part calls them."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return {"type": "Sequence", name: list(parts)}


def replace(pattern: dict[str, str], content: str) -> Component:
    """A normaliser or a decoder."""
    return {"type": "Replace", "pattern": pattern, "content": content}


def split(pattern: dict[str, str], behavior: str = "Isolated") -> Component:
    """A pre-tokenizer."""
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}
