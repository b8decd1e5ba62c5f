"""An environment of its own for each backend, so that one's old pins and another's new ones never meet."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from jprep.errors import ConfigError, MachineError
from jprep.io.atomic import remove_tree, write_atomic, write_error
from jprep.io.lock import hold_lock
from jprep.io.safe_names import check_name
from jprep.plugins.hookspecs import PROJECT
from jprep.train.backend import Backend, Environment, environment_of
from jprep.train.launcher.import_probe import NotInstalledError, check_importable
from jprep.train.launcher.package_installer import install_packages

ENVIRONMENTS_VARIABLE = "JPREP_BACKENDS"
STAMP = "jprep-backend.json"

_CACHE = ("XDG_CACHE_HOME", ".cache", "Library/Caches")
"""Where earlier versions of jprep made environments."""
_BARE = "-no-deps"
_EXTRA, _NAME = re.compile(r";.*\bextra\b"), re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ORIGIN = "direct_url.json"
_ALWAYS = 'python_version > "3"'


class InstalledEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """`jprep-backend.json`, written last: an environment without it is not finished.

    Attributes:
        name: its own.
        requires: what was asked for, as pip was given it.
        python: the version of Python.
        packages: the version of every distribution that is there.
        constraints: the versions that pip was held to.
        bare: what was asked for after that, without what it requires itself.
    """

    name: str
    requires: list[str]
    python: str
    packages: dict[str, str]
    constraints: list[str] = []
    bare: list[str] = []


def default_environment_folder() -> Path:
    """Return where environments are made.

    What `JPREP_BACKENDS` says; else `backends` in the virtual environment that jprep runs in, so that any shell finds
    them; else, where there is none or it is read-only, the user's data folder.
    """
    return environment_folders()[0]


def environment_folders() -> list[Path]:
    """Return where environments are looked for, the folder of new ones first."""
    if given := os.environ.get(ENVIRONMENTS_VARIABLE):
        return [Path(given).expanduser()]
    own = Path(sys.prefix)
    virtual = [own / "backends"] if sys.prefix != sys.base_prefix else []
    users = [_user_folder("XDG_DATA_HOME", ".local/share", "Library/Application Support"), _user_folder(*_CACHE)]
    return [*virtual, *users] if os.access(own, os.W_OK) else [*users, *virtual]


def _user_folder(variable: str, linux: str, macos: str) -> Path:
    given = os.environ.get(variable)
    if sys.platform == "darwin":
        return Path.home() / macos / "jprep" / "backends"
    return (Path(given) if given else Path.home() / linux) / "jprep" / "backends"


def install_environment(
    name: str,
    requires: Sequence[str],
    folder: Path | None = None,
    *,
    own: Sequence[str] = ("jprep",),
    bare: Sequence[str] = (),
    constraints: Sequence[Path] = (),
    options: Sequence[str] = (),
    restart: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Make a backend's environment, or leave it if it is the one that was asked for.

    Args:
        name: its own.
        requires: what pip installs, e.g. what `requires` gives.
        folder: of all environments; by default `default_environment_folder()`.
        own: distributions of this environment that go there as they are here: jprep, and the backend's package.
        bare: what pip installs after that, without what it requires itself: see `no_deps_requirements`.
        constraints: files of versions that pip keeps to.
        options: options of pip's, e.g. `--no-index`; see `install_packages`.
        restart: make it anew whatever is there.
        say: called with each line that pip or uv prints.

    Returns:
        its interpreter.

    Raises:
        ConfigError: the name is none, a distribution of `own` is not installed here, or a file cannot be read.
        MachineError: pip fails, the disk is full, or another process installs there.
    """
    if not name.replace("-", "_").isidentifier():
        raise ConfigError(f"{name!r} is no name of a backend", fix="`jprep backends list` has the names")
    place = environment_path(name, folder)
    wanted = [requirement for one in own for requirement in pip_requirements(one)] + list(requires)
    pins = _pins(constraints)
    with hold_lock(place.parent / f".{name}.lock"):
        stamp = read_stamp(place)
        if restart or stamp is None or (stamp.requires, stamp.constraints, stamp.bare) != (wanted, pins, list(bare)):
            more = [part for path in constraints for part in ("--constraint", str(path.absolute()))]
            with _in_its_place(place):
                _make(place)
                install_packages(interpreter(place), [*more, *wanted], options, say)
                if bare:
                    install_packages(interpreter(place), [*more, "--no-deps", *bare], options, say)
                made = msgspec.structs.replace(_stamp(name, place, wanted, pins), bare=list(bare))
                write_atomic(place / STAMP, msgspec.json.format(msgspec.json.encode(made), indent=1))
    return interpreter(place)


