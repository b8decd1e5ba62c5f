"""`jprep run`: a recipe from its first file to an exported model; rerunning the command resumes it."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jprep import samples
from jprep.corpus.store import read_manifest
from jprep.train.run.directory import read_job
from tests.conftest import COMMAND, ROOT, Distribution, Run, digests, environment
from tests.fakes.labelled_run import rows
from tests.fakes.numpy_backend import offer

DATA = ("corpus", "tokenizer", "dataset")
TINY = Path("work/quickstart-tiny")


class Workspace(NamedTuple):
    folder: Path
    env: dict[str, str]
    jprep: Run

    def run(self, *more: object, **options: Any) -> subprocess.CompletedProcess[str]:
        options["env"] = self.env | options.get("env", {})
        return self.jprep("run", "recipe.toml", *more, "--workers", 1, cwd=self.folder, **options)

    def tiny(self, *more: object, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run("--scale", "tiny", "--backend", "numpy", "--until", "train", *more, **options)

    def edit(self, old: str, new: str) -> None:
        recipe = self.folder / "recipe.toml"
        assert old in recipe.read_text()
        recipe.write_text(recipe.read_text().replace(old, new))


@pytest.fixture
def workspace(tmp_path: Path, distribution: Distribution, jprep: Run) -> Workspace:
    return Workspace(samples.write_sample(tmp_path / "sample").parent, offer(distribution), jprep)


def made(folder: Path) -> dict[str, str]:
    """What the steps before the training leave; what it adds to a dataset are lists of samples."""
    return {
        name: digest
        for name, digest in digests(folder).items()
        if name.startswith(DATA) and not name.endswith(".samples")
    }


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> dict[str, str]:
    """What a run at scale tiny makes."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    workspace = Workspace(
        samples.write_sample(folder / "sample").parent, offer(Distribution(folder / "distributions")), jprep
    )
    workspace.run("--scale", "tiny", "--until", "dataset")
    return made(workspace.folder / TINY)


def test_scale_tiny_runs_every_step(workspace: Workspace, uninterrupted: dict[str, str]) -> None:
    output = workspace.tiny().stdout
    for line in ("train.batch: was 48, is 8", "corpus.sources.0.shards: was 0, is 1", "[4/4] train:"):
        assert line in output
    job = read_job(workspace.folder / TINY / "runs" / "numpy")
    assert (job.steps, job.train.batch, job.train.packing) == (20, 8, "complete")
    assert read_manifest(workspace.folder / TINY / "corpus").sources[0]["shards"] == 1
    assert made(workspace.folder / TINY) == uninterrupted
    stamps = {path: path.stat().st_mtime_ns for path in (workspace.folder / TINY).rglob("*.parquet")}
    workspace.tiny()
    assert {path: path.stat().st_mtime_ns for path in (workspace.folder / TINY).rglob("*.parquet")} == stamps


def test_set_overrides_scale_tiny(workspace: Workspace) -> None:
    output = workspace.tiny("--set", "train.steps=7", "--set", "corpus.sources.1.shards=0", "--dry-run").stdout
    assert "7 steps of 8 rows" in output
    assert "sources.0.shards" in output and "sources.1.shards" not in output


@pytest.mark.parametrize("failpoint", ["corpus.sealing", "tokenizer.learnt", "run.hashed"])
def test_a_killed_run_resumes_with_the_same_result(
    failpoint: str, workspace: Workspace, uninterrupted: dict[str, str]
) -> None:
    command = [COMMAND, "run", "recipe.toml", "--scale", "tiny", "--backend", "numpy", "--until", "train"]
    env = environment(**workspace.env, JPREP_FAILPOINT=failpoint)
    options = ["--workers", "1", "--set", "train.max_restarts=0"]
    ended = subprocess.run(
        [*command, *options], cwd=workspace.folder, env=env, capture_output=True, start_new_session=True
    )
    assert ended.returncode in (-signal.SIGKILL, 1)
    workspace.tiny("--set", "train.max_restarts=0")
    assert made(workspace.folder / TINY) == uninterrupted


