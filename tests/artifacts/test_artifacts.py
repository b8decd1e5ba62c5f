"""What a released version wrote stays readable: finished artefacts are accepted, interrupted work is finished.

Each archive `VERSION.tar.xz` was written by the commands of that version; README.md says how one is made.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from jprep.corpus.readers.wikipedia import WikipediaReader
from tests.conftest import Run, digests

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.xz"))
STAGES = {"corpus": ("corpus", "build"), "tokenizer": ("tokenizer", "train"), "dataset": ("dataset", "pack")}
MANIFESTS = {"corpus": "corpus.json", "tokenizer": "card.json", "dataset": "dataset.json"}
OTHERS = {"neologdn": "0.5.6", "fugashi": "1.5.2", "jumandic": "1.0.0"}
"""Versions that enter the fingerprint of a corpus."""

TOLERANCE = 1e-4
"""Between the loss curves of two processors."""

needs_torch = pytest.mark.skipif("JPREP_TORCH" not in os.environ, reason="the backend torch is not installed")


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that one version wrote; tests do not write there."""
    folder = tmp_path_factory.mktemp("artifacts")
    with tarfile.open(request.param) as archive:
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # 3.11.4 on
    return folder


@pytest.fixture
def old(archive: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    return shutil.copytree(archive, tmp_path / "old", symlinks=True)


def content(folder: Path, kind: str) -> tuple[dict[str, str], Any]:
    """Return the digest of each file, and the manifest without the version of jprep that wrote it."""
    files = digests(folder)
    del files[MANIFESTS[kind]]
    manifest = json.loads((folder / MANIFESTS[kind]).read_bytes())
    for key in ("jprep", "signature", "checksum"):
        manifest.pop(key, None)
    return files, manifest


def losses(events: Path, kind: str) -> dict[int, float]:
    """Return the loss of each step; of a step that was repeated, the last one."""
    rows = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    return {row["step"]: row["figures"]["loss"] for row in rows if row["kind"] == kind}


def need_libraries_of(old: Path) -> None:
    """Skip where a library that enters fingerprints has another version than the artefacts were made with."""
    made_with = json.loads((old / "work/old/tokenizer/card.json").read_bytes())["made_from"]["libraries"]
    if changed := [f"{name} {made}" for name, made in (made_with | OTHERS).items() if version(name) != made]:
        pytest.skip(f"these artefacts were made with {', '.join(changed)}")


def changed_reader(old: Path) -> bool:
    """Return whether the corpus was made by a reader that works differently today."""
    made_from = json.loads((old / "work/old/corpus/corpus.json").read_bytes())["made_from"]
    readers = [source["reader"] for source in made_from["documents"]["sources"]]
    return any(
        reader["name"] == WikipediaReader.name and reader["version"] != WikipediaReader.version for reader in readers
    )


def test_there_are_artifacts() -> None:
    assert ARCHIVES


def test_finished_artifacts_are_read(old: Path, jprep: Run) -> None:
    work = old / "work/old"
    jprep("corpus", "verify", work / "corpus")
    documents = jprep("corpus", "export", work / "corpus", "--format", "jsonl").stdout.splitlines()
    stats = json.loads(jprep("corpus", "stats", work / "corpus", "--json").stdout)
    assert len(documents) == stats["totals"]["documents"]
    first = json.loads(documents[0])
    assert first["title"] in jprep("corpus", "why", work / "corpus", first["title"]).stdout
    jprep("tokenizer", "evaluate", work / "tokenizer", work / "corpus")
    jprep("tokenizer", "export", work / "tokenizer", "--format", "sentencepiece", "-o", old / "spm")
    jprep("dataset", "inspect", work / "dataset", "--token", 3)
    jprep("dataset", "export", work / "dataset", "--format", "arrow", "-o", old / "arrow")


@pytest.mark.parametrize("kind", STAGES)
def test_a_finished_artifact_is_not_made_again(kind: str, old: Path, jprep: Run) -> None:
    need_libraries_of(old)
    folder = old / "work/old" / kind
    before = digests(folder)
    refused = kind == "corpus" and changed_reader(old)
    done = jprep(*STAGES[kind], "recipe.toml", cwd=old, code=2 if refused else 0)
    assert ("works differently in this jprep" in done.stderr) == refused
    after = digests(folder)
    assert {name: after.get(name) for name in before} == before


@pytest.mark.parametrize("kind", STAGES)
def test_interrupted_work_is_finished_to_the_same_bytes(kind: str, old: Path, jprep: Run) -> None:
    need_libraries_of(old)
    if kind == "corpus" and changed_reader(old):
        command = [*STAGES[kind], "recipe.toml", "-o", old / "started" / kind]
        assert "works differently in this jprep" in jprep(*command, cwd=old, code=2).stderr
        return
    jprep(*STAGES[kind], "recipe.toml", "-o", old / "started" / kind, cwd=old)
    assert content(old / "started" / kind, kind) == content(old / "work/old" / kind, kind)


@pytest.mark.parametrize("kind", STAGES)
def test_the_same_recipe_still_gives_the_same_bytes(kind: str, old: Path, jprep: Run) -> None:
    need_libraries_of(old)
    if kind == "corpus" and changed_reader(old):
        pytest.skip("the reader wikipedia gives other text than the one that made this corpus")
    jprep(*STAGES[kind], "recipe.toml", "-o", old / "new", cwd=old)
    assert content(old / "new", kind) == content(old / "work/old" / kind, kind)


@pytest.mark.backends
@needs_torch
def test_a_half_finished_run_is_resumed(old: Path, jprep: Run) -> None:
    run = old / "work/old/runs/torch"
    begun = json.loads(jprep("train", "recipe.toml", "--dry-run", "--json", cwd=old).stdout)
    assert begun
    jprep("train", "recipe.toml", cwd=old)
    for kind in ("log", "validation"):
        expected = losses(old / "undisturbed.jsonl", kind)
        assert losses(run / "events.jsonl", kind) == pytest.approx(expected, rel=TOLERANCE)
    starts = [json.loads(line)["step"] for line in (run / "events.jsonl").read_text().splitlines() if '"start"' in line]
    assert starts == [0, 5]
    jprep("export", run, "-o", old / "exported")
    assert digests(old / "exported").keys() == digests(old / "export").keys()


@pytest.mark.backends
@needs_torch
def test_an_export_answers(old: Path, jprep: Run) -> None:
    assert jprep("infer", old / "export", "琴川市").stdout.startswith("琴川市")
