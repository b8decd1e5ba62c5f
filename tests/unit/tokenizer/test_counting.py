"""Counting corpora and word lists: the same files for any workers and interruptions, and clear errors."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.api import Corpus
from jprep.corpus.document import UNMARK, Document
from jprep.corpus.store import FORMAT, Manifest, row_writer, write_manifest
from jprep.engine.executors.local import Local
from jprep.engine.fingerprint import fingerprint
from jprep.engine.runner import SilentProgress, TaskRunner
from jprep.engine.stage import Receipt, Task
from jprep.errors import ConfigError, InputError, JprepError, MismatchError
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting import (
    UnitCounts,
    count_corpus,
    merging,
    read_counts,
    sample,
    stages,
    unit_counter,
)
from tests.conftest import digests, is_usage

PARTS = [
    ["a\x1f \x1fb\x1e漢字\x1fかな", "é𠮷\x1fa\n\nb\tc"],
    ["a\x1fa\x1f漢字\x1f12", "日本\x1f語\n" * 30],
    ["last\x1e \x1fone"],
]
TEXT = [words for part in PARTS for words in part]
EXPECTED = Counter(["a", " b", "漢字", "かな", "é𠮷", "a", "b", "c", "a", "a", "漢字", "12", "last", " one"])
EXPECTED += Counter({"日本": 30, "語": 30})


def make_corpus(folder: Path, parts: Sequence[Sequence[str]], *, words: bool = True) -> Corpus:
    """Build a corpus of documents with these words; `words=False` builds one without segmentation."""
    outputs, total = [], Counter[str]()
    for number, part in enumerate(parts):
        texts = [marked.translate(UNMARK) for marked in part]
        rows = [
            Document(f"s:{number}-{i}", "s", "", "", text, marked if words else "")
            for i, (text, marked) in enumerate(zip(texts, part, strict=True))
        ]
        with row_writer(folder, f"documents/{number:04d}.parquet", Document, {}) as written:
            written.add(rows)
        outputs += [written.output] if written.output else []
        total.update(documents=len(rows), characters=sum(map(len, texts)))
        if words:
            total["words"] += sum(marked.count("\x1f") + 1 for marked in part)
    made_from = {"parts": [output.sha256 for output in outputs]}
    manifest = Manifest(
        jprep="0",
        format=FORMAT,
        name="made",
        signature="",
        fingerprint=fingerprint(made_from),
        made_from=made_from,
        sources=[],
        totals=dict(total),
        counts={},
        rejects={},
        parts=outputs,
        reject_parts=[],
    )
    write_manifest(folder, manifest)
    return Corpus(folder)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """A corpus of three shards, each a task of its own."""
    monkeypatch.setattr(stages, "MIN_TASK_BYTES", 1)
    return make_corpus(tmp_path / "corpus", PARTS)


def count(corpus: Corpus, root: Path, config: TokenizerConfig | None = None, workers: int = 1) -> UnitCounts:
    with closing(Local(workers)) as executor:
        return count_corpus(corpus, config or TokenizerConfig(), root, executor, SilentProgress())


def listed(path: Path) -> list[tuple[str, int]]:
    lines = [line.split("\t") for line in path.read_bytes().decode().split("\n")[:-1]]
    return [(word, int(number)) for word, number in lines]


def by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def characters_of(counts: dict[str, int]) -> list[tuple[str, int]]:
    total: Counter[str] = Counter()
    for unit, number in counts.items():
        total.update({character: number * times for character, times in Counter(unit).items()})
    return [(f"{ord(character):04X}", number) for character, number in by_count(total)]


def test_corpus_is_counted(small: Corpus, tmp_path: Path) -> None:
    counted = count(small, tmp_path / "state")
    assert listed(counted.words) == by_count(EXPECTED)
    assert listed(counted.characters) == characters_of(EXPECTED)
    lines = counted.sample.read_bytes().decode().split("\n")[:-1]
    assert lines == [p.replace("\x1e", "\x1f") for words in TEXT for p in words.split("\n") if p]
    assert counted.counts == {
        "units.total": EXPECTED.total(),
        "units.distinct": len(EXPECTED),
        "units.cut.total": 0,
        "units.cut.distinct": 0,
        "characters.total": sum(len(unit) * number for unit, number in EXPECTED.items()),
        "characters.distinct": len(set("".join(EXPECTED))),
        "paragraphs.total": sum(words.count("\n") + 1 for words in TEXT),
        "paragraphs.sampled": len(lines),
    }


def test_rarest_units_are_dropped_and_reported(small: Corpus, tmp_path: Path) -> None:
    counted = count(small, tmp_path / "state", TokenizerConfig(max_words=4))
    assert listed(counted.words) == by_count(EXPECTED)[:4]
    assert listed(counted.characters) == characters_of(EXPECTED)
    cut = by_count(EXPECTED)[4:]
    assert counted.counts["units.cut.distinct"] == len(cut)
    assert counted.counts["units.cut.total"] == sum(number for _, number in cut)
    assert counted.counts["units.total"] == EXPECTED.total()


def test_workers_and_spilling_do_not_change_the_files(
    small: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = count(small, tmp_path / "1"), count(small, tmp_path / "2", workers=2)
    assert digests(tmp_path / "1") == digests(tmp_path / "2")
    assert one.counts == two.counts
    monkeypatch.setattr(unit_counter, "MAX_ROWS", 2)
    count(small, tmp_path / "3")
    assert digests(tmp_path / "3") == digests(tmp_path / "1")


def test_ranges_do_not_change_the_result(small: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of many batches, which are merged in many ranges; the rarest units are dropped, some of equal counts."""
    monkeypatch.setattr("jprep.tokenizer.counting.sorted_runs._BATCH_ROWS", 2)
    monkeypatch.setattr(merging, "_RANGE", 1)
    config = TokenizerConfig(max_words=5)
    ranges = count(small, tmp_path / "ranges", config)
    assert len(list((tmp_path / "ranges" / "summing" / "receipts").iterdir())) > 4
    monkeypatch.undo()
    monkeypatch.setattr(stages, "MIN_TASK_BYTES", 1)
    whole = count(small, tmp_path / "whole", config)
    assert results(tmp_path / "ranges") == results(tmp_path / "whole")
    assert ranges.counts == whole.counts


