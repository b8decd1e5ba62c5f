"""`export.json`: the manifest of an exported model, with its origin and how its inputs are built from text."""

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
from jprep.train.job.config import Task, objective_of

MANIFEST = "export.json"

EDITABLE = (".md", ".svg")
"""Endings of files that users may edit: README and plots are not verified, and are uploaded as they are."""

FORMAT = 1
"""The version of the directory's layout: raised when earlier directories can no longer be read."""

Dtype = Literal["fp32", "bf16", "fp16"]


class ModelExportManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of an exported model. It is written last: a directory without it is incomplete.

    Attributes:
        jprep: the version that wrote it.
        format: the layout of the directory, see `FORMAT`.
        name: the run's name.
        task: the task of the job.
        backend: the backend that trained the model.
        step: the number of updates done.
        job: the job's fingerprint; "" if another program trained the model.
        dataset: the dataset's fingerprint; "" for labelled data, or if another program trained the model.
        tokenizer: the tokenizer's fingerprint; "" without a tokenizer.
        dtype: the dtype of the weights.
        parameters: the number of weights.
        special: the special ids around a text.
        end: the id at the end of a document, or of an answer (`sft`); -1 if there is none.
        length: the maximum number of tokens in a labelled row; 0 for other rows.
        pair: whether labelled rows have two texts.
        files: the SHA-256 of every other file in the directory, by name.
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

    @property
    def generates(self) -> bool:
        """Whether the model continues texts."""
        return objective_of(self.task) == "clm"

    def __post_init__(self) -> None:
        """Refuse file names outside the folder."""
        for name in self.files:
            inner_path(name)


def read_export(folder: Path) -> ModelExportManifest:
    """Read the manifest of an exported model.

    Raises:
        ConfigError: there is none, it is damaged, or a later version of jprep wrote it.
        MachineError: it cannot be read.
    """
    path = folder / MANIFEST
    try:
        found = decode_checksummed(
            retry_transient(path.read_bytes, path, "repair the file system, then try again"), ModelExportManifest
        )
    except OSError as error:
        fix = "give the directory of `jprep export RUN -o`; if the export was interrupted, run it again"
        raise ConfigError("there is no finished exported model here", where=str(folder), fix=fix) from error
    except ValueError as error:
        fix = "move this folder away and export the run again"
        raise ConfigError(f"{MANIFEST} is damaged: {error}", where=str(folder), fix=fix) from error
    if found.format > FORMAT:
        what = f"this model was exported in format {found.format}; this jprep reads formats up to {FORMAT}"
        raise ConfigError(what, where=str(folder), fix=f"install jprep {found.jprep} or later")
    return found


def write_export(folder: Path, exported: ModelExportManifest) -> None:
    """Write the manifest, which completes the export."""
    write_atomic(folder / MANIFEST, encode_checksummed(exported, indent=1))


def read_config(folder: Path) -> dict[str, Any]:
    """Read transformers' config of an exported model.

    Raises:
        ConfigError: it cannot be read.
    """
    path = folder / "config.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, ValueError) as error:
        fix = "export the run again"
        raise ConfigError(f"the model's config cannot be read: {error}", where=str(path), fix=fix) from error


def verify_export(folder: Path, exported: ModelExportManifest) -> None:
    """Check that the files of an exported model are unchanged, except README and plots, which users may edit.

    Raises:
        DamagedError: a file is missing, or its content is another.
        MachineError: a file cannot be read.
    """
    for name, sha256 in exported.files.items():
        if not name.endswith(EDITABLE):
            verify_file(folder / name, sha256, "move this folder away and export the run again")
