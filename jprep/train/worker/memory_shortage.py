"""Read from a framework's error which memory is full, and how much was asked for."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Memory = Literal["device", "host"]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_SIZE = r"([\d.]+) ?(?:bytes|([KMGTP])i?B?\b)"

_DEVICE = re.compile(
    r"\b(?:CUDA|HIP|XPU|NPU|MPS)\b[\w ]*(?:error: )?out of memory|(?:CUBLAS|CUDNN|CUSOLVER|HIPBLAS)\w*_ALLOC_FAILED"
    r"|\bhbm\b|_HBM\b|GPU_\d+_bfc|device:(?:GPU|TPU):\d+",
    re.IGNORECASE,
)
"""Messages that name a device."""

_HOST = re.compile(
    r"DefaultCPUAllocator|_ArrayMemoryError|\bMemoryError\b|Unable to allocate \S+ \w+ for an array|std::bad_alloc"
    r"|[Cc]annot allocate memory|DataLoader worker .*killed by signal|device:CPU:\d+|pinned_host|memory space host",
)
"""Messages that name main memory: PyTorch, NumPy, Python, the C++ library, the operating system."""

_EITHER = re.compile(r"RESOURCE_EXHAUSTED|OutOfMemoryError|ResourceExhaustedError|failed to allocate memory")
"""Messages of devices, unless the device is the CPU."""

_REQUESTED = re.compile(rf"(?:tr(?:ied|ying) to (?:allocate|reserve)|[Aa]ttempting to allocate|[Uu]nable to allocate|allocat\w+)\s+(?:about )?{_SIZE}")  # fmt: skip  # noqa: E501
_TOTAL = re.compile(rf"total capacity of {_SIZE}|of {_SIZE} hbm")
_FREE = re.compile(rf"of which {_SIZE} is free|[Tt]here are {_SIZE} free")


class MemoryShortage(msgspec.Struct, frozen=True):
    """What ran out.

    Attributes:
        memory: `device`, e.g. of a GPU, or `host`, main memory.
        requested: bytes of the allocation that failed; 0 if unknown.
        free: bytes that were free; 0 if unknown.
        total: bytes that there are; 0 if unknown.
    """

    memory: Memory
    requested: int = 0
    free: int = 0
    total: int = 0

    def __str__(self) -> str:
        name = {"device": "device memory", "host": "main memory"}[self.memory]
        asked = f"{_gb(self.requested)} asked for" if self.requested else ""
        if self.free and self.total:
            left = f"{_gb(self.free)} of {_gb(self.total)} free"
        elif self.free:
            left = f"{_gb(self.free)} free"
        elif self.total:
            left = f"{_gb(self.total)} in all"
        else:
            left = ""
        return ", ".join(part for part in (f"{name} is full", asked, left) if part)


def find_shortage(message: str, *, on_host: bool) -> MemoryShortage:
    """Return what ran out according to a message that memory is full.

    Args:
        message: the framework's message, with the name of the exception's class.
        on_host: whether the run computes in main memory.
    """
    device = _DEVICE.search(message) or (not _HOST.search(message) and _EITHER.search(message) and not on_host)
    numbers = [_bytes(pattern.search(message)) for pattern in (_REQUESTED, _FREE, _TOTAL)]
    return MemoryShortage("device" if device else "host", *numbers)


def names_memory(message: str) -> bool:
    """Return whether a message of an exception says that memory is full."""
    return any(pattern.search(message) for pattern in (_DEVICE, _HOST, _EITHER))


def _bytes(found: re.Match[str] | None) -> int:
    """Return the size in a match: the first number that is there, with its unit."""
    if not found:
        return 0
    groups = found.groups()
    number, unit = next((pair for pair in zip(groups[::2], groups[1::2], strict=True) if pair[0]), ("0", ""))
    try:
        return int(float(number.rstrip(".")) * _UNITS[(unit or "").upper()])
    except (ValueError, OverflowError):
        return 0


def _gb(size: int) -> str:
    return f"{size / 1e9:,.2f} GB" if size >= 1e7 else f"{size:,} bytes"
