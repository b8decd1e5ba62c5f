"""Finds out what kind of tokenizer lies at a path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jprep.errors import ConfigError
from jprep.io.inputs.paths import short_names
from jprep.tokenizer.card import CARD_JSON, read_card
from jprep.tokenizer.evaluation.adapter import TokenizerAdapter

_JSON = "tokenizer.json"


def load_adapters(paths: Sequence[Path]) -> list[TokenizerAdapter]:
    """Open tokenizers: folders of jprep's, a `tokenizer.json` or the folder of one, sentencepiece's `.model` files.

    Raises:
        ConfigError: one is none of them, or is named twice. Nothing is ever downloaded.
    """
    places = [path.resolve() for path in paths]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise ConfigError("a tokenizer is named twice", where=str(paths[number]), fix="name each once")
    return [_open(path, name) for path, name in zip(paths, _names(paths), strict=True)]


def _names(paths: Sequence[Path]) -> list[str]:
    """Short names that tell them apart: a card's, else the path's last part, or as many parts as it takes."""
    short = [_name(path) for path in paths]
    whole = short_names([str(path.resolve()) for path in paths])
    return short if len(set(short)) == len(short) else [whole[str(path.resolve())] for path in paths]


def _name(path: Path) -> str:
    return read_card(path).name if (path / CARD_JSON).is_file() else path.resolve().name


def _open(path: Path, name: str) -> TokenizerAdapter:
    if (path / CARD_JSON).is_file():
        from jprep.tokenizer import load_tokenizer
        from jprep.tokenizer.evaluation.jprep_tokenizer import JprepAdapter

        return JprepAdapter(load_tokenizer(path), name)
    from jprep.tokenizer.evaluation.external_tokenizers import HuggingFaceAdapter, SentencePieceAdapter

    if (path / _JSON).is_file():
        return HuggingFaceAdapter(path / _JSON, name)
    if path.is_file():
        return SentencePieceAdapter(path, name) if path.suffix == ".model" else HuggingFaceAdapter(path, name)
    models = sorted(path.glob("*.model")) if path.is_dir() else []
    if len(models) == 1:
        return SentencePieceAdapter(models[0], name)
    raise _nothing(path)


def _nothing(path: Path) -> ConfigError:
    if not path.exists():
        fix = "give a path: nothing is downloaded, so fetch a model's tokenizer.json first"
        return ConfigError("there is no such tokenizer", where=str(path), fix=fix)
    if (path / "vocab.txt").exists() or (path / "vocab.json").exists():
        fix = "write one first: AutoTokenizer.from_pretrained(FOLDER, use_fast=True).save_pretrained(FOLDER)"
        return ConfigError(f"this folder has no {_JSON}", where=str(path), fix=fix)
    fix = f"give a folder of `jprep tokenizer train`, a {_JSON} or its folder, or a sentencepiece .model"
    return ConfigError("there is no tokenizer here", where=str(path), fix=fix)
