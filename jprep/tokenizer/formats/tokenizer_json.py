"""Convert a vocabulary to a `tokenizer.json` for the library `tokenizers` and `AutoTokenizer`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.formats.policies import (
    MAX_STRETCH,
    Component,
    bert_normalizer,
    mark_normalizers,
    replace,
    sequence,
    spelling_normalizers,
)
from jprep.tokenizer.formats.policies import pre_tokenizers as policy_pre_tokenizers
from jprep.tokenizer.special_tokens import SpecialTokens
from jprep.tokenizer.vocabulary import CONTINUATION_PREFIX, NEWLINE_PIECE, SPACE_PIECE, Vocabulary

_MAX_WORD_CHARS = 100  # as in BERT: a longer word becomes the unknown token
_UNKNOWN_PENALTY = 10.0  # sentencepiece and tokenizers score an unknown character this much below the rarest piece


def tokenizer_json(
    vocabulary: Vocabulary, normalizers: Sequence[Component], pre_tokenizers: Sequence[Component] = ()
) -> dict[str, Any]:
    """Return the content of a `tokenizer.json` for `tokenizers` 0.21 and later.

    Args:
        vocabulary: the vocabulary.
        normalizers: components that normalize raw text and write spaces as the model sees them.
        pre_tokenizers: pre-tokenizers that the normalization needs.
    """
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens(vocabulary),
        "normalizer": sequence("normalizers", _normalizers(vocabulary, normalizers)),
        "pre_tokenizer": sequence("pretokenizers", [*pre_tokenizers, *policy_pre_tokenizers(vocabulary)]),
        "post_processor": post_processor(vocabulary.special, _ids(vocabulary)),
        "decoder": sequence("decoders", _decoders(vocabulary)),
        "model": model(vocabulary),
    }


def _normalizers(vocabulary: Vocabulary, given: Sequence[Component]) -> list[Component]:
    return [*mark_normalizers(vocabulary), *given, *spelling_normalizers(vocabulary)]


def added_tokens(vocabulary: Vocabulary) -> list[Component]:
    """Return the special tokens with their ids. A space before the mask belongs to it, as in published tokenizers."""
    special, flags = vocabulary.special, {"single_word": False, "rstrip": False, "normalized": False, "special": True}
    return [
        {"id": number, "content": piece.text, "lstrip": piece.text == special.mask} | flags
        for number, piece in enumerate(vocabulary.pieces)
        if piece.kind in ("special", "unknown")
    ]


def model(vocabulary: Vocabulary) -> Component:
    """Return the model component with all pieces."""
    kinds = {"unigram": _unigram, "wordpiece": _wordpiece, "words": _words}
    return kinds.get(vocabulary.config.model, _bpe)(vocabulary)


def _words(vocabulary: Vocabulary) -> Component:
    return {"type": "WordLevel", "vocab": _ids(vocabulary), "unk_token": vocabulary.special.unk}


def _unigram(vocabulary: Vocabulary) -> Component:
    unknown = _ids(vocabulary)[vocabulary.special.unk]
    return {"type": "Unigram", "unk_id": unknown, "vocab": _scored_pieces(vocabulary), "byte_fallback": True}


def _wordpiece(vocabulary: Vocabulary) -> Component:
    hard = vocabulary.config.boundaries in ("hard", "bert")
    return {
        "type": "WordPiece",
        "unk_token": vocabulary.special.unk,
        "continuing_subword_prefix": CONTINUATION_PREFIX if hard else "",
        "max_input_chars_per_word": _MAX_WORD_CHARS if hard else 2 * MAX_STRETCH,
        "vocab": _ids(vocabulary),
    }


def _bpe(vocabulary: Vocabulary) -> Component:
    characters = vocabulary.config.model == "bpe"
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": vocabulary.special.unk if characters else None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": characters,
        "ignore_merges": False,
        "vocab": _ids(vocabulary),
        "merges": bpe_merges(vocabulary) if characters else vocabulary.merges,
    }


def _ids(vocabulary: Vocabulary) -> dict[str, int]:
    return {piece.text: number for number, piece in enumerate(vocabulary.pieces)}


def bpe_merges(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Return every way to join two pieces into a third, ordered by the rank of the third.

    sentencepiece joins any two neighbours that form a piece, the best first; `tokenizers` needs the pairs.
    """
    normal = {piece.text: piece.score for piece in vocabulary.pieces if piece.kind == "normal"}
    ranked = sorted((text for text in normal if len(text) > 1), key=lambda text: -normal[text])
    return [
        (text[:at], text[at:])
        for text in ranked
        for at in range(1, len(text))
        if text[:at] in normal and text[at:] in normal
    ]


