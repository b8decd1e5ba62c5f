"""Finds out what kind of tokenizer lies at a path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jprep.errors import ConfigError
from jprep.io.paths import names
from jprep.tokenizer.card import CARD, read_card
from jprep.tokenizer.evaluation.encoder import Encoder

_JSON = "tokenizer.json"


def open_encoders(paths: Sequence[Path]) -> list[Encoder]:
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
    whole = names([str(path.resolve()) for path in paths])
    return short if len(set(short)) == len(short) else [whole[str(path.resolve())] for path in paths]


def _name(path: Path) -> str:
    return read_card(path).name if (path / CARD).is_file() else path.resolve().name


def _open(path: Path, name: str) -> Encoder:
    if (path / CARD).is_file():
        from jprep.tokenizer import load_tokenizer
        from jprep.tokenizer.evaluation.ours import OurEncoder

        return OurEncoder(load_tokenizer(path), name)
    from jprep.tokenizer.evaluation.others import HuggingFace, SentencePiece

    if (path / _JSON).is_file():
        return HuggingFace(path / _JSON, name)
    if path.is_file():
        return SentencePiece(path, name) if path.suffix == ".model" else HuggingFace(path, name)
    models = sorted(path.glob("*.model")) if path.is_dir() else []
    if len(models) == 1:
        return SentencePiece(models[0], name)
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
