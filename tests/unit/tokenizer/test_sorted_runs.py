"""Sorted runs, the unit counter that writes them, and selection from a stream: exact, in order, bounded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import InputError, MachineError
from jprep.io.atomic import remove_temporary_files
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting import sorted_runs, unit_counter
from jprep.tokenizer.counting.results import AlphabetCounts, TopUnits
from jprep.tokenizer.counting.sorted_runs import SpilledRuns, UnitRows, exact_sum, merge_runs, write_run
from jprep.tokenizer.counting.unit_counter import UnitCounter

COUNTS = st.dictionaries(st.text("abあ𠮷\uffff", min_size=1, max_size=4), st.integers(1, 2**40), max_size=30)
RUNS = st.lists(COUNTS, max_size=7)


def rows(counts: dict[str, int]) -> UnitRows:
    """Return counts as rows in code point order."""
    words = sorted(counts)
    encoded = pa.array([word.encode() for word in words], pa.large_binary())
    return encoded, np.array([counts[word] for word in words], np.int64)


def pairs(blocks: list[UnitRows]) -> list[tuple[str, int]]:
    return [
        (unit.decode(), count)
        for units, counts in blocks
        for unit, count in zip(units.to_pylist(), counts.tolist(), strict=True)
    ]


def written(folder: Path, parts: list[dict[str, int]]) -> list[Path]:
    paths = [folder / f"run-{number}" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        write_run(path, [rows(part)])
    return paths


@given(RUNS, st.sampled_from([1, 3, 4096]), st.sampled_from([2, 3, 256]))
def test_merged_runs_are_summed_in_code_point_order(
    tmp_path_factory: pytest.TempPathFactory, parts: list[dict[str, int]], batch: int, fan_in: int
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_runs, "_BATCH_ROWS", batch)
        patch.setattr(sorted_runs, "FAN_IN", fan_in)
        paths = written(folder, parts)
        assert pairs(list(merge_runs(paths, folder))) == sorted(total.items())
    assert sorted(folder.iterdir()) == sorted(paths)  # rounds leave no files


def test_merge_keeps_one_batch_of_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "_BATCH_ROWS", 10)
    words = [f"{number:04}" for number in range(1000)]
    paths = written(tmp_path, [dict.fromkeys(words[start::5], 1) for start in range(5)])
    sizes = [len(units) for units, _ in merge_runs(paths, tmp_path)]
    assert sum(sizes) == 1000 and max(sizes) <= 50


def test_long_units_give_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "_BATCH_BYTES", 100)
    units = rows({f"{number:03}" + "長" * 30: number for number in range(1, 40)} | {"短": 1, "い": 2})
    write_run(tmp_path / "run", [units])
    batches = [units for units, _ in sorted_runs.read_run(tmp_path / "run")]
    assert max(sum(map(len, batch.to_pylist())) for batch in batches) <= 100
    assert pairs(list(merge_runs([tmp_path / "run"], tmp_path))) == pairs([units])


def test_unwritable_run_raises_machine_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineError):
        write_run(tmp_path / "file" / "run", [rows({"a": 1})])


def test_runs_of_a_killed_task_are_leftovers(tmp_path: Path) -> None:
    spill = SpilledRuns(tmp_path, "0000")
    spill.write([rows({"a": 1})])
    remove_temporary_files(tmp_path)
    assert list(tmp_path.iterdir()) == []


@given(RUNS, st.integers(0, 20), st.integers(8, 100))
def test_spilling_does_not_change_counts(
    tmp_path_factory: pytest.TempPathFactory, parts: list[dict[str, int]], most_rows: int, most_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("spill")
    total: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch, SpilledRuns(folder, "0000") as spill:
        patch.setattr(unit_counter, "MAX_ROWS", most_rows)
        patch.setattr(unit_counter, "MAX_BYTES", most_bytes)
        counting = UnitCounter(TokenizerConfig(), spill, "here")
        for part in parts:
            counting.add_counts(part)
            total.update(part)
        assert pairs(list(counting.blocks())) == sorted(total.items())
        assert counting.units == total.total()
    assert list(folder.iterdir()) == []


def test_unit_counter_memory_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_counter, "MAX_ROWS", 100)
    with SpilledRuns(tmp_path, "0000") as spill:
        counting = UnitCounter(TokenizerConfig(), spill, "here")
        for start in range(0, 5000, 50):
            counting.add_counts({f"語{number}": 1 for number in range(start, start + 50)})
            assert counting._rows <= 200
        assert len(spill.paths) > 10
        assert sum(len(units) for units, _ in counting.blocks()) == 5000


def test_counts_beyond_64_bits_are_rejected(tmp_path: Path) -> None:
    with SpilledRuns(tmp_path, "0000") as spill:
        counting = UnitCounter(TokenizerConfig(), spill, "words.tsv")
        counting.add_counts({"a": 2**62, "b": 2**62 - 1})
        with pytest.raises(InputError, match=r"2\*\*63 or more\n  where: words.tsv"):
            counting.add_counts({"c": 1})


@given(st.lists(st.integers(0, 2**63 - 1), max_size=9))
def test_sums_are_exact(counts: list[int]) -> None:
    assert exact_sum(np.array(counts, np.int64)) == sum(counts)


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 6) | st.integers(1, 2**62), max_size=39),
    st.integers(1, 12),
    st.integers(1, 7),
)
def test_top_units_match_a_sorted_list(counts: dict[str, int], most: int, block: int) -> None:
    top = TopUnits(most)
    units, numbers = rows(counts)
    for start in range(0, len(units), block):
        top.add(units[start : start + block], numbers[start : start + block])
        assert top._rows <= 2 * most
    assert pairs([top.rows()]) == sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]


@given(st.lists(st.dictionaries(st.text("aあ𠮷", min_size=1), st.integers(1, 2**62), max_size=6), max_size=4))
def test_characters_are_counted_exactly(parts: list[dict[str, int]]) -> None:
    characters, expected = AlphabetCounts(), Counter[int]()
    for part in parts:
        characters.add(*rows(part))
        for unit, count in part.items():
            for character in unit:
                expected[ord(character)] += count
    assert characters.totals() == expected


def test_many_small_counts_do_not_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jprep.tokenizer.counting.results._LARGE", 2**61)
    characters = AlphabetCounts()
    for _ in range(9):
        characters.add(*rows({"a": 2**60 + 1, "ab": 2**60}))
    assert characters.totals() == {ord("a"): 9 * 2**61 + 9, ord("b"): 9 * 2**60}


def test_intermediate_runs_of_two_tasks_have_different_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks may merge in one directory at once, on two machines even with the same process id."""
    monkeypatch.setattr(sorted_runs, "FAN_IN", 2)
    made: list[str] = []
    write = SpilledRuns.write

    def noted(spill: SpilledRuns, blocks: Any) -> None:
        write(spill, blocks)
        made.append(spill.paths[-1].name)

    monkeypatch.setattr(SpilledRuns, "write", noted)
    for task in ("0000", "0001"):
        with SpilledRuns(tmp_path, task) as spill:
            for number in range(7):
                spill.write([rows({"a": 1, f"b{number}": 2})])
            assert dict(pairs(list(merge_runs(spill.paths, tmp_path))))["a"] == 7
    assert len(made) == len(set(made)) > 2 * 7 + 4 and not list(tmp_path.iterdir())


def test_runs_of_earlier_versions_are_read(tmp_path: Path) -> None:
    rows = (pa.array([b"a", b"c", b"e"], pa.large_binary()), np.array([1, 2, 3]))
    with pa.OSFile(str(tmp_path / "old"), "wb") as file, pa.ipc.new_stream(file, sorted_runs._SCHEMA) as stream:
        stream.write_batch(pa.record_batch([rows[0], pa.array(rows[1])], schema=sorted_runs._SCHEMA))
    sorted_runs.write_run(tmp_path / "new", [rows])
    for keys in (
        sorted_runs.ALL,
        sorted_runs.KeyRange(b"b", b"e"),
        sorted_runs.KeyRange(b"f"),
        sorted_runs.KeyRange(b"", b"a"),
    ):
        found = [
            [(u.to_pylist(), c.tolist()) for u, c in sorted_runs.read_run(tmp_path / name, keys)]
            for name in ("old", "new")
        ]
        assert found[0] == found[1]
        units = [unit for batch, _ in found[0] for unit in batch]
        assert units == [u for u in (b"a", b"c", b"e") if keys.low <= u and (keys.high is None or u < keys.high)]
