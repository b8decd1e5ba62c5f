"""Messages of frameworks tell which memory is full, and how much was asked for."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from jprep.train.backend import MicroBatchEstimate, Plan, Target
from jprep.train.launcher.memory_watch import MemoryWatch
from jprep.train.run.directory import read_job, write_plan
from jprep.train.worker.memory_shortage import find_shortage
from jprep.train.worker.out_of_memory import end_figures, is_out_of_memory, out_of_memory
from tests.fakes.small_run import plan_of, small_run

GIB = 1 << 30
CUDA = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.50 GiB is "
    "free. Process 1 has 77.65 GiB memory in use."
)
HBM = "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 20.00G of 15.48G hbm. Exceeded it by 4.52G."
BUFFER = (
    "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 1.50G. That was not possible. "
    "There are 1.00G free.; (0x0x0_HBM0)"
)
XLA = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1099511627776 bytes."
TENSORFLOW = (
    "OOM when allocating tensor with shape[8,9] and type float on /job:localhost/device:GPU:0 by allocator GPU_0_bfc"
)


@pytest.mark.parametrize(
    ("message", "on_host", "memory", "requested", "free", "total"),
    [
        (CUDA, False, "device", 2 * GIB, 1.5 * GIB, 79.15 * GIB),
        ("HIP out of memory. Tried to allocate 20.00 MiB.", False, "device", 20 << 20, 0, 0),
        ("CUDA error: out of memory", False, "device", 0, 0, 0),
        ("CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", False, "device", 0, 0, 0),
        (HBM, False, "device", 0, 0, 15.48 * GIB),
        (BUFFER, False, "device", 1.5 * GIB, GIB, 0),
        (XLA, False, "device", 1 << 40, 0, 0),
        (XLA, True, "host", 1 << 40, 0, 0),
        (TENSORFLOW, False, "device", 0, 0, 0),
        (
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.",
            False,
            "host",
            9,
            0,
            0,
        ),
        ("Unable to allocate 8.00 PiB for an array with shape (1125899906842624,)", False, "host", 8 << 50, 0, 0),
        ("MemoryError: std::bad_alloc", False, "host", 0, 0, 0),
        ("DataLoader worker (pid 7) is killed by signal: Killed.", False, "host", 0, 0, 0),
        ("[Errno 12] Cannot allocate memory", False, "host", 0, 0, 0),
    ],
)
def test_a_message_tells_the_memory_and_the_bytes(
    message: str, on_host: bool, memory: str, requested: float, free: float, total: float
) -> None:
    found = find_shortage(message, on_host=on_host)
    assert found.memory == memory
    assert (found.requested, found.free, found.total) == pytest.approx((requested, free, total), abs=2)
    name = {"device": "device memory", "host": "main memory"}[memory]
    assert str(found).startswith(f"{name} is full") and ("asked for" in str(found)) == bool(requested)


def test_tensorflow_s_error_is_out_of_memory() -> None:
    kind = type("ResourceExhaustedError", (Exception,), {})
    assert is_out_of_memory(kind(TENSORFLOW))


def gpu_plan(run: Path, host_memory: int = 0) -> Plan:
    target = Target(name="a GPU", kind="gpu", count=2, memory=80 * GIB, host_memory=16 * GIB)
    smaller = (MicroBatchEstimate(4, 9 * GIB), MicroBatchEstimate(2, 5 * GIB))
    return msgspec.structs.replace(
        plan_of(run), processes=2, memory=90 * GIB, target=target, smaller=smaller, host_memory=host_memory
    )


def test_a_full_gpu_and_a_full_host_get_different_advice(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    job = read_job(run)
    write_plan(run, gpu_plan(run))
    gpu = out_of_memory(run, job, 7, CUDA)
    assert "out of memory at step 7: device memory is full, 2.15 GB asked for, 1.61 GB of 84.99 GB free" in gpu.what
    assert "--set train.backend.numpy.micro_batch=4" in gpu.fix
    assert end_figures(gpu).items() >= {"out_of_memory": 1.0, "on_device": 1.0, "requested": 2 * GIB}.items()
    host = out_of_memory(run, job, 7, "the kernel killed a worker because memory was full (SIGKILL by the OOM killer)")
    assert "main memory is full" in host.what and "fewer processes on this machine (now 2)" in host.fix
    assert "micro_batch=" not in host.fix and end_figures(host)["on_device"] == 0.0
    write_plan(run, gpu_plan(run, host_memory=12 * GIB))
    assert "no offload to main memory, which takes about 12.88 GB" in out_of_memory(run, job, 7, "MemoryError").fix


@pytest.mark.parametrize(
    "line",
    [
        "a tokenizer learned the word: out of memory",
        "I0000 00:00:1 device.cc:1] an earlier RESOURCE_EXHAUSTED error was recovered",
        "note: `CUDA out of memory` is explained in the docs",
        "[W] cannot allocate memory for the cache, continuing",
    ],
)
def test_lines_that_only_mention_memory_do_not_count(line: str, tmp_path: Path) -> None:
    watch = MemoryWatch(tmp_path)
    (tmp_path / "log.txt").write_text(f"{line}\nSegmentation fault\n")
    assert watch.reason(-11, 1) == ""


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory",
        "MemoryError",
        "[rank1]: MemoryError",
        "F0000 00:00:1 pjrt.cc:1] Check failed: RESOURCE_EXHAUSTED: Out of memory",
        "  what():  std::bad_alloc",
    ],
)
def test_lines_that_end_a_process_count(line: str, tmp_path: Path) -> None:
    watch = MemoryWatch(tmp_path)
    (tmp_path / "log.txt").write_text(f"{line}\n")
    assert watch.reason(-6, 1)
