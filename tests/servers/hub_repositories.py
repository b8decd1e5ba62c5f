"""The users, repositories, commits and files of the local Hub server."""

from __future__ import annotations

import fnmatch
import hashlib
import json
from dataclasses import dataclass, field

LFS_PATTERNS = ("*.safetensors", "*.bin", "*.idx", "*.arrow", "*.parquet", "*.tfrecord", "*.model")
"""Names that new repositories store by Git LFS, as the Hub's own `.gitattributes` does."""

LFS_BYTES = 10 << 20
"""Larger files are stored by Git LFS whatever their names."""


@dataclass(frozen=True)
class User:
    """The owner of a token."""

    name: str
    orgs: tuple[str, ...]
    role: str

    def may_write(self, namespace: str) -> bool:
        return self.role == "write" and namespace in (self.name, *self.orgs)

    def may_read(self, namespace: str) -> bool:
        return namespace in (self.name, *self.orgs)


@dataclass(frozen=True)
class StoredFile:
    """A file of a commit."""

    data: bytes
    lfs: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def pointer(self) -> bytes:
        head = "version https://git-lfs.github.com/spec/v1"
        return f"{head}\noid sha256:{self.sha256}\nsize {len(self.data)}\n".encode()

    @property
    def blob(self) -> str:
        """The id of the git blob."""
        stored = self.pointer if self.lfs else self.data
        return hashlib.sha1(b"blob %d\0" % len(stored) + stored).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.lfs else self.blob


@dataclass(frozen=True)
class Commit:
    """The files after a commit."""

    oid: str
    message: str
    files: dict[str, StoredFile]


@dataclass
class Repo:
    """A repository: the commits of `main`, the newest last."""

    name: str
    private: bool
    gated: bool = False
    commits: list[Commit] = field(default_factory=list)

    @property
    def files(self) -> dict[str, StoredFile]:
        return self.commits[-1].files

    def at(self, revision: str) -> Commit | None:
        if revision == "main":
            return self.commits[-1]
        return next((commit for commit in self.commits if commit.oid == revision), None)

    def commit(self, message: str, files: dict[str, StoredFile]) -> Commit:
        state = json.dumps([len(self.commits), self.name, message, {path: one.blob for path, one in files.items()}])
        self.commits.append(Commit(hashlib.sha1(state.encode()).hexdigest(), message, files))
        return self.commits[-1]


@dataclass(frozen=True)
class Request:
    """A logged request."""

    method: str
    path: str
    size: int


class Refusal(Exception):
    def __init__(self, status: int, message: str, code: str = "") -> None:
        self.status, self.message, self.code = status, message, code


def uses_lfs(path: str, size: int) -> bool:
    """Return whether a file is stored by Git LFS."""
    return size > LFS_BYTES or any(fnmatch.fnmatch(path.split("/")[-1], pattern) for pattern in LFS_PATTERNS)
