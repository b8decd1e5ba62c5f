"""Write a tokenizer's directory, and export its vocabulary to the formats of other programs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import TOKENIZER_EXPORT
from jprep.errors import ConfigError
from jprep.io.atomic import atomic_path, write_atomic
from jprep.tokenizer.card import read_card, verify_files
from jprep.tokenizer.config import SENTENCEPIECE_MODELS, ModelType, TokenizerConfig
from jprep.tokenizer.formats.file_names import (
    SENTENCEPIECE_MODEL,
    SPECIAL_TOKENS_MAP_JSON,
    TOKENIZER_CONFIG_JSON,
    TOKENIZER_JSON,
)
from jprep.tokenizer.formats.pieces import read_pieces
from jprep.tokenizer.formats.policies import space_of
from jprep.tokenizer.formats.sentencepiece_model import model_proto
from jprep.tokenizer.formats.tokenizer_json import added_tokens, tokenizer_json, uses_token_types
from jprep.tokenizer.normalizers import export_normalizers
from jprep.tokenizer.special_tokens import SPECIAL_TOKEN_SETS, SpecialTokens, special_tokens
from jprep.tokenizer.vocabulary import Vocabulary

FILES = (TOKENIZER_JSON, TOKENIZER_CONFIG_JSON, SPECIAL_TOKENS_MAP_JSON, SENTENCEPIECE_MODEL)
"""The files that `write_tokenizer_files` may write."""

EXPORTED_FILES = (
    "dict.txt",
    "vocab.txt",
    TOKENIZER_CONFIG_JSON,
    "vocab.json",
    "merges.txt",
    SENTENCEPIECE_MODEL,
    "spm.vocab",
)
"""The files that `export_tokenizer` may write."""

EXPORT_MANIFEST = "export.json"
"""The manifest of an export at a URL."""

_ORDER_IN_CONFIG = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
"""The roles of special tokens in the order in which the files name them."""


class TokenizerExportManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`export.json` of exports of a tokenizer at a URL. It is written last: without it an upload is unfinished.

    Attributes:
        jprep: version of jprep that wrote it.
        vocabulary_files: SHA-256 of each file, of all formats that were exported to the URL.
    """

    jprep: str
    vocabulary_files: dict[str, str]


def write_tokenizer_files(vocabulary: Vocabulary, normalizers: Sequence[dict[str, Any]], folder: Path) -> None:
    """Write the files that `AutoTokenizer`, `tokenizers` and sentencepiece load. The output is deterministic.

    Args:
        vocabulary: the tokenizer without its normalizer.
        normalizers: descriptions of the steps applied to raw text.
        folder: output directory; the caller writes the card.

    Raises:
        ConfigError: a normalizer cannot be expressed in a `tokenizer.json`.
        MachineError: the directory cannot be written.
    """
    config, vocabulary = vocabulary.config, _with_exact_sums(vocabulary)
    parts = export_normalizers(normalizers, space_of(vocabulary), keep_marks=config.boundaries == "hard")
    _write(folder / TOKENIZER_JSON, tokenizer_json(vocabulary, parts.normalizers, parts.pre_tokenizers))
    _write(folder / TOKENIZER_CONFIG_JSON, _tokenizer_config(vocabulary), indent=2)
    _write(folder / SPECIAL_TOKENS_MAP_JSON, _special_tokens_map(vocabulary), indent=2)
    if config.model in SENTENCEPIECE_MODELS:
        write_atomic(folder / SENTENCEPIECE_MODEL, model_proto(vocabulary))


def _with_exact_sums(vocabulary: Vocabulary) -> Vocabulary:
    """Round Unigram's scores to multiples of 1/1024.

    sentencepiece sums scores in 32 bits, `tokenizers` in 64. If two segmentations of a line have the same score, as in
    "ああああ", rounding errors would decide, and the two libraries would disagree. Sums of rounded scores are exact in
    both, up to 16,384.
    """
    if vocabulary.config.model != "unigram":
        return vocabulary
    pieces = [msgspec.structs.replace(piece, score=round(piece.score * 1024) / 1024) for piece in vocabulary.pieces]
    return msgspec.structs.replace(vocabulary, pieces=pieces)


