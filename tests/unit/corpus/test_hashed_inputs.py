"""Inputs are hashed side by side: in order, once, and not at all if they change meanwhile."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from jprep.corpus import input_files
from jprep.corpus.config import CorpusRecipe, Source, decode_recipe
from jprep.corpus.input_files import find_inputs
from jprep.errors import InputError, Interrupted
from jprep.io.hashing import hash_content


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """A source of twelve files; the first one is the largest."""
    for number in range(12):
        (tmp_path / f"{number:02}.txt").write_bytes(bytes([number]) * (3 << 20 if number == 0 else 1000))
    raw = {"name": "a", "paths": [str(tmp_path / "*.txt")], "reader": "text"}
    recipe: CorpusRecipe = decode_recipe({"name": "some", "corpus": {"sources": [raw]}})
    return recipe.corpus.sources[0]


def test_hashes_are_in_order_and_cached(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_inputs(source, cache := tmp_path / "cache.json")
    assert [file.name for file in found] == [f"{number:02}.txt" for number in range(12)]
    assert [file.sha256 for file in found] == [
        hashlib.sha256(Path(file.path).read_bytes()).hexdigest() for file in found
    ]
    hashed = list[str]()
    real = input_files._hash
    monkeypatch.setattr(input_files, "_hash", lambda path, stop: (hashed.append(path), real(path, stop))[1])
    assert find_inputs(source, cache) == found and not hashed
    (tmp_path / "07.txt").write_bytes(b"other")
    assert [file.size for file in find_inputs(source, cache)][7] == 5 and hashed == [str(tmp_path / "07.txt")]


def test_a_file_that_changes_meanwhile_is_refused_and_not_cached(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, hashed = input_files._hash, list[str]()

    def changing(path: str, stop: Event) -> Any:
        if path.endswith("03.txt") and path not in hashed:
            os.utime(path, ns=(5, 5))
        hashed.append(path)
        return real(path, stop)

    monkeypatch.setattr(input_files, "_hash", changing)
    with pytest.raises(InputError, match="changed"):
        find_inputs(source, cache := tmp_path / "cache.json")
    known = input_files._read_cache(cache)
    assert len(known) >= 3 and not any("03.txt" in key for key in known)
    before = len(hashed)
    monkeypatch.setattr(input_files, "_hash", lambda path, stop: (hashed.append(path), real(path, stop))[1])
    assert len(find_inputs(source, cache)) == 12
    assert len(hashed) - before == 12 - len(known)  # what was hashed before is not hashed again


class Endless:
    """A file without an end, which tells that it is being read."""

    def __init__(self, reading: Event) -> None:
        self._reading = reading

    def read(self, size: int, /) -> bytes:
        self._reading.set()
        return bytes(size)


def test_an_interrupted_command_does_not_wait_for_its_hashes(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file cannot be read to its end; those that are hashed until the interruption are kept."""
    real, reading, stopped = input_files._hash, Event(), Event()

    def endless(path: str, stop: Event) -> Any:
        if not path.endswith("00.txt"):
            return real(path, stop)
        try:
            return hash_content(Endless(reading), stop)
        except Interrupted:
            stopped.set()
            raise

    class Interrupting:
        """A future whose result is waited for when the user interrupts the command."""

        def result(self) -> None:
            reading.wait()
            raise KeyboardInterrupt

    class Pool(input_files.ThreadPoolExecutor):
        def submit(self, *args: Any) -> Any:
            future = super().submit(*args)
            if args[1].endswith("00.txt"):
                return Interrupting()
            future.result()
            return future

    monkeypatch.setattr(input_files, "_hash", endless)
    monkeypatch.setattr(input_files, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(input_files, "cpu_count", lambda: 2)
    with pytest.raises(KeyboardInterrupt):
        find_inputs(source, cache := tmp_path / "cache.json")
    assert stopped.is_set() and len(input_files._read_cache(cache)) == 11
