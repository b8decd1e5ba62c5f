"""The copy of a run at a URL: its objects, and the checkpoints among them. `docs/remote.md` describes the layout."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jprep.errors import DamagedError
from jprep.io.remote.folders import download_folder, upload_folder
from jprep.io.remote.objects import delete_object, download_file, join_url, list_objects, read_bytes, upload_file
from jprep.io.safe_names import inner_path
from jprep.train.run.commit import COMMIT, Commit, checkpoint_name, decode_commit
from jprep.train.run.directory import CHECKPOINTS

_COMMITTED = re.compile(rf"{CHECKPOINTS}/step-(\d{{8,}})/{COMMIT}")


class MirroredCheckpoint(NamedTuple):
    """A checkpoint in a mirror.

    Attributes:
        step: the number of updates done.
        commit: the content of its `COMMIT.json`, or the reason why that is invalid.
    """

    step: int
    commit: Commit | str


class MirroredRun:
    """The copy of a run at a URL.

    Args:
        url: the URL.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def url_of(self, name: str) -> str:
        """Return the URL of a file of the run."""
        return join_url(self.url, name)

    def checkpoint_url(self, step: int) -> str:
        """Return the URL of a checkpoint's folder."""
        return join_url(self.url, CHECKPOINTS, checkpoint_name(step))

    def read(self, name: str) -> bytes | None:
        """Return a small file of the run; None if it is not there."""
        return read_bytes(self.url_of(name))

    def upload(self, path: Path, name: str) -> None:
        """Write a file of the run."""
        upload_file(path, self.url_of(name))

    def download(self, name: str, path: Path) -> bool:
        """Read a file of the run into a file; return False if it is not there."""
        try:
            download_file(self.url_of(name), path)
        except DamagedError:  # it has no hash, so it is missing
            return False
        return True

    def checkpoints(self) -> list[MirroredCheckpoint]:
        """Return the checkpoints with a `COMMIT.json`, by step. Their other files are not read."""
        steps = sorted(int(found[1]) for name in list_objects(self.url) if (found := _COMMITTED.fullmatch(name)))
        return [MirroredCheckpoint(step, self._commit(step)) for step in steps]

    def committed(self) -> dict[int, Commit]:
        """Return the checkpoints with a valid `COMMIT.json`, by step."""
        return {step: commit for step, commit in self.checkpoints() if isinstance(commit, Commit)}

    def upload_checkpoint(self, folder: Path, commit: Commit, before_commit: Callable[[], None]) -> None:
        """Write a checkpoint, its `COMMIT.json` last. Files that have arrived are not sent again.

        Args:
            folder: its files.
            commit: the content of its `COMMIT.json`.
            before_commit: called when everything but `COMMIT.json` has arrived.

        Raises:
            JprepError: from `before_commit`; or see `jprep.io.remote.folders.upload_folder`.
        """
        files = {name: file.sha256 for name, file in commit.files.items()}
        upload_folder(folder, self.checkpoint_url(commit.step), files, COMMIT, before_last=before_commit)

    def download_checkpoint(self, commit: Commit, folder: Path) -> None:
        """Read a checkpoint into a folder, `COMMIT.json` last; what exists there with the right hash is kept.

        Raises:
            DamagedError: an object is missing or damaged; the message names it.
        """
        url = self.checkpoint_url(commit.step)
        download_folder(url, folder, {name: file.sha256 for name, file in commit.files.items()})
        download_file(join_url(url, COMMIT), folder / COMMIT)

    def delete_checkpoint(self, step: int) -> None:
        """Delete a checkpoint, its `COMMIT.json` first, so that no part of it counts as a checkpoint."""
        url = self.checkpoint_url(step)
        delete_object(join_url(url, COMMIT))
        for name in list_objects(url):
            delete_object(join_url(url, name))

    def _commit(self, step: int) -> Commit | str:
        data = read_bytes(join_url(self.checkpoint_url(step), COMMIT))
        if data is None:
            return "it has no COMMIT.json"
        commit = decode_commit(data, step)
        if isinstance(commit, Commit):
            try:
                for name in commit.files:
                    inner_path(name)
            except ValueError as error:
                return f"its COMMIT.json was changed: {error}"
        return commit
