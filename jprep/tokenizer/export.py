"""A tokenizer's directory, and its vocabulary in the forms of other programs."""

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
from jprep.tokenizer.config import SENTENCEPIECE_MODELS, ModelType
from jprep.tokenizer.formats.pieces import read_pieces
from jprep.tokenizer.formats.policies import space_of
from jprep.tokenizer.formats.sentencepiece_model import model_proto
from jprep.tokenizer.formats.tokenizer_json import (
    SENTENCEPIECE_MODEL,
    TOKENIZER_JSON,
    added_tokens,
    tokenizer_json,
    uses_token_types,
)
from jprep.tokenizer.normalizers import export_normalizers
from jprep.tokenizer.special_tokens import SPECIAL_TOKEN_SETS, SpecialTokens, special_tokens
from jprep.tokenizer.vocabulary import Vocabulary

TOKENIZER_CONFIG_JSON, SPECIAL_TOKENS_MAP_JSON = "tokenizer_config.json", "special_tokens_map.json"
FILES = (TOKENIZER_JSON, TOKENIZER_CONFIG_JSON, SPECIAL_TOKENS_MAP_JSON, SENTENCEPIECE_MODEL)
"""The files that `write_tokenizer_files` may write."""

_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


def write_tokenizer_files(vocabulary: Vocabulary, normalizers: Sequence[dict[str, Any]], folder: Path) -> None:
    """Write what loads a tokenizer, for `AutoTokenizer`, `tokenizers` and sentencepiece; the same bytes every time.

    Args:
        vocabulary: the tokenizer but for its normaliser.
        normalizers: the descriptions of the steps that raw text goes through.
        folder: where to; its card is the caller's.

    Raises:
        ConfigError: a normaliser has no portable form.
        MachineError: the folder cannot be written.
    """
    config, vocabulary = vocabulary.config, _with_exact_sums(vocabulary)
    parts = export_normalizers(normalizers, space_of(vocabulary), keep_marks=config.boundaries == "hard")
    _write(folder / TOKENIZER_JSON, tokenizer_json(vocabulary, parts.normalizers, parts.pre_tokenizers))
    _write(folder / TOKENIZER_CONFIG_JSON, _settings(vocabulary), indent=2)
    _write(folder / SPECIAL_TOKENS_MAP_JSON, _roles(vocabulary), indent=2)
    if config.model in SENTENCEPIECE_MODELS:
        write_atomic(folder / SENTENCEPIECE_MODEL, model_proto(vocabulary))


def _with_exact_sums(vocabulary: Vocabulary) -> Vocabulary:
    """Unigram's scores to the nearest 1/1024.

    sentencepiece adds them up in 32 bits and `tokenizers` in 64: where two ways to cut a line are as good, as in
    "ああああ", rounding would decide, and each would cut in its own way. Sums of these are exact in both, up to 16,384.
    """
    if vocabulary.config.model != "unigram":
        return vocabulary
    pieces = [msgspec.structs.replace(piece, score=round(piece.score * 1024) / 1024) for piece in vocabulary.pieces]
    return msgspec.structs.replace(vocabulary, pieces=pieces)


def _write(path: Path, content: Any, indent: int = -1) -> None:
    write_atomic(path, msgspec.json.format(msgspec.json.encode(content), indent=indent))


def _settings(vocabulary: Vocabulary) -> dict[str, Any]:
    """What transformers reads first. Its class is one that both version 4 and version 5 know."""
    special, config = vocabulary.special, vocabulary.config
    types = ["token_type_ids"] if uses_token_types(special) else []
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": config.model_max_length or special.max_length,
        "model_input_names": ["input_ids", *types, "attention_mask"],
        "added_tokens_decoder": {str(token.pop("id")): token for token in added_tokens(vocabulary)},
        **{f"{role}_token": getattr(special, role) for role in _ROLES if getattr(special, role)},
        "additional_special_tokens": _further(special),
    }


def _roles(vocabulary: Vocabulary) -> dict[str, Any]:
    """The special tokens by role, as older versions read them."""
    tokens = {token["content"]: token for token in added_tokens(vocabulary)}
    flags = ("content", "lstrip", "normalized", "rstrip", "single_word")
    roles: dict[str, Any] = {
        f"{role}_token": {flag: tokens[getattr(vocabulary.special, role)][flag] for flag in flags}
        for role in _ROLES
        if getattr(vocabulary.special, role)
    }
    return roles | {"additional_special_tokens": _further(vocabulary.special)}


def _further(special: SpecialTokens) -> list[str]:
    roles = {getattr(special, role) for role in _ROLES}
    return [token for token in special.tokens if token not in roles]


def export_tokenizer(folder: Path, form: str, out: Path) -> list[Path]:
    """Write a finished tokenizer's vocabulary as another program wants it.

    Args:
        folder: the tokenizer's.
        form: `fairseq` (any model), `bert` (wordpiece), `gpt2` (byte-bpe), `sentencepiece` (bpe, unigram). fairseq puts
            four tokens before the file's and `<mask>` behind them: its ids are ours where the special set is `roberta`.
        out: the folder to write to; new, empty, or holding exports of tokenizers.

    Returns:
        the files written.

    Raises:
        ConfigError: no finished tokenizer, its model has no such form, or the folder holds something else.
        MachineError: the files cannot be written.
    """
    with OutputDirectory(out, TOKENIZER_EXPORT).claim():
        return write_format(folder, form, out)


