"""Corpus, tokenizer and dataset made on a Ray cluster have the bytes of those made by local processes."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from jprep import samples
from jprep.corpus.api import Corpus
from jprep.corpus.build import build
from jprep.dataset.pack import pack
from jprep.engine.executors.local import Local
from jprep.engine.executors.ray.executor import Ray, RayOptions
from jprep.engine.runner import Executor, SilentProgress
from jprep.pipeline.recipe import Recipe, load_recipe
from jprep.tokenizer.train import train as train_tokenizer
from jprep.tokenizer.training_data import CorpusTrainingData
from tests.conftest import SHARED, digests
from tests.fakes.killed_nodes import OUTPUTS, HoldingRay, RecordingLocal
from tests.fakes.ray_cluster import RayCluster

pytest.importorskip("ray", reason="Ray is not installed: pip install 'jprep[ray]'")
pytestmark = [pytest.mark.backends, pytest.mark.xdist_group("ray")]

KILLS = int(os.environ.get("JPREP_KILLS", "20"))
"""Nodes that are killed in each stage."""
DUMPS = ("wikitext/jawiki-20220720-head-A.xml.bz2", "wikitext/jawiki-20060803-export0.3-noClosingTag.xml.bz2")
LINES = "web/quasi_reviews.jsonl.gz"
"""Real data, where there is some."""
OPTIONS = """
[corpus.dedup]
lines = true
near = {{}}
[tokenizer]
vocab_size = {}
[dataset]
validation = 0.2
"""
STAGES = {
    "corpus/inputs",
    "corpus/documents",
    "corpus/dedup",
    "corpus/near-pairs",
    "corpus/near-clusters",
    "corpus/words",
    "corpus/ids",
    "corpus/repeated_ids",
    "tokenizer/counting",
    "tokenizer/summing",
    "tokenizer/merging",
    "dataset/encoding",
    "dataset/joining",
    "dataset/committing",
}


def recipe_of(folder: Path, dumps: list[Path], lines: Path, vocab_size: int) -> Recipe:
    """Write a recipe that has all stages, with a source for each dump, and one that has to be cut first."""
    pytest.importorskip("rensa", reason="rensa is not installed: pip install 'jprep[near]'")
    source = '[[corpus.sources]]\nname = "{}"\nreader = {{ use = "{}", shard_mb = {} }}\npaths = ["{}"]\n'
    sources = [source.format(f"wiki{number}", "wikipedia", 1, dump) for number, dump in enumerate(dumps)]
    sources.append(source.format("lines", "jsonl", 0.1, lines))
    path = folder / "recipe.toml"
    path.write_text('name = "work"\n' + "".join(sources) + OPTIONS.format(vocab_size), encoding="utf-8")
    return load_recipe(path)


def sample_recipe(folder: Path) -> Recipe:
    samples.write_sample(folder)
    texts = (folder / samples.CRAWL).read_text(encoding="utf-8").split("\n\n")
    lines = "".join(json.dumps({"id": str(number), "text": text}) + "\n" for number, text in enumerate(texts))
    (folder / "lines.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    return recipe_of(folder, [folder / samples.DUMP] * 4, folder / "lines.jsonl.gz", vocab_size=2000)


def real_recipe(folder: Path) -> Recipe:
    data = SHARED / "data"
    return recipe_of(folder, [data / name for name in DUMPS], data / LINES, vocab_size=6000)


def make(recipe: Recipe, name: str, executor: Executor, folder: Path, inputs: Path) -> dict[str, str]:
    """Make the output of a name in a folder from the outputs in another one; return the hashes of its files."""
    silent, dataset, tokenizer = SilentProgress(), recipe.dataset, recipe.tokenizer
    assert dataset and tokenizer
    if name == "corpus":
        build(recipe, folder / name, executor, silent)
    elif name == "tokenizer":
        data = CorpusTrainingData(Corpus(inputs / "corpus"), dataset.held_out)
        train_tokenizer(data, tokenizer, folder / name, executor, silent)
    else:
        pack(Corpus(inputs / "corpus"), inputs / "tokenizer", dataset, folder / name, executor, silent)
    return digests(folder / name)


def make_all(recipe: Recipe, executor: Executor, folder: Path) -> dict[str, dict[str, str]]:
    """Make all outputs; return the hashes of their files."""
    with contextlib.closing(executor):
        return {name: make(recipe, name, executor, folder, folder) for name in OUTPUTS}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Path, dict[str, dict[str, str]]]:
    """A recipe for real data, if there is some, with the outputs of local processes."""
    folder = tmp_path_factory.mktemp("local")
    recipe = real_recipe(folder) if (SHARED / "data").is_dir() else sample_recipe(folder)
    return recipe, folder, make_all(recipe, Local(2), folder)


def test_outputs_are_those_of_local_processes(ray_cluster: RayCluster, tmp_path: Path) -> None:
    recipe = sample_recipe(tmp_path)
    local = make_all(recipe, executor := RecordingLocal(1), tmp_path / "local")
    assert executor.stages == STAGES
    options = RayOptions(address=ray_cluster.address)
    assert make_all(recipe, Ray(1, lambda: False, options), tmp_path / "ray") == local


@pytest.mark.soak
def test_outputs_of_real_data_are_those_of_local_processes(ray_cluster: RayCluster, real: Any, tmp_path: Path) -> None:
    recipe, _, local = real
    assert make_all(recipe, Ray(1, lambda: False, RayOptions(address=ray_cluster.address)), tmp_path) == local


@pytest.mark.soak
@pytest.mark.parametrize("name", OUTPUTS)
def test_nodes_killed_in_each_stage_change_nothing(
    ray_cluster: RayCluster, real: Any, tmp_path: Path, name: str
) -> None:
    recipe, folder, local = real
    (tmp_path / "marks").mkdir()
    options = RayOptions(address=ray_cluster.address, attempts=10 * KILLS)
    with contextlib.closing(HoldingRay(1, lambda: False, options)) as executor:
        executor.cluster, executor.kills, executor.folder = ray_cluster, KILLS, tmp_path / "marks"
        assert make(recipe, name, executor, tmp_path, folder) == local[name]
    assert executor.killed == {stage: KILLS for stage in STAGES if stage.startswith(name)}
