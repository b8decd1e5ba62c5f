"""An environment of its own for each backend, so that one's old pins and another's new ones never meet."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import msgspec

from jprep.errors import ConfigError, MachineError
from jprep.io.atomic import disk_error, remove_tree, write_atomic
from jprep.io.lock import locked

VARIABLE = "JPREP_BACKENDS"
STAMP = "jprep-backend.json"

_TAIL = 1500  # characters of pip's complaint that are shown


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """`jprep-backend.json`, written last: an environment without it is not finished.

    Attributes:
        name: the backend's.
        requires: what was asked for, as pip was given it.
        python: the version of Python.
        packages: the version of every distribution that is there.
    """

    name: str
    requires: list[str]
    python: str
    packages: dict[str, str]


def default_folder() -> Path:
    """Where environments are: what `JPREP_BACKENDS` says, else in the user's cache."""
    if given := os.environ.get(VARIABLE):
        return Path(given).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "jprep" / "backends"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "jprep" / "backends"


def install(
    name: str,
    requires: Sequence[str],
    folder: Path | None = None,
    *,
    own: Sequence[str] = ("jprep",),
    options: Sequence[str] = (),
) -> Path:
    """Make a backend's environment, or leave it if it is the one that was asked for.

    Args:
        name: the backend's.
        requires: what pip installs.
        folder: of all environments; by default `default_folder()`.
        own: distributions of this environment that go there as they are here: jprep, and the backend's package.
        options: more of pip's, e.g. `--no-index`.

    Returns:
        its interpreter.

    Raises:
        ConfigError: the name is none, or a distribution of `own` is not installed here.
        MachineError: pip fails, the disk is full, or another process installs there.
    """
    if not name.replace("-", "_").isidentifier():
        raise ConfigError(f"{name!r} is no name of a backend", fix="`jprep backends list` has the names")
    place = (folder or default_folder()).expanduser().absolute() / name
    wanted = [requirement for one in own for requirement in as_installed(one)] + list(requires)
    with locked(place.parent / f".{name}.lock"):
        stamp = read_stamp(place)
        if stamp is None or stamp.requires != wanted:
            _make(place, wanted, options)
            write_atomic(place / STAMP, msgspec.json.format(msgspec.json.encode(_stamp(name, place, wanted)), indent=1))
    return interpreter(place)


def python_of(name: str, module: str, folder: Path | None = None) -> Path:
    """The interpreter that runs a backend: its own environment's, or this one where its worker can be imported here.

    Args:
        name: the backend's.
        module: the package of its heavy half, e.g. `jprep_torch`.
        folder: of all environments.

    Raises:
        MachineError: there is neither.
    """
    place = (folder or default_folder()).expanduser().absolute() / name
    if read_stamp(place) is not None and interpreter(place).exists():
        return interpreter(place)
    # Asked in another process: a framework that is imported stays, with its threads and its hold on devices.
    command = [sys.executable, "-c", f"import {module}.worker"]
    tried = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if tried.returncode == 0:
        return Path(sys.executable)
    problem = (tried.stderr.strip().splitlines() or ["it says nothing"])[-1]
    what = f"the backend {name} is not installed: {problem}"
    raise MachineError(what, where=str(place), fix=f"jprep backends install {name}")


def installed(folder: Path | None = None) -> list[Installed]:
    """The finished environments, by name."""
    places = sorted((folder or default_folder()).expanduser().glob(f"*/{STAMP}"))
    return [stamp for path in places if (stamp := read_stamp(path.parent))]


def read_stamp(place: Path) -> Installed | None:
    """What is installed in an environment; None where it is not finished."""
    try:
        return msgspec.json.decode((place / STAMP).read_bytes(), type=Installed)
    except (OSError, msgspec.MsgspecError):
        return None


def interpreter(place: Path) -> Path:
    """An environment's Python."""
    return place / "bin" / "python"


def as_installed(distribution: str) -> list[str]:
    """What pip has to be given for a distribution as it is here: its checkout, its file, or its version.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        about = importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError as error:
        fix = f"pip install {distribution}"
        raise ConfigError(f"the distribution {distribution} is not installed here", fix=fix) from error
    origin = about.read_text("direct_url.json")
    if origin is None:
        return [f"{distribution}=={about.version}"]
    found = msgspec.json.decode(origin)
    editable = found.get("dir_info", {}).get("editable", False)
    return [*(["--editable"] if editable else []), found["url"].removeprefix("file://")]


def _make(place: Path, wanted: list[str], options: Sequence[str]) -> None:
    try:
        remove_tree(place)
        venv.EnvBuilder(with_pip=True).create(place)
    except (OSError, subprocess.CalledProcessError) as error:
        if isinstance(error, OSError):
            raise disk_error(error, place) from error
        raise MachineError(
            "this Python cannot make environments", where=sys.executable, fix="install python3-venv"
        ) from error
    command = [str(interpreter(place)), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    done = subprocess.run([*command, *options, *wanted], capture_output=True, text=True, errors="replace")
    if done.returncode:
        what = f"pip could not install it:\n{done.stderr.strip()[-_TAIL:]}"
        raise MachineError(what, where=str(place), fix="mend what pip says, then run the same command again")


def _stamp(name: str, place: Path, wanted: list[str]) -> Installed:
    code = (
        "import importlib.metadata as m, json, platform;"
        "print(json.dumps([platform.python_version(), {d.metadata['Name']: d.version for d in m.distributions()}]))"
    )
    done = subprocess.run([str(interpreter(place)), "-c", code], capture_output=True, text=True, check=True)
    python, packages = msgspec.json.decode(done.stdout)
    return Installed(name=name, requires=wanted, python=python, packages=dict(sorted(packages.items())))
