"""Each patch, and what happens without it."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from jprep.dataset.sampling.sampler import Batch
from jprep_fairseq_xla.worker import patches
from jprep_torch.worker import data

on_xla = pytest.mark.skipif(not find_spec("torch_xla"), reason="torch_xla is not here")


@pytest.fixture(autouse=True)
def played_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")


@pytest.fixture
def fairseq() -> Any:
    return patches.import_fairseq("cpu")


def module(name: str) -> Any:
    __import__(name)
    return sys.modules[name]


def unpatched(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Any:
    """Restore a function of a library, and return it."""
    found = getattr(owner, name)
    while getattr(found, "patched", False):
        found = found.__wrapped__
    monkeypatch.setattr(owner, name, found)
    return found


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older Pythons take such defaults")
def test_fairseq_cannot_be_imported_without_hashable_dataclasses() -> None:
    alone = subprocess.run([sys.executable, "-c", "import fairseq"], capture_output=True, text=True)
    assert alone.returncode and "mutable default" in alone.stderr
    code = "import jprep_fairseq_xla.worker.patches as m; print(m.import_fairseq('cpu').__version__)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "0.12.2\n"


@on_xla
def test_world_functions_are_found_in_the_runtime(fairseq: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    xm, utils = module("torch_xla.core.xla_model"), module("fairseq.distributed.utils")
    for name in ("xrt_world_size", "get_ordinal"):
        monkeypatch.delattr(xm, name, raising=False)
    monkeypatch.setattr(utils, "_USE_XLA", True)
    with pytest.raises(AttributeError):
        utils.get_global_group()
    patches.patch_world_functions()
    assert utils.get_global_group() == ("tpu", [[0]])
    assert (utils.get_global_world_size(), utils.get_global_rank()) == (1, 0)


@on_xla
def test_spawn_starts_a_process_for_each_device(fairseq: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    xmp, pjrt = module("torch_xla.distributed.xla_multiprocessing"), module("torch_xla._internal.pjrt")
    unpatched(monkeypatch, xmp, "spawn")
    with pytest.raises(ValueError, match="nprocs"):
        xmp.spawn(print, args=(1,), nprocs=8)
    asked: list[Any] = []
    monkeypatch.setattr(pjrt, "run_multiprocess", lambda *given, **more: asked.append(given))
    patches.patch_spawn()
    xmp.spawn(print, args=(1,), nprocs=8)
    assert len(asked) == 1, "a process for each device, however many there are"


@on_xla
def test_memory_info_has_the_units_of_fairseq(fairseq: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    xm = module("torch_xla.core.xla_model")
    unpatched(monkeypatch, xm, "get_memory_info")
    with pytest.raises(RuntimeError):
        xm.get_memory_info(xm.xla_device())
    patches.patch_memory_info()
    assert xm.get_memory_info(xm.xla_device()) == {"kb_free": 0, "kb_total": 0}
    monkeypatch.setattr(xm, "get_memory_info", lambda device: {"bytes_limit": 4096, "bytes_used": 1024})
    patches.patch_memory_info()
    found = xm.get_memory_info("a TPU")
    assert (found["kb_free"], found["kb_total"]) == (3, 4)


class Source:
    """Batches as fairseq's iterators yield them; `n` is the position that a checkpoint saves."""

    def __init__(self) -> None:
        self.n = 0

    def __len__(self) -> int:
        return 30

    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in range(1, len(self) + 1):
            self.n = number
            yield torch.tensor([number])


@on_xla
def test_no_batch_is_read_ahead(fairseq: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    utils, source = module("fairseq.utils"), Source()
    unpatched(monkeypatch, utils, "tpu_data_loader")
    first = iter(utils.tpu_data_loader(source))
    next(first)
    deadline = time.monotonic() + 600
    while source.n == 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert source.n > 1, "it reads ahead, so what a checkpoint saves is too far"
    patches.patch_data_loader()
    source = Source()
    patched = utils.tpu_data_loader(source)
    for number, batch in enumerate(patched, 1):
        assert (source.n, patched.n, int(batch)) == (number, number, number)


def test_fairseq_logs_although_a_library_has_installed_a_handler(fairseq: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root, logger = logging.getLogger(), logging.getLogger("fairseq_cli.train")
    monkeypatch.setattr(root, "handlers", [logging.NullHandler()])
    monkeypatch.setattr(root, "level", logging.WARNING)
    root.manager._clear_cache()
    logging.basicConfig(level=logging.INFO)
    assert not logger.isEnabledFor(logging.INFO)
    patches.reset_root_logger()
    logging.basicConfig(level=logging.INFO)
    assert logger.isEnabledFor(logging.INFO) and root.handlers
    root.manager._clear_cache()


@on_xla
def test_the_last_rows_of_a_split_need_no_compilation(fairseq: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    xla = module("torch_xla")
    metrics = module("torch_xla.debug.metrics")

    def compiled(rows: int) -> int:
        """Return how often XLA compiles for a batch of so many rows."""
        whole = np.arange(rows * 8, dtype=np.int32).reshape(rows, 8)
        batch = Batch(whole, whole, np.full(rows, 8, np.int32), None, np.zeros(rows), np.arange(rows))
        before = metrics.metric_data("CompileTime") or (0,)
        for part in data.micro_batches(batch, 4, 4, xla.device(), types=False):
            float((part.ids * 3 + part.labels).sum())
        return (metrics.metric_data("CompileTime") or (0,))[0] - before[0]

    compiled(4)
    assert (compiled(4), compiled(3), compiled(1)) == (0, 0, 0)
    monkeypatch.setattr(data, "_pad_rows", lambda batch, rows: batch)
    assert compiled(3) > 0