def local_distributions(distribution: str) -> list[str]:
    """What goes to a backend's environment as it is here: jprep, the backend's package, and of what that one builds on
    whatever was not installed from an index, e.g. the checkout of another backend.

    Raises:
        ConfigError: it is not installed.
    """
    found = ["jprep", distribution]
    for one in found:
        for requirement in _distribution(one).requires or []:
            name, extra = _NAME.match(requirement), _EXTRA.search(requirement)
            if name and not extra and name[0] not in found and _from_elsewhere(name[0]):
                found.append(name[0])
    return found


def requires(home: Environment) -> list[str]:
    """What a backend's heavy half needs: extras of a distribution, as the installed metadata says.

    Raises:
        ConfigError: the distribution is not installed.
    """
    return [one for extra in home.extras for one in _extra(home.distribution, extra)]


def no_deps_requirements(home: Environment) -> list[str]:
    """What it needs besides, installed without its own requirements: the extras that end in `-no-deps`.

    Of a package whose requirements no pip of today can meet, the other extras name those that it really has.

    Raises:
        ConfigError: the distribution is not installed.
    """
    return [one for extra in home.extras for one in _extra(home.distribution, extra + _BARE)]


def environment_path(name: str, folder: Path | None = None) -> Path:
    """Return where an environment is, or would be made.

    Raises:
        ConfigError: the name cannot be a folder's.
    """
    check_name(name, what="a backend's environment", where=name, fix="the backend's authors have to rename it")
    places = [place / name for place in _places(folder)]
    return next((place for place in places if read_stamp(place)), places[0])


def _places(folder: Path | None) -> list[Path]:
    return [place.expanduser().absolute() for place in ([folder] if folder else environment_folders())]


def worker_python(half: Backend, options: Any = None, folder: Path | None = None) -> Path:
    """The interpreter that runs a backend: its own environment's, or this one where its worker can be imported here.

    Args:
        half: the backend's light half.
        options: its own options; by default what they are if nobody says anything.
        folder: of all environments.

    Raises:
        NotInstalledError: there is neither.
        SlowError: it is not known, because importing the worker takes too long.
        MachineError: the worker can be found here, and not imported.
    """
    home = environment_of(half, half.Options() if options is None else options)
    for place in (environment_path(name, folder) for name in (home.name, *home.also)):
        if read_stamp(place) is not None and interpreter(place).exists():
            return interpreter(place)
    try:
        check_importable(Path(sys.executable), f"{half.module}.worker", home.needs)
    except NotInstalledError as error:
        what = f"the backend {half.name} is not installed: {error.what}"
        fix = f"jprep backends install {home.install}"
        raise NotInstalledError(what, where=str(environment_path(home.name, folder)), fix=fix) from error
    except MachineError as error:
        raise type(error)(f"the backend {half.name}: {error.what}", where=error.where, fix=error.fix) from error
    return Path(sys.executable)


def worker_command(half: Backend, options: Any, verb: str, *paths: Path) -> list[str]:
    """The command of a backend's worker. No file of the working directory is taken for a library (`-P`).

    Raises:
        MachineError: see `worker_python`.
    """
    python = str(worker_python(half, options))
    return [python, "-P", "-m", f"{half.module}.worker", verb, *(str(path.absolute()) for path in paths)]


def installed_environments(folder: Path | None = None) -> list[InstalledEnvironment]:
    """The finished environments, by name."""
    found = [path.parent for place in _places(folder) for path in place.glob(f"*/{STAMP}")]
    return sorted((stamp for place in found if (stamp := read_stamp(place))), key=lambda stamp: stamp.name)


