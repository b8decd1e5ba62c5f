"""Child processes that answer lines of JSON."""

from __future__ import annotations

import gc
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from jprep.errors import JprepError, MachineError
from jprep.json_process import JsonProcess

DOUBLES = """
import json, os, sys
print(json.dumps({"number": os.getpid()}), flush=True)
for line in sys.stdin:
    number = json.loads(line)["number"]
    if number < 0:
        sys.exit(f"no roots of negative numbers in {os.environ['PLACE']}")
    print(json.dumps({"number": 2 * number}) if number else "nothing", flush=True)
"""


class Number(msgspec.Struct):
    number: int


@pytest.fixture
def doubles() -> JsonProcess:
    return JsonProcess([sys.executable, "-c", DOUBLES], "the calculator", Path("here"), {"PLACE": "Kyoto"})


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_threads_get_their_own_answers(doubles: JsonProcess) -> None:
    doubles.read(Number)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: doubles.ask(Number(number), Number).number, range(1, 100)))
    assert found == list(range(2, 200, 2))


def test_a_process_that_died_is_an_error_with_its_stderr(doubles: JsonProcess) -> None:
    doubles.read(Number)
    for _ in range(2):
        with pytest.raises(MachineError, match=r"the calculator exited with code 1: no roots .* in Kyoto"):
            doubles.ask(Number(-1), Number)
    doubles.close()
    doubles.close()


def test_an_answer_that_is_not_json_is_an_error(doubles: JsonProcess) -> None:
    doubles.read(Number)
    with pytest.raises(JprepError, match="the calculator wrote an invalid answer: b'nothing"):
        doubles.ask(Number(0), Number)
    assert doubles.ask(Number(4), Number) == Number(8)


def test_an_interrupted_request_leaves_no_answer_behind(doubles: JsonProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(kind: type[Number]) -> Number:
        raise KeyboardInterrupt

    doubles.read(Number)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(doubles, "read", interrupt)
        doubles.ask(Number(1), Number)
    with pytest.raises(MachineError, match="the calculator was stopped"):
        doubles.ask(Number(10), Number)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_process_ends_with_its_object() -> None:
    process = JsonProcess([sys.executable, "-c", DOUBLES], "the calculator", Path("here"))
    pid = process.read(Number).number
    assert runs(pid)
    del process
    gc.collect()
    deadline = time.monotonic() + 20
    while runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(pid)
