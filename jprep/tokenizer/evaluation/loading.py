"""Load any supported tokenizer from a path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jprep.errors import ConfigError
from jprep.io.inputs.paths import short_names
from jprep.tokenizer.card import CARD_JSON, read_card
from jprep.tokenizer.evaluation.adapter import TokenizerAdapter
from jprep.tokenizer.external.files import display_name, is_external, resolve_tokenizer
from jprep.tokenizer.formats.file_names import TOKENIZER_JSON


def load_adapters(paths: Sequence[Path]) -> list[TokenizerAdapter]:
    """Load tokenizers.

    Args:
        paths: directories of jprep, `tokenizer.json` and `.model` files (of sentencepiece), any other directories that
            `AutoTokenizer` loads, or their names on the Hub.

    Raises:
        ConfigError: a path is not a tokenizer, or is given twice.
        MachineError: what the tokenizer or the Hub needs is not installed.
    """
    paths = [resolve_tokenizer(path) for path in paths]
    resolved = [path.resolve() for path in paths]
    for number, path in enumerate(resolved):
        if path in resolved[:number]:
            raise ConfigError("duplicate tokenizer", where=str(paths[number]), fix="give each tokenizer once")
    return [_open(path, name) for path, name in zip(paths, _names(paths), strict=True)]


def _names(paths: Sequence[Path]) -> list[str]:
    """Return short unique names: a card's name or the last part of the path, or as many parts as necessary."""
    short = [_name(path) for path in paths]
    whole = short_names([str(path.resolve()) for path in paths])
    return short if len(set(short)) == len(short) else [whole[str(path.resolve())] for path in paths]


def _name(path: Path) -> str:
    return read_card(path).name if (path / CARD_JSON).is_file() else display_name(path)


def _open(path: Path, name: str) -> TokenizerAdapter:
    if (path / CARD_JSON).is_file() and not is_external(path):
        from jprep.tokenizer import load_tokenizer
        from jprep.tokenizer.evaluation.jprep_tokenizer import JprepAdapter

        return JprepAdapter(load_tokenizer(path), name)
    from jprep.tokenizer.evaluation.external_tokenizers import HuggingFaceAdapter, SentencePieceAdapter

    if (path / TOKENIZER_JSON).is_file():
        return HuggingFaceAdapter(path / TOKENIZER_JSON, name)
    if path.is_file():
        return SentencePieceAdapter(path, name) if path.suffix == ".model" else HuggingFaceAdapter(path, name)
    models = sorted(path.glob("*.model")) if path.is_dir() else []
    if len(models) == 1:
        return SentencePieceAdapter(models[0], name)
    if is_external(path):
        from jprep.tokenizer.evaluation.external_tokenizers import TransformersAdapter
        from jprep.tokenizer.external.tokenizer import ExternalTokenizer

        return TransformersAdapter(ExternalTokenizer(path), name)
    raise _not_found(path)


def _not_found(path: Path) -> ConfigError:
    if not path.exists():
        fix = "check the path; a name on the Hub has the form org/name"
        return ConfigError("no such tokenizer", where=str(path), fix=fix)
    fix = f"use a directory of `jprep tokenizer train`, a {TOKENIZER_JSON} or its directory, or a sentencepiece .model"
    return ConfigError("no tokenizer at this path", where=str(path), fix=fix)
