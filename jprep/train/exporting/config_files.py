"""The files that transformers reads besides the weights: config, generation config and tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from jprep.tokenizer.card import TokenizerCard
from jprep.train.exporting.manifest import ModelExportManifest
from jprep.train.exporting.output_folder import file_hashes
from jprep.train.exporting.tokenizer_files import first_id, write_tokenizer
from jprep.train.models import FAMILIES, max_positions
from jprep.train.models.presets import TransformersConfig

_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def write_config_files(
    folder: Path, manifest: ModelExportManifest, model: TransformersConfig, tokenizer: Path | None
) -> tuple[ModelExportManifest, TokenizerCard | None]:
    """Write all files that transformers reads besides the weights, which exist already.

    Args:
        folder: the exported directory.
        manifest: the manifest, without tokenizer and files.
        model: transformers' config.
        tokenizer: the tokenizer's folder, if there is one.

    Returns:
        The complete manifest, and the tokenizer's card.

    Raises:
        ConfigError: there is no finished tokenizer.
        MismatchError: a file of the tokenizer has changed.
    """
    _write_config(folder, manifest, model)
    card = write_tokenizer(folder, manifest, model, tokenizer) if tokenizer else None
    fingerprint = card.fingerprint if card else ""
    return msgspec.structs.replace(manifest, tokenizer=fingerprint, files=file_hashes(folder)), card


def _write_config(folder: Path, manifest: ModelExportManifest, model: TransformersConfig) -> None:
    """Write `config.json`, and `generation_config.json` for models that continue texts."""
    ends = manifest.generates and manifest.end >= 0
    first = first_id(manifest) if manifest.task == "clm" else model.get("bos_token_id")
    ids = {"bos_token_id": first, "eos_token_id": manifest.end} if ends else {}
    _write(folder / "config.json", {**model, **ids, "dtype": _DTYPES[manifest.dtype]})
    if ids:
        _write(folder / "generation_config.json", ids | _generation(manifest, model))


def _generation(manifest: ModelExportManifest, model: TransformersConfig) -> dict[str, Any]:
    """Return the defaults of `generate`: no special tokens, and how many tokens there are.

    Models with a vector for each position fail beyond the last one. Others do not, and get half of the positions for
    new tokens: with `max_length`, transformers 5 would warn at each call with `max_new_tokens`.
    """
    pad, never = model.get("pad_token_id"), [number for number in manifest.special.special if number != manifest.end]
    most, rotary = max_positions(model), FAMILIES[model["model_type"]].rotary
    limit = {"max_new_tokens": max(1, most // 2)} if rotary else {"max_length": most}
    padding = {"pad_token_id": manifest.end if pad is None else pad}
    return limit | padding | ({"suppress_tokens": never} if never else {})


def _write(path: Path, fields: dict[str, Any]) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(fields.items()))), indent=2) + b"\n")
