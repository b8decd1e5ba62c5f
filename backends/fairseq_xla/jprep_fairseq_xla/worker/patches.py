"""Patches that make fairseq 0.12.2 run on Python 3.11 and torch_xla 2.9, applied when it is imported.

The docstring of each patch names the behaviour that it corrects. `import_fairseq` applies them; import fairseq only
through it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import logging
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from jprep_fairseq_xla.planning.versions import check_versions

_KIB = 1024


def import_fairseq(device: str) -> ModuleType:
    """Import fairseq, patch it, and return it.

    Args:
        device: `cpu`, `cuda` or `xla`; for the last torch_xla is patched, too.

    Raises:
        MachineError: the installed versions are not those that the patches are for.
    """
    check_versions(device)
    for name in ("torch", "torch_xla"):  # fairseq imports both, and they inspect dataclasses: import them unpatched
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with hashable_dataclasses():
        fairseq = importlib.import_module("fairseq")
    if device == "xla":
        patch_torch_xla()
    return fairseq


def patch_torch_xla() -> None:
    """Apply all patches for torch_xla, after fairseq was imported."""
    patch_world_functions()
    patch_spawn()
    patch_memory_info()
    patch_data_loader()


@contextlib.contextmanager
def hashable_dataclasses() -> Iterator[None]:
    """fairseq's configurations have dataclasses as defaults; Python 3.11 refuses a default that has no hash.

    Inside the block, a dataclass that would have no hash has that of its identity.
    """
    original = dataclasses.dataclass

    def hashable(cls: type[Any]) -> type[Any]:
        if cls.__hash__ is None:
            cls.__hash__ = object.__hash__  # type: ignore[assignment]
        return cls

    @functools.wraps(original)
    def decorator(cls: type[Any] | None = None, /, **options: Any) -> Any:
        if cls is None:
            return lambda decorated: hashable(original(**options)(decorated))
        return hashable(original(cls, **options))

    dataclasses.dataclass = decorator  # type: ignore[assignment]
    try:
        yield
    finally:
        dataclasses.dataclass = original


def patch_world_functions() -> None:
    """`fairseq.distributed.utils` calls `xla_model.xrt_world_size()` and `get_ordinal()`, which torch_xla has moved to
    `torch_xla.runtime`.
    """
    xm, runtime = _module("torch_xla.core.xla_model"), _module("torch_xla.runtime")
    for old, new in (("xrt_world_size", "world_size"), ("get_ordinal", "global_ordinal"),
                     ("get_local_ordinal", "local_ordinal")):  # fmt: skip
        if not hasattr(xm, old):
            setattr(xm, old, getattr(runtime, new))


def patch_spawn() -> None:
    """`fairseq.distributed.utils.call_main` spawns `nprocs=N`; torch_xla accepts only 1, or None for all devices."""
    xmp = _module("torch_xla.distributed.xla_multiprocessing")

    def patch(spawn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(spawn)
        def spawn_all(fn: Any, args: Any = (), nprocs: int | None = None, **options: Any) -> Any:
            return spawn(fn, args=args, nprocs=1 if nprocs == 1 else None, **options)

        return spawn_all

    _replace(xmp, "spawn", patch)


def patch_memory_info() -> None:
    """`fairseq.trainer.Trainer.train_step` logs `kb_free` and `kb_total`; torch_xla reports bytes, and on a CPU raises
    an error.
    """
    xm = _module("torch_xla.core.xla_model")

    def patch(get_memory_info: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(get_memory_info)
        def memory_info(device: Any = None) -> dict[str, int]:
            try:
                found = get_memory_info(device)
            except RuntimeError:
                return {"kb_free": 0, "kb_total": 0}
            total, used = found["bytes_limit"], found["bytes_used"]
            return {"kb_free": (total - used) // _KIB, "kb_total": total // _KIB, **found}

        return memory_info

    _replace(xm, "get_memory_info", patch)


def patch_data_loader() -> None:
    """`fairseq.utils.tpu_data_loader` wraps the iterator in a `ParallelLoader`, which reads ahead: a checkpoint then
    saves a position that is too far, and a resumed run skips batches. The patched one holds only the current batch.
    """
    utils = _module("fairseq.utils")

    def patch(load: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(load)
        def one_at_a_time(batches: Any) -> Any:
            device = utils.get_tpu_device()
            iterators = _module("fairseq.data.iterators")
            moved = (utils.move_to_cuda(batch, device=device) for batch in batches)
            return iterators.CountingIterator(moved, start=getattr(batches, "n", 0), total=len(batches))

        return one_at_a_time

    _replace(utils, "tpu_data_loader", patch)


def reset_root_logger() -> None:
    """`fairseq_cli.train` calls `logging.basicConfig`, which has no effect if a library has installed a handler before:
    fairseq's INFO lines are lost. Remove the handlers of the root logger.
    """
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _replace(module: Any, name: str, patch: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace a function by its patched version, once."""
    original = getattr(module, name)
    if not getattr(original, "patched", False):
        patched: Any = patch(original)
        patched.patched = True
        setattr(module, name, patched)
