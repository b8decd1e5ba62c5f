"""`COMMIT.json`: what says that a checkpoint is whole, and whether it still is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import xxhash

from jprep.io.atomic import sha256_of

COMMIT = "COMMIT.json"


class File(msgspec.Struct, frozen=True):
    """A file of a checkpoint."""

    sha256: str
    bytes: int


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """`COMMIT.json`.

    Attributes:
        step: how many updates were done.
        job: the job's fingerprint.
        loss: on the validation split, if it was measured.
        files: by path below the folder.
        seal: XXH3 (128 bits) of all of this as JSON with an empty seal.
    """

    step: int
    job: str
    loss: float | None
    files: dict[str, File]
    seal: str = ""

    def sealed(self) -> Commit:
        """Itself with its seal."""
        bare = msgspec.structs.replace(self, seal="")
        return msgspec.structs.replace(bare, seal=xxhash.xxh3_128_hexdigest(msgspec.json.encode(bare)))


def name_of(step: int) -> str:
    """The name of a step's folder."""
    return f"step-{step:08d}"


def step_of(folder: Path) -> int:
    """The step of a folder of that name, whatever mark stands before it."""
    return int(folder.name.rpartition("-")[2])


def files_of(folder: Path) -> dict[str, Path]:
    """All files below it but COMMIT itself."""
    found = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if not path.is_dir()}
    return {name: path for name, path in found.items() if name != COMMIT}


def read_commit(folder: Path) -> Commit | str:
    """What COMMIT says, or what is wrong with it."""
    try:
        commit = msgspec.json.decode((folder / COMMIT).read_bytes(), type=Commit)
    except FileNotFoundError:
        return "it has no COMMIT.json"
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        return f"its COMMIT.json cannot be read: {error}"
    if commit != commit.sealed() or commit.step != step_of(folder):
        return "its COMMIT.json was changed"
    return commit


def damage(folder: Path, commit: Commit) -> str:
    """What is wrong with a checkpoint's files, or ""."""
    found = files_of(folder)
    if found.keys() != commit.files.keys():
        return f"{sorted(found.keys() ^ commit.files.keys())[0]} is missing or was added"
    for name, file in commit.files.items():
        try:
            if found[name].stat().st_size != file.bytes or sha256_of(found[name]) != file.sha256:
                return f"{name} is not what was written"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    return ""
