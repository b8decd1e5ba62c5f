"""From what a sample took to the work of the whole inputs, and its disk."""

from __future__ import annotations

import bz2
import gzip
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.config import Source
from jprep.corpus.readers import lines
from jprep.corpus.stages import inputs
from jprep.errors import ConfigError
from jprep.pipeline.estimate.disk import follow_disk
from jprep.pipeline.estimate.loads.dataset_loads import dataset_loads
from jprep.pipeline.estimate.loads.input_loads import CACHED, DECODING
from jprep.pipeline.estimate.loads.task_loads import StageLoad, TaskGroup
from jprep.pipeline.estimate.loads.tokenizer_loads import UnitGrowth, tokenizer_loads
from jprep.pipeline.estimate.loads.workload import Workload, scale_up
from jprep.pipeline.estimate.measuring import input_division
from jprep.pipeline.estimate.measuring.calibration import Calibration, MeasuredStep
from jprep.pipeline.estimate.measuring.input_division import describe_whole_files, find_division
from jprep.pipeline.estimate.measuring.input_sizes import SourceSizes, measure_sources
from jprep.pipeline.estimate.measuring.machine_rates import MachineRates
from jprep.pipeline.estimate.measuring.sampling import make_sample
from jprep.pipeline.estimate.measuring.sampling_executor import MeasuredStage, MeasuredTask
from jprep.pipeline.recipe import Recipe, decode_recipe
from jprep.tokenizer.config import TokenizerConfig
from tests.fakes import compressed

MB = 1_000_000
MACHINE = MachineRates(write=1e8, read=1e9, files=1000, hashing=1e9, start=0.5, task=0.001, mapping=0.0)


def recipe(*sources: str, shards: int = 0, reader: object = "jsonl") -> Recipe:
    listed = [{"name": name, "paths": [f"{name}.jsonl"], "reader": reader, "shards": shards} for name in sources]
    return decode_recipe({"name": "some", "corpus": {"sources": listed}})


