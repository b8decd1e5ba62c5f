"""The files of hooks: read where the recipe names them, hashed, and copied into the run directory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jprep.errors import ConfigError, MismatchError
from jprep.io.atomic import write_atomic
from jprep.train.hooks.config import HOOKS, HooksConfig, JobHooks, job_hooks
from jprep.train.hooks.references import SUFFIX, map_references, parse_reference
from jprep.train.job.config import Job
from jprep.train.job.fingerprint import OTHER_RUN


class HookSources(NamedTuple):
    """The hooks of a recipe, with the content of their files.

    Attributes:
        hooks: as a job records them; installed modules have no hash yet.
        files: the content of each file by its name.
    """

    hooks: JobHooks
    files: dict[str, bytes]


def read_hook_sources(section: HooksConfig) -> HookSources:
    """Read the files of a recipe's hooks.

    Args:
        section: the section; the paths of files are relative to the working directory.

    Raises:
        ConfigError: a reference of another form, a file that cannot be read, or two files of the same name.
    """
    paths: dict[str, Path] = {}

    def canonical(text: str, key: str) -> str:
        reference = parse_reference(text, key)
        if not reference.is_file:
            return str(reference)
        path = Path(reference.module)
        if paths.setdefault(path.name, path) != path:
            what = f"two hooks are in files of the same name: {paths[path.name]} and {path}"
            raise ConfigError(what, where=key, fix="rename one of the files")
        return f"{path.name}:{reference.name}"

    found = map_references(section, canonical)
    files = {name: _read(paths[name]) for name in sorted(paths)}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return HookSources(JobHooks(loss=found.loss, head=found.head, metrics=found.metrics, files=hashes), files)


def copy_hook_files(run: Path, files: Mapping[str, bytes]) -> None:
    """Copy the files of hooks into a run directory, for its workers.

    Raises:
        MachineError: the disk is full or not writable.
    """
    for name, data in files.items():
        path = run / HOOKS / name
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(exist_ok=True)
            write_atomic(path, data)


def refuse_changed_hooks(job: Job, before: Job, run: Path) -> None:
    """Check that the hooks of a job are those that its run began with.

    Raises:
        MismatchError: one was added, removed or replaced, or its file has changed; the message names it.
    """
    ours, theirs = job_hooks(job), job_hooks(before)
    for key in sorted(ours.named().keys() | theirs.named().keys()):
        now, then = (hooks.named().get(key, "none") for hooks in (ours, theirs))
        if now != then:
            what, fix = f"{key} was {then}, is {now}", f"use the run's hooks, {OTHER_RUN}"
            raise MismatchError(f"this directory has different work: {what}", where=str(run), fix=fix)
    for name in sorted(ours.files):
        if ours.files[name] != theirs.files.get(name):
            kept = f"; {run / HOOKS / name} is the file that it began with" if name.endswith(SUFFIX) else ""
            fix = f"restore it, or use {OTHER_RUN}{kept}"
            raise MismatchError(f"the hook {name} has changed since the run began", where=str(run), fix=fix)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        fix = "check train.hooks: it names a .py file beside the recipe, or an installed module"
        raise ConfigError(f"the hook's file cannot be read: {error.strerror}", where=str(path), fix=fix) from error
