"""`jprep run`: a recipe from its first file to an exported model, by one command that goes on wherever it was left."""

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


class Place(NamedTuple):
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
def place(tmp_path: Path, distribution: Distribution, jprep: Run) -> Place:
    return Place(samples.write_sample(tmp_path / "sample").parent, offer(distribution), jprep)


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
    place = Place(samples.write_sample(folder / "sample").parent, offer(Distribution(folder / "distributions")), jprep)
    place.run("--scale", "tiny", "--until", "dataset")
    return made(place.folder / TINY)


def test_scale_tiny_runs_every_step(place: Place, uninterrupted: dict[str, str]) -> None:
    told = place.tiny().stdout
    for line in ("train.batch: was 48, is 8", "corpus.sources.0.shards: was 0, is 1", "[4/4] train:"):
        assert line in told
    job = read_job(place.folder / TINY / "runs" / "numpy")
    assert (job.steps, job.train.batch, job.train.packing) == (20, 8, "complete")
    assert read_manifest(place.folder / TINY / "corpus").sources[0]["shards"] == 1
    assert made(place.folder / TINY) == uninterrupted
    stamps = {path: path.stat().st_mtime_ns for path in (place.folder / TINY).rglob("*.parquet")}
    place.tiny()
    assert {path: path.stat().st_mtime_ns for path in (place.folder / TINY).rglob("*.parquet")} == stamps


def test_set_overrides_scale_tiny(place: Place) -> None:
    told = place.tiny("--set", "train.steps=7", "--set", "corpus.sources.1.shards=0", "--dry-run").stdout
    assert "7 steps of 8 rows" in told
    assert "sources.0.shards" in told and "sources.1.shards" not in told


@pytest.mark.parametrize("failpoint", ["corpus.sealing", "tokenizer.learnt", "run.hashed"])
def test_a_killed_run_resumes_with_the_same_result(failpoint: str, place: Place, uninterrupted: dict[str, str]) -> None:
    command = [COMMAND, "run", "recipe.toml", "--scale", "tiny", "--backend", "numpy", "--until", "train"]
    env = environment(**place.env, JPREP_FAILPOINT=failpoint)
    options = ["--workers", "1", "--set", "train.max_restarts=0"]
    ended = subprocess.run([*command, *options], cwd=place.folder, env=env, capture_output=True, start_new_session=True)
    assert ended.returncode in (-signal.SIGKILL, 1)
    place.tiny("--set", "train.max_restarts=0")
    assert made(place.folder / TINY) == uninterrupted


def test_a_run_ends_at_the_last_section_of_the_recipe_with_a_note(place: Place) -> None:
    place.edit(place.folder.joinpath("recipe.toml").read_text().partition("[dataset]")[2], "\nvalidation = 0.2\n")
    told = place.run().stdout
    assert "[3/3] dataset" in told and "the recipe has no [train], so the run ends here" in told
    assert (place.folder / "work/quickstart/dataset/dataset.json").exists()
    assert not (place.folder / "work/quickstart/runs").exists()


def test_without_the_backend_nothing_is_begun(place: Place) -> None:
    failed = place.run("--backend", "nump", code=2)
    assert "nump" in failed.stderr
    place.folder.joinpath("..", "distributions", "numpy_heavy", "worker.py").unlink()
    failed = place.run("--backend", "numpy", code=3)
    assert "jprep backends install numpy" in failed.stderr
    assert not (place.folder / "work").exists()


def test_a_failed_training_gives_its_exit_code_and_keeps_the_data(place: Place) -> None:
    failed = place.tiny(env={"REFUSE_AT": "3"}, code=2)
    assert "[4/4] train" in failed.stdout
    assert (place.folder / TINY / "dataset/dataset.json").exists()
    place.tiny()


def test_other_work_in_the_same_place_is_refused(place: Place) -> None:
    place.run("--until", "corpus")
    before = digests(place.folder / "work")
    refused = place.run("--until", "corpus", "--set", "corpus.dedup.line_min_chars=9", code=2).stderr
    assert "line_min_chars: was 20, is 9" in refused and "another --work" in refused
    assert digests(place.folder / "work") == before


