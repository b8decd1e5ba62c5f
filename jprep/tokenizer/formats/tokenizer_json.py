"""`tokenizer.json`: a vocabulary as the library `tokenizers`, and through it `AutoTokenizer`, serves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.formats.policies import MAX_STRETCH, Component, cuts, marked, replace, sequence, spelling
from jprep.tokenizer.special_tokens import SpecialTokens
from jprep.tokenizer.vocabulary import CONTINUATION_PREFIX, NEWLINE, SPACE, Vocabulary

TOKENIZER_JSON, SENTENCEPIECE_MODEL = "tokenizer.json", "spm.model"
"""The files that load a tokenizer."""

_LONGEST_WORD = 100  # BERT's: a longer word becomes the unknown token
_UNKNOWN_COSTS = 10.0  # sentencepiece and tokenizers put a character without a piece so far below the rarest piece


def tokenizer_json(
    vocabulary: Vocabulary, normalizers: Sequence[Component], pre_tokenizers: Sequence[Component] = ()
) -> dict[str, Any]:
    """A vocabulary and its normaliser as one JSON document for `tokenizers` 0.21 and later.

    Args:
        vocabulary: the vocabulary.
        normalizers: what is done to raw text, as parts of `tokenizers`; it spells spaces as the model sees them.
        pre_tokenizers: what of it needs a pre-tokenizer.
    """
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens(vocabulary),
        "normalizer": sequence("normalizers", [*marked(vocabulary), *normalizers, *spelling(vocabulary)]),
        "pre_tokenizer": sequence("pretokenizers", [*pre_tokenizers, *cuts(vocabulary)]),
        "post_processor": post_processor(vocabulary.special, _ids(vocabulary)),
        "decoder": sequence("decoders", _decoders(vocabulary)),
        "model": model(vocabulary),
    }


def added_tokens(vocabulary: Vocabulary) -> list[Component]:
    """The special tokens with their ids. A space before the mask belongs to it, as in the published tokenizers."""
    special, flags = vocabulary.special, {"single_word": False, "rstrip": False, "normalized": False, "special": True}
    return [
        {"id": number, "content": piece.text, "lstrip": piece.text == special.mask} | flags
        for number, piece in enumerate(vocabulary.pieces)
        if piece.kind in ("special", "unknown")
    ]


def model(vocabulary: Vocabulary) -> Component:
    """The model itself, with all its pieces."""
    config, unknown = vocabulary.config, vocabulary.special.unk
    ids = _ids(vocabulary)
    if config.model == "unigram":
        return {"type": "Unigram", "unk_id": ids[unknown], "vocab": _scored(vocabulary), "byte_fallback": True}
    if config.model == "wordpiece":
        hard = config.boundaries == "hard"
        longest = _LONGEST_WORD if hard else 2 * MAX_STRETCH
        prefix = CONTINUATION_PREFIX if hard else ""
        about = {"unk_token": unknown, "continuing_subword_prefix": prefix, "max_input_chars_per_word": longest}
        return {"type": "WordPiece", **about, "vocab": ids}
    characters = config.model == "bpe"
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": unknown if characters else None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": characters,
        "ignore_merges": False,
        "vocab": ids,
        "merges": merges(vocabulary) if characters else vocabulary.merges,
    }


def _ids(vocabulary: Vocabulary) -> dict[str, int]:
    return {piece.text: number for number, piece in enumerate(vocabulary.pieces)}


def merges(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Every way to join two pieces to a third, the third one's rank first.

    sentencepiece joins any two neighbours that are a piece together, the best first; `tokenizers` wants the pairs.
    """
    normal = {piece.text: piece.score for piece in vocabulary.pieces if piece.kind == "normal"}
    ranked = sorted((text for text in normal if len(text) > 1), key=lambda text: -normal[text])
    return [
        (text[:at], text[at:])
        for text in ranked
        for at in range(1, len(text))
        if text[:at] in normal and text[at:] in normal
    ]


def _scored(vocabulary: Vocabulary) -> list[tuple[str, float]]:
    """Unigram's pieces with their scores.

    `tokenizers` finds the names of bytes and of special tokens in text; here they cost more than their characters.
    """
    lowest = min((piece.score for piece in vocabulary.pieces if piece.kind == "normal"), default=0.0)
    longest = max((len(piece.text) for piece in vocabulary.pieces if piece.kind != "normal"), default=0)
    never = (longest + 1) * (lowest - _UNKNOWN_COSTS)
    return [(piece.text, piece.score if piece.kind == "normal" else never) for piece in vocabulary.pieces]


def _decoders(vocabulary: Vocabulary) -> list[Component]:
    if vocabulary.config.model == "byte-bpe":
        return [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}]
    parts = [replace({"String": SPACE}, " ")]
    if vocabulary.config.model != "wordpiece":
        return [*parts, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if vocabulary.config.boundaries == "hard":
        parts.insert(0, replace({"Regex": f"^{CONTINUATION_PREFIX}"}, ""))
    return [*parts, replace({"String": NEWLINE}, "\n"), {"type": "Fuse"}]


def post_processor(special: SpecialTokens, ids: Mapping[str, int]) -> Component | None:
    """What stands around one text and two when special tokens are asked for; None where nothing does.

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
    """Whether models with these tokens tell a second text by token types, as BERT does."""
    return bool(special.cls) and not special.bos


def _tokens(tokens: Sequence[str], kind: int) -> list[Component]:
    return [{"SpecialToken": {"id": token, "type_id": kind}} for token in tokens]


def _text(name: str, kind: int) -> Component:
    return {"Sequence": {"id": name, "type_id": kind}}


def batch_encoding_json(served: Mapping[str, Any], config: TokenizerConfig, special: SpecialTokens) -> dict[str, Any]:
    """A `tokenizer.json` for text that is normalised already, none of it a special token; words one at a time.

    Args:
        served: the whole document, of byte-bpe or wordpiece.
        config: the tokenizer's.
        special: its special tokens.
    """
    pre_tokenizers = served["pre_tokenizer"].get("pretokenizers", [served["pre_tokenizer"]])
    if config.model == "byte-bpe":
        return {**served, "added_tokens": [], "normalizer": None} | {
            "pre_tokenizer": sequence("pretokenizers", pre_tokenizers[-2:]),
            "post_processor": None,
        }
    # Longest matches would find special tokens in text; they find nothing that begins with a newline.
    hidden = {token: f"\n{token}" for token in special.tokens}
    vocab = {hidden.get(text, text): number for text, number in served["model"]["vocab"].items()}
    return {**served, "added_tokens": []} | {
        "normalizer": sequence("normalizers", [replace({"String": " "}, SPACE), replace({"String": "\n"}, NEWLINE)]),
        "pre_tokenizer": pre_tokenizers[-1],
        "post_processor": None,
        "model": served["model"] | {"vocab": vocab, "unk_token": hidden[special.unk]},
    }
