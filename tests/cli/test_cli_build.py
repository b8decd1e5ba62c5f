"""`jprep corpus build`: deterministic output, refusals that name the difference, and printed messages."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import lzma
import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest
import zstandard

from jprep import Corpus, samples
from jprep.corpus.splitters.rules import RuleSplitter
from tests.conftest import COMMAND, Run, digests, environment

RECIPE = ("corpus", "build", "recipe.toml", "--workers", 1)


def rows(folder: Path) -> list[tuple[str, str, str]]:
    return [(doc.id, doc.text, doc.words) for doc in Corpus(folder)]


@pytest.fixture
def inputs(sample: Path, tmp_path: Path) -> Path:
    """A copy of the sample that a test may change."""
    return Path(shutil.copytree(sample, tmp_path / "inputs"))


def digests_of_build(folder: Path) -> dict[str, str]:
    """The hashes of what a build writes: another test may have looked up an id in the shared corpus."""
    return {name: digest for name, digest in digests(folder).items() if name != ".state/documents.index"}


@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_bytes_for_any_number_of_workers(
    workers: int, corpus: Path, sample: Path, tmp_path: Path, jprep: Run
) -> None:
    jprep("corpus", "build", "recipe.toml", "-o", tmp_path / "other", "--workers", workers, cwd=sample)
    assert digests_of_build(tmp_path / "other") == digests_of_build(corpus)
    assert not list(corpus.rglob("*.tmp-*"))


def test_the_same_bytes_without_a_barrier(sample: Path, tmp_path: Path, jprep: Run) -> None:
    options = ["--set", "corpus.dedup.documents=false", "--set", "corpus.dedup.lines=false"]
    for workers in (1, 2):
        command = ["corpus", "build", "recipe.toml", *options, "--workers", workers, "-o", tmp_path / str(workers)]
        jprep(*command, cwd=sample)
    assert digests(tmp_path / "1") == digests(tmp_path / "2")
    assert Corpus(tmp_path / "1").manifest.totals["words"] > 1000


COMPRESS = {
    "xml": bytes, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data), "stdin": bytes,
}  # fmt: skip


@pytest.fixture(scope="module")
def from_multistream(sample: Path, tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> list[tuple[str, str, str]]:
    folder = tmp_path_factory.mktemp("multistream")
    jprep("corpus", "build", "--wikipedia", sample / samples.DUMP, "--segmenter", "none", "-o", folder)
    return rows(folder)


@pytest.mark.parametrize("kind", COMPRESS)
def test_any_compression_gives_the_same_documents(
    kind: str, sample: Path, from_multistream: list[tuple[str, str, str]], tmp_path: Path, jprep: Run
) -> None:
    data = COMPRESS[kind](bz2.decompress(sample.joinpath(samples.DUMP).read_bytes()))
    dump = tmp_path / "dump"
    dump.write_bytes(data)
    name = "-" if kind == "stdin" else dump
    jprep("corpus", "build", "--wikipedia", name, "--segmenter", "none", "-o", tmp_path / "out", stdin=data)
    assert rows(tmp_path / "out") == from_multistream


def test_a_finished_corpus_is_not_rewritten(corpus: Path, sample: Path, jprep: Run) -> None:
    before = {path: path.stat().st_mtime_ns for path in corpus.rglob("*") if path.is_file()}
    first = jprep(*RECIPE, "-o", corpus, "--quiet", cwd=sample)
    assert {path: path.stat().st_mtime_ns for path in corpus.rglob("*") if path.is_file()} == before
    assert "jprep:" in first.stdout and first.stderr == ""


class TestRefusals:
    """Exit code 2, and the field that differs."""

    @pytest.fixture
    def built(self, corpus: Path, tmp_path: Path) -> Path:
        return Path(shutil.copytree(corpus, tmp_path / "built"))

    @pytest.mark.parametrize(
        ("setting", "field"),
        [
            ("corpus.segmenter=none", "segmenter"),
            ("corpus.splitter=none", "splitter"),
            ("corpus.dedup.line_min_chars=30", "dedup.line_min_chars"),
            ("corpus.sources.1.filters.0.min_chars=60", "the filter length of the source web: min_chars"),
            (
                "corpus.sources.0.reader.disambiguation=keep",
                "the reader wikipedia of the source sample: disambiguation",
            ),
        ],
    )
    def test_another_recipe(self, setting: str, field: str, built: Path, sample: Path, jprep: Run) -> None:
        before = digests(built)
        refused = jprep(*RECIPE, "--set", setting, "-o", built, code=2, cwd=sample)
        assert f"{field}: was " in refused.stderr and "--restart" in refused.stderr
        assert before.items() <= digests(built).items()

    def test_another_input(self, built: Path, inputs: Path, jprep: Run) -> None:
        with inputs.joinpath(samples.CRAWL).open("a") as crawl:
            crawl.write("\nもう一つの文書。\n")
        refused = jprep(*RECIPE, "-o", built, code=2, cwd=inputs)
        assert "the input file cc100.txt of the source web has changed" in refused.stderr

    def test_an_input_that_changes_between_two_runs(self, inputs: Path, tmp_path: Path, jprep: Run) -> None:
        out = tmp_path / "out"
        jprep(*RECIPE, "-o", out, code=1, cwd=inputs, env={"JPREP_FAILPOINT": "stage.done=raise"})
        inputs.joinpath(samples.CRAWL).write_text("別の中身。\n")
        assert (
            "the input file cc100.txt of the source web has changed"
            in jprep(*RECIPE, "-o", out, code=2, cwd=inputs).stderr
        )

    def test_another_version_of_a_step(self, built: Path, sample: Path, jprep: Run) -> None:
        manifest = json.loads((built / "corpus.json").read_bytes())
        manifest["made_from"]["documents"]["splitter"]["version"] = 99
        del manifest["checksum"]
        (built / "corpus.json").write_text(json.dumps(manifest))
        assert (
            f"the splitter rules works differently in this jprep (version {RuleSplitter.version}, was 99)"
            in jprep(*RECIPE, "-o", built, code=2, cwd=sample).stderr
        )

    def test_restart_builds_anew(self, built: Path, corpus: Path, sample: Path, jprep: Run) -> None:
        jprep(*RECIPE, "--set", "corpus.segmenter=none", "--restart", "-o", built, cwd=sample)
        assert "words" not in Corpus(built).manifest.totals
        jprep(*RECIPE, "--restart", "-o", built, cwd=sample)
        assert digests_of_build(built) == digests_of_build(corpus)

    def test_a_folder_of_other_files(self, sample: Path, tmp_path: Path, jprep: Run) -> None:
        (tmp_path / "thesis.txt").write_text("mine")
        for more in ([], ["--restart"]):
            refused = jprep(*RECIPE, *more, "-o", tmp_path, code=2, cwd=sample)
            assert "has not written: thesis.txt" in refused.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    def test_a_file_in_the_folder_s_place(self, sample: Path, tmp_path: Path, jprep: Run) -> None:
        (tmp_path / "file").write_text("mine")
        jprep(*RECIPE, "-o", tmp_path / "file", code=2, cwd=sample)
        output = jprep(*RECIPE, "-o", tmp_path / "file" / "below", code=3, cwd=sample)
        assert "Traceback" not in output.stderr and str(tmp_path / "file") in output.stderr

    def test_a_pipe_is_not_held_against_a_finished_corpus(self, sample: Path, tmp_path: Path, jprep: Run) -> None:
        command = ["corpus", "build", "--cc100", "-", "--segmenter", "none", "-o", tmp_path / "out"]
        data = sample.joinpath(samples.CRAWL).read_bytes()
        jprep(*command, stdin=data)
        assert "cannot compare a finished corpus with a pipe" in jprep(*command, stdin=data, code=2).stderr
        jprep(*command, "--restart", stdin=data)


WRONG = {
    "unknown key": (["recipe.toml", "--set", "corpus.segmentr=none"], "did you mean 'segmenter'?"),
    "unknown key of a source": (["recipe.toml", "--set", "corpus.sources.0.licens=x"], "did you mean 'licence'?"),
    "unknown option": (
        ["recipe.toml", "--set", "corpus.sources.0.reader.name_spaces=[0]"],
        "did you mean 'namespaces'?",
    ),
    "list index": (["recipe.toml", "--set", "corpus.sources.7.name=x"], "elements of a list are numbered from 0"),
    "no equals sign": (["recipe.toml", "--set", "corpus.segmenter"], "--set expects KEY=VALUE"),
    "wrong type": (["recipe.toml", "--set", "corpus.dedup.lines=maybe"], "corpus.dedup.lines"),
    "unknown step": (["recipe.toml", "--set", "corpus.segmenter=jumandik"], "did you mean 'jumandic'?"),
    "no recipe": (["nowhere.toml"], "there is no such recipe"),
    "nothing to read": ([], "give either a RECIPE or inputs"),
    "recipe and inputs": (["recipe.toml", "--text", "x"], "give either a RECIPE or inputs"),
    "records as text": (["--text", "rows.jsonl"], "fix:   --jsonl rows.jsonl"),
    "records as pages": (["--cc100", "rows.parquet"], "fix:   --parquet rows.parquet"),
    "no such input": (["--wikipedia", "nowhere.xml"], "nowhere.xml"),
    "no workers": (["recipe.toml", "--workers", "0"], "--workers"),
    "unknown flag": (["recipe.toml", "--wrkers", "2"], "--workers"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_wrong_usage_is_explained(arguments: list[str], said: str, inputs: Path, tmp_path: Path, jprep: Run) -> None:
    for name in ("rows.jsonl", "rows.parquet"):
        (inputs / name).touch()
    output = jprep("corpus", "build", *arguments, "-o", tmp_path / "out", code=2, cwd=inputs)
    assert said in output.stderr and "Traceback" not in output.stderr
    assert not list((tmp_path / "out").rglob("*.parquet"))


def test_settings_reach_lists_and_tables(sample: Path, tmp_path: Path, jprep: Run) -> None:
    options = ["--set", "corpus.sources.0.reader.namespaces=[10]", "--set", "corpus.filters=[]", "--segmenter", "none"]
    jprep(*RECIPE, *options, "-o", tmp_path / "out", cwd=sample)
    manifest = Corpus(tmp_path / "out").manifest
    assert manifest.made_from["documents"]["sources"][0]["reader"]["config"]["namespaces"] == [10]
    assert manifest.rejects["reader.wikipedia/namespace_0"] > 10


def test_the_plan_is_printed_and_nothing_done(sample: Path, tmp_path: Path, jprep: Run) -> None:
    plan = jprep(*RECIPE, "--dry-run", "-o", tmp_path / "out", cwd=sample).stdout
    for words in ("quickstart", "sample: 1 file,", "by wikipedia", "length, symbols, urls", "neologdn", "pointwise"):
        assert words in plan
    assert not (tmp_path / "out").exists()


def test_the_plan_has_the_steps_in_the_order_in_which_they_run(sample: Path, tmp_path: Path, jprep: Run) -> None:
    changes = ["corpus.sources.1.normalizers=[]", "corpus.dedup.near={}"]
    settings = [part for change in changes for part in ("--set", change)]
    test_set = '[[corpus.decontaminate]]\nname = "quiz"\npaths = ["quiz.jsonl"]\nfields = ["question"]\n'
    recipe = tmp_path / "recipe.toml"
    recipe.write_text((sample / samples.RECIPE).read_text() + f"\n{test_set}")
    plan = jprep("corpus", "build", recipe, *settings, "--dry-run", "-o", tmp_path / "out", cwd=sample).stdout
    steps = [line.split(maxsplit=1) for line in plan.splitlines() if line.startswith("  ")]
    kinds = [step for step, _ in itertools.groupby(kind for kind, _ in steps)]
    assert kinds == ["read", "normalize", "split", "filter", "test", "dedup", "segment"]
    assert ["dedup", "near, documents, lines"] in steps


def test_figures_as_json(corpus: Path, sample: Path, jprep: Run) -> None:
    figures = json.loads(jprep(*RECIPE, "--json", "-o", corpus, cwd=sample).stdout)
    assert figures["folder"] == str(corpus)
    assert (
        figures["totals"]["documents"] == len(Corpus(corpus)) and figures["rejects"]["reader.wikipedia/redirect"] == 3
    )


def test_without_output_it_goes_to_work(inputs: Path, jprep: Run) -> None:
    jprep(*RECIPE, "--segmenter", "none", cwd=inputs)
    assert Corpus(inputs / "work" / "quickstart" / "corpus")


def test_every_kind_of_input(sample: Path, tmp_path: Path, jprep: Run) -> None:
    (tmp_path / "a.txt").write_text("テキストの文書である。\n")
    (tmp_path / "b.jsonl").write_text('{"text": "一行の文書である。"}\n')
    options = ["--wikipedia", sample / samples.DUMP, "--cc100", sample / samples.CRAWL, "--text", tmp_path / "*.txt"]
    jprep("corpus", "build", *options, "--jsonl", tmp_path / "b.jsonl", "--segmenter", "none", "-o", tmp_path / "out")
    assert {doc.source for doc in Corpus(tmp_path / "out")} == {"wikipedia", "cc100", "text", "jsonl"}


def test_a_bar_on_a_terminal_and_nothing_under_quiet(sample: Path, tmp_path: Path, jprep: Run) -> None:
    assert jprep(*RECIPE, "-o", tmp_path / "quiet", "--quiet", cwd=sample).stderr == ""
    ours, theirs = pty.openpty()
    command = [COMMAND, *map(str, RECIPE), "-o", str(tmp_path / "seen")]
    env = environment(TERM="xterm", COLUMNS="200")
    process = subprocess.Popen(command, cwd=sample, env=env, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 4096):
            shown += block
    except OSError:  # Linux says so when the other side is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    text = shown.decode()
    for words in ("reading", "comparing", "segmenting", "100%", "documents", "/s"):
        assert words in text
