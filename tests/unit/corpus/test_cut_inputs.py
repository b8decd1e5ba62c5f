"""The stage `inputs`: the same shards as one pass through a file gives, cached, and no text in tasks."""

from __future__ import annotations

import gzip
import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.build import build
from jprep.corpus.config import CorpusRecipe, DedupConfig, decode_recipe
from jprep.corpus.readers import lines
from jprep.corpus.readers.lines import Cc100Reader, TextReader
from jprep.corpus.stages import inputs, planned_shards, record_scan
from jprep.corpus.stages.inputs import CutFiles, InputsStage, ScanPart
from jprep.corpus.stages.planned_shards import CACHE, load_shard
from jprep.corpus.stages.read import ReadStage
from jprep.corpus.stages.record_scan import cut_shards, scan_part
from jprep.engine.executors.local import Local
from jprep.engine.executors.queued import Queue, QueueOptions, Submitted
from jprep.engine.output_kinds import STATE
from jprep.engine.queue.manifest import QUEUE, read_queue
from jprep.engine.queue.reader import QueueReader
from jprep.engine.queue.share import Share
from jprep.engine.runner import SilentProgress, TaskRunner
from jprep.engine.stage import Receipt, Task
from jprep.errors import InputError, Interrupted
from jprep.io.inputs.segments import segment_starts
from tests.conftest import digests
from tests.fakes import compressed

RECORDS = st.lists(st.sampled_from([b"\n", b"\r\n", b"\n\n", "日本".encode(), b"x", b"\r", b"word " * 9]), max_size=60)


