"""`export.json`: what an exported model is, where it came from, and how text becomes its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.errors import ConfigError
from jprep.io.atomic import write_atomic
from jprep.io.retry import retry_transient
from jprep.io.safe_names import inner_path
from jprep.io.verified_files import verify_file
from jprep.train.job.config import Task

MANIFEST = "export.json"

FORMAT = 1
"""Raised whenever directories written before could not be read as those written now."""

Dtype = Literal["fp32", "bf16", "fp16"]


class ModelExportManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an exported model is. It is written last: a directory without it is none.

    Attributes:
        jprep: the version that wrote it.
        format: of the directory, see `FORMAT`.
        name: the run's.
        task: the job's.
        backend: that trained it.
        step: how many updates the weights have had.
        job: the job's fingerprint; "" where it was trained elsewhere.
        dataset: the dataset's; "" for labelled data, and where it was trained elsewhere.
        tokenizer: the tokenizer's; "" where there is none.
        dtype: of the weights.
        parameters: how many there are.
        special: ids around a text.
        end: the id that ends a document; -1 where documents have no end.
        length: most tokens of a labelled row; 0 for `clm` and `mlm`.
        pair: whether a labelled row has two texts.
        files: SHA-256 by name of each other file of the directory.
    """

    jprep: str
    format: int
    name: str
    task: Task
    backend: str
    step: int
    job: str = ""
    dataset: str = ""
    tokenizer: str = ""
    dtype: Dtype
    parameters: int
    special: SpecialIds
    end: int
    length: int = 0
    pair: bool = False
    files: dict[str, str]

    def __post_init__(self) -> None:
        """Refuse files outside the folder."""
        for name in self.files:
            inner_path(name)


def read_export(folder: Path) -> ModelExportManifest:
    """Read what an exported model is.

    Raises:
        ConfigError: there is none, its manifest is damaged, or it is one of a later jprep's.
        MachineError: it cannot be read.
    """
    path = folder / MANIFEST
    try:
        found = decode_checksummed(
            retry_transient(path.read_bytes, path, "repair the file system, then try again"), ModelExportManifest
        )
    except OSError as error:
        fix = "give the folder of `jprep export RUN -o`; if the export was stopped, run it again"
        raise ConfigError("there is no finished exported model here", where=str(folder), fix=fix) from error
    except ValueError as error:
        fix = "move this folder away: `jprep export` writes it again"
        raise ConfigError(f"{MANIFEST} is damaged: {error}", where=str(folder), fix=fix) from error
    if found.format > FORMAT:
        what = f"this model was exported in format {found.format}; this jprep knows formats up to {FORMAT}"
        raise ConfigError(what, where=str(folder), fix=f"install jprep {found.jprep} or later")
    return found


def write_export(folder: Path, exported: ModelExportManifest) -> None:
    """Commit the manifest: from now on the export is complete."""
    write_atomic(folder / MANIFEST, encode_checksummed(exported, indent=1))


def read_config(folder: Path) -> dict[str, Any]:
    """Return an exported model's config, as transformers has it.

    Raises:
        ConfigError: it cannot be read.
    """
    path = folder / "config.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, ValueError) as error:
        fix = "`jprep export` writes it again"
        raise ConfigError(f"the model's config cannot be read: {error}", where=str(path), fix=fix) from error


def verify_export(folder: Path, exported: ModelExportManifest) -> None:
    """See that what is loaded of an exported model is what was written; its README is its users' own.

    Raises:
        DamagedError: a file is missing, or its content is another.
        MachineError: a file cannot be read.
    """
    for name, sha256 in exported.files.items():
        if not name.endswith((".md", ".svg")):
            verify_file(folder / name, sha256, "move this folder away: `jprep export` writes it again")
