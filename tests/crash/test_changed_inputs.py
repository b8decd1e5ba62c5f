"""Inputs that change during a build or an interruption: no corpus mixes old and new text."""

from __future__ import annotations

import bz2
import gzip
import os
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jprep.corpus.build import build
from jprep.corpus.config import decode_recipe
from jprep.corpus.stages import planned_shards, read
from jprep.engine.executors.local import Local
from jprep.engine.stage import Receipt
from jprep.errors import InputError, Interrupted, JprepError, MismatchError
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.train import train
from jprep.tokenizer.training_data import InputTrainingData, WordCountTrainingData
from tests.conftest import digests
from tests.hostile.conftest import dump

LETTERS = "あいうえおかきくけこさしすせそ山川空海人日本語"
CONFIG = TokenizerConfig(model="bpe", vocab_size=400, alphabet=50, boundaries="none")


def sentences(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    return ["".join(chance.choices(LETTERS, k=60)) + "。" for _ in range(count)]


def jsonl(seed: int) -> bytes:
    return "".join(f'{{"id": "{n}", "text": "{text}"}}\n' for n, text in enumerate(sentences(seed, 6_000))).encode()


def wiki(seed: int) -> bytes:
    return dump("\n\n".join(sentences(seed * 1000 + page, 60)) for page in range(250))


KINDS: dict[str, tuple[str, dict[str, Any], Callable[[int], bytes]]] = {
    "byte ranges": ("input.jsonl", {"use": "jsonl", "id": "id", "shard_mb": 0.3}, jsonl),
    "gzip": (
        "input.jsonl.gz",
        {"use": "jsonl", "id": "id", "shard_mb": 0.3},
        lambda seed: gzip.compress(jsonl(seed), 1, mtime=0),
    ),
    "bzip2 blocks": ("dump.xml.bz2", {"use": "wikipedia", "shard_mb": 1}, lambda seed: bz2.compress(wiki(seed), 1)),
}


class Changing:
    """Watches a build: does something before its first task or once that is committed, and may stop the build then."""

    def __init__(self, change: Callable[[], object], *, first: bool = False, stop: bool = False) -> None:
        self._change, self._first, self._stop, self.seen = change, first, stop, 0

    def begin(self, stage: str, total: int) -> None:
        """A stage begins."""
        if self._first:
            self._change()

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        """A task is committed."""
        self.seen += 1
        if self.seen == 1 and not self._first:
            self._change()

    def __call__(self) -> bool:
        """Return whether to stop."""
        return self._stop and self.seen > 0


def nothing() -> None:
    """Change nothing."""


class Made:
    """An input of one kind, and a build of it."""

    def __init__(self, kind: str, folder: Path) -> None:
        name, self._reader, self._content = KINDS[kind]
        self.folder, self.path, self.corpus = folder, folder / name, folder / "corpus"
        self.write(1)

    def write(self, seed: int) -> None:
        """Write the input in place."""
        self.path.write_bytes(self._content(seed))

    def replace(self) -> None:
        """Put another file in its place."""
        other = self.folder / "other"
        other.write_bytes(self._content(2))
        other.replace(self.path)

    def overwrite_a_tail(self) -> None:
        """Write other bytes over its end; put size and time back."""
        before, data = self.path.stat(), self.path.read_bytes()
        with self.path.open("r+b") as file:
            file.seek(len(data) * 3 // 4)
            file.write(self._content(2)[len(data) * 3 // 4 : len(data)])
            file.truncate(len(data))
        os.utime(self.path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def build(self, watch: Changing, workers: int = 1, *, folder: Path | None = None, restart: bool = False) -> None:
        """Build a corpus of it."""
        source = {"name": "s", "paths": [str(self.path)], "reader": self._reader}
        config = {"sources": [source], "segmenter": "none", "dedup": {"lines": False, "documents": False}}
        recipe = decode_recipe({"name": "changed", "corpus": config}, (), where="the test")
        with closing(Local(workers, watch)) as executor:
            build(recipe, folder or self.corpus, executor, watch, restart=restart)


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small shards are tasks of their own."""
    monkeypatch.setattr(planned_shards, "_GROUP", 1)


@pytest.fixture(params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """An input of each kind."""
    return Made(request.param, tmp_path)


OTHER = r"the input file \S+ of the source s has changed"
CHANGES = ["replace", "overwrite_a_tail"]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("change", CHANGES)
def test_changed_while_the_build_runs(change: str, workers: int, made: Made) -> None:
    with pytest.raises(InputError, match="the input has changed") as caught:
        made.build(Changing(getattr(made, change), first=workers > 1), workers)
    assert str(made.path) in caught.value.where and caught.value.exit_code == 4
    assert not (made.corpus / "corpus.json").exists()
    if list(made.corpus.rglob("receipts/*")):  # a task was committed: it is of the input as it was
        with pytest.raises(MismatchError, match=OTHER):
            made.build(Changing(nothing), workers)
    made.write(1)
    made.build(Changing(nothing), workers)
    made.build(Changing(nothing), folder=made.folder / "uninterrupted")
    assert digests(made.corpus) == digests(made.folder / "uninterrupted")


@pytest.mark.parametrize("kind", ["byte ranges", "bzip2 blocks"])
@pytest.mark.parametrize("change", CHANGES)
def test_content_is_compared_as_it_is_read(
    kind: str, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a look at the file's times, as where a disk returns other bytes."""
    monkeypatch.setattr(read, "refuse_changed", lambda file: None)
    made = Made(kind, tmp_path)
    with pytest.raises(InputError, match="the input has changed") as caught:
        made.build(Changing(getattr(made, change)))
    assert f"{made.path}, bytes " in caught.value.where


def test_changed_while_the_build_is_interrupted(made: Made) -> None:
    with pytest.raises(Interrupted):
        made.build(Changing(made.overwrite_a_tail, stop=True))
    with pytest.raises(MismatchError, match=OTHER):
        made.build(Changing(nothing))
    made.write(2)
    made.build(Changing(nothing), restart=True)
    made.build(Changing(nothing), folder=made.folder / "uninterrupted")
    assert digests(made.corpus) == digests(made.folder / "uninterrupted")


def test_touched_and_otherwise_unchanged(made: Made) -> None:
    made.build(Changing(lambda: os.utime(made.path)), 2)
    made.build(Changing(nothing), folder=made.folder / "uninterrupted")
    assert digests(made.corpus) == digests(made.folder / "uninterrupted")


@pytest.mark.parametrize("cache", [b"", b"{", b"\xff\xfe", b'{"a": "b"}', b"[]"])
def test_a_damaged_memory_of_hashes_is_made_again(cache: bytes, tmp_path: Path) -> None:
    made = Made("byte ranges", tmp_path)
    with pytest.raises(Interrupted):
        made.build(Changing(nothing, stop=True))
    (made.corpus / ".state" / "inputs.json").write_bytes(cache)
    made.build(Changing(nothing))
    made.build(Changing(nothing), folder=tmp_path / "uninterrupted")
    assert digests(made.corpus) == digests(tmp_path / "uninterrupted")


def test_an_input_that_changes_before_a_tokenizers_corpus_is_built(tmp_path: Path) -> None:
    path = tmp_path / "input.txt"
    path.write_text("\n".join(sentences(1, 300)), encoding="utf-8")
    source = {"name": "s", "paths": [str(path)], "reader": "text"}
    recipe = decode_recipe({"name": "r", "corpus": {"sources": [source], "segmenter": "none"}}, (), where="the test")
    material = InputTrainingData(recipe, tmp_path / "tokenizer" / ".state" / "inputs.json")
    count = material.count

    def changed_first(*arguments: Any) -> Any:
        path.write_text("\n".join(sentences(2, 300)), encoding="utf-8")
        return count(*arguments)

    material.count = changed_first  # type: ignore[method-assign]
    with pytest.raises(JprepError, match="an input has changed"), closing(Local(1)) as executor:
        train(material, CONFIG, tmp_path / "tokenizer", executor, Changing(nothing))


def test_word_counts_that_change_before_they_are_added_up(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("".join(f"{text}\t3\n" for text in sentences(1, 300)), encoding="utf-8")
    material = WordCountTrainingData(path)
    count = material.count

    def changed_first(*arguments: Any) -> Any:
        path.write_text("".join(f"{text}\t3\n" for text in sentences(2, 300)), encoding="utf-8")
        return count(*arguments)

    material.count = changed_first  # type: ignore[method-assign]
    with pytest.raises(InputError, match="the input has changed"), closing(Local(1)) as executor:
        train(material, CONFIG, tmp_path / "tokenizer", executor, Changing(nothing))
