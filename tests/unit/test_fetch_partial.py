"""A partial download that was damaged meanwhile is not resumed."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from jprep.corpus.download.partial import Part, State

DATA = random.Random(7).randbytes(200_000)
URL = "http://localhost/file"


def receive(part: Part, start: int, end: int) -> None:
    answer: Any = SimpleNamespace(validator="v", total=len(DATA), start=start)
    with part.writing(answer) as write:
        for at in range(start, end, 4096):
            write(DATA[at : min(at + 4096, end)])


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The path of a file of which a part was downloaded, in two sessions."""
    receive(Part(tmp_path / "file", URL), 0, 50_000)
    part = Part(tmp_path / "file", URL)
    assert part.state.safe == 50_000
    receive(part, 50_000, 120_000)
    return tmp_path / "file"


def test_a_sound_part_goes_on_where_it_stopped(begun: Path, caplog: pytest.LogCaptureFixture) -> None:
    part = Part(begun, URL)
    assert (part.state.safe, part.complete) == (120_000, False)
    receive(part, 120_000, len(DATA))
    assert part.complete
    part.commit()
    assert begun.read_bytes() == DATA and caplog.text == ""


@pytest.mark.parametrize("suffix", [".part", ".part.json"])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.999])
def test_a_flipped_bit_begins_anew(suffix: str, place: float, begun: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = begun.with_name(begun.name + suffix)
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 4
    path.write_bytes(data)
    assert Part(begun, URL).state == State(URL)
    assert "file.part is damaged: it is downloaded again" in caplog.text


@pytest.mark.parametrize("data", [b"", b"{", b'{"url": "\xff"}', b"[]"])
def test_garbage_begins_anew(data: bytes, begun: Path) -> None:
    begun.with_name("file.part.json").write_bytes(data)
    assert Part(begun, URL).state == State(URL)


def test_a_part_of_jprep_0_1_goes_on(begun: Path) -> None:
    state = {"url": URL, "validator": "v", "total": len(DATA), "safe": 100_000}
    begun.with_name("file.part.json").write_bytes(msgspec.json.encode(state))
    part = Part(begun, URL)
    assert part.state.safe == 100_000
    receive(part, 100_000, len(DATA))
    part.commit()
    assert begun.read_bytes() == DATA
