"""Components of a `tokenizer.json` that apply the policies for spaces, digits, newlines and word boundaries.

With them, text is cut as the units of the training were.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from jprep.corpus.document import SENTENCE, WORD
from jprep.tokenizer.config import DIGITS, TokenizerConfig
from jprep.tokenizer.vocabulary import DOUBLE_HASH, NEWLINE_PIECE, SPACE_PIECE, Vocabulary
from jprep.tokenizer.word_spaces import SPACE_RUN

Component = dict[str, Any]
"""A component of a `tokenizer.json`, with its `type`."""

MAX_STRETCH = 100
"""Maximum characters of the stretches that WordPiece without words is applied to.

`tokenizers` tries matches from the end of its input, so its time would grow with the cube of the line's length.
"""

_MARKS = r"\x1e\x1f"


def space_of(vocabulary: Vocabulary) -> str:
    """Return the model's character for a space."""
    return " " if vocabulary.config.model == "byte-bpe" or vocabulary.config.whole_words else SPACE_PIECE


def mark_normalizers(vocabulary: Vocabulary) -> list[Component]:
    """Return the components before the normalizers.

    Under `hard`, sentence marks become word marks, the only ones that the normalizers know; under `spaces`, marks and
    runs of white space become one space.
    """
    if vocabulary.config.boundaries == "spaces":
        return [replace({"Regex": SPACE_RUN}, " ")]
    return [replace({"String": SENTENCE}, WORD)] if vocabulary.config.boundaries == "hard" else []


def spelling_normalizers(vocabulary: Vocabulary) -> list[Component]:
    """Return the components that convert normalized text to the characters of pieces; spaces are converted already."""
    config, space = vocabulary.config, space_of(vocabulary)
    if config.whole_words:
        return [bert_normalizer(config)] if config.boundaries == "bert" else []
    parts = [replace({"String": "\n"}, space)] if config.newline == "space" else []
    if config.boundaries == "hard":
        parts += [replace({"Regex": pattern}, to) for pattern, to in space_substitutions(config, space)]
    if config.model == "wordpiece":
        parts.append(replace({"String": "\n"}, NEWLINE_PIECE))
    return parts


def space_substitutions(config: TokenizerConfig, space: str) -> list[tuple[str, str]]:
    """Return the substitutions for spaces in marked text.

    They join spaces across marks and, under `prefix`, attach the last space of a run to its word.

    Returns:
        Regular expressions, valid for Python and for `tokenizers`, and their replacements.
    """
    joined = [(f"(?<={space})[{_MARKS}]+", "")]
    if config.spaces == "alone":
        return joined
    digits = DIGITS if config.digits == "split" else ""
    before_word = rf"{space}(?=[^{space}{_MARKS}{digits}\x00\t\n\r])"
    return [*joined, (f"(?<=[^{space}]){space}|{before_word}", WORD + space)]


def pre_tokenizers(vocabulary: Vocabulary) -> list[Component]:
    """Return the pre-tokenizers: places that no piece may cross."""
    config, byte_level = vocabulary.config, vocabulary.config.model == "byte-bpe"
    if config.whole_words:
        return [{"type": "BertPreTokenizer" if config.boundaries == "bert" else "WhitespaceSplit"}]
    parts = _words(vocabulary) if config.boundaries == "hard" else []
    if config.boundaries == "spaces":
        behavior = "MergedWithNext" if config.spaces == "prefix" else "Isolated"
        parts.append(split({"String": space_of(vocabulary)}, behavior))
    if byte_level:
        parts.append(split({"String": "\n"}))
        use_regex = config.boundaries == "none"
        parts.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex})
    elif config.model == "unigram" and (reserved := _reserved_characters(vocabulary)):
        parts.append(split({"Regex": f"[{reserved}]"}))
    elif config.model == "wordpiece":
        parts.append(
            split({"String": NEWLINE_PIECE} if config.boundaries == "hard" else {"Regex": _stretches(vocabulary)})
        )
    return parts


def bert_normalizer(config: TokenizerConfig) -> Component:
    """Return BERT's normalizer for cased text: it removes control characters and puts spaces around ideographs."""
    return {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": config.splits_ideographs,
        "strip_accents": False,
        "lowercase": False,
    }


def _words(vocabulary: Vocabulary) -> list[Component]:
    """Return the pre-tokenizers that keep pieces within words, and apply the policies where there are no marks."""
    config = vocabulary.config
    parts = [split({"Regex": f"[{_MARKS}]+"}, "Removed")]
    if config.spaces == "alone":
        parts.append(split({"Regex": f"{space_of(vocabulary)}+"}))
    if config.digits == "split":
        parts.append(split({"Regex": f"[{DIGITS}]"}))
    if config.model == "wordpiece":
        parts.append(split({"Regex": DOUBLE_HASH}))
    return parts


def _reserved_characters(vocabulary: Vocabulary) -> str:
    """Return characters of special tokens and byte names that are in no other piece, for a regular expression.

    `tokenizers` would match these names in text, and no score could make it prefer unknown characters. A cut at a
    character that is in no piece changes nothing else.
    """
    known = {character for piece in vocabulary.pieces if piece.kind == "normal" for character in piece.text}
    named = {character for piece in vocabulary.pieces if piece.kind != "normal" for character in piece.text}
    return _ranges(sorted(named - known))


def _stretches(vocabulary: Vocabulary) -> str:
    """Return the regular expression of the stretches that WordPiece is applied to.

    A stretch is spaces and the following characters that longer pieces contain, or a single other character. Apart from
    the length limit no piece crosses the end of a stretch; and a character without a piece, alone in its stretch,
    becomes a single unknown token.
    """
    texts = [piece.text for piece in vocabulary.pieces if piece.kind == "normal"]
    single, joined = {text for text in texts if len(text) == 1}, {c for text in texts if len(text) > 1 for c in text}
    letters = _ranges(sorted((single & joined) - {SPACE_PIECE, NEWLINE_PIECE}))
    if not letters:
        return f"{SPACE_PIECE}{{1,{MAX_STRETCH}}}|[^{SPACE_PIECE}]"
    some = f"{{1,{MAX_STRETCH}}}"
    return f"{SPACE_PIECE}{{0,{MAX_STRETCH}}}[{letters}]{some}|{SPACE_PIECE}{some}|[^{letters}{SPACE_PIECE}]"


def _ranges(characters: Sequence[str]) -> str:
    """Return ordered characters as the inside of a regular expression's character class."""
    parts = []
    for _, run in groupby(enumerate(characters), lambda item: ord(item[1]) - item[0]):
        codes = [f"\\x{{{ord(character):X}}}" for _, character in run]
        parts.append(codes[0] if len(codes) == 1 else f"{codes[0]}-{codes[-1]}")
    return "".join(parts)


def sequence(name: str, parts: Sequence[Component]) -> Component | None:
    """Combine components into one; `name` is the key of the list in that kind of component."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return {"type": "Sequence", name: list(parts)}


def replace(pattern: dict[str, str], content: str) -> Component:
    """Return a normalizer or decoder that replaces text."""
    return {"type": "Replace", "pattern": pattern, "content": content}


def split(pattern: dict[str, str], behavior: str = "Isolated") -> Component:
    """Return a pre-tokenizer."""
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}
