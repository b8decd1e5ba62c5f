"""Write the tokenizer of an exported model, which by default adds special tokens as in training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from jprep.io.atomic import file_sha256
from jprep.tokenizer.card import TokenizerCard, read_card, verify_files, write_card
from jprep.tokenizer.export import FILES
from jprep.tokenizer.formats.file_names import SPECIAL_TOKENS_MAP_JSON, TOKENIZER_CONFIG_JSON, TOKENIZER_JSON
from jprep.tokenizer.formats.pieces import read_pieces
from jprep.tokenizer.formats.tokenizer_json import post_processor
from jprep.tokenizer.special_tokens import special_tokens
from jprep.train.exporting.manifest import ModelExportManifest
from jprep.train.models import max_positions
from jprep.train.models.presets import TransformersConfig

Json = dict[str, Any]


def write_tokenizer(
    folder: Path, manifest: ModelExportManifest, model: TransformersConfig, tokenizer: Path
) -> TokenizerCard:
    """Write a tokenizer's files without its README, and a card that lists them; one from elsewhere unchanged.

    Args:
        folder: the exported directory.
        manifest: the manifest of the exported model.
        model: transformers' config.
        tokenizer: the tokenizer's folder.

    Returns:
        The original card of the tokenizer.

    Raises:
        ConfigError: there is no finished tokenizer.
        MismatchError: a file of the tokenizer has changed.
    """
    card = read_card(tokenizer)
    if card.external:
        for name in card.files:
            if not (folder / name).exists():  # the model's own config and chat template do
                (folder / name).write_bytes((tokenizer / name).read_bytes())
        return card
    verify_files(tokenizer, card, FILES)
    names = [name for name in FILES if (tokenizer / name).exists()]
    for name in names:
        (folder / name).write_bytes((tokenizer / name).read_bytes())
    pieces = read_pieces(_read(folder / TOKENIZER_JSON)["model"])
    _change(folder / TOKENIZER_CONFIG_JSON, _limits(manifest, model, card))
    if manifest.generates:
        # A chat template may use the tokenizer's own tokens.
        ends = {"bos_token": pieces[first_id(manifest)], "eos_token": pieces[manifest.end]}
        roles = ends if manifest.task == "clm" else {}
        _change(folder / TOKENIZER_JSON, {"post_processor": _before_prompts(manifest, card, pieces)}, indent=-1)
        _change(folder / TOKENIZER_CONFIG_JSON, {"padding_side": "left"} | roles)
        _change(folder / SPECIAL_TOKENS_MAP_JSON, roles)
    write_card(folder, msgspec.structs.replace(card, files={name: file_sha256(folder / name) for name in names}))
    return card


def first_id(manifest: ModelExportManifest) -> int:
    """Return the first id of a text of a `clm` model: the end token, if no other, as documents follow each other."""
    return manifest.special.before[0] if manifest.special.before else manifest.end


def _limits(manifest: ModelExportManifest, model: TransformersConfig, card: TokenizerCard) -> Json:
    """Return the settings that limit inputs to the model's positions and to token types that it has embeddings for."""
    typed = manifest.special.types and not manifest.generates and model.get("type_vocab_size", 0) >= 2
    types = ["token_type_ids"] if typed else []
    most = min(max_positions(model), card.config.model_max_length or max_positions(model))
    return {"model_max_length": most, "model_input_names": ["input_ids", *types, "attention_mask"]}


def _before_prompts(manifest: ModelExportManifest, card: TokenizerCard, pieces: Sequence[str]) -> Json | None:
    """Return a post-processor that adds what rows began with in training, and nothing at the end of a prompt."""
    before = tuple(pieces[number] for number in manifest.special.before)
    tokens = special_tokens(card.config)
    alone = msgspec.structs.replace(tokens, before=before, after=(), between=(), pair_after=())
    return post_processor(alone, {piece: number for number, piece in enumerate(pieces)})


def _change(path: Path, fields: Json, indent: int = 2) -> None:
    """Set fields of a JSON file, if it exists."""
    if path.exists():
        changed = _read(path) | fields
        path.write_bytes(msgspec.json.format(msgspec.json.encode(changed), indent=indent))


def _read(path: Path) -> Json:
    content: Json = msgspec.json.decode(path.read_bytes())
    return content