def write_format(folder: Path, form: str, out: Path) -> list[Path]:
    """Write the files of `export` into a directory that the caller has claimed; see there."""
    card = read_card(folder)
    verify_files(folder, card, (TOKENIZER_JSON, SENTENCEPIECE_MODEL))
    kind = card.config.model
    fitting = [name for name, (models, _) in _FORMS.items() if kind in models]
    if form not in fitting:
        fix = f"a {kind} tokenizer has the forms {', '.join(fitting)}"
        raise ConfigError(f"this tokenizer cannot be written as {form!r}", where=str(folder), fix=fix)
    return _FORMS[form][1](folder, out)


def _model(folder: Path) -> dict[str, Any]:
    model: dict[str, Any] = msgspec.json.decode((folder / TOKENIZER_JSON).read_bytes())["model"]
    return model


def fairseq_pieces(folder: Path) -> list[str]:
    """A tokenizer's pieces as the lines of fairseq's dictionary name them, without those that it adds itself."""
    roberta = SPECIAL_TOKEN_SETS["roberta"]
    return [
        f"<piece {number}>" if "\n" in piece or "\r" in piece else piece  # one line each, whatever a piece holds
        for number, piece in enumerate(read_pieces(_model(folder)))
        if piece not in roberta.tokens
    ]


def _fairseq(folder: Path, out: Path) -> list[Path]:
    """`piece count` lines; nobody reads the counts."""
    return _lines(out / "dict.txt", [f"{piece} 1" for piece in fairseq_pieces(folder)])


def _bert(folder: Path, out: Path) -> list[Path]:
    """`vocab.txt`, and the settings under which `BertTokenizer` changes no text and splits no kanji.

    Raises:
        ConfigError: `BertTokenizer` would find its pieces only at the beginnings of words, or lacks a special token.
    """
    config = read_card(folder).config
    special = special_tokens(config)
    if config.boundaries != "hard":
        what = "BertTokenizer needs pieces that begin with ##, and this vocabulary has none: most words would be [UNK]"
        fix = 'load this folder with AutoTokenizer; or train a tokenizer with boundaries = "hard"'
        raise ConfigError(what, where=str(folder), fix=fix)
    roles = {f"{role}_token": getattr(special, role) for role in ("unk", "sep", "pad", "cls", "mask")}
    if missing := [role for role, token in roles.items() if not token]:
        fix = 'train it with special = ["bert"]'
        raise ConfigError(
            f"BertTokenizer needs a {missing[0]}, and this tokenizer has none", where=str(folder), fix=fix
        )
    limits = {"model_max_length": config.model_max_length or special.max_length}
    _write(out / TOKENIZER_CONFIG_JSON, _BERT_SETTINGS | limits | roles, indent=2)
    return [*_lines(out / "vocab.txt", read_pieces(_model(folder))), out / TOKENIZER_CONFIG_JSON]


_BERT_SETTINGS = {
    "tokenizer_class": "BertTokenizer",
    "do_lower_case": False,
    "strip_accents": False,  # or it takes the voicing marks from です
    "tokenize_chinese_chars": False,  # or every kanji becomes a word
    "do_basic_tokenize": False,  # or it cuts words at punctuation; only the Python class of transformers 4 reads it
    "clean_up_tokenization_spaces": False,
}


def _gpt2(folder: Path, out: Path) -> list[Path]:
    model = _model(folder)
    _write(out / "vocab.json", model["vocab"])
    merges = [" ".join(pair) for pair in model["merges"]]
    return [out / "vocab.json", *_lines(out / "merges.txt", ["#version: 0.2", *merges])]


def _sentencepiece(folder: Path, out: Path) -> list[Path]:
    from sentencepiece import SentencePieceProcessor

    with atomic_path(out / SENTENCEPIECE_MODEL) as temporary:
        shutil.copyfile(folder / SENTENCEPIECE_MODEL, temporary)
    loaded = SentencePieceProcessor(model_file=str(folder / SENTENCEPIECE_MODEL))
    ids = range(loaded.get_piece_size())
    return [
        out / SENTENCEPIECE_MODEL,
        *_lines(out / "spm.vocab", [f"{loaded.id_to_piece(i)}\t{loaded.get_score(i):g}" for i in ids]),
    ]


def _lines(path: Path, lines: Sequence[str]) -> list[Path]:
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())
    return [path]


_FORMS: dict[str, tuple[tuple[ModelType, ...], Callable[[Path, Path], list[Path]]]] = {
    "fairseq": (("bpe", "byte-bpe", "unigram", "wordpiece"), _fairseq),
    "bert": (("wordpiece",), _bert),
    "gpt2": (("byte-bpe",), _gpt2),
    "sentencepiece": (("bpe", "unigram"), _sentencepiece),
}
