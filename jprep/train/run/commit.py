"""`COMMIT.json`: the manifest of a checkpoint, written last, and the check that its files are undamaged."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from pathlib import Path

import msgspec
import xxhash

from jprep.io.atomic import file_sha256
from jprep.io.retry import retry_transient
from jprep.io.shared.network_files import is_silly_rename, wait_for_file
from jprep.train.job.best import BestFigure
from jprep.typed_json import decode_json

COMMIT = "COMMIT.json"


class CheckpointFile(msgspec.Struct, frozen=True):
    """A file of a checkpoint."""

    sha256: str
    bytes: int


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """`COMMIT.json`.

    Attributes:
        step: the number of updates done.
        job: the job's fingerprint.
        loss: the validation loss, if it was measured.
        figures: the figure of the validation that `checkpoint.best` names, if it is not the loss.
        files: the files by their path below the folder.
        seal: XXH3 (128 bits) of this object as JSON with an empty seal.
    """

    step: int
    job: str
    loss: float | None
    figures: dict[str, float] | msgspec.UnsetType = msgspec.UNSET
    files: dict[str, CheckpointFile]
    seal: str = ""

    def sort_key(self, best: BestFigure) -> float | None:
        """Return a number that is lowest for the best checkpoint; None if its figure was not measured."""
        return best.sort_key(self.loss, {} if self.figures is msgspec.UNSET else self.figures)

    def sealed(self) -> Commit:
        """Return a copy with its seal."""
        bare = msgspec.structs.replace(self, seal="")
        return msgspec.structs.replace(bare, seal=xxhash.xxh3_128_hexdigest(msgspec.json.encode(bare)))


def best_first(commits: Iterable[Commit], best: BestFigure) -> list[Commit]:
    """Return the checkpoints whose figure was measured, the best first; of equal ones the earliest."""
    found = ((commit.sort_key(best), commit) for commit in commits)
    measured = [(key, commit) for key, commit in found if key is not None]
    return [commit for _, commit in sorted(measured, key=lambda one: (one[0], one[1].step))]


def checkpoint_name(step: int) -> str:
    """Return the name of a step's folder."""
    return f"step-{step:08d}"


def step_of(folder: Path) -> int:
    """Return the step of a checkpoint folder, whatever prefix its name has."""
    return int(folder.name.rpartition("-")[2])


def files_of(folder: Path) -> dict[str, Path]:
    """Return all files below a folder except `COMMIT.json` and deleted ones that NFS keeps, by their relative paths.

    Raises:
        OSError: a directory cannot be listed.
    """

    def fail(error: OSError) -> None:
        raise error

    paths = sorted(Path(parent, name) for parent, _, names in os.walk(folder, onerror=fail) for name in names)
    found = {path.relative_to(folder).as_posix(): path for path in paths}
    return {name: path for name, path in found.items() if name != COMMIT and not is_silly_rename(path.name)}


def await_files(folder: Path) -> Path:
    """Wait for the files of a checkpoint that another host may just have written, if the file system is shared.

    Args:
        folder: the checkpoint's folder.

    Returns:
        the folder.
    """
    if wait_for_file(folder / COMMIT) and isinstance(commit := read_commit(folder), Commit):
        for name in commit.files:
            wait_for_file(folder / name)
    return folder


def read_commit(folder: Path) -> Commit | str:
    """Return the content of `COMMIT.json`, or the reason why it is invalid.

    Raises:
        MachineError: it exists and cannot be read; that does not prove damage.
    """
    try:
        data = retry_transient((folder / COMMIT).read_bytes, folder / COMMIT, _unreadable(folder))
    except OSError:
        return "it has no COMMIT.json"
    return decode_commit(data, step_of(folder))


def decode_commit(data: bytes, step: int) -> Commit | str:
    """Return the content of a step's `COMMIT.json`, or the reason why it is invalid."""
    try:
        commit = decode_json(data, Commit)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return f"its COMMIT.json is damaged: {error}"
    if commit != commit.sealed() or commit.step != step:
        return "its COMMIT.json was changed"
    return commit


def find_checkpoint_damage(folder: Path, commit: Commit) -> str:
    """Return how a checkpoint's files differ from what was written, or "".

    Raises:
        MachineError: a file or directory cannot be read; that does not prove damage.
    """
    try:
        return retry_transient(lambda: _difference(folder, commit), folder, _unreadable(folder))
    except OSError as error:
        return f"{Path(error.filename or folder).name} is missing"


def _difference(folder: Path, commit: Commit) -> str:
    found = files_of(folder)
    if found.keys() != commit.files.keys():
        return f"{sorted(found.keys() ^ commit.files.keys())[0]} is missing or was added"
    for name, file in commit.files.items():
        if found[name].stat().st_size != file.bytes or file_sha256(found[name]) != file.sha256:
            return f"{name} was changed or damaged"
    return ""


def _unreadable(folder: Path) -> str:
    """Return the fix for a checkpoint that cannot be read."""
    renamed = folder.with_name(f"unreadable-{folder.name}")
    return (
        "repair the file system, then run the same command again; or use the checkpoint before this one, after "
        f"`mv {shlex.quote(str(folder))} {shlex.quote(str(renamed))}`"
    )