def read_task(name: str, weight: int, cpu: float, size: int) -> MeasuredTask:
    """A task that read so many bytes and wrote a file of documents and one of hashes."""
    counts = {"total.characters": weight // 3, "total.bytes": weight}
    return MeasuredTask(name, weight, 0.01, cpu, {"documents": size, "hashes": 240}, {"hashes": 10}, counts)


def segment_task(name: str, weight: int, cpu: float, size: int) -> MeasuredTask:
    counts = {"total.bytes": 3 * weight}
    return MeasuredTask(name, weight, 0.0, cpu, {"documents": size}, {"documents": 5}, counts)


def calibration(read: list[MeasuredTask], words: list[MeasuredTask], sources: int, ratio: float = 1.0) -> Calibration:
    groups = {task.group for task in read}
    documents = MeasuredStage("documents", 0.2, 100 * MB, read, groups, 2 * len(read))
    dedup = MeasuredStage("dedup", 0.0, 100 * MB, [MeasuredTask("000000", 1, 0.0, 0.5, {"drops": 100})], set(), 1)
    segmenting = MeasuredStage("words", 0.3, 200 * MB, words, set(), len(words))
    step = MeasuredStep([documents, dedup, segmenting], rest=1.0)
    whole = dict.fromkeys(range(sources), 0)
    return Calibration(MACHINE, {"corpus": step}, list(whole), set(), [ratio] * sources, expansion=[1.0] * sources)


def by_name(work: Workload) -> dict[str, StageLoad]:
    return {load.name: load for load in work.stages}


def test_each_source_grows_by_its_own_share() -> None:
    read = [read_task("0000-a-000000", 2 * MB, 1.0, 400_000), read_task("0001-b-000000", 2 * MB, 3.0, 100_000)]
    words = [
        segment_task("0000-a-000000", 2 * MB // 3, 2.0, 500_000),
        segment_task("0001-b-000000", 2 * MB // 3, 4.0, 1),
    ]
    sizes = [SourceSizes("a", [20 * MB]), SourceSizes("b", [100 * MB, 100 * MB])]
    found = by_name(scale_up(recipe("a", "b"), calibration(read, words, 2), sizes))
    assert found["documents"].tasks == 10 + 100
    assert found["documents"].cpu == pytest.approx(
        1.0 + 0.22 + 10 * 1.0 + 100 * 3.0 + 0.03
    )  # rest, hashing, sources, files
    assert found["documents"].folders["documents"] == pytest.approx(10 * 400_000 + 100 * 100_000)
    assert found["words"].cpu == pytest.approx(10 * 2.0 + 100 * 4.0, rel=1e-5)
    assert found["dedup"].cpu == pytest.approx(0.5 * (10 + 100) / 2)
    assert found["documents"].read == pytest.approx(220 * MB)


def test_segmenting_grows_with_what_was_read_where_only_a_part_was_segmented() -> None:
    read = [read_task(f"0000-a-{number:06d}", 2 * MB, 1.0, 1) for number in range(4)]
    words = [segment_task("0000-a-000000", 2 * MB // 3, 2.0, 7)]
    found = by_name(scale_up(recipe("a"), calibration(read, words, 1), [SourceSizes("a", [80 * MB])]))
    assert found["words"].cpu == pytest.approx(40 * 2.0, rel=1e-5)
    assert found["words"].folders["documents"] == pytest.approx(40 * 7, rel=1e-5)


def test_a_limit_of_shards_and_larger_shards_are_respected() -> None:
    read = [read_task("0000-a-000000", 2 * MB, 1.0, 1)]
    words = [segment_task("0000-a-000000", 2 * MB // 3, 2.0, 7)]
    sizes = [SourceSizes("a", [64 * MB])]
    larger = by_name(scale_up(recipe("a"), calibration(read, words, 1, ratio=16.0), sizes))
    assert larger["documents"].tasks == 2 and larger["documents"].cpu == pytest.approx(1 + 0.064 + 32 + 0.01)
    assert larger["documents"].memory > 100 * MB + 30 * MB
    few = by_name(scale_up(recipe("a", shards=3), calibration(read, words, 1), sizes))
    assert few["documents"].tasks == 3 and few["words"].cpu == pytest.approx(3 * 2.0, rel=1e-5)


def test_the_beginning_of_a_file_is_read_once_however_large_it_is() -> None:
    first = msgspec.structs.replace(read_task("0000-a-000000", 2 * MB, 1.0, 1), main=0.5)
    read = [first, *(read_task(f"0000-a-{number:06d}", 2 * MB, 1.0, 1) for number in (1, 2, 3))]
    words = [segment_task("0000-a-000000", 2 * MB // 3, 2.0, 7)]
    [group] = by_name(scale_up(recipe("a"), calibration(read, words, 1), [SourceSizes("a", [80 * MB, 80 * MB])]))[
        "documents"
    ].groups
    assert group.number * group.main == pytest.approx(2 * 0.49 + 80 * 0.01)


def test_a_source_that_was_read_to_its_end_is_not_scaled() -> None:
    read = [read_task("0000-a-000000", 900, 1.0, 1)]  # its reader does not count all bytes of the file
    found = calibration(read, [segment_task("0000-a-000000", 300, 2.0, 7)], 1)
    found.steps["corpus"].stages[0].skipped = set()
    found.whole = {0}
    work = by_name(scale_up(recipe("a"), found, [SourceSizes("a", [1000])]))
    assert work["documents"].tasks == 1 and work["words"].cpu == pytest.approx(2.0)


def packed_task(name: str, weight: int, main: float, cached: int) -> MeasuredTask:
    """A task whose shard the main process has decompressed."""
    counts = {"total.characters": weight, "total.bytes": 3 * weight}
    return MeasuredTask(name, weight, main, 1.0, {"documents": weight}, {}, counts, consumed=cached)


def packed(division: str, *sizes: int) -> dict[str, StageLoad]:
    """The work of a compressed source, whose sample has four shards of 0.5 MB that were cached in 0.6 MB each."""
    read = [packed_task(f"0000-a-{number:06d}", MB // 2, 0.5, 600_000) for number in range(4)]
    found = calibration(read, [segment_task("0000-a-000000", MB, 2.0, 7)], 1)
    found.divisions = [division]  # type: ignore[list-item]
    return by_name(scale_up(recipe("a"), found, [SourceSizes("a", list(sizes))]))


def test_files_in_one_piece_are_decompressed_by_a_task_each_and_cached_but_for_their_first_shards() -> None:
    work = packed("whole", 10 * MB, 100 * MB, 50_000, 70_000)
    inputs, documents = work["inputs"], work["documents"]
    assert inputs.tasks == 3  # the small files share one
    assert inputs.cpu == pytest.approx(110.12 + 1.0 + 0.11012)  # a second for each MB, and what comes before
    assert inputs.folders["data"] == pytest.approx(1.2 * (9.5 + 99.5) * MB)
    assert max(group.cpu for group in inputs.groups) == pytest.approx(100)
    assert documents.serial == 0 and all(group.main == 0 for group in documents.groups)
    assert documents.read == pytest.approx(1.2 * 110.12 * MB)
    before, after, _, _ = follow_disk(list(work.values()))
    assert before.after == inputs.folders["data"]
    assert after.after == pytest.approx(documents.folders["documents"])  # the cache is gone


def test_files_of_many_pieces_are_decompressed_twice_by_many_tasks() -> None:
    whole, work = packed("whole", 100 * MB), packed("parts", 100 * MB, 10 * MB)
    assert work["inputs"].tasks == 12 + 1 and work["inputs"].folders["data"] == 0
    assert max(group.cpu for group in work["inputs"].groups) == pytest.approx(10)
    assert work["documents"].cpu == pytest.approx(1.1 * whole["documents"].cpu + 110, rel=0.01)


def test_uncompressed_inputs_need_no_stage_before_the_first_one() -> None:
    work = packed("none", 100 * MB)
    assert "inputs" not in work and work["documents"].groups[0].main == 0.5


def test_a_source_whose_sample_is_not_compressed_is_decompressed_at_an_assumed_rate() -> None:
    read = [read_task("0000-a-000000", 2 * MB, 1.0, 1)]
    found = calibration(read, [segment_task("0000-a-000000", 2 * MB // 3, 2.0, 7)], 1)
    found.divisions, found.stand_ins, found.expansion = ["whole"], ["a"], [4.0]
    inputs = by_name(scale_up(recipe("a"), found, [SourceSizes("a", [300 * MB])]))["inputs"]
    assert inputs.cpu - inputs.serial == pytest.approx(1200 * MB / DECODING)
    assert inputs.folders["data"] == pytest.approx(CACHED * 1200 * MB, rel=0.01)


def lines_source(path: Path, **more: object) -> Source:
    text = {"use": "text", "documents": "line", "shard_mb": 0.1}
    raw = {"name": "a", "paths": [str(path)], "reader": text} | more
    return decode_recipe({"name": "some", "corpus": {"sources": [raw]}}).corpus.sources[0]  # type: ignore[no-any-return]


def test_how_inputs_are_divided_is_judged_by_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_SCANNED_SHARD", 0)
    monkeypatch.setattr(input_division, "PART", 5_000)
    pieces = [b"".join(b"%d\n" % number for number in range(start, start + 5_000)) for start in range(0, 50_000, 5_000)]
    files = {
        "plain.txt": b"".join(pieces),
        "whole.txt.gz": gzip.compress(b"".join(pieces)),
        "parts.txt.gz": compressed.bgzf(pieces),
        "parts.txt.xz": compressed.xz(pieces),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    found = {name: find_division(lines_source(tmp_path / name)) for name in files}
    assert found == {"plain.txt": "none", "whole.txt.gz": "whole", "parts.txt.gz": "parts", "parts.txt.xz": "parts"}
    assert find_division(lines_source(tmp_path / "whole.txt.gz", shards=2)) == "none"
    os.mkfifo(tmp_path / "pipe.gz")
    assert find_division(lines_source(tmp_path / "pipe.gz")) == "none"
    away = {"files": [{"url": "https://example.org/a.xml.bz2"}]}
    assert find_division(lines_source(tmp_path / "gone", **away)) == "whole"
    assert find_division(lines_source(tmp_path / "gone", **away, reader="wikipedia")) == "none"


def test_files_in_one_piece_are_named_where_other_files_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_SCANNED_SHARD", 0)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"1\n" * 100))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"text\n1\n"))
    (tmp_path / "a.txt.bz2").write_bytes(bz2.compress(b"1\n" * 100))
    assert describe_whole_files(lines_source(tmp_path / "a.txt.gz")) == ""  # too small
    monkeypatch.setattr(inputs, "_LARGE", 10)
    assert "a.txt.gz is gzip in one piece" in (found := describe_whole_files(lines_source(tmp_path / "a.txt.gz")))
    assert "bgzip" in found
    for name, more in {"a.csv.gz": {"reader": "csv"}, "a.txt.bz2": {}, "gone.txt.gz": {}}.items():
        assert describe_whole_files(lines_source(tmp_path / name, **more)) == ""


def counting(runs: int, rows: int) -> MeasuredStage:
    tasks = [
        MeasuredTask(f"{n:04d}", 4 * MB, 0.0, 1.0, {"runs": 1000, "samples": 9}, {"runs": rows}) for n in range(runs)
    ]
    return MeasuredStage("counting", 0.0, 100 * MB, tasks, set(), 2 * runs)


def test_different_units_grow_as_a_power_of_the_text() -> None:
    units = UnitGrowth(counting(4, 10_000), 20_000, growth=100.0, count=40)
    assert units.exponent == pytest.approx(0.5)
    assert units.distinct_factor == pytest.approx(10.0)
    assert units.merge_factor == pytest.approx(10 * (100 * 4 / 40) ** 0.5)
    assert units.learnt_factor(limit=1_000_000) == pytest.approx(10.0)
    assert units.learnt_factor(limit=40_000) == pytest.approx(2.0)


@given(st.integers(1, 20), st.integers(1, 10_000), st.integers(1, 100_000), st.floats(1.0, 1e6))
def test_units_never_shrink(runs: int, rows: int, distinct: int, growth: float) -> None:
    units = UnitGrowth(counting(runs, rows), distinct, growth, count=max(runs, 150))
    assert units.distinct_factor >= 1 and units.learnt_factor(10**6) >= 1 and 0.3 <= units.exponent <= 1


def test_a_tokenizer_is_counted_in_limited_tasks() -> None:
    summed = MeasuredTask("0000", 1, 0.0, 2.0, {"units": 5000}, {}, {"units.distinct": 20_000})
    merged = MeasuredTask("results", 1, 0.0, 1.0, {"merging": 5000}, {}, {})
    stages = [
        counting(4, 10_000),
        *(MeasuredStage(n, 0.0, MB, [t], set(), 3) for n, t in (("summing", summed), ("merging", merged))),
    ]
    step = MeasuredStep(stages, rest=0.5, phases={"learning": 4.0, "scoring": 1.0}, memory=2 * MB, result=700, files=8)
    loads = {load.name: load for load in tokenizer_loads(TokenizerConfig(), step, 100.0, shards=1000)}
    assert loads["counting"].tasks == 150 and loads["counting"].cpu == pytest.approx(0.5 + 400.0)
    assert loads["summing"].tasks == 3 and loads["merging"].tasks == 1  # 2.5 million units of all tasks
    assert loads["learning"].cpu == pytest.approx(4.0 * 10**0.5)  # ten times as many units
    assert loads["scoring"].folders == {"result": 700.0} and loads["scoring"].cpu == pytest.approx(1.0)


def test_sequences_of_words_are_counted_as_words_are() -> None:
    summed = MeasuredTask("0000", 1, 0.0, 2.0, {"units": 5000}, {}, {"units.distinct": 20_000})
    merged = MeasuredTask("results", 1, 0.0, 1.0, {"merging": 5000}, {}, {})
    further = [MeasuredStage(n, 0.0, MB, [t], set(), 3) for n, t in (("summing", summed), ("merging", merged))]
    words = [counting(4, 10_000), *further]
    names = ("sequence-counting", "sequence-summing", "sequence-merging")
    sequences = [msgspec.structs.replace(stage, name=name) for name, stage in zip(names, words, strict=True)]
    step = MeasuredStep([*words, *sequences], phases={"learning": 4.0, "scoring": 1.0}, memory=2 * MB)
    loads = {load.name: load for load in tokenizer_loads(TokenizerConfig(), step, 100.0, shards=1000)}
    assert [loads[name].tasks for name in names] == [150, 3, 1]
    assert loads["sequence-counting"].cpu == loads["counting"].cpu


def test_a_dataset_has_a_task_for_each_shard_and_pieces_of_each_split() -> None:
    encoding = MeasuredStage("encoding", 0.1, MB, [MeasuredTask("000000", MB, 0.0, 2.0, {"train": 600}, {})], set(), 3)
    joined = [MeasuredTask(name, 500, 0.0, 0.5, {"": 500}) for name in ("train-0000", "train-index")]
    step = MeasuredStep([encoding, MeasuredStage("joining", 0.0, MB, joined, set(), 6)])
    first, last = dataset_loads(step, 50.0, shards=25)
    assert (first.tasks, last.tasks) == (25, 2)  # a piece has 67 million bytes
    assert first.cpu == pytest.approx(100.0) and last.cpu == pytest.approx(50.0)
    assert first.folders == {"train": 30_000.0} and last.folders == {"": 50_000.0}


def stage(step: str, name: str, **folders: float) -> StageLoad:
    return StageLoad(step, name, [TaskGroup(1, 1.0)], folders=folders)  # type: ignore[arg-type]


COURSE = [
    stage("corpus", "documents", documents=100, rejects=5, hashes=20),
    stage("corpus", "dedup", drops=1),
    stage("corpus", "words", documents=90, rejects=4),
    stage("dataset", "encoding", train=60),
    stage("dataset", "joining", pieces=58),
    stage("dataset", "committing", train=58),
]


def test_what_is_consumed_is_deleted_before_the_end() -> None:
    documents, dedup, words, encoding, joining, committing = follow_disk(COURSE)
    assert (documents.most, documents.after) == (125, 125)
    assert (dedup.most, dedup.after) == (126, 106)  # the hashes are deleted
    assert (words.most, words.after) == (106, 99)  # each document's first form goes as its last one comes
    assert (encoding.most, encoding.after) == (159, 159)
    assert (joining.most, joining.after) == (159, 157)
    assert (committing.most, committing.after) == (157, 157)


def test_without_that_all_is_deleted_at_the_end_of_a_step() -> None:
    most = [disk.most for disk in follow_disk(COURSE, consumed=False)]
    assert most == [125, 126, 220, 159, 217, 275]
    assert follow_disk(COURSE, consumed=False)[-1].after == 157


def test_a_corpus_without_deduplication_is_what_is_read() -> None:
    [only] = follow_disk([stage("corpus", "documents", documents=100, rejects=5)])
    assert only.after == 105


def test_the_sample_has_the_beginnings_of_some_files(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}.jsonl").write_bytes(bytes(2 << 20))
    (tmp_path / "small.jsonl").write_bytes(b"{}")
    source = {"name": "a", "paths": [f"{tmp_path}/*.jsonl"], "reader": {"use": "jsonl", "shard_mb": 8}}
    sample = make_sample(decode_recipe({"name": "some", "corpus": {"sources": [source]}}))
    names = [[Path(path).name for path in each.paths] for each in sample.recipe.corpus.sources]
    assert names == [["0.jsonl"], ["3.jsonl"], ["6.jsonl"], ["small.jsonl"]]
    assert sample.origins == [0] * 4 and sample.whole == set() and sample.shard_ratio == [4.0]


def test_sizes_are_measured_or_given(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(bytes(70))
    (tmp_path / "gone.jsonl.gz").write_bytes(bytes(30))
    files = [{"url": (tmp_path / name).as_uri()} for name in ("gone.jsonl.gz", "missing.jsonl")]
    here = {"name": "here", "paths": [f"{tmp_path}/*.jsonl"], "reader": "jsonl"}
    away = {"name": "away", "paths": [f"{tmp_path}/downloads/*"], "reader": "jsonl", "files": files}
    both = decode_recipe({"name": "some", "corpus": {"sources": [here, away]}})
    first, second = measure_sources(both, tmp_path / "downloads", {})
    assert (first.sizes, first.unknown, first.to_download, first.local) == ([70], 0, 0, 70)
    assert (second.sizes, second.unknown, second.to_download, second.missing) == ([30], 1, 30, True)
    _, given = measure_sources(both, tmp_path / "downloads", {"away": 4e9})
    assert (given.total, given.unknown, given.to_download) == (4_000_000_000, 0, 4_000_000_000)
    with pytest.raises(ConfigError, match="no source 'other'"):
        measure_sources(both, tmp_path / "downloads", {"other": 1.0})
