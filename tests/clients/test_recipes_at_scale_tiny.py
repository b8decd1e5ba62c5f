"""Every shipped recipe runs to its end at `--scale tiny`, on the backend that it names, without a network."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest

from jprep.pipeline.recipe import Recipe, load_recipe
from jprep.pipeline.tiny_scale import STEPS
from jprep.train.backend_loading import backend_options, default_backend_name, load_backend
from jprep.train.job.tracking import tracker_configs
from jprep.train.launcher.environments import environment_path
from jprep.train.run.directory import read_job
from jprep.train.run.events import metric_curve, read_events
from jprep.train.trackers.follow import INSTALL
from tests.conftest import ROOT, Run
from tests.fakes.jumanpp_program import install

pytestmark = pytest.mark.backends

DAILY = {"gpt2-xl-japanese"}
"""The long tests run the other recipes."""

RECIPES = [
    pytest.param(path, marks=[pytest.mark.soak] * (path.stem not in DAILY), id=path.stem)
    for path in sorted((ROOT / "data_recipes").glob("*.toml"))
]
UNREACHABLE = "http://127.0.0.1:9"
OFFLINE = {
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"), UNREACHABLE),
    "no_proxy": "",
    "NO_PROXY": "",
    "HF_HUB_OFFLINE": "1",
    "WANDB_MODE": "offline",
}
"""Variables with which no download succeeds, and none takes long to fail."""

SMALL = ("--set", "tokenizer.vocab_size=1800", "--set", "dataset.validation=0.2")
"""What the sample's 29 documents are enough for, for recipes that take any corpus."""


def skip_without_environment(recipe: Recipe) -> str:
    """Return the backend that a recipe names; skip the test where the backend or a tracker is not installed."""
    assert recipe.train
    name = default_backend_name(recipe.train)
    backend = load_backend(name)
    needed = backend.environment(backend_options(recipe.train, backend)).name
    if "JPREP_BACKENDS" not in os.environ or not environment_path(needed).exists():
        pytest.skip(f"JPREP_BACKENDS has no environment {needed}, which the recipe's backend {name} runs in")
    for library in {one.use for one in tracker_configs(recipe.train.trackers)} & INSTALL.keys():
        if not importlib.util.find_spec(library):
            pytest.skip(f"{library}, which the recipe reports to, is not installed")
    return name


@pytest.mark.parametrize("path", RECIPES)
def test_a_recipe_runs_to_an_exported_model(path: Path, tmp_path: Path, corpus: Path, jprep: Run) -> None:
    recipe = load_recipe(path)
    backend = skip_without_environment(recipe)
    folder = install(tmp_path / "jumanpp").parent
    env = OFFLINE | {"PATH": os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])}
    given = [] if recipe.corpus.sources or not recipe.tokenizer else ["--corpus", corpus, *SMALL]
    command = ["run", path, "--scale", "tiny", "--work", tmp_path, "--workers", 1, *given]
    jprep(*command, cwd=tmp_path, env=env)

    exports = sorted(tmp_path.glob(f"{path.stem}-tiny/runs/{backend}/**/export"))
    assert len(exports) == max(1, recipe.train.labelled.folds if recipe.train else 0)
    for export in exports:
        assert {"model.safetensors", "config.json", "tokenizer.json"} <= {file.name for file in export.iterdir()}
        assert read_job(export.parent).backend == backend
        steps, losses = metric_curve(read_events(export.parent))
        assert steps[-1] == STEPS and all(0 < loss < 100 for loss in losses), json.dumps(losses)
