"""Steps from a user's own file: `use = "./my_filters.py:TooLoud"`. Its source is hashed, its path is not."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import inspect
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from jprep.config import suggest_name
from jprep.errors import ConfigError

BASES = {
    kind: f"jprep.corpus.step:{kind.capitalize()}"
    for kind in ("reader", "normalizer", "splitter", "filter", "signal", "segmenter")
}
"""The kinds of steps that a file can define, with their base classes."""

PROVENANCE = "source_file"
"""The name of a file's hash in the provenance of its step."""

_SUFFIX = ".py"
_STEP_KEYS = frozenset({"use", "of", "reader", "normalizers", "splitter", "filters", "segmenter", "signals"})
_MODULE = "jprep_step_file"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_EXAMPLE = 'write e.g. use = "./my_filters.py:TooLoud", for the class TooLoud in my_filters.py beside the recipe'

_paths: dict[tuple[str, str], str] = {}
"""The files that this process has registered, by hash and class."""


class FileReference(NamedTuple):
    """A class in a file.

    Attributes:
        path: path of the `.py` file.
        name: name of the class.
    """

    path: str
    name: str

    def __str__(self) -> str:
        """Return it as in a recipe."""
        return f"{self.path}:{self.name}"


def parse_reference(text: str) -> FileReference | None:
    """Return what `FILE.py:NAME` names; None for the name of a registered step.

    Raises:
        ConfigError: it looks like a file, and has another form.
    """
    path, _, name = text.rpartition(":")
    if path.endswith(_SUFFIX) and name.isidentifier():
        return FileReference(path, name)
    if text.endswith(_SUFFIX) or ":" in text or "/" in text:
        raise ConfigError(f"{text!r} names no class in a file", fix=_EXAMPLE)
    return None


def locate_step_files(raw: Any, folder: Path, key: str = "") -> Any:
    """Return a raw recipe in which steps whose file is in a folder name that file by its path.

    Args:
        raw: the recipe as plain data, or a part of it.
        folder: the folder of the recipe.
        key: the key of the part.
    """
    if isinstance(raw, dict):
        return {name: locate_step_files(value, folder, name) for name, value in raw.items()}
    if isinstance(raw, list):
        return [locate_step_files(value, folder, key) for value in raw]
    path, _, name = raw.rpartition(":") if isinstance(raw, str) and key in _STEP_KEYS else ("", "", "")
    found = folder / path
    return f"{found.as_posix()}:{name}" if path.endswith(_SUFFIX) and found.is_file() else raw


def check_file(reference: FileReference) -> str:
    """Check that a file exists and is Python, without running it; return the SHA-256 of its source.

    Raises:
        ConfigError: there is no such file, or it has a syntax error.
    """
    data = _read(reference)
    try:
        ast.parse(data, reference.path)
    except (SyntaxError, ValueError) as error:
        where = f"{reference.path}, line {getattr(error, 'lineno', None) or 1}"
        raise ConfigError(
            f"{reference.path} is not valid Python: {error.args[0]}", where=where, fix="correct the file"
        ) from error
    return hashlib.sha256(data).hexdigest()


def register_step_file(reference: FileReference) -> str:
    """Check a file, and let `find_by_hash` find it from now on; return the SHA-256 of its source.

    Raises:
        ConfigError: see `check_file`.
    """
    sha256 = check_file(reference)
    _paths[sha256, reference.name] = str(Path(reference.path).absolute())
    return sha256


def load_file_class(kind: str, reference: FileReference) -> Any:
    """Run a file and return the step that it defines. Of a class without `name` and `version`, they are made up.

    The class has its file's hash as the attribute `source_file`.

    Args:
        kind: the kind of the step, a key of `BASES`.
        reference: the class.

    Raises:
        ConfigError: there is no such file or class, the file cannot be imported, or the class is not of this kind.
    """
    from jprep.plugins.manager import load_class

    sha256 = register_step_file(reference)
    found, base = _member(_module(reference, sha256), reference), load_class(BASES[kind])
    if not isinstance(found, type) or not issubclass(found, base):
        fix = f"write `class {reference.name}({base.__name__}):`, with {base.__name__} from jprep.corpus.step"
        raise _error(reference, f"is not a {kind}", fix)
    _check_complete(found, reference)
    found.source_file = f"sha256:{sha256}"  # type: ignore[attr-defined]
    return found