def _scored_pieces(vocabulary: Vocabulary) -> list[tuple[str, float]]:
    """Return Unigram's pieces with their scores.

    `tokenizers` would match the names of bytes and of special tokens in text; here they score worse than their
    characters.
    """
    scores = [piece.score for piece in vocabulary.pieces if piece.kind == "normal"]
    never = never_chosen(scores, [piece.text for piece in vocabulary.pieces if piece.kind != "normal"])
    return [(piece.text, piece.score if piece.kind == "normal" else never) for piece in vocabulary.pieces]


def never_chosen(scores: Iterable[float], pieces: Iterable[str]) -> float:
    """Return a log probability at which Unigram chooses no piece whose characters are known.

    Args:
        scores: log probabilities of the pieces that may be chosen.
        pieces: those that are not to be chosen.
    """
    return (max(map(len, pieces), default=0) + 1) * (min(scores, default=0.0) - _UNKNOWN_PENALTY)


def _decoders(vocabulary: Vocabulary) -> list[Component]:
    if vocabulary.config.whole_words:  # without a decoder, tokens are joined by spaces
        bert = {"type": "WordPiece", "prefix": CONTINUATION_PREFIX, "cleanup": False}
        return [bert] if vocabulary.config.boundaries == "bert" else []
    if vocabulary.config.model == "byte-bpe":
        return [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}]
    parts = [replace({"String": SPACE_PIECE}, " ")]
    if vocabulary.config.model != "wordpiece":
        return [*parts, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if vocabulary.config.boundaries == "hard":
        parts.insert(0, replace({"Regex": f"^{CONTINUATION_PREFIX}"}, ""))
    return [*parts, replace({"String": NEWLINE_PIECE}, "\n"), {"type": "Fuse"}]


def post_processor(special: SpecialTokens, ids: Mapping[str, int]) -> Component | None:
    """Return the component that adds special tokens around one text or two; None if there are none to add.

    Args:
        special: the special tokens.
        ids: the id of each piece.
    """
    used = {*special.before, *special.after, *special.between, *special.pair_after}
    if not used:
        return None
    second = int(uses_token_types(special))
    first = [*_tokens(special.before, 0), _text("A", 0)]
    return {
        "type": "TemplateProcessing",
        "single": [*first, *_tokens(special.after, 0)],
        "pair": [*first, *_tokens(special.between, 0), _text("B", second), *_tokens(special.pair_after, second)],
        "special_tokens": {token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in sorted(used)},
    }


def uses_token_types(special: SpecialTokens) -> bool:
    """Return whether models with these tokens mark the second text by token types, as BERT does."""
    return bool(special.cls) and not special.bos if special.types is None else special.types


def _tokens(tokens: Sequence[str], kind: int) -> list[Component]:
    return [{"SpecialToken": {"id": token, "type_id": kind}} for token in tokens]


def _text(name: str, kind: int) -> Component:
    return {"Sequence": {"id": name, "type_id": kind}}


def batch_encoding_json(
    tokenizer_json: Mapping[str, Any], config: TokenizerConfig, special: SpecialTokens
) -> dict[str, Any]:
    """Return a `tokenizer.json` for normalized text without special tokens, for encoding single words.

    Args:
        tokenizer_json: content of the complete `tokenizer.json`, of byte-bpe, wordpiece or words.
        config: the tokenizer's config.
        special: its special tokens.
    """
    pre_tokenizers = tokenizer_json["pre_tokenizer"].get("pretokenizers", [tokenizer_json["pre_tokenizer"]])
    bare = {**tokenizer_json, "added_tokens": [], "post_processor": None}
    if config.model == "byte-bpe":
        return bare | {"normalizer": None, "pre_tokenizer": sequence("pretokenizers", pre_tokenizers[-2:])}
    # Longest match would find special tokens in text; it never finds one that begins with a newline.
    hidden = {token: f"\n{token}" for token in special.tokens}
    vocab = {hidden.get(text, text): number for text, number in tokenizer_json["model"]["vocab"].items()}
    spelling = [replace({"String": " "}, SPACE_PIECE), replace({"String": "\n"}, NEWLINE_PIECE)]
    if config.whole_words:
        spelling = [bert_normalizer(config)] if config.boundaries == "bert" else []
    return bare | {
        "normalizer": sequence("normalizers", spelling),
        "pre_tokenizer": pre_tokenizers[-1],
        "model": tokenizer_json["model"] | {"vocab": vocab, "unk_token": hidden[special.unk]},
    }