def results(root: Path) -> dict[str, str]:
    found = digests(root / "merging")
    return {name: found[name] for name in ("words.tsv", "characters.tsv", "sample.txt")}


def test_runs_are_deleted_once_they_are_merged(small: Corpus, tmp_path: Path) -> None:
    counted = count(small, tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not is_usage(path)]
    left = {path.parent.name for path in files if path.suffix != ".consumed"}
    assert left.isdisjoint({"runs", "samples", "units"})
    done = FailsBefore(0)
    assert count_corpus(small, TokenizerConfig(), tmp_path, done, SilentProgress()) == counted
    counted.words.write_text("damaged")  # everything that it was made from is gone
    assert count(small, tmp_path) == counted and listed(counted.words) == by_count(EXPECTED)


class FailsBefore:
    """An executor that fails before its n-th task."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.done: list[str] = []

    def map(self, job: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        for task in tasks:
            if len(self.done) == self._number:
                raise JprepError("killed")
            self.done.append(task.id)
            yield task, job(task)

    def close(self) -> None:
        pass


def test_interrupted_counting_resumes(small: Corpus, tmp_path: Path) -> None:
    count(small, tmp_path / "whole")
    root = tmp_path / "killed"
    done = []
    for most in (1, 1, 1, 9):
        executor = FailsBefore(most)
        try:
            count_corpus(small, TokenizerConfig(), root, executor, SilentProgress())
        except JprepError:
            assert most == 1
        done.append(executor.done)
    assert done == [["0000"], ["0001"], ["0002"], ["0000", "results"]]  # the last ones are the merge
    assert digests(root) == digests(tmp_path / "whole")


def test_directory_of_another_count_is_rejected(small: Corpus, tmp_path: Path) -> None:
    count(small, tmp_path / "state")
    with pytest.raises(MismatchError, match="spaces"):
        count(small, tmp_path / "state", TokenizerConfig(spaces="alone"))
    with pytest.raises(MismatchError, match="max_words"):
        count(small, tmp_path / "state", TokenizerConfig(max_words=3))
    # Options that do not affect units may change.
    again = count(small, tmp_path / "state", TokenizerConfig(vocab_size=9, model="unigram", boundaries="hard"))
    assert listed(again.words) == by_count(EXPECTED)


def test_many_small_shards_give_few_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MIN_TASK_BYTES", 1)
    monkeypatch.setattr(stages, "TASKS", 5)
    corpus = make_corpus(tmp_path / "corpus", [[f"語{number}"] for number in range(40)])
    stage = stages.CountUnitsStage(corpus, TokenizerConfig())
    groups = [[part.path for part in task.payload] for task in stage.tasks()]
    assert 3 <= len(groups) <= 6
    assert [path for group in groups for path in group] == [part.path for part in corpus.manifest.parts]
    assert stage.total() == sum(task.weight for task in stage.tasks())


def test_corpus_without_words_is_rejected_if_boundaries_need_them(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path / "corpus", PARTS, words=False)
    for boundaries in ("train", "hard"):
        with pytest.raises(ConfigError, match="--boundaries none"):
            count(corpus, tmp_path / "state", TokenizerConfig(boundaries=boundaries))  # type: ignore[arg-type]
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("parts", [[], [[""]], [["\n\n"]]])
def test_empty_corpus_is_rejected(parts: list[list[str]], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no text to learn from"):
        count(make_corpus(tmp_path / "corpus", parts), tmp_path / "state")


def test_the_error_for_an_empty_corpus_has_its_counts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the corpus has 1 document, 0 rejected") as refused:
        count(make_corpus(tmp_path / "corpus", [[""]]), tmp_path / "state")
    assert f"jprep corpus stats {tmp_path / 'corpus'}" in refused.value.fix


@pytest.mark.parametrize("words", [True, False])
def test_text_is_counted_and_sampled_without_boundaries(words: bool, tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path / "corpus", [["漢字\x1fです\x1f。\nabc\x1f \x1fdef"]], words=words)
    counted = count(corpus, tmp_path / "state", TokenizerConfig(boundaries="none"))
    assert dict(listed(counted.words)) == {"漢字です": 1, "。": 1, "abc": 1, " def": 1}
    sampled = "漢字\x1fです\x1f。\nabc\x1f \x1fdef\n"
    assert counted.sample.read_bytes().decode() == (sampled if words else sampled.replace("\x1f", ""))


def test_damaged_shard_is_reported(small: Corpus, tmp_path: Path) -> None:
    path = small.folder / small.manifest.parts[1].path
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(JprepError, match="corpus verify"):
        count(small, tmp_path / "state")


@given(st.lists(st.lists(st.text("あ \x1f\n", min_size=1), max_size=4), max_size=4), st.integers(1, 5))
def test_sample_is_every_nth_paragraph(rows: list[list[str]], stride: int) -> None:
    import pyarrow as pa

    taken = sample.ParagraphSample(stride, 10**6)
    for batch in rows:
        taken.add(pa.array(batch, pa.string()))
    paragraphs = [paragraph for batch in rows for row in batch for paragraph in row.split("\n")]
    assert taken.data().decode() == "".join(f"{p}\n" for p in paragraphs[::stride] if p)
    assert taken.paragraphs == len(paragraphs)


def test_sample_size_is_limited() -> None:
    import pyarrow as pa

    long = "語\x1f" * 5000
    taken = sample.ParagraphSample(10, 10**6)
    taken.add(pa.array([long, *["短"] * 9] * 100, pa.string()))  # the stride only hits the long paragraphs
    lines = taken.data().decode().split("\n")[:-1]
    assert set(lines) == {("語\x1f" * 2000).removesuffix("\x1f")}
    assert 10 < len(lines) == taken.taken < 50
    bare = sample.ParagraphSample(1, 10**6)
    bare.add(pa.array(["長" * 9000]))
    assert bare.data().decode() == "長" * 4000 + "\n"


def test_stride_depends_on_the_corpus(small: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jprep.tokenizer.counting.stages.AIM", 100)
    counted = count(small, tmp_path / "state")
    assert 3 <= counted.counts["paragraphs.sampled"] < counted.counts["paragraphs.total"] / 2


def write_list(path: Path, lines: Sequence[tuple[str, int]]) -> Path:
    path.write_text("".join(f"{word}\t{number}\n" for word, number in lines), encoding="utf-8", newline="\n")
    return path


def test_word_list_counts_are_exact_beyond_32_bits(tmp_path: Path) -> None:
    counts = {"東京タワー": 2**60, "猫": 2**53 + 1, "犬": 2**32 + 1, "a": 3}
    lines = [*counts.items(), ("猫", 2), ("a b", 5)]
    counted = read_counts(write_list(tmp_path / "list", lines), TokenizerConfig(), tmp_path / "state")
    total = counts | {"猫": 2**53 + 3, "a": 8, " b": 5}
    assert listed(counted.words) == by_count(total)
    assert listed(counted.characters) == characters_of(total)
    assert counted.counts["characters.total"] == sum(len(word) * number for word, number in total.items()) > 2**62
    assert counted.counts["units.total"] == sum(total.values())
    assert counted.sample.read_bytes() == b""


def test_word_list_order_and_encoding_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [(f"語{number % 700}", number + 1) for number in range(3000)]
    first = read_counts(write_list(tmp_path / "list", lines), TokenizerConfig(max_words=500), tmp_path / "1")
    random.Random(0).shuffle(lines)
    text = write_list(tmp_path / "other", lines).read_bytes().replace(b"\n", b"\r\n").removesuffix(b"\r\n")
    (tmp_path / "other.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text))
    monkeypatch.setattr("jprep.tokenizer.counting.word_list._BLOCK", 100)
    monkeypatch.setattr(unit_counter, "MAX_ROWS", 50)
    second = read_counts(tmp_path / "other.gz", TokenizerConfig(max_words=500), tmp_path / "2")
    assert digests(tmp_path / "1") == digests(tmp_path / "2")
    assert first.counts == second.counts and first.counts["units.cut.distinct"] == 200


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"word", "missing tab"),
        (b"", "missing tab"),
        (b"\t5", "missing word"),
        (b"word\t", "not a count"),
        (b"word\tmany", "'many' is not a count"),
        (b"word\t5\t6", "not a count"),
        (b"word\t0", "not a count"),
        (b"word\t-1", "not a count"),
        (b"word\t1.5", "not a count"),
        (b"word\t 5", "not a count"),
        (b"word\t%d" % (2**62 + 1), "not a count"),
        (b"word\t" + b"9" * 5000, "not a count"),
        (b"\xe3\x81\t5", "not valid UTF-8"),
        (b"a\x1fb\t5", "contains '\\\\x1f'"),
        (b"a\rb\t5", "contains '\\\\r'"),
    ],
)
@pytest.mark.parametrize("block", [10, 1 << 20])
def test_invalid_line_is_reported_with_its_number(
    line: bytes, what: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jprep.tokenizer.counting.word_list._BLOCK", block)
    (tmp_path / "list").write_bytes(b"good\t1\nalso\t2\n" + line + b"\nmore\t3\n")
    with pytest.raises(InputError, match=what) as refused:
        read_counts(tmp_path / "list", TokenizerConfig(), tmp_path / "state")
    assert refused.value.where.endswith("list, line 3")


def test_empty_missing_and_oversized_lists_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(ConfigError, match="no text to learn from"):
        read_counts(tmp_path / "empty", TokenizerConfig(), tmp_path / "state")
    with pytest.raises(ConfigError, match="no such file"):
        read_counts(tmp_path / "absent", TokenizerConfig(), tmp_path / "state")
    with pytest.raises(InputError, match=r"2\*\*63 or more"):
        read_counts(write_list(tmp_path / "huge", [("a", 2**62)] * 2), TokenizerConfig(), tmp_path / "state")
    monkeypatch.setattr("jprep.tokenizer.counting.word_list._BLOCK", 1000)
    monkeypatch.setattr("jprep.tokenizer.counting.word_list._MAX_LINE", 5000)
    (tmp_path / "line").write_bytes(b"x" * 9000)
    with pytest.raises(InputError, match="a line is longer"):
        read_counts(tmp_path / "line", TokenizerConfig(), tmp_path / "state")


def test_import_does_not_load_numpy() -> None:
    code = "import sys, jprep.tokenizer.counting; print(sorted({'numpy', 'pyarrow', 'regex'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_receipts_contain_no_sums_beyond_64_bits(small: Corpus, tmp_path: Path) -> None:
    count(small, tmp_path / "state")
    held: dict[str, Any] = msgspec.json.decode((tmp_path / "state/summing/receipts/0000.json").read_bytes())
    assert set(held["counts"]) == {"units.distinct", "units.total"}
