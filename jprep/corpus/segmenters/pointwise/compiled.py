"""The compiled kernel: when a process loads it, and what happens where it cannot be used."""

from __future__ import annotations

import contextlib
import fcntl
import logging
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jprep.corpus.code_points import code_points
from jprep.corpus.segmenters.pointwise.marking import Marked, mark_codes
from jprep.corpus.segmenters.pointwise.packed_tables import PackedTables, pack_tables
from jprep.errors import MachineError
from jprep.libraries import import_library

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.segmenters.pointwise.weights import Weights

AFTER = 1 << 23
"""Characters that a process segments with numpy before it loads the kernel.

Loading takes as long as numpy takes for about half of them: a process that ends soon afterwards has lost little.
"""

OLDEST = 0, 60
"""Oldest numba that is known to work, as in the extra `numba`."""

_MODULE = "jprep.corpus.segmenters.pointwise.kernel"
_WHERE = "segmenter pointwise: compiled"
_INSTALL = "pip install --upgrade 'jprep[numba]'"
_OFF = 'set compiled = "off" in the options of the segmenter'
_CACHE = "set NUMBA_CACHE_DIR to another directory that can be written"
_MAX_MODELS = 2  # whose tables are kept
_SAMPLE = (
    "東京タワーへ行く。",
    "すもももももももものうち",
    "Ｐｙｔｈｏｎ 3.11で𠮟られた👍\t",
    "国際連合安全保障理事会によると、いう",
    "あ",
)

_log = logging.getLogger(__name__)


class Kernel:
    """The compiled function, and the tables of the models that it was used with.

    Args:
        function: `kernel.mark_texts`.
        make_scratch: `kernel.make_scratch`.
    """

    def __init__(self, function: Any, make_scratch: Any) -> None:
        self._function, self._make_scratch = function, make_scratch
        self._tables: list[tuple[Weights, PackedTables]] = []

    def mark(self, codes: NDArray[np.uint32], lengths: NDArray[np.int64], weights: Weights) -> Marked:
        """Return what `mark_codes` returns."""
        marked = np.empty(2 * len(codes), np.uint32)
        ends, sure = np.empty(len(lengths), np.int64), np.empty(len(lengths), np.int64)
        scratch = self._make_scratch(int(lengths.max()))
        size = self._function(codes, lengths, self._tables_of(weights), scratch, marked, ends, sure)
        return Marked(marked[:size], ends, sure)

    def _tables_of(self, weights: Weights) -> PackedTables:
        for known, tables in self._tables:
            if known is weights:
                return tables
        tables = pack_tables(weights)
        self._tables = [(weights, tables), *self._tables][:_MAX_MODELS]
        return tables


class _Process:
    """What this process knows about the kernel.

    Attributes:
        segmented: characters that it has segmented with numpy.
        kernel: the kernel, once it is loaded.
        refused: whether it cannot be used.
    """

    segmented = 0
    kernel: Kernel | None = None
    refused = False


def usable_kernel(option: str, size: int, weights: Weights) -> Kernel | None:
    """Return the kernel if it is to be used for some more text.

    Args:
        option: `auto`, `on` or `off`.
        size: characters of the text.
        weights: the model, with which the kernel is tried.

    Raises:
        MachineError: it is to be used always, and cannot be.
    """
    if option == "off":
        return None
    if _Process.kernel is None and (option == "on" or (_Process.segmented >= AFTER and not _Process.refused)):
        _try_loading(weights, always=option == "on")
    if _Process.kernel is None:
        _Process.segmented += size
    return _Process.kernel


def load_kernel(weights: Weights, *, wait: bool) -> Kernel | None:
    """Return the kernel, compiled or read from numba's cache, after it agreed with numpy about a few texts.

    Args:
        weights: the model for these.
        wait: whether to wait while another process compiles; else None is returned.

    Raises:
        MachineError: it cannot be used.
    """
    try:
        module = _import_kernel()
        with _compiling(Path(module.mark_texts.stats.cache_path), wait) as mine:
            if not mine:
                return None
            kernel = Kernel(module.mark_texts, module.make_scratch)
            agrees = _agrees(kernel, weights)
    except MachineError:
        raise
    except Exception as error:  # of numba or LLVM: there is no list of them
        what = f"numba cannot compile or load the code: {type(error).__name__}: {error}"
        raise MachineError(what, where=_WHERE, fix=f"{_CACHE}, {_INSTALL}, or {_OFF}") from error
    if not agrees:
        what = "the compiled code and numpy disagree; numba's cache may hold code of another version of jprep"
        raise MachineError(what, where=_WHERE, fix=f"{_CACHE}, or {_OFF}")
    return kernel


def _try_loading(weights: Weights, *, always: bool) -> None:
    if not always and find_spec("numba") is None:
        _Process.refused = True
        return
    try:
        _Process.kernel = load_kernel(weights, wait=always)
    except MachineError as error:
        if always:
            raise
        _Process.refused = True
        _log.warning(
            "%s: %s; numpy, which is slower, finds the same words. To use it: %s", _WHERE, error.what, error.fix
        )


def _import_kernel() -> Any:
    numba = import_library("numba", "the compiled code needs numba", "--upgrade 'jprep[numba]'", _WHERE)
    if tuple(numba.version_info[:2]) < OLDEST:
        what = f"numba {numba.__version__} is too old, {'.'.join(map(str, OLDEST))} is needed"
        raise MachineError(what, where=_WHERE, fix=f"{_INSTALL}, or {_OFF}")
    if numba.config.DISABLE_JIT:
        raise MachineError("NUMBA_DISABLE_JIT is set", where=_WHERE, fix=f"unset it, or {_OFF}")
    return import_library(_MODULE, "the compiled code needs numba", "--upgrade 'jprep[numba]'", _WHERE)


@contextlib.contextmanager
def _compiling(folder: Path, wait: bool) -> Iterator[bool]:
    """Yield whether this process may compile: one on a host does, and the others find its code afterwards."""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context((folder / "jprep-kernel.lock").open("a"))
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        except OSError:  # a file system without locks: each process compiles
            pass
        yield True


def _agrees(kernel: Kernel, weights: Weights) -> bool:
    """Return whether the kernel and numpy agree about a few texts."""
    codes, lengths = code_points("".join(_SAMPLE)), np.array([len(text) for text in _SAMPLE])
    found, right = kernel.mark(codes, lengths, weights), mark_codes(codes, lengths, weights)
    return all(np.array_equal(getattr(found, name), getattr(right, name)) for name in Marked._fields)
