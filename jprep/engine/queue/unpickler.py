"""Unpickle stages and tasks, and nothing else."""

from __future__ import annotations

import functools
import io
import pickle
from importlib.metadata import entry_points
from typing import Any

from jprep.errors import DamagedError

_STANDARD = frozenset(
    {
        "builtins": ("bytearray", "complex", "frozenset", "range", "set", "slice"),
        "collections": ("Counter", "OrderedDict", "defaultdict", "deque"),
        "copyreg": ("_reconstructor",),
        "datetime": ("date", "datetime", "timedelta", "timezone"),
        "decimal": ("Decimal",),
        "fractions": ("Fraction",),
        "msgspec._core": ("UNSET", "rebuild"),
        "msgspec._utils": ("rebuild",),
        "numpy": ("dtype", "ndarray"),
        "numpy._core.multiarray": ("_reconstruct", "scalar"),
        "numpy.core.multiarray": ("_reconstruct", "scalar"),
        "numpy._core.numeric": ("_frombuffer",),
        "numpy.core.numeric": ("_frombuffer",),
        "pathlib": ("Path", "PosixPath", "PurePath", "PurePosixPath"),
        "pathlib._local": ("Path", "PosixPath", "PurePath", "PurePosixPath"),
        "uuid": ("UUID",),
    }.items()
)
_NAMES = frozenset((module, name) for module, names in _STANDARD for name in names)
_FUNCTIONS = frozenset({("jprep.errors", "_rebuild")})
_STEP_FILES = "jprep_step_file"  # the modules of classes from a user's own file


class _Unpickler(pickle.Unpickler):
    """Admits classes of jprep, of installed plugins' packages and of step files, and a short list of standard types."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class.

        Raises:
            pickle.UnpicklingError: it is not admitted.
        """
        if (module, name) in _NAMES or (module, name) in _FUNCTIONS:
            return super().find_class(module, name)
        found = super().find_class(module, name) if _package(module) in _packages() else None
        # A module has more than its own classes: the name may lead to what it imported.
        if isinstance(found, type) and found.__module__ == module:
            return found
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def unpickle(data: bytes, where: str) -> Any:
    """Return the object in some pickled bytes.

    Args:
        data: the bytes.
        where: their file, for the error.

    Raises:
        DamagedError: they are not a pickle, or name something other than a stage and tasks consist of.
    """
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except Exception as error:  # damaged pickles raise anything
        what = f"this file is not a queue of jprep ({type(error).__name__}: {error})"
        fix = "run the command that wrote the queue again; if it names a plugin, install that on this machine"
        raise DamagedError(what, where=where, fix=fix) from error


def _package(module: str) -> str:
    return module.partition(".")[0]


@functools.cache
def _packages() -> frozenset[str]:
    points = {_package(point.module) for point in entry_points(group="jprep")}
    return frozenset({"jprep", _STEP_FILES} | points)
