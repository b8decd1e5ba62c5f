"""Compare the versions of a node's libraries with those of the machine that started the work."""

from __future__ import annotations

import os
import re
import socket
import sys
from importlib.metadata import PackageNotFoundError, entry_points, requires, version
from pathlib import Path

from jprep.errors import MachineError
from jprep.plurals import and_more

_IGNORED = {"ray", "report", "test", "trackers", "view"}
"""Extras whose libraries have no part in the outputs of tasks; Ray compares its own version."""
_MAX_NAMES = 5  # differences that a message names
_SAME = "install the same versions of Python, jprep and its libraries on all nodes"


def describe_environment() -> dict[str, str]:
    """Return the versions of Python, jprep, the libraries that it uses, and the plugins; those that are installed."""
    names = {"jprep", *filter(None, map(_library, requires("jprep") or []))}
    names |= {point.dist.name for point in entry_points(group="jprep") if point.dist}
    found = {name: number for name in names if (number := _version(name))}
    return found | {"Python": f"{sys.version_info.major}.{sys.version_info.minor}"}


def check_environment(expected: dict[str, str]) -> None:
    """Refuse a node whose versions differ from those of the machine that started the work.

    A library that only one of the two has is not a difference: tasks that need it name it.

    Raises:
        MachineError: a version differs.
    """
    ours = describe_environment()
    differing = sorted(name for name in expected.keys() & ours.keys() if expected[name] != ours[name])
    if differing:
        listed = ", ".join(f"{name} {ours[name]} instead of {expected[name]}" for name in differing[:_MAX_NAMES])
        more = and_more(len(differing), _MAX_NAMES)
        raise MachineError(f"this node has other versions: {listed}{more}", where=node_name(), fix=_SAME)


def enter_folder(folder: Path) -> None:
    """Make a directory the current one, so that relative paths of inputs mean the same as where the work was started.

    Raises:
        MachineError: this node has no such directory.
    """
    try:
        os.chdir(folder)
    except OSError as error:
        what = f"this node cannot enter the directory in which the command was started: {error.strerror}"
        fix = "run the command in a directory that all nodes have at the same path"
        raise MachineError(what, where=f"{folder} on {node_name()}", fix=fix) from error


def node_name() -> str:
    """Return how messages call this machine."""
    return f"node {socket.gethostname()}"


def _library(requirement: str) -> str:
    """Return the name of a required library, or "" if it has no part in the outputs of tasks."""
    extra = re.search(r"""extra\s*==\s*['"]([\w.-]+)['"]""", requirement)
    name = re.match(r"[\w.-]+", requirement)
    return name[0] if name and not (extra and extra[1] in _IGNORED) else ""


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