@settings(max_examples=25, deadline=None)
@given(RECORDS, st.lists(st.integers(0, 90), max_size=8), st.integers(1, 40), st.sampled_from(list(compressed.FORMATS)))
def test_parts_give_the_shards_of_one_pass(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], cuts: list[int], size: int, name: str
) -> None:
    data, path = b"".join(records), tmp_path_factory.mktemp("cut") / name
    ends = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    parts = [data[start:end] for start, end in itertools.pairwise(ends)] or [b""]
    path.write_bytes(compressed.FORMATS[name](parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_SCANNED_SHARD", 0)
        patch.setattr(record_scan, "_APART", 1)
        patch.setattr(record_scan, "_BATCH", 16)
        patch.setattr(record_scan, "_PIECE", 7)
        for reader in (
            Cc100Reader(Cc100Reader.Config(shard_mb=size / 1e6)),
            TextReader(TextReader.Config(shard_mb=size / 1e6, documents="line")),
        ):
            assert found(reader, path) == [(each.start, each.end, each.data) for each in reader.shards(str(path))]


def found(reader: Any, path: Path) -> list[tuple[int, int, bytes | None]]:
    scan, starts = reader.record_scan(str(path)), segment_starts(str(path), 1) or [0]
    ranges = zip(starts, [*starts[1:], -1], strict=True)
    parts = [scan_part(str(path), start, end, scan) for start, end in ranges]
    planned = list(cut_shards(str(path), path.stat().st_size, scan, parts))
    shards = [load_shard(each, reader, path.parent) for each in planned]
    return [(shard.start, shard.end, shard.data) for shard in shards]


def test_a_part_that_begins_where_no_part_ends_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "a.txt.gz").write_bytes(compressed.bgzf([b"a\n" * 100, b"b\n" * 100]))
    reader = TextReader(TextReader.Config(documents="line", shard_mb=4))
    with pytest.raises(InputError, match="begins where no part ends"):
        scan_part(str(path), 0, 20, reader.record_scan(str(path)))  # type: ignore[arg-type]


def recipe(folder: Path, **source: Any) -> CorpusRecipe:
    """About 10 shards of three files: one in parts, and two that have to be read as a whole."""
    text = "".join(f"これは{number}番目の文である。\n" for number in range(12_000)).encode()
    pieces = [text[start : start + 15_000] for start in range(0, len(text), 15_000)]
    folder.mkdir(exist_ok=True)
    for name, data in {
        "a.txt.gz": compressed.bgzf(pieces),
        "b.txt.gz": gzip.compress(text.replace("番目".encode(), "個目".encode()), mtime=0),
        "c.txt.xz": compressed.xz(pieces[:3]),
    }.items():
        (folder / name).write_bytes(data)
    reader = {"use": "text", "documents": "line", "shard_mb": 0.1}
    sources = [{"name": "lines", "paths": [str(folder / "*.txt.*")], "reader": reader} | source]
    corpus = {"sources": sources, "segmenter": "none", "filters": [], "dedup": {"documents": False}}
    return decode_recipe({"name": "cut", "corpus": corpus})


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_SCANNED_SHARD", 0)
    monkeypatch.setattr(inputs, "PART", 5_000)
    monkeypatch.setattr(planned_shards, "_GROUP", 1 << 16)


class Progress(SilentProgress):
    """Stops a build after some tasks of a stage, and notes how many files are cached after each task."""

    def __init__(self, folder: Path, after: int = -1, last: str = "reading") -> None:
        self.folder, self.after, self.last, self.stage = folder, after, last, ""
        self.tasks: list[str] = []
        self.cached: list[int] = []

    def begin(self, stage: str, total: int) -> None:
        self.stage = stage

    def advance(self, weight: int, receipt: Any, *, fresh: bool) -> None:
        self.cached.append(len(list((self.folder / CACHE).glob("*.zst"))))
        self.tasks += [f"{self.stage}/{receipt.task}"] if fresh else []

    def stopping(self) -> bool:
        return 0 <= self.after <= sum(task.startswith(self.last) for task in self.tasks)


def interrupted(wanted: CorpusRecipe, folder: Path, after: int, last: str = "reading") -> Progress:
    progress = Progress(folder, after, last)
    with pytest.raises(Interrupted):
        build(wanted, folder, Local(1, progress.stopping), progress)
    return progress


def test_a_resumed_build_does_not_cut_its_inputs_again(tmp_path: Path) -> None:
    wanted = recipe(tmp_path / "in")
    build(wanted, tmp_path / "whole", Local(1), whole := Progress(tmp_path / "whole"))
    assert {name.partition("/")[0] for name in whole.tasks} == {"cutting the inputs", "reading"}
    assert max(whole.cached) > whole.cached[-1] == 0  # what is read is deleted
    stopped = interrupted(wanted, tmp_path / "out", 2, "cutting the inputs")
    assert stopped.tasks == whole.tasks[:2]
    again = interrupted(wanted, tmp_path / "out", 4)
    executor = Local(2)
    build(wanted, tmp_path / "out", executor, resumed := Progress(tmp_path / "out"))
    executor.close()
    assert sorted(stopped.tasks + again.tasks + resumed.tasks) == sorted(whole.tasks)
    assert not any(name.startswith("cutting the inputs/") for name in resumed.tasks)
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


IN_ONE_PIECE = "cutting the inputs/0000-lines-000007"
"""The task that decompresses the file in one piece."""

DAMAGES = [None, b"\x28\xb5\x2f\xfd", b""]


def damage_cache(folder: Path, damage: bytes | None) -> None:
    cached = list((folder / CACHE).glob("*.zst"))
    assert cached
    for path in cached:
        path.unlink() if damage is None else path.write_bytes(damage)


@pytest.mark.parametrize("damage", DAMAGES)
def test_cached_shards_that_are_lost_between_runs_are_made_again_once(
    damage: bytes | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = recipe(tmp_path / "in")
    build(wanted, tmp_path / "whole", Local(1), SilentProgress())
    stopped = interrupted(wanted, tmp_path / "out", after=1)
    damage_cache(tmp_path / "out", damage)
    build(wanted, tmp_path / "out", Local(1), resumed := Progress(tmp_path / "out"))
    assert "the task that wrote it is done again" in caplog.text and "read again" not in caplog.text
    assert set(stopped.tasks) & set(resumed.tasks) == {IN_ONE_PIECE}
    assert resumed.cached[-1] == 0 and digests(tmp_path / "out") == digests(tmp_path / "whole")


@pytest.mark.parametrize("damage", DAMAGES)
def test_cached_shards_that_are_lost_before_they_are_read_are_read_from_the_input(
    damage: bytes | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Losing(Progress):
        def begin(self, stage: str, total: int) -> None:
            if stage == "reading":
                damage_cache(self.folder, damage)

    wanted = recipe(tmp_path / "in")
    build(wanted, tmp_path / "whole", Local(1), SilentProgress())
    build(wanted, tmp_path / "out", Local(1), Losing(tmp_path / "out"))
    assert "missing or damaged" in caplog.text
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


class Copies:
    """An executor that runs two more copies of each task: one that finds the receipt of the first, and one without it.

    Attributes:
        warned: whether an input was read again, by copy.
    """

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self.warned = [False, False]

    def map(self, job: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        for task in tasks:
            first = job(task)
            for copy in range(2):
                self._caplog.clear()
                assert job(task) == first
                self.warned[copy] |= "read again" in self._caplog.text
                if copy == 0:
                    (job.receipts / f"{task.id}.json").unlink()
            yield task, first

    def close(self) -> None:
        pass


def test_a_second_copy_of_a_task_takes_the_receipt_of_the_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first copy has deleted the cached shards; only without its receipt they are read from the input."""
    wanted = recipe(tmp_path / "in")
    build(wanted, tmp_path / "whole", Local(1), SilentProgress())
    build(wanted, tmp_path / "out", copies := Copies(caplog), SilentProgress())
    assert copies.warned == [False, True]
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


def test_a_lost_shard_of_the_corpus_is_made_again_by_one_task_of_each_stage(tmp_path: Path) -> None:
    wanted = recipe(tmp_path / "in")
    dedup = DedupConfig(documents=True)
    wanted = msgspec.structs.replace(wanted, corpus=msgspec.structs.replace(wanted.corpus, dedup=dedup))
    build(wanted, tmp_path / "whole", Local(1), whole := Progress(tmp_path / "whole"))
    words = sum(name.startswith("segmenting/") for name in whole.tasks)
    stopped = interrupted(wanted, tmp_path / "out", words - 1, "segmenting")
    lost = "0000-lines-000006"  # the second shard of the file in one piece
    (tmp_path / f"out/documents/{lost}.parquet").unlink()
    build(wanted, tmp_path / "out", Local(1), resumed := Progress(tmp_path / "out"))
    assert set(stopped.tasks) & set(resumed.tasks) == {IN_ONE_PIECE, f"reading/{lost}", f"segmenting/{lost}"}
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


@pytest.mark.parametrize("shards", [0, 8])
def test_a_worker_elsewhere_deletes_what_it_has_read(shards: int, tmp_path: Path) -> None:
    """A command that does not wait opens the queue of each stage; `jprep work` does its tasks."""
    wanted, out = recipe(tmp_path / "in", shards=shards), tmp_path / "out"
    build(wanted, tmp_path / "whole", Local(1), SilentProgress())
    cached = list[int]()
    for stage in ["documents"] if shards else ["inputs", "documents"]:
        with pytest.raises(Submitted):
            build(wanted, out, Queue(1, lambda: False, QueueOptions(wait=False)), SilentProgress())
        folder = out / STATE / stage / QUEUE
        assert (manifest := read_queue(folder))
        cached.append(len(list((out / CACHE).glob("*.zst"))))
        assert Share(QueueReader(folder, manifest), 0, 1, 1, lambda: False).run().complete
    assert cached[-1] > 0 and not list((out / CACHE).glob("*.zst"))
    build(wanted, out, Local(1), rest := Progress(out))
    assert rest.tasks == [] and digests(out) == digests(tmp_path / "whole")


def test_the_stage_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, the main process reads the inputs from their starts, as earlier versions did."""
    wanted = recipe(tmp_path / "in")
    build(wanted, tmp_path / "new", Local(1), SilentProgress())
    monkeypatch.setattr(InputsStage, "is_needed", lambda stage: False)
    build(wanted, tmp_path / "old", Local(1), SilentProgress())
    assert digests(tmp_path / "new") == digests(tmp_path / "old")


@pytest.mark.parametrize("shards", [0, 3])
def test_tasks_have_no_text(shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, kinds, tasks = list[int](), set[type](), ReadStage.tasks

    def noting(stage: Any, real: Any) -> Iterator[Any]:
        for task in real(stage):
            sizes.append(len(pickle.dumps(task)))
            kinds.add(type(task.payload))
            yield task

    cut = InputsStage.tasks
    monkeypatch.setattr(ReadStage, "tasks", lambda stage: noting(stage, tasks))
    monkeypatch.setattr(InputsStage, "tasks", lambda stage: noting(stage, cut))
    build(recipe(tmp_path / "in", shards=shards), tmp_path / "out", Local(1), SilentProgress())
    assert len(sizes) > 2 and max(sizes) < 2000
    assert kinds >= (set() if shards else {CutFiles, ScanPart})


def test_a_large_file_in_one_piece_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "_LARGE", 20_000)
    build(recipe(tmp_path / "in"), tmp_path / "out", Local(1), SilentProgress())
    named = [record.getMessage() for record in caplog.records if "in one piece" in record.getMessage()]
    assert len(named) == 1 and "b.txt.gz" in named[0] and "bgzip" in named[0]


def test_inputs_that_can_be_read_anywhere_need_no_stage(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("一\n二\n", encoding="utf-8")
    source = {"name": "a", "paths": [str(tmp_path / "a.txt")], "reader": "text"}
    wanted: CorpusRecipe = decode_recipe(
        {"name": "n", "corpus": {"sources": [source], "segmenter": "none", "filters": []}}
    )
    build(wanted, tmp_path / "out", Local(1), progress := Progress(tmp_path / "out"))
    assert not any(name.startswith("cutting the inputs/") for name in progress.tasks)


def test_a_cache_is_compressed(tmp_path: Path) -> None:
    shard = next(iter(TextReader(TextReader.Config(documents="line")).shards(str(_gzip(tmp_path)))))
    planned = planned_shards.without_data(shard, tmp_path, "x")
    assert planned.stored and shard.data
    assert (tmp_path / planned.stored.file).stat().st_size < len(shard.data) / 3


def _gzip(folder: Path) -> Path:
    (path := folder / "a.gz").write_bytes(gzip.compress("同じ文である。\n".encode() * 1000))
    return path
