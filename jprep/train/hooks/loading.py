"""Load hooks in a worker: from the copies in the run directory, or from installed modules. Hashes are checked first."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from jprep.config import suggest_name
from jprep.errors import ConfigError, JprepError, MismatchError
from jprep.train.hooks.config import HOOKS, JobHooks, job_hooks
from jprep.train.hooks.references import SUFFIX, parse_reference
from jprep.train.job.config import Job
from jprep.train.worker.out_of_memory import is_out_of_memory

_PACKAGE = "jprep_hooks"
"""Prefix of the modules of copied files, so that they hide no installed module."""

_IMPORT_FIX = (
    "correct the file; of the files beside it none can be imported: put their code into it, or install them in the "
    "backend's environment"
)


class Hook:
    """A function or class of a user. What it raises becomes an error that names it.

    Args:
        key: its key in the recipe.
        reference: `FILE.py:NAME` or `MODULE:NAME`.
        target: the function or class.

    Attributes:
        key, reference, target: the arguments.
    """

    def __init__(self, key: str, reference: str, target: Callable[..., Any]) -> None:
        self.key, self.reference, self.target = key, reference, target

    @property
    def name(self) -> str:
        """The name of the function or class."""
        return self.reference.rpartition(":")[2]

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function or class.

        Raises:
            ConfigError: it raised an exception.
        """
        with self.errors():
            return self.target(*arguments, **keywords)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Translate exceptions of the hook's code, but for those about full memory."""
        try:
            yield
        except JprepError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise self.error(f"raised {type(error).__name__}: {_first_line(error)}", where=_place(error)) from error

    def error(self, what: str, *, where: str = "", fix: str = "") -> ConfigError:
        """Return an error about this hook.

        Args:
            what: what it does wrong, e.g. `returned None`.
            where: the file and line; by default the key in the recipe.
            fix: by default, to correct it.
        """
        fix = fix or "correct it (docs/custom-loss.md has the signatures), and start in another output directory"
        return ConfigError(f"the hook {self.reference} {what}", where=where or self.key, fix=fix)


class LoadedHooks(NamedTuple):
    """The hooks of a job.

    Attributes:
        loss: the loss function; None for the task's own.
        head: the class of the head; None for the model's own.
        metrics: the functions that measure predictions.
    """

    loss: Hook | None = None
    head: Hook | None = None
    metrics: tuple[Hook, ...] = ()


NO_HOOKS = LoadedHooks()


def load_run_hooks(run: Path, job: Job) -> LoadedHooks:
    """Load the hooks of a run, in the worker's environment.

    Args:
        run: the run directory.
        job: its job.

    Raises:
        MismatchError: a file or an installed module is not the one that the run began with.
        ConfigError: a module cannot be imported, or does not have the name.
    """
    return load_hooks(run / HOOKS, job_hooks(job))


def load_hooks(folder: Path, hooks: JobHooks) -> LoadedHooks:
    """Load hooks.

    Args:
        folder: the folder of copied files.
        hooks: the hooks; modules without a hash are not checked.

    Raises:
        MismatchError, ConfigError: see `load_run_hooks`.
    """
    modules: dict[str, ModuleType] = {}
    found = {}
    for key, text in hooks.named().items():
        reference = parse_reference(text, key)
        name = reference.module
        if name not in modules:
            modules[name] = _import(folder, name, hooks.files.get(name, ""), key)
        found[key] = Hook(key, text, _member(modules[name], reference.name, key, name))
    metrics = tuple(hook for key, hook in found.items() if ".metrics[" in key)
    return LoadedHooks(found.get("train.hooks.loss"), found.get("train.hooks.head"), metrics)


def module_hash(name: str, key: str) -> str:
    """Return the SHA-256 of the file of an installed module. Its packages are imported, and it is not.

    Raises:
        ConfigError: there is no such module, or it has no source file.
    """
    return hashlib.sha256(_source(name, key).read_bytes()).hexdigest()


def _import(folder: Path, name: str, sha256: str, key: str) -> ModuleType:
    path = folder / name if name.endswith(SUFFIX) else _source(name, key)
    data = path.read_bytes()
    if sha256 and hashlib.sha256(data).hexdigest() != sha256:
        fix = "restore it, or give `jprep train` another output directory"
        raise MismatchError(f"the hook {name} is not what the run began with", where=str(path), fix=fix)
    try:
        return _execute(path, data) if name.endswith(SUFFIX) else importlib.import_module(name)
    except Exception as error:
        what = f"the hook {name} cannot be imported: {type(error).__name__}: {_first_line(error)}"
        raise ConfigError(what, where=_place(error) or key, fix=_IMPORT_FIX) from error


def _execute(path: Path, data: bytes) -> ModuleType:
    """Run the code of a file as a module. The bytes are those whose hash was checked."""
    module = ModuleType(f"{_PACKAGE}.{path.stem}")
    module.__file__ = str(path)
    code = compile(data, str(path), "exec", dont_inherit=True)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(code, module.__dict__)
    return module


def _source(name: str, key: str) -> Path:
    """Return the file of an installed module."""
    try:
        spec = importlib.util.find_spec(name)
    except Exception as error:  # whatever its package raises
        what = f"the hook {name} cannot be imported: {type(error).__name__}: {_first_line(error)}"
        raise ConfigError(what, where=_place(error) or key, fix=_IMPORT_FIX) from error
    if spec is None or not spec.origin or not Path(spec.origin).is_file():
        what = f"there is no file {name.rpartition('.')[2]}{SUFFIX} beside the recipe, and no installed module {name!r}"
        fix = f"check the name, or install the module in the backend's environment: {sys.executable} -m pip install …"
        raise ConfigError(what, where=key, fix=fix)
    return Path(spec.origin)


def _member(module: ModuleType, name: str, key: str, where: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(module, name, None)
    if callable(found):
        return found
    names = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
    raise ConfigError(f"{where} has no function or class {name!r}", where=key, fix=suggest_name(name, names))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0][:300]


def _place(error: BaseException) -> str:
    """Return file and line where the code of a hook raised an exception; "" if it was not raised in a file."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent.name == HOOKS and frame.filename != __file__]
    last = (own or frames)[-1:]
    return f"{last[0].filename}, line {last[0].lineno}" if last else ""
