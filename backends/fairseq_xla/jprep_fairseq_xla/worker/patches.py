"""What fairseq 0.12.2 needs on Python 3.11 and torch_xla 2.9, put right from outside when it is imported.

Each function names the behaviour that it answers. `import_fairseq` applies them; nothing else imports fairseq.
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
    """fairseq, imported and mended.

    Args:
        device: `cpu` or `xla`; for the second torch_xla is mended too.

    Raises:
        MachineError: the versions here are not those that the mends are for.
    """
    check_versions(device)
    for name in ("torch", "torch_xla"):  # fairseq imports both, and they look at what a dataclass is
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with hashable_dataclasses():
        fairseq = importlib.import_module("fairseq")
    if device == "xla":
        patch_torch_xla()
    return fairseq


def patch_torch_xla() -> None:
    """Apply all that concerns torch_xla; fairseq stands imported."""
    patch_world_functions()
    patch_spawn()
    patch_memory_info()
    patch_data_loader()


@contextlib.contextmanager
def hashable_dataclasses() -> Iterator[None]:
    """fairseq's configurations have dataclasses as defaults; Python 3.11 refuses a default that has no hash.

    While the block lasts, a dataclass has that of its identity where it would have none.
    """
    original = dataclasses.dataclass

    def hashable(cls: type[Any]) -> type[Any]:
        if cls.__hash__ is None:
            cls.__hash__ = object.__hash__  # type: ignore[assignment]
        return cls

    @functools.wraps(original)
    def decorator(cls: type[Any] | None = None, /, **options: Any) -> Any:
        if cls is None:
            return lambda found: hashable(original(**options)(found))
        return hashable(original(cls, **options))

    dataclasses.dataclass = decorator  # type: ignore[assignment]
    try:
        yield
    finally:
        dataclasses.dataclass = original


def patch_world_functions() -> None:
    """`fairseq.distributed.utils` asks `xla_model` for `xrt_world_size()` and `get_ordinal()`: `torch_xla.runtime` has
    them now.
    """
    xm, runtime = _module("torch_xla.core.xla_model"), _module("torch_xla.runtime")
    for old, new in (("xrt_world_size", "world_size"), ("get_ordinal", "global_ordinal"),
                     ("get_local_ordinal", "local_ordinal")):  # fmt: skip
        if not hasattr(xm, old):
            setattr(xm, old, getattr(runtime, new))


def patch_spawn() -> None:
    """`fairseq.distributed.utils.call_main` spawns `nprocs=N`; torch_xla takes only 1, or None for one a device."""
    xmp = _module("torch_xla.distributed.xla_multiprocessing")

    def make(spawn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(spawn)
        def spawn_all(fn: Any, args: Any = (), nprocs: int | None = None, **more: Any) -> Any:
            return spawn(fn, args=args, nprocs=1 if nprocs == 1 else None, **more)

        return spawn_all

    _replace(xmp, "spawn", make)


def patch_memory_info() -> None:
    """`fairseq.trainer.Trainer.train_step` logs `kb_free` and `kb_total`; torch_xla counts in bytes, and on a CPU it
    does not know.
    """
    xm = _module("torch_xla.core.xla_model")

    def make(ask: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(ask)
        def memory_info(device: Any = None) -> dict[str, int]:
            try:
                found = ask(device)
            except RuntimeError:
                return {"kb_free": 0, "kb_total": 0}
            total, used = found["bytes_limit"], found["bytes_used"]
            return {"kb_free": (total - used) // _KIB, "kb_total": total // _KIB, **found}

        return memory_info

    _replace(xm, "get_memory_info", make)


def patch_data_loader() -> None:
    """`fairseq.utils.tpu_data_loader` wraps the iterator in a `ParallelLoader`, which reads ahead: the position that a
    checkpoint saves is too far, and a run that goes on has lost batches. This one has no batch but that being used.
    """
    utils = _module("fairseq.utils")

    def make(load: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(load)
        def one_at_a_time(batches: Any) -> Any:
            device = utils.get_tpu_device()
            iterators = _module("fairseq.data.iterators")
            moved = (utils.move_to_cuda(batch, device=device) for batch in batches)
            return iterators.CountingIterator(moved, start=getattr(batches, "n", 0), total=len(batches))

        return one_at_a_time

    _replace(utils, "tpu_data_loader", make)


def reset_root_logger() -> None:
    """`fairseq_cli.train` calls `logging.basicConfig`, which does nothing where a library has installed a handler of
    its own before: fairseq's INFO lines are lost. It gets a root logger without any.
    """
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _replace(module: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put what is made of a function in its place, once."""
    found = getattr(module, name)
    if not getattr(found, "mended", False):
        mended: Any = make(found)
        mended.mended = True
        setattr(module, name, mended)