def test_a_run_ends_at_the_last_section_of_the_recipe_with_a_note(workspace: Workspace) -> None:
    workspace.edit(
        workspace.folder.joinpath("recipe.toml").read_text().partition("[dataset]")[2], "\nvalidation = 0.2\n"
    )
    output = workspace.run().stdout
    assert "[3/3] dataset" in output and "the recipe has no [train], so the run ends here" in output
    assert (workspace.folder / "work/quickstart/dataset/dataset.json").exists()
    assert not (workspace.folder / "work/quickstart/runs").exists()


def test_without_the_backend_nothing_is_begun(workspace: Workspace) -> None:
    failed = workspace.run("--backend", "nump", code=2)
    assert "nump" in failed.stderr
    workspace.folder.joinpath("..", "distributions", "numpy_framework", "worker.py").unlink()
    failed = workspace.run("--backend", "numpy", code=3)
    assert "jprep backends install numpy" in failed.stderr
    assert not (workspace.folder / "work").exists()


def test_a_failed_training_gives_its_exit_code_and_keeps_the_data(workspace: Workspace) -> None:
    failed = workspace.tiny(env={"REFUSE_AT": "3"}, code=2)
    assert "[4/4] train" in failed.stdout
    assert (workspace.folder / TINY / "dataset/dataset.json").exists()
    workspace.tiny()


def test_other_work_in_the_same_place_is_refused(workspace: Workspace) -> None:
    workspace.run("--until", "corpus")
    before = digests(workspace.folder / "work")
    refused = workspace.run("--until", "corpus", "--set", "corpus.dedup.line_min_chars=9", code=2).stderr
    assert "line_min_chars: was 20, is 9" in refused and "another --work" in refused
    assert digests(workspace.folder / "work") == before


def test_a_corpus_from_another_directory_is_used(workspace: Workspace, corpus: Path) -> None:
    recipe = workspace.folder / "own.toml"
    recipe.write_text('name = "own"\n[tokenizer]\nvocab_size = 2000\n')
    refused = workspace.jprep("run", recipe, cwd=workspace.folder, code=2).stderr
    assert "--corpus DIR" in refused
    before = digests(corpus)
    workspace.jprep("run", recipe, "--corpus", corpus, cwd=workspace.folder)
    assert (workspace.folder / "work/own/tokenizer/card.json").exists()
    assert digests(corpus) == before


def test_downloads_of_a_source_are_announced_and_fetched_once(workspace: Workspace) -> None:
    away = workspace.folder.parent / samples.CRAWL
    workspace.folder.joinpath(samples.CRAWL).rename(away)
    workspace.edit('paths = ["cc100.txt"]', f'paths = ["downloads/cc100.txt"]\nfiles = [{{ url = "{away.as_uri()}" }}]')
    assert f"downloads/{samples.CRAWL}  from {away.as_uri()}" in workspace.run("--until", "corpus", "--dry-run").stdout
    output = workspace.run("--until", "corpus").stdout
    assert f"downloading {away.as_uri()}, {away.stat().st_size:,} bytes" in output
    assert "downloading" not in workspace.run("--until", "corpus").stdout


def test_a_dry_run_writes_nothing(workspace: Workspace) -> None:
    before = digests(workspace.folder)
    output = workspace.run("--backend", "numpy", "--dry-run").stdout
    for step in ("corpus", "tokenizer", "dataset", "train", "export"):
        assert f"  {step}" in output
    assert digests(workspace.folder) == before


LABELLED = """name = "評判"

[[corpus.sources]]
name = "rows"
reader = "jsonl"
paths = ["{recipe}/rows.jsonl"]

[corpus]
segmenter = "none"

[tokenizer]
model = "unigram"
vocab_size = 276
boundaries = "none"
special = ["bert"]

[train]
task = "classify"
model = { preset = "bert-tiny" }
data = ["{recipe}/rows.jsonl"]
labelled = { length = 24, folds = 2 }
batch = 8
steps = 4
validation = { every_steps = 4 }
"""


