"""What transformers reads beside the weights: the model's config, how it generates, the tokenizer's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from jprep.io.atomic import sha256_of
from jprep.tokenizer.card import Card, read_card, refuse_damaged, write_card
from jprep.tokenizer.export import FILES
from jprep.train.exporting.folder import hashes
from jprep.train.exporting.manifest import Dtype, Exported
from jprep.train.job import Task
from jprep.train.models.presets import Config

_SPELT = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def write_beside(folder: Path, about: Exported, model: Config, tokenizer: Path | None) -> tuple[Exported, Card | None]:
    """Write all that transformers reads beside the weights, which are there already.

    Args:
        folder: where to.
        about: what is exported, but for its tokenizer and its files.
        model: transformers' config.
        tokenizer: the tokenizer's folder, if there is one.

    Returns:
        what is exported, whole; and the tokenizer's card.

    Raises:
        ConfigError: there is no finished tokenizer.
        MismatchError: a file of it is not what was written.
    """
    _write_config(model, about.task, about.end, folder, about.dtype)
    card = _write_tokenizer(tokenizer, folder) if tokenizer else None
    fingerprint = card.fingerprint if card else ""
    return msgspec.structs.replace(about, tokenizer=fingerprint, files=hashes(folder)), card


def _write_config(model: Config, task: Task, end: int, folder: Path, dtype: Dtype) -> None:
    """Write `config.json`, and `generation_config.json` for `clm`."""
    _write(folder / "config.json", {**model, "dtype": _SPELT[dtype]})
    if task == "clm":
        pad = model.get("pad_token_id")
        ids = {"bos_token_id": model.get("bos_token_id"), "eos_token_id": end if end >= 0 else None}
        ids["pad_token_id"] = ids["eos_token_id"] if pad is None else pad
        _write(folder / "generation_config.json", {name: number for name, number in ids.items() if number is not None})


def _write_tokenizer(tokenizer: Path, folder: Path) -> Card:
    """Copy a tokenizer's files, and its card, which then names those that are here: not its README."""
    card = read_card(tokenizer)
    refuse_damaged(tokenizer, card, FILES)
    names = [name for name in FILES if (tokenizer / name).exists()]
    for name in names:
        (folder / name).write_bytes((tokenizer / name).read_bytes())
    files = {name: sha256_of(folder / name) for name in names}
    write_card(folder, msgspec.structs.replace(card, files=files))
    return card


def _write(path: Path, fields: dict[str, Any]) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(fields.items()))), indent=2) + b"\n")
