"""Find out how locks work in a directory: by the type of its file system, as Linux lists it."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import Literal, NamedTuple

LOCKS_VARIABLE = "JPREP_LOCKS"
"""Overrides what is detected: `flock` works `across` hosts, on one `host`, or `none`."""

Flock = Literal["local", "across", "host", "none"]
"""Where `flock` excludes others: on a disk of one host; across hosts; only on one host; nowhere."""

_DISKS = ("bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuseblk", "hfs", "hfsplus", "jfs", "msdos")
_MORE_DISKS = ("nilfs2", "ntfs", "ntfs3", "reiserfs", "ufs", "vfat", "xfs", "zfs", "erofs", "iso9660", "squashfs")
_OTHERS = ("udf", "devtmpfs", "ramfs", "rootfs", "tmpfs", "aufs", "overlay", "fuse-overlayfs")
_LOCAL = frozenset((*_DISKS, *_MORE_DISKS, *_OTHERS))
_CLUSTER = frozenset(("ceph", "gfs", "gfs2", "ocfs2"))
"""File systems that keep `flock` for all hosts."""

_DESCRIPTIONS: dict[Flock, str] = {
    "local": "flock",
    "across": "flock across hosts",
    "host": "flock on this host + lease",
    "none": "lease only",
}
_OVERRIDES: dict[str, Flock] = {"across": "across", "host": "host", "none": "none"}
_MOUNTS = Path("/proc/self/mountinfo")


class FileSystem(NamedTuple):
    """A mounted file system.

    Attributes:
        type: its type, e.g. `ext4`, `nfs4`; "" if unknown.
        flock: where `flock` works, as its type and options say.
    """

    type: str
    flock: Flock

    @property
    def shared(self) -> bool:
        """Whether other hosts may have it mounted, or it is unknown whether they do."""
        return self.flock != "local"


def describe_flock(flock: Flock) -> str:
    """Return how a directory is locked where `flock` works so far."""
    return _DESCRIPTIONS[flock]


def file_system_of(path: Path) -> FileSystem:
    """Return the file system that holds a path, or that would hold it.

    Where the system does not list its mounts (macOS, no /proc), a local one is assumed.
    """
    mounted, options = _mount_of(path)
    return FileSystem(mounted, _OVERRIDES.get(os.environ.get(LOCKS_VARIABLE, "")) or flock_of(mounted, options))


def flock_of(mounted: str, options: frozenset[str]) -> Flock:
    """Return where `flock` works.

    Args:
        mounted: the type of a file system.
        options: its options, of the mount and of the file system.
    """
    kind = mounted.removeprefix("fuse.")
    if kind in _LOCAL or not mounted:
        return "local"
    if kind in _CLUSTER and mounted == kind:
        return "across"
    if kind in ("nfs", "nfs4"):
        return "host" if options & {"nolock", "local_lock=flock", "local_lock=all"} else "across"
    if kind == "lustre":
        return "across" if "flock" in options else "none" if "noflock" in options else "host"
    return "host"


@functools.lru_cache(256)
def _mount_of(path: Path) -> tuple[str, frozenset[str]]:
    """Return type and options of the mount that holds a path; of mounts over each other, the last one counts."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return "", frozenset()
    place, found, longest = os.path.realpath(path), ("", frozenset[str]()), -1
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        point = _unescape(fields[4])
        if len(point) >= longest and (place == point or place.startswith(f"{point.rstrip('/')}/")):
            found, longest = (rest[0], frozenset(f"{fields[5]},{rest[-1]}".split(","))), len(point)
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