def _write(path: Path, content: Any, indent: int = -1) -> None:
    write_atomic(path, msgspec.json.format(msgspec.json.encode(content), indent=indent))


def _tokenizer_config(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the content of tokenizer_config.json, with a class that transformers 4 and 5 know."""
    special, config = vocabulary.special, vocabulary.config
    types = ["token_type_ids"] if uses_token_types(special) else []
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": config.model_max_length or special.max_length,
        "model_input_names": ["input_ids", *types, "attention_mask"],
        "added_tokens_decoder": {str(token.pop("id")): token for token in added_tokens(vocabulary)},
        **{f"{role}_token": getattr(special, role) for role in _ORDER_IN_CONFIG if getattr(special, role)},
        "additional_special_tokens": _additional(special),
    }


def _special_tokens_map(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the content of special_tokens_map.json, which older versions of transformers read."""
    tokens = {token["content"]: token for token in added_tokens(vocabulary)}
    flags = ("content", "lstrip", "normalized", "rstrip", "single_word")
    roles: dict[str, Any] = {
        f"{role}_token": {flag: tokens[getattr(vocabulary.special, role)][flag] for flag in flags}
        for role in _ORDER_IN_CONFIG
        if getattr(vocabulary.special, role)
    }
    return roles | {"additional_special_tokens": _additional(vocabulary.special)}


def _additional(special: SpecialTokens) -> list[str]:
    roles = {getattr(special, role) for role in _ORDER_IN_CONFIG}
    return [token for token in special.tokens if token not in roles]


def export_tokenizer(folder: Path, format: str, out: Path) -> list[Path]:
    """Write a finished tokenizer's vocabulary in another program's format.

    Args:
        folder: the tokenizer directory.
        format: `fairseq` (any model), `bert` (wordpiece), `gpt2` (byte-bpe), `sentencepiece` (bpe, unigram). fairseq
            adds four tokens before those of the file and `<mask>` after them: its ids equal ours if the special token
            set is `roberta`.
        out: output directory; new, empty, or with exports of tokenizers.

    Returns:
        The files written.

    Raises:
        ConfigError: no finished tokenizer, a format that its model does not support, or an output directory with other
            content.
        MachineError: the files cannot be written.
    """
    with OutputDirectory(out, TOKENIZER_EXPORT).claim():
        return write_format(folder, format, out)


def write_format(folder: Path, format: str, out: Path) -> list[Path]:
    """Write the files of `export_tokenizer` into a directory that the caller has claimed."""
    card = read_card(folder)
    verify_files(folder, card, (TOKENIZER_JSON, SENTENCEPIECE_MODEL))
    kind = card.config.model
    supported = [name for name, (models, _) in _FORMATS.items() if kind in models]
    if format not in supported:
        fix = f"a {kind} tokenizer supports {', '.join(supported)}"
        raise ConfigError(f"this tokenizer cannot be exported as {format!r}", where=str(folder), fix=fix)
    return _FORMATS[format][1](folder, out)


def _model(folder: Path) -> dict[str, Any]:
    model: dict[str, Any] = msgspec.json.decode((folder / TOKENIZER_JSON).read_bytes())["model"]
    return model


def fairseq_pieces(folder: Path) -> list[str]:
    """Return the symbols of a tokenizer's pieces in fairseq's dictionary, without those that fairseq adds itself."""
    roberta = SPECIAL_TOKEN_SETS["roberta"]
    return [
        f"<piece {number}>" if "\n" in piece or "\r" in piece else piece  # pieces may contain newlines
        for number, piece in enumerate(read_pieces(_model(folder)))
        if piece not in roberta.tokens
    ]


def _fairseq(folder: Path, out: Path) -> list[Path]:
    """Write `piece count` lines; the counts are not used."""
    return _write_lines(out / "dict.txt", [f"{piece} 1" for piece in fairseq_pieces(folder)])


def _bert(folder: Path, out: Path) -> list[Path]:
    """Write `vocab.txt`, and settings with which `BertTokenizer` finds the words of the training.

    Under hard boundaries it changes no text and splits no kanji.

    Raises:
        ConfigError: `BertTokenizer` would only match pieces at the beginning of words, or lacks a special token.
    """
    config = read_card(folder).config
    special = special_tokens(config)
    if config.boundaries not in ("hard", "bert"):
        what = "BertTokenizer requires pieces with a ## prefix, and this vocabulary has none: most words would be [UNK]"
        fix = 'load this directory with AutoTokenizer, or train a tokenizer with boundaries = "bert" or "hard"'
        raise ConfigError(what, where=str(folder), fix=fix)
    roles = {f"{role}_token": getattr(special, role) for role in ("unk", "sep", "pad", "cls", "mask")}
    if missing := [role for role, token in roles.items() if not token]:
        fix = 'train it with special = ["bert"]'
        raise ConfigError(
            f"BertTokenizer requires a {missing[0]}, and this tokenizer has none", where=str(folder), fix=fix
        )
    limits = {"model_max_length": config.model_max_length or special.max_length}
    words = _found_by_bert(config) if config.boundaries == "bert" else {}
    _write(out / TOKENIZER_CONFIG_JSON, _BERT_CONFIG | words | limits | roles, indent=2)
    return [*_write_lines(out / "vocab.txt", read_pieces(_model(folder))), out / TOKENIZER_CONFIG_JSON]


_BERT_CONFIG = {
    "tokenizer_class": "BertTokenizer",
    "do_lower_case": False,
    "strip_accents": False,  # otherwise it removes the voicing mark of で
    "tokenize_chinese_chars": False,  # otherwise every kanji becomes a word
    "do_basic_tokenize": False,  # otherwise it splits at punctuation; only transformers 4 reads this
    "clean_up_tokenization_spaces": False,
}


def _found_by_bert(config: TokenizerConfig) -> dict[str, bool]:
    """Return the settings with which `BertTokenizer` finds the words of the training in raw text."""
    return {"do_basic_tokenize": True, "tokenize_chinese_chars": config.splits_ideographs}


def _gpt2(folder: Path, out: Path) -> list[Path]:
    model = _model(folder)
    _write(out / "vocab.json", model["vocab"])
    merges = [" ".join(pair) for pair in model["merges"]]
    return [out / "vocab.json", *_write_lines(out / "merges.txt", ["#version: 0.2", *merges])]


def _sentencepiece(folder: Path, out: Path) -> list[Path]:
    from sentencepiece import SentencePieceProcessor

    with atomic_path(out / SENTENCEPIECE_MODEL) as temporary:
        shutil.copyfile(folder / SENTENCEPIECE_MODEL, temporary)
    loaded = SentencePieceProcessor(model_file=str(folder / SENTENCEPIECE_MODEL))
    ids = range(loaded.get_piece_size())
    return [
        out / SENTENCEPIECE_MODEL,
        *_write_lines(out / "spm.vocab", [f"{loaded.id_to_piece(i)}\t{loaded.get_score(i):g}" for i in ids]),
    ]


def _write_lines(path: Path, lines: Sequence[str]) -> list[Path]:
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())
    return [path]


_FORMATS: dict[str, tuple[tuple[ModelType, ...], Callable[[Path, Path], list[Path]]]] = {
    "fairseq": (("bpe", "byte-bpe", "unigram", "wordpiece", "words"), _fairseq),
    "bert": (("wordpiece",), _bert),
    "gpt2": (("byte-bpe",), _gpt2),
    "sentencepiece": (("bpe", "unigram"), _sentencepiece),
}
