"""Structs are decoded in several threads at once."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from jprep.typed_json import convert, decode_json

THREADS = """
import sys, threading, types
import msgspec
from jprep.typed_json import convert, decode_json

sys.setswitchinterval(1e-6)
RAW = {"name": "a", "files": {"b": {"path": "c", "size": 1}}}
DATA = msgspec.json.encode(RAW)


def new_struct(number):
    module = sys.modules[f"structs{number}"] = types.ModuleType(f"structs{number}")
    names = {"__annotations__": {"path": "str", "size": "int"}, "__module__": module.__name__}
    module.File = type(msgspec.Struct)("File", (msgspec.Struct,), names)
    names = {"__annotations__": {"name": "str", "files": "dict[str, File]"}, "__module__": module.__name__}
    return type(msgspec.Struct)("Folder", (msgspec.Struct,), names)


def decode(kind, barrier, found):
    barrier.wait()
    found.append((convert(RAW, kind), decode_json(DATA, kind)))


for number in range(200):
    kind, barrier, found = new_struct(number), threading.Barrier(4), []
    threads = [threading.Thread(target=decode, args=(kind, barrier, found)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(one == other and one.files["b"].size == 1 for one, other in found)
"""


class Size(msgspec.Struct):
    size: int


def test_threads_may_decode_the_same_new_struct() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"


def test_wrong_types_are_reported() -> None:
    assert decode_json(b'[{"size": 1}]', list[Size]) == convert([{"size": 1}], list[Size]) == [Size(1)]
    with pytest.raises(msgspec.ValidationError, match="size"):
        decode_json(b'{"size": "one"}', Size)
    with pytest.raises(msgspec.ValidationError, match="size"):
        convert({}, Size)
    with pytest.raises(msgspec.DecodeError):
        decode_json(b"{", Size)
