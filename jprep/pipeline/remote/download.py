"""Download a finished output from a URL, as the input of the next step."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from jprep.io.atomic import write_atomic
from jprep.io.lock import hold_lock
from jprep.io.remote import download_folder
from jprep.pipeline.remote.manifests import read_remote_output

_TIMEOUT = 3600.0  # seconds to wait for another process that downloads the same output


def cache_folder() -> Path:
    """Return the folder of downloaded outputs: `JPREP_CACHE`, by default `jprep` in the user's folder of caches."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return Path(os.environ.get("JPREP_CACHE") or user / "jprep").expanduser().absolute()


def download_manifest(url: str, folder: Path) -> Path:
    """Write the manifest of a finished output to a folder, without the files that it names; return the folder.

    Args:
        url: the URL of the output.
        folder: the folder.

    Raises:
        ConfigError: there is no finished output.
        MachineError: no credentials or rights, or the disk is full or not writable.
    """
    found = read_remote_output(url)
    write_atomic(folder / found.kind.manifest, found.data)
    return folder


def download_output(url: str, say: Callable[[str], None] = lambda text: None) -> Path:
    """Return a local copy of a finished output, downloaded with checked hashes unless it exists.

    The manifest is read each time. An output that was replaced is downloaded again, to another folder.

    Args:
        url: the URL.
        say: called with a message for the user before a download.

    Raises:
        ConfigError: there is no finished output.
        DamagedError: an object is missing, or was changed or damaged.
        MachineError: no credentials or rights, or the disk is full or not writable.
    """
    found = read_remote_output(url)
    key = hashlib.sha256(url.encode() + b"\0" + found.data).hexdigest()[:32]
    folder = cache_folder() / "outputs" / key / found.kind.name.replace(" ", "-")
    manifest = folder / found.kind.manifest
    with hold_lock(folder.parent / "LOCK", timeout=_TIMEOUT):
        if not manifest.exists() or not all((folder / name).exists() for name in found.files):
            say(f"downloading the {found.kind.name} at {url} to {folder}")
            download_folder(url, folder, found.files)
            write_atomic(manifest, found.data)
    return folder
