"""Marks on disk: blocks that any zstd reads, the same bytes however they come, and damage that is told."""

from __future__ import annotations

import io
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.dataset.indexed import mark_file
from jprep.dataset.indexed.mark_file import BLOCK, MarkReader, MarkWriter
from jprep.dataset.indexed.split import IndexedSplit, write_index
from jprep.errors import MismatchError
from tests.fakes.mark_file import read, written

MARKS = np.random.default_rng(1).choice(4, 1000, p=[0.1, 0.8, 0.03, 0.07]).astype(np.uint8)
STRETCHES = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)))


def wrote(parts: list[np.ndarray], block: int = BLOCK) -> bytes:
    file = io.BytesIO()
    writer = MarkWriter(file, block)
    for part in parts:
        writer.add(part)
    writer.end()
    return file.getvalue()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.marks"
    path.write_bytes(wrote([MARKS], 64))
    return path


@given(st.integers(0, 1000), st.lists(st.integers(0, 1000), max_size=6), st.sampled_from([4, 8, 64, BLOCK]))
def test_any_cut_gives_the_same_bytes(count: int, cuts: list[int], block: int) -> None:
    whole = wrote([MARKS[:count]], block)
    assert wrote(np.split(MARKS[:count], sorted(min(cut, count) for cut in cuts)), block) == whole
    assert read(whole) == MARKS[:count].tolist()


@settings(max_examples=40)
@given(count=st.integers(0, 200), block=st.sampled_from([4, 8, 64]), asked=STRETCHES)
def test_any_stretch_is_read(
    count: int, block: int, asked: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("marks") / "s.marks"
    path.write_bytes(written(MARKS[:count].tolist(), block))
    reader = MarkReader(path, count)
    for start, stop in asked:
        found = reader.read(min(start, count), min(stop, count))
        assert found.dtype == np.uint8 and found.tolist() == MARKS[:count][start:stop].tolist()


def test_blocks_are_small_and_marks_take_less_than_half() -> None:
    marks = np.random.default_rng(2).choice(4, 100_000, p=[0.06, 0.9, 0.01, 0.03]).astype(np.uint8)
    data = wrote([marks])
    assert len(data) < 0.5 * 100_000 / 4
    assert read(data) == marks.tolist()


def test_every_cut_of_a_file_is_told(path: Path) -> None:
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(MismatchError, match=r"s\.marks"):
            MarkReader(path, len(MARKS))
    for data in (whole + b"\0", whole + whole[-8:], b"\0" + whole):
        path.write_bytes(data)
        with pytest.raises(MismatchError, match=r"s\.marks"):
            MarkReader(path, len(MARKS))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: b"X" + data[1:], "no file of marks"),
        (lambda data: data[:8] + b"\2" + data[9:], "of version 1"),
        (lambda data: data[:12] + bytes(4) + data[16:], "of version 1"),
        (lambda data: data[:12] + b"\x06" + data[13:], "of version 1"),
        (lambda data: data[:-8] + b"\1" + data[-7:], "marks of all 1000 tokens"),
    ],
)
def test_another_layout_is_told(change, told: str, path: Path) -> None:
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(MismatchError, match=told):
        MarkReader(path, len(MARKS))


def test_other_tokens_are_told(path: Path) -> None:
    for tokens in (0, 999, 1001, 2000):
        with pytest.raises(MismatchError, match=f"all {tokens} tokens"):
            MarkReader(path, tokens)


def test_a_damaged_block_is_told_when_it_is_read(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[16:20] = b"\0\0\0\0"  # the first frame's magic
    path.write_bytes(data)
    reader = MarkReader(path, len(MARKS))
    with pytest.raises(MismatchError, match="block 0 cannot be read"):
        reader.read(0, 1)
    assert reader.read(64, 70).tolist() == MARKS[64:70].tolist()
    short = written(MARKS[:8].tolist(), 8)
    longer = short[:16] + written(MARKS[:4].tolist(), 8)[16:-24] + short[-24:]
    frame = len(longer) - 16 - 24
    path.write_bytes(longer[:-16] + (16 + frame).to_bytes(8, "little") + longer[-8:])
    with pytest.raises(MismatchError, match="has 1 bytes, and should have 2"):
        MarkReader(path, 8).read(0, 8)


def test_few_blocks_are_kept_and_released(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mark_file, "_HELD", 3)
    reader, asked = MarkReader(path, len(MARKS)), []
    whole = reader._decompressed
    monkeypatch.setattr(reader, "_decompressed", lambda number: asked.append(number) or whole(number))
    for number in (0, 1, 2, 0, 3, 1, 0):  # the oldest goes: 0, when 3 comes
        reader.read(64 * number, 64 * number + 5)
    assert asked == [0, 1, 2, 3, 0]
    reader.release()
    assert reader.read(0, 1000).tolist() == MARKS.tolist()
    assert len(reader._held.blocks) == 3


def test_threads_share_a_reader(path: Path) -> None:
    reader, wrong = MarkReader(path, len(MARKS)), []

    def look(seed: int) -> None:
        for start in np.random.default_rng(seed).integers(0, 900, 300).tolist():
            if reader.read(start, start + 100).tolist() != MARKS[start : start + 100].tolist():
                wrong.append(start)

    threads = [threading.Thread(target=look, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_split_lets_go_of_its_pages(tmp_path: Path) -> None:
    tokens = np.arange(3 * (1 << 18)).astype("<u2")
    (tmp_path / "s.bin").write_bytes(tokens.tobytes())
    (tmp_path / "s.marks").write_bytes(wrote([(tokens % 4).astype(np.uint8)]))
    with (tmp_path / "s.idx").open("wb") as file:
        write_index(file, "uint16", 1, lambda: [np.array([len(tokens)])])
    split = pickle.loads(pickle.dumps(IndexedSplit(tmp_path / "s", "uint16")))
    assert int(split.tokens.sum()) == int(tokens.sum()) and (split.marks(0, len(tokens)) == tokens % 4).all()
    before = resident(tmp_path / "s.bin")
    split.release()
    assert before > 1000 and resident(tmp_path / "s.bin") == 0
    assert split.marks(5, 9).tolist() == [1, 2, 3, 0] and split[0][70_000] == 70_000 % 65_536


def resident(path: Path) -> int:
    """Kilobytes of a mapped file that this process holds."""
    maps = Path("/proc/self/smaps")
    if not maps.exists():
        pytest.skip("this system has no /proc/self/smaps")
    of_path = [text for text in maps.read_text().split("VmFlags") if str(path) in text]
    return sum(int(text.partition("Rss:")[2].split()[0]) for text in of_path)
