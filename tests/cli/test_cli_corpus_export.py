"""`jprep corpus export --lines-per-file`: the files together are the export, whatever interrupts them."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from jprep import Corpus
from jprep.corpus.exporting.text_files import read_corpus_export
from jprep.engine.output_kinds import STATE
from jprep.errors import ConfigError
from jprep.plurals import counted
from tests.command_server import CommandServer
from tests.conftest import COMMAND, Run, digests, environment
from tests.sampling import every

SHARDS = 5
"""Shards of the corpus."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> Path:
    """A corpus of several shards of one or two documents."""
    folder = tmp_path_factory.mktemp("texts")
    recipe = ['name = "shards"']
    for number in range(SHARDS):
        paragraphs = [f"これは{number}番の{line}行目。次の文である。" for line in range(3 + 4 * number)]
        (folder / f"{number}.txt").write_text("\n".join(paragraphs) + "\n\n別の記事。\n" * (number % 2))
        source = f'name = "{number}"\nreader = "text"\npaths = ["{folder}/{number}.txt"]'
        recipe.append(f"[[corpus.sources]]\n{source}")
    (folder / "recipe.toml").write_text("\n".join(recipe))
    jprep("corpus", "build", folder / "recipe.toml", "-o", folder / "corpus", "--workers", 1)
    assert len(Corpus(folder / "corpus").manifest.parts) == SHARDS
    return folder / "corpus"


def files(folder: Path) -> dict[str, bytes]:
    """Return the files of an export, in order."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in (".txt", ".jsonl")}


OPTIONS = [(), ("--no-blank-lines",), ("--unit", "paragraph"), ("--format", "words"), ("--format", "jsonl")]


@pytest.mark.parametrize(
    ("options", "size"), every(2, [(options, size) for options in OPTIONS for size in (1, 7, 10_000)])
)
def test_the_files_together_are_the_export(
    options: tuple[str, ...], size: int, corpus: Path, tmp_path: Path, jprep: Run
) -> None:
    done = jprep("corpus", "export", corpus, *options, "--lines-per-file", size, "-o", tmp_path / "out", "--workers", 1)
    found = files(tmp_path / "out")
    whole = jprep("corpus", "export", corpus, *options).stdout
    assert b"".join(found.values()).decode() == whole
    lines = [data.count(b"\n") for data in found.values()]
    assert set(lines[:-1]) <= {size} and 0 < lines[-1] <= size
    assert all(name.split("-")[1] == f"{number:05d}" for number, name in enumerate(found))
    assert all(f"-of-{len(found):05d}." in name for name in found)
    manifest = read_corpus_export(tmp_path / "out")
    assert [(file.path, file.rows) for file in manifest.files] == list(zip(found, lines, strict=True))
    assert manifest.counts == {"documents": len(Corpus(corpus)), "lines": sum(lines)}
    assert f" as {counted(sum(lines), 'line')} in {counted(len(found), 'file')} to " in done.stderr


def test_lines_are_sentences_or_paragraphs(corpus: Path, jprep: Run) -> None:
    documents = list(Corpus(corpus))
    paragraphs = jprep("corpus", "export", corpus, "--unit", "paragraph", "--no-blank-lines").stdout
    expected = [line.strip() for document in documents for line in document.text.split("\n") if line]
    assert paragraphs.split("\n")[:-1] == expected
    sentences = jprep("corpus", "export", corpus, "--no-blank-lines").stdout.split("\n")[:-1]
    assert len(sentences) > len(expected) and "".join(sentences).replace(" ", "") == "".join(expected).replace(" ", "")


@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers_writes_the_same_files(workers: int, corpus: Path, tmp_path: Path) -> None:
    Corpus(corpus).export_files(tmp_path / "out", 20, workers=workers)
    Corpus(corpus).export_files(tmp_path / "other", 20)
    assert digests(tmp_path / "out") == digests(tmp_path / "other")


@pytest.mark.parametrize("place", ["receipt.written@1", "receipt.written@7", "output.renamed@20", "stage.done@2"])
def test_a_killed_export_resumes_with_the_same_files(
    place: str, corpus: Path, tmp_path: Path, jprep: Run, command_server: CommandServer
) -> None:
    command = ("corpus", "export", corpus, "--lines-per-file", 9, "--workers", 1, "-o", tmp_path / "out")
    kill(command_server, place, *command)
    with pytest.raises(ConfigError, match="no finished export"):
        read_corpus_export(tmp_path / "out")
    jprep(*command[:-3], 2, *command[-2:])
    Corpus(corpus).export_files(tmp_path / "whole", 9)
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


def kill(command_server: CommandServer, place: str, *command: object) -> None:
    """Run a command that is killed at a failpoint."""
    killed = command_server.run([COMMAND, *map(str, command)], env=environment(JPREP_FAILPOINT=place), group=True)
    assert killed.returncode == -signal.SIGKILL


def test_a_finished_export_is_verified_and_another_one_replaces_it(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = Corpus(corpus).export_files(out, 30)
    times = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert Corpus(corpus).export_files(out, 30) == first
    assert times == {path: path.stat().st_mtime_ns for path in out.iterdir()}, "nothing was written"
    whole = digests(out)
    (out / first.files[0].path).write_bytes(b"damaged\n")
    Corpus(corpus).export_files(out, 30)
    assert digests(out) == whole
    (out / "notes.md").write_text("mine")
    Corpus(corpus).export_files(out, 50)
    assert {path.name for path in out.iterdir()} == {*files(out), "export.json", "notes.md", STATE}
    assert len(files(out)) < len(first.files)


def test_unfinished_work_with_other_options_is_replaced(
    corpus: Path, tmp_path: Path, jprep: Run, command_server: CommandServer
) -> None:
    command = ("corpus", "export", corpus, "--workers", 1, "-o", tmp_path / "out", "--lines-per-file")
    kill(command_server, "stage.done@2", *command, 9)
    jprep(*command, 31)
    Corpus(corpus).export_files(tmp_path / "whole", 31)
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


def test_a_damaged_shard_of_the_corpus_is_found(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    copy = Path(shutil.copytree(corpus, tmp_path / "copy"))
    part = min((copy / "documents").iterdir())
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    failed = jprep("corpus", "export", copy, "--lines-per-file", 9, "-o", tmp_path / "out", "--workers", 1, code=2)
    assert part.name in failed.stderr and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--lines-per-file", 5), "needs the output directory -o"),
        (("--lines-per-file", 5, "--limit", 2, "-o", "out"), "--limit has no effect"),
        (("--workers", 2), "--workers has no effect"),
        (("--format", "jsonl", "--unit", "paragraph"), "jsonl has one document per line"),
        (("--format", "jsonl", "--no-blank-lines"), "jsonl has one document per line"),
        (("--lines-per-file", 0, "-o", "out"), "0 is not in the range"),
    ],
)
def test_options_without_effect_are_refused(
    options: tuple[object, ...], said: str, corpus: Path, tmp_path: Path, jprep: Run
) -> None:
    assert said in jprep("corpus", "export", corpus, *options, code=2, cwd=tmp_path).stderr
    assert not list(tmp_path.iterdir())


def test_files_of_other_directories_are_not_touched(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"thesis\.txt"):
        Corpus(corpus).export_files(tmp_path, 10)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
