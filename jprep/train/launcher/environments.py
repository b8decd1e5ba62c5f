"""A separate Python environment for each backend, so that the pinned versions of one never conflict with another's."""

from __future__ import annotations

import contextlib
import importlib.metadata
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
from jprep.io.atomic import remove_tree, write_atomic
from jprep.io.environments import (
    ENVIRONMENTS_VARIABLE,
    STAMP,
    InstalledEnvironment,
    environment_folders,
    interpreter,
    read_stamp,
)
from jprep.io.lock import hold_lock
from jprep.io.os_errors import write_error
from jprep.io.safe_names import check_name
from jprep.plugins.hookspecs import PROJECT
from jprep.train.backend import Backend, Environment
from jprep.train.launcher.import_probe import NotInstalledError, check_importable
from jprep.train.launcher.package_installer import install_packages

_NO_DEPS = "-no-deps"
_EXTRA, _NAME = re.compile(r";.*\bextra\b"), re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ORIGIN = "direct_url.json"
_ALWAYS = 'python_version > "3"'


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
    """Create a backend's environment, unless one with the same requirements exists.

    Args:
        name: the environment's name.
        requires: the requirements, such as the result of `worker_requirements`.
        folder: the folder of all environments; by default `default_environment_folder()`.
        own: distributions of this environment to install there from the same source: jprep and the backend's package.
        bare: requirements to install with `--no-deps`, see `no_deps_requirements`.
        constraints: constraints files for pip.
        options: pip options, such as `--no-index`; see `install_packages`.
        restart: create it again even if it exists.
        say: called with each line that pip or uv prints.

    Returns:
        The environment's interpreter.

    Raises:
        ConfigError: the name is invalid, a distribution of `own` is not installed here, or a constraints file cannot be
            read.
        MachineError: pip fails, the disk is full, or another process installs there.
    """
    if not name.replace("-", "_").isidentifier():
        raise ConfigError(f"{name!r} is not a valid backend name", fix="see `jprep backends list`")
    environment = environment_path(name, folder)
    wanted = [requirement for each in own for requirement in pip_requirements(each)] + list(requires)
    pins = _pins(constraints)
    with hold_lock(environment.parent / f".{name}.lock"):
        stamp = read_stamp(environment)
        if restart or stamp is None or (stamp.requires, stamp.constraints, stamp.bare) != (wanted, pins, list(bare)):
            more = [part for path in constraints for part in ("--constraint", str(path.absolute()))]
            with _replacing(environment):
                _create(environment)
                install_packages(interpreter(environment), [*more, *wanted], options, say)
                if bare:
                    install_packages(interpreter(environment), [*more, "--no-deps", *bare], options, say)
                made = msgspec.structs.replace(_stamp(name, environment, wanted, pins), bare=list(bare))
                write_atomic(environment / STAMP, msgspec.json.format(msgspec.json.encode(made), indent=1))
    return interpreter(environment)


def local_distributions(distribution: str) -> list[str]:
    """Return the distributions that a backend's environment gets from the same source as this environment.

    They are jprep, the backend's package, and those of their requirements that are plugins or models of jprep and were
    not installed from an index, such as the checkout of another backend.

    Raises:
        ConfigError: it is not installed.
    """
    found = ["jprep", distribution]
    for one in found:
        for requirement in _distribution(one).requires or []:
            name, extra = _NAME.match(requirement), _EXTRA.search(requirement)
            if name and not extra and name[0] not in found and _is_local_plugin(name[0]):
                found.append(name[0])
    return found


def worker_requirements(environment: Environment) -> list[str]:
    """Return the requirements of a backend's worker: extras of a distribution, from its installed metadata.

    Raises:
        ConfigError: the distribution is not installed.
    """
    return [requirement for extra in environment.extras for requirement in _extra(environment.distribution, extra)]


def no_deps_requirements(environment: Environment) -> list[str]:
    """Return the requirements of a worker that are installed with `--no-deps`: the extras ending in `-no-deps`.

    They are packages whose declared requirements current versions of pip cannot satisfy; the other extras list what
    they really need.

    Raises:
        ConfigError: the distribution is not installed.
    """
    return [
        requirement
        for extra in environment.extras
        for requirement in _extra(environment.distribution, extra + _NO_DEPS)
    ]


def environment_path(name: str, folder: Path | None = None) -> Path:
    """Return the path of an environment, or where it would be created.

    Raises:
        ConfigError: the name is not a valid folder name.
    """
    check_name(name, what="a backend's environment", where=name, fix="the backend's authors have to rename it")
    paths = [parent / name for parent in _search_path(folder)]
    return next((path for path in paths if read_stamp(path)), paths[0])


def _search_path(folder: Path | None) -> list[Path]:
    return [path.expanduser().absolute() for path in ([folder] if folder else environment_folders())]