def test_a_corpus_from_another_directory_is_used(place: Place, corpus: Path) -> None:
    recipe = place.folder / "own.toml"
    recipe.write_text('name = "own"\n[tokenizer]\nvocab_size = 2000\n')
    refused = place.jprep("run", recipe, cwd=place.folder, code=2).stderr
    assert "--corpus DIR" in refused
    before = digests(corpus)
    place.jprep("run", recipe, "--corpus", corpus, cwd=place.folder)
    assert (place.folder / "work/own/tokenizer/card.json").exists()
    assert digests(corpus) == before


def test_downloads_of_a_source_are_announced_and_fetched_once(place: Place) -> None:
    away = place.folder.parent / samples.CRAWL
    place.folder.joinpath(samples.CRAWL).rename(away)
    place.edit('paths = ["cc100.txt"]', f'paths = ["downloads/cc100.txt"]\nfiles = [{{ url = "{away.as_uri()}" }}]')
    assert f"downloads/{samples.CRAWL}  from {away.as_uri()}" in place.run("--until", "corpus", "--dry-run").stdout
    told = place.run("--until", "corpus").stdout
    assert f"downloading {away.as_uri()}, {away.stat().st_size:,} bytes" in told
    assert "downloading" not in place.run("--until", "corpus").stdout


def test_a_dry_run_writes_nothing(place: Place) -> None:
    before = digests(place.folder)
    told = place.run("--backend", "numpy", "--dry-run").stdout
    for step in ("corpus", "tokenizer", "dataset", "train", "export"):
        assert f"  {step}" in told
    assert digests(place.folder) == before


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


def test_labelled_rows_are_trained_in_their_folds_from_any_folder(place: Place) -> None:
    recipes = place.folder.parent / "recipes"
    recipes.mkdir()
    rows(recipes / "rows.jsonl")
    (recipes / "r.toml").write_text(LABELLED, encoding="utf-8")
    command = ("run", recipes / "r.toml", "--scale", "tiny", "--backend", "numpy", "--until", "train")
    told = place.jprep(*command, cwd=place.folder, env=place.env).stdout
    for words in ("[3/3] train:", "of 2 folds", "accuracy"):
        assert words in told
    runs = place.folder / "work/評判-tiny/runs/numpy"
    assert sorted(path.name for path in runs.iterdir()) == ["fold-0", "fold-1", "folds.json"]
    assert read_job(runs / "fold-1").train.fold == 1
    assert "4 steps" in place.jprep(*command, "--dry-run", cwd=place.folder, env=place.env).stdout
    alone = ("--set", "train.fold=1", "--set", "name=one")
    place.jprep(*command, *alone, cwd=place.folder, env=place.env)
    assert read_job(place.folder / "work/one/runs/numpy").train.fold == 1


def test_scale_tiny_without_inputs_and_network_uses_the_sample(place: Place) -> None:
    unreachable = "corpus.sources.0.files.0.url=http://127.0.0.1:9/jawiki-pages.xml.bz2"
    sums = "corpus.sources.0.files.0.checksums=http://127.0.0.1:9/sums"
    words = ("run", ROOT / "data_recipes/jawiki.toml", "--scale", "tiny", "--set", unreachable, "--set", sums)
    command = (*words, "--backend", "numpy", "--until", "train", "--workers", 1)
    planned = place.jprep(*command, "--dry-run", cwd=place.folder, env=place.env).stdout
    assert "from the first megabytes of http://127.0.0.1:9/jawiki-pages.xml.bz2" in planned
    done = place.jprep(*command, cwd=place.folder, env=place.env)
    assert "using the embedded sample instead, which is not from jawiki" in done.stderr
    assert read_manifest(place.folder / "work/jawiki-tiny/corpus").totals["documents"] > 10
    assert "as before" in place.jprep(*command, cwd=place.folder, env=place.env).stderr