def run_file(reference: FileReference) -> ModuleType:
    """Run a user's file, once for each of its versions, and return its module.

    Raises:
        ConfigError: there is no such file, or it cannot be imported.
    """
    return _module(reference, register_step_file(reference))


def find_by_hash(sha256: str, name: str) -> str | None:
    """Return the reference of a class whose file is registered; None if none is.

    Args:
        sha256: `sha256:` and the hash of the file.
        name: name of the class.
    """
    path = _paths.get((sha256.removeprefix("sha256:"), name))
    return path and f"{path}:{name}"


def _check_complete(found: Any, reference: FileReference) -> None:
    """Check the methods and the name of a class; give it a name and a version if it has none."""
    from jprep.plugins.manager import load_class

    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise _error(reference, f"does not define {missing}", "docs/plugins.md has an example of each kind of step")
    if not issubclass(found.Config, load_class("jprep.corpus.step:StepConfig")):
        raise _error(reference, "has a Config of another kind", "write `class Config(StepConfig, frozen=True):`")
    found.name = getattr(found, "name", None) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", reference.name).lower()
    found.version = getattr(found, "version", 1)
    if not _NAME.fullmatch(found.name):
        raise _error(
            reference, f"cannot be called {found.name!r}", 'give it a name of a-z, 0-9 and _: `name = "too_loud"`'
        )


def _module(reference: FileReference, sha256: str) -> ModuleType:
    """Return the module of a file, run once for each of its versions."""
    path = Path(reference.path)
    key = f"{_MODULE}.{hashlib.sha256(f'{path.resolve()}:{sha256}'.encode()).hexdigest()[:16]}"
    if key not in sys.modules:
        data = _read(reference)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ConfigError("the file changed while it was read", where=reference.path, fix="run the command again")
        sys.modules[key] = ModuleType(key)  # type hints of the Config are looked up in it
        sys.modules[key].__file__ = str(path)
        try:
            with _without_folder(path):
                exec(compile(data, reference.path, "exec", dont_inherit=True), sys.modules[key].__dict__)
        except BaseException as error:  # whatever the user's code raises
            del sys.modules[key]
            if not isinstance(error, Exception | SystemExit):
                raise
            what = f"{path.name} cannot be imported: {type(error).__name__}: {error}"
            fix = "correct the file; it can import installed packages, and not the files beside it"
            raise ConfigError(what, where=_place(error, reference.path), fix=fix) from error
    return sys.modules[key]


@contextlib.contextmanager
def _without_folder(path: Path) -> Iterator[None]:
    """Make the modules beside a file unavailable, and those in the current directory: nobody hashes them."""
    before, folder = sys.path[:], path.resolve().parent
    sys.path[:] = [entry for entry in before if entry and Path(entry).resolve() != folder]
    try:
        yield
    finally:
        sys.path[:] = before


def _member(module: ModuleType, reference: FileReference) -> Any:
    if hasattr(module, reference.name):
        return getattr(module, reference.name)
    names = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    raise ConfigError(
        f"{Path(reference.path).name} has no class {reference.name!r}",
        where=reference.path,
        fix=suggest_name(reference.name, names),
    )


def _read(reference: FileReference) -> bytes:
    try:
        return Path(reference.path).read_bytes()
    except OSError as error:
        fix = "the path is relative to the recipe, or else to the current directory"
        what = f"cannot read the file of the step {reference.name}: {error.strerror}"
        raise ConfigError(what, where=reference.path, fix=fix) from error


def _place(error: BaseException, path: str) -> str:
    """Return the line of a file at which its code raised an exception."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f"{path}, line {frames[-1].lineno}" if frames else path


def _error(reference: FileReference, what: str, fix: str) -> ConfigError:
    return ConfigError(f"the class {reference.name} {what}", where=reference.path, fix=fix)