def worker_python(backend: Backend, options: Any = None, folder: Path | None = None) -> Path:
    """Return the interpreter for a backend's worker: of its environment, or this one if it can import the worker.

    Args:
        backend: the backend.
        options: the backend's own options; by default their default values.
        folder: the folder of all environments.

    Raises:
        NotInstalledError: neither can run the worker.
        ImportTimeoutError: importing the worker here takes too long.
        MachineError: the worker is installed here, but cannot be imported.
    """
    environment = backend.environment(backend.Options() if options is None else options)
    for path in (environment_path(name, folder) for name in (environment.name, *environment.also)):
        if read_stamp(path) is not None and interpreter(path).exists():
            return interpreter(path)
    try:
        check_importable(Path(sys.executable), f"{backend.module}.worker", environment.needs)
    except NotInstalledError as error:
        what = f"the backend {backend.name} is not installed: {error.what}"
        fix = f"jprep backends install {environment.install}"
        raise NotInstalledError(what, where=str(environment_path(environment.name, folder)), fix=fix) from error
    except MachineError as error:
        raise error.replace(what=f"the backend {backend.name}: {error.what}") from error
    return Path(sys.executable)


def worker_command(backend: Backend, options: Any, command: str, *paths: Path) -> list[str]:
    """Return the command of a backend's worker. Files in the working directory are not imported (`-P`).

    Args:
        backend: the backend.
        options: the backend's own options; None for the default values.
        command: the subcommand: `train`, `export` or `infer`.
        paths: its arguments.

    Raises:
        MachineError: see `worker_python`.
    """
    python = str(worker_python(backend, options))
    return [python, "-P", "-m", f"{backend.module}.worker", command, *(str(path.absolute()) for path in paths)]


def installed_environments(folder: Path | None = None) -> list[InstalledEnvironment]:
    """Return the complete environments, sorted by name."""
    found = [path.parent for parent in _search_path(folder) for path in parent.glob(f"*/{STAMP}")]
    return sorted((stamp for path in found if (stamp := read_stamp(path))), key=lambda stamp: stamp.name)


def pip_requirements(distribution: str) -> list[str]:
    """Return the pip arguments that install a distribution from its source here: checkout, file or version.

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
    """Return the requirements of an extra, with the rest of their markers."""
    asked = re.compile(rf"""extra\s*==\s*(['"]){extra}\1""")
    found = []
    for line in _distribution(distribution).requires or []:
        requirement, _, marker = line.partition(";")
        if asked.search(marker):
            rest = asked.sub(_ALWAYS, marker).strip()
            found.append(requirement.strip() if rest == _ALWAYS else f"{requirement.strip()} ; {rest}")
    return found


def _is_local_plugin(name: str) -> bool:
    """Return whether a distribution is a plugin or a model of jprep that was installed from a checkout or a file."""
    with contextlib.suppress(ConfigError):
        found = _distribution(name)
        return found.read_text(_ORIGIN) is not None and any(_is_group(point.group) for point in found.entry_points)
    return False


def _is_group(group: str) -> bool:
    """Return whether a group of entry points is that of plugins, or one of models such as `jprep_pointwise`."""
    return group == PROJECT or group.startswith(f"{PROJECT}_")


def _distribution(name: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        fix = f"pip install {name}"
        raise ConfigError(f"the distribution {name} is not installed here", fix=fix) from error


def _pins(constraints: Sequence[Path]) -> list[str]:
    """Return the lines of constraints files, without comments."""
    try:
        lines = [line.partition("#")[0].strip() for path in constraints for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"a constraints file cannot be read: {error}", fix="check --constraint") from error
    return [line for line in lines if line]


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[None]:
    """Keep the existing environment until a new one has replaced it; restore it after an exception.

    Environments contain their own path, so the new one cannot be created elsewhere and moved.
    """
    if path.is_symlink():
        fix = f"delete the link, or set {ENVIRONMENTS_VARIABLE} to another folder"
        raise ConfigError("the path of the environment is a symbolic link", where=str(path), fix=fix)
    kept = path.with_name(f".{path.name}.before")
    if not kept.exists():  # otherwise a killed installation left it, and part of an environment in its place
        with contextlib.suppress(FileNotFoundError):
            path.rename(kept)
    try:
        remove_tree(path)
        yield
    except BaseException:
        remove_tree(path)
        with contextlib.suppress(FileNotFoundError):
            kept.rename(path)
        raise
    remove_tree(kept)


def _create(path: Path) -> None:
    try:
        venv.EnvBuilder(with_pip=True).create(path)
    except (OSError, subprocess.CalledProcessError) as error:
        if isinstance(error, OSError):
            raise write_error(error, path) from error
        raise MachineError(
            "this Python cannot create environments", where=sys.executable, fix="install python3-venv"
        ) from error


def _stamp(name: str, path: Path, wanted: list[str], pins: list[str]) -> InstalledEnvironment:
    code = (
        "import importlib.metadata as m, json, platform;"
        "print(json.dumps([platform.python_version(), {d.metadata['Name']: d.version for d in m.distributions()}]))"
    )
    done = subprocess.run([str(interpreter(path)), "-c", code], capture_output=True, text=True, check=True)
    python, packages = msgspec.json.decode(done.stdout)
    packages = dict(sorted(packages.items()))
    return InstalledEnvironment(name=name, requires=wanted, python=python, packages=packages, constraints=pins)
