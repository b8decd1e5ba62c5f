"""Download a repository of the Hugging Face Hub into the user's cache."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from jprep.errors import ConfigError, DamagedError, MachineError
from jprep.hub.client import UnavailableError, api, cache_folder, endpoint, find_token, hub_errors, is_offline, library
from jprep.hub.names import Kind, looks_like_name
from jprep.io.atomic import file_sha256

_log = logging.getLogger(__name__)

_COMMIT = re.compile(r"[0-9a-f]{40}")
_BLOB = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def download(
    name: str,
    *,
    revision: str = "main",
    patterns: Sequence[str] = (),
    kind: Kind = "model",
    token: str | None = None,
) -> Path:
    """Download files of a repository, unless they are in the cache, and check their hashes.

    HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE are respected; offline, files come from the cache.

    Args:
        name: `org/name`, or `name`.
        revision: a branch, a tag or a commit.
        patterns: shell patterns of the files to download; by default all.
        kind: the kind of the repository.
        token: a token; by default HF_TOKEN, or that of `hf auth login`.

    Returns:
        The folder in the user's cache. Its name is the commit, see `commit_of`.

    Raises:
        ConfigError: there is no such repository, revision or file, or the token is missing or without access.
        DamagedError: a file in the cache differs from its hash.
        MachineError: the library is not installed, the Hub cannot be reached, or the disk is full.
    """
    if not looks_like_name(name):
        raise ConfigError(f"{name!r} is neither a folder nor a name on the Hub", where=name, fix='e.g. "org/name"')
    unreachable = None if is_offline() else _unreachable(name, revision, kind, token)
    try:
        snapshot = _snapshot(name, revision, patterns, kind, token, cached=is_offline() or unreachable is not None)
    except MachineError as error:
        raise unreachable or error from error
    if unreachable:
        _log.warning("%s; using commit %s of %s from the cache", unreachable.what, commit_of(snapshot), name)
    files = sorted(path for path in snapshot.rglob("*") if path.is_file())
    if not files:
        what = f"the repository has no file {' or '.join(patterns)}"
        raise ConfigError(what, where=f"{endpoint()}/{name}", fix="check the name and the revision")
    _verify(files)
    return snapshot


def commit_of(folder: Path) -> str:
    """Return the commit of a downloaded folder; "" for any other folder."""
    return folder.name if folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name) else ""


def name_of(folder: Path) -> str:
    """Return the name of the repository of a downloaded folder; "" for any other folder."""
    kind, *parts = folder.parent.parent.name.split("--")
    return "/".join(parts) if commit_of(folder) and kind in ("models", "datasets") else ""


def _unreachable(name: str, revision: str, kind: Kind, token: str | None) -> UnavailableError | None:
    """Return the error if the Hub cannot be reached. A wrong name is an error whatever is in the cache."""
    try:
        with hub_errors(name, "download"):
            api(find_token(token)).repo_info(name, repo_type=kind, revision=revision)
    except UnavailableError as error:
        return error
    return None


def _snapshot(
    name: str, revision: str, patterns: Sequence[str], kind: Kind, token: str | None, *, cached: bool
) -> Path:
    """Return the folder of a snapshot; if `cached`, without any request."""
    found = library()
    with hub_errors(name, "download"):
        folder = found.snapshot_download(
            name,
            repo_type=kind,
            revision=revision,
            allow_patterns=list(patterns) or None,
            endpoint=endpoint(),
            token=find_token(token) or False,
            local_files_only=cached,
            cache_dir=cache_folder(),
        )
    return Path(folder)


def _verify(files: Iterable[Path]) -> None:
    """Check files against the names of their blobs, which are hashes: SHA-256, or the id of a git blob.

    Without symbolic links the cache has no blobs, and nothing can be checked.
    """
    for path in files:
        blob = path.readlink().name if path.is_symlink() else ""
        if _BLOB.fullmatch(blob) and blob != (file_sha256(path) if len(blob) == 64 else _git_blob(path)):
            fix = f"delete {path.resolve()}: the same command downloads it again"
            raise DamagedError("this file of the Hub's cache is damaged", where=str(path), fix=fix)


def _git_blob(path: Path) -> str:
    """Return the id of a small file as a git blob."""
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