def test_labelled_rows_are_trained_in_their_folds_from_any_folder(workspace: Workspace) -> None:
    recipes = workspace.folder.parent / "recipes"
    recipes.mkdir()
    rows(recipes / "rows.jsonl")
    (recipes / "r.toml").write_text(LABELLED, encoding="utf-8")
    command = ("run", recipes / "r.toml", "--scale", "tiny", "--backend", "numpy", "--until", "train")
    output = workspace.jprep(*command, cwd=workspace.folder, env=workspace.env).stdout
    for words in ("[3/3] train:", "of 2 folds", "accuracy"):
        assert words in output
    runs = workspace.folder / "work/評判-tiny/runs/numpy"
    assert sorted(path.name for path in runs.iterdir()) == ["fold-0", "fold-1", "folds.json"]
    assert read_job(runs / "fold-1").train.fold == 1
    assert "4 steps" in workspace.jprep(*command, "--dry-run", cwd=workspace.folder, env=workspace.env).stdout
    alone = ("--set", "train.fold=1", "--set", "name=one")
    workspace.jprep(*command, *alone, cwd=workspace.folder, env=workspace.env)
    assert read_job(workspace.folder / "work/one/runs/numpy").train.fold == 1


def test_scale_tiny_without_inputs_and_network_uses_the_sample(workspace: Workspace) -> None:
    unreachable = "corpus.sources.0.files.0.url=http://127.0.0.1:9/jawiki-pages.xml.bz2"
    sums = "corpus.sources.0.files.0.checksums=http://127.0.0.1:9/sums"
    words = ("run", ROOT / "data_recipes/jawiki.toml", "--scale", "tiny", "--set", unreachable, "--set", sums)
    command = (*words, "--backend", "numpy", "--until", "train", "--workers", 1)
    planned = workspace.jprep(*command, "--dry-run", cwd=workspace.folder, env=workspace.env).stdout
    assert "from the first megabytes of http://127.0.0.1:9/jawiki-pages.xml.bz2" in planned
    done = workspace.jprep(*command, cwd=workspace.folder, env=workspace.env)
    assert "using the embedded sample instead, which is not from jawiki" in done.stderr
    assert read_manifest(workspace.folder / "work/jawiki-tiny/corpus").totals["documents"] > 10
    assert "as before" in workspace.jprep(*command, cwd=workspace.folder, env=workspace.env).stderr


def test_an_evaluation_is_suggested_if_there_is_a_test_split(workspace: Workspace) -> None:
    assert "jprep evaluate" not in workspace.tiny().stdout
    done = workspace.tiny("--set", "dataset.test=0.3", "--work", "other")
    assert f"next:\n  jprep evaluate {Path('other') / TINY.name}/runs/numpy" in done.stdout


def test_a_dry_run_shows_what_exists(workspace: Workspace) -> None:
    nothing = workspace.tiny("--dry-run").stdout
    assert "; " not in nothing.partition("quickstart-tiny:")[2]
    steps = read_steps(workspace)
    shown = workspace.tiny("--dry-run").stdout
    for step in DATA:
        [line] = [line for line in shown.splitlines() if line.startswith(f"  {step} ")]
        assert line.endswith("; finished")
    assert f"; there is a finished run of {steps} steps\n" in shown
    other = workspace.tiny("--dry-run", "--set", "tokenizer.vocab_size=1234", code=2)
    assert "vocab_size: was" in other.stderr and "delete work/quickstart-tiny/tokenizer" in other.stderr
    job = workspace.folder / TINY / "runs" / "numpy" / "job.json"
    job.write_bytes(job.read_bytes()[:-20])
    assert "; there is a run that cannot be read (job.json is damaged" in workspace.tiny("--dry-run").stdout


def read_steps(workspace: Workspace) -> int:
    """Run a recipe at scale tiny; return the steps of its training."""
    workspace.tiny()
    return read_job(workspace.folder / TINY / "runs" / "numpy").steps