def read_stamp(place: Path) -> InstalledEnvironment | None:
    """What is installed in an environment; None where it is not finished."""
    try:
        return msgspec.json.decode((place / STAMP).read_bytes(), type=InstalledEnvironment)
    except (OSError, ValueError):
        return None


def interpreter(place: Path) -> Path:
    """An environment's Python."""
    return place / "bin" / "python"


def pip_requirements(distribution: str) -> list[str]:
    """What pip has to be given for a distribution as it is here: its checkout, its file, or its version.

    Raises:
        ConfigError: it is not installed.
    """
    about = _distribution(distribution)
    origin = about.read_text(_ORIGIN)
    if origin is None:
        return [f"{distribution}=={about.version}"]
    found = msgspec.json.decode(origin)
    if source := found.get("vcs_info"):
        return [f"{source['vcs']}+{found['url']}@{source['commit_id']}"]
    editable = found.get("dir_info", {}).get("editable", False)
    parts = urlsplit(found["url"])
    return [*(["--editable"] if editable else []), unquote(parts.path) if parts.scheme == "file" else found["url"]]


def _extra(distribution: str, extra: str) -> list[str]:
    """The requirements of an extra, with what else their markers say."""
    asked = re.compile(rf"""extra\s*==\s*(['"]){extra}\1""")
    found = []
    for one in _distribution(distribution).requires or []:
        requirement, _, marker = one.partition(";")
        if asked.search(marker):
            rest = asked.sub(_ALWAYS, marker).strip()
            found.append(requirement.strip() if rest == _ALWAYS else f"{requirement.strip()} ; {rest}")
    return found


def _from_elsewhere(name: str) -> bool:
    """Whether it is a plugin of jprep's that no index has: a checkout or a file."""
    with contextlib.suppress(ConfigError):
        found = _distribution(name)
        return found.read_text(_ORIGIN) is not None and any(point.group == PROJECT for point in found.entry_points)
    return False


def _distribution(name: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        fix = f"pip install {name}"
        raise ConfigError(f"the distribution {name} is not installed here", fix=fix) from error


def _pins(constraints: Sequence[Path]) -> list[str]:
    """The lines of constraints files, without comments."""
    try:
        lines = [line.partition("#")[0].strip() for path in constraints for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the constraints cannot be read: {error}", fix="check --constraint") from error
    return [line for line in lines if line]


@contextlib.contextmanager
def _in_its_place(place: Path) -> Iterator[None]:
    """Keep the environment that stands until another one has taken its place; bring it back if none does.

    Environments hold their own path, so the new one cannot be made elsewhere and moved.
    """
    if place.is_symlink():
        fix = f"delete the link, or set {ENVIRONMENTS_VARIABLE} to a folder where environments shall be"
        raise ConfigError("a link stands where the environment would be made anew", where=str(place), fix=fix)
    kept = place.with_name(f".{place.name}.before")
    if not kept.exists():  # else a killed installation has left it there, and half an environment in its place
        with contextlib.suppress(FileNotFoundError):
            place.rename(kept)
    try:
        remove_tree(place)
        yield
    except BaseException:
        remove_tree(place)
        with contextlib.suppress(FileNotFoundError):
            kept.rename(place)
        raise
    remove_tree(kept)


def _make(place: Path) -> None:
    try:
        venv.EnvBuilder(with_pip=True).create(place)
    except (OSError, subprocess.CalledProcessError) as error:
        if isinstance(error, OSError):
            raise write_error(error, place) from error
        raise MachineError(
            "this Python cannot make environments", where=sys.executable, fix="install python3-venv"
        ) from error


def _stamp(name: str, place: Path, wanted: list[str], pins: list[str]) -> InstalledEnvironment:
    code = (
        "import importlib.metadata as m, json, platform;"
        "print(json.dumps([platform.python_version(), {d.metadata['Name']: d.version for d in m.distributions()}]))"
    )
    done = subprocess.run([str(interpreter(place)), "-c", code], capture_output=True, text=True, check=True)
    python, packages = msgspec.json.decode(done.stdout)
    packages = dict(sorted(packages.items()))
    return InstalledEnvironment(name=name, requires=wanted, python=python, packages=packages, constraints=pins)
