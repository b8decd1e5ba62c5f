"""The files of a tokenizer in Hugging Face form, and the card that stands in for the one that jprep would write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jprep.engine.fingerprint import fingerprint
from jprep.errors import ConfigError, InputError
from jprep.hub.download import commit_of, name_of
from jprep.hub.location import resolve_location
from jprep.io.atomic import file_sha256
from jprep.tokenizer.formats.file_names import (
    SENTENCEPIECE_MODEL,
    SPECIAL_TOKENS_MAP_JSON,
    TOKENIZER_CONFIG_JSON,
    TOKENIZER_JSON,
)

if TYPE_CHECKING:
    from jprep.tokenizer.card import TokenizerCard

VOCABULARIES = (TOKENIZER_JSON, "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model",
                SENTENCEPIECE_MODEL, "tokenizer.model")  # fmt: skip
"""Files of which a tokenizer needs one."""
_OTHERS = (TOKENIZER_CONFIG_JSON, SPECIAL_TOKENS_MAP_JSON, "added_tokens.json", "merges.txt", "chat_template.jinja")
PATTERNS = (*VOCABULARIES, *_OTHERS, "config.json")
"""The files that are downloaded; `AutoTokenizer` finds the class of old tokenizers in the model's config."""

_CONFIG = "config.json"


def is_external(folder: Path) -> bool:
    """Return whether a folder holds a tokenizer that jprep did not write, or one that jprep has extended."""
    from jprep.tokenizer.card import CARD_JSON

    has_vocabulary = any((folder / name).is_file() for name in VOCABULARIES)
    return has_vocabulary and (is_extended(folder) or not (folder / CARD_JSON).exists())


def is_extended(folder: Path) -> bool:
    """Return whether jprep has extended the tokenizer in a folder: its files say all that `tokenizers` needs."""
    from jprep.tokenizer.card import CARD_JSON

    try:
        return bool(msgspec.json.decode((folder / CARD_JSON).read_bytes(), type=_Card).config.extends)
    except (OSError, ValueError):  # no card, or a damaged one, which its reader reports
        return False


class _CardConfig(msgspec.Struct, frozen=True):
    extends: str = ""


class _Card(msgspec.Struct, frozen=True):
    config: _CardConfig = _CardConfig()


def resolve_tokenizer(text: str | Path) -> Path:
    """Return the folder of a tokenizer; a name on the Hub is downloaded.

    Args:
        text: a folder, or a name on the Hub: `org/name`, `org/name@revision`.

    Raises:
        ConfigError: there is no such name, or the token is missing or without access.
        MachineError: huggingface_hub is not installed, or the Hub cannot be reached.
    """
    return resolve_location(str(text), PATTERNS)


def display_name(folder: Path) -> str:
    """Return `org/name@commit` for a download from the Hub, else the name of the folder or file."""
    return f"{name}@{commit_of(folder)[:8]}" if (name := name_of(folder)) else folder.resolve().name


def tokenizer_files(folder: Path) -> list[str]:
    """Return the names of a tokenizer's files that exist, sorted.

    The model's `config.json` is among them only if no other file names the tokenizer's class.
    """
    found = sorted(name for name in (*VOCABULARIES, *_OTHERS) if (folder / name).is_file())
    needs_config = TOKENIZER_JSON not in found and "tokenizer_class" not in read_json(folder / TOKENIZER_CONFIG_JSON)
    return [*found, _CONFIG] if needs_config and (folder / _CONFIG).is_file() else found


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file; empty if it does not exist.

    Raises:
        InputError: it is not a JSON object.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InputError(f"invalid JSON: {error}", where=str(path), fix="download it again") from error


def external_card(folder: Path) -> TokenizerCard:
    """Return a card for a tokenizer that jprep did not write: hashes of its files, and no normalizers.

    Its `jprep` is "": the files carry what a card of jprep would say.

    Raises:
        ConfigError: the folder holds no tokenizer.
        InputError: a file is damaged.
    """
    from jprep.tokenizer.card import FORMAT, TokenizerCard, read_own_card

    if not is_external(folder):
        fix = f"give a folder with one of {', '.join(VOCABULARIES)}, or the output of `jprep tokenizer train`"
        raise ConfigError("there is no tokenizer in this folder", where=str(folder), fix=fix)
    files = {name: file_sha256(folder / name) for name in tokenizer_files(folder)}
    identity, name = fingerprint({"files": _that_encode(files)}), display_name(folder)
    sources = read_own_card(folder).sources if is_extended(folder) else []
    return TokenizerCard(
        jprep="", format=FORMAT, name=name, signature=f"tokenizer:{name}|id:{identity[:12]}", fingerprint=identity,
        made_from={"files": files}, config=_config(folder), normalizers=[], segmenter=None, sources=sources, counts={},
        figures={}, files=files,
    )  # fmt: skip


def _that_encode(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files that ids depend on."""
    return {name: sha256 for name, sha256 in files.items() if name not in (_CONFIG, "chat_template.jinja")}


def _config(folder: Path) -> Any:
    """Return what the rest of jprep asks of a tokenizer's config: raw text goes in, and nothing else is known."""
    from jprep.tokenizer.config import TokenizerConfig

    length = read_json(folder / TOKENIZER_CONFIG_JSON).get("model_max_length", 0)
    known = isinstance(length, int) and 0 < length < 1 << 31  # transformers writes 1e30 for "no limit"
    return TokenizerConfig(
        model="wordpiece", boundaries="none", newline="space", spaces="alone", model_max_length=length if known else 0
    )
