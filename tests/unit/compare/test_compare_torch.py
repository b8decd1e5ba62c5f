"""A whole comparison with PyTorch, killed and resumed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import COMMAND, Run, digests, environment
from tests.fakes.compared_models import write_recipe, write_texts

pytestmark = [pytest.mark.backends, pytest.mark.soak]


def results(folder: Path) -> dict[str, str]:
    return {path: each for path, each in digests(folder).items() if not path.startswith(("work/", ".state/", "report"))}


def test_a_killed_comparison_resumes_to_the_same_bytes(tmp_path: Path, jprep: Run) -> None:
    texts = write_texts(tmp_path / "texts.jsonl")
    recipes = [write_recipe(tmp_path, "one", texts), write_recipe(tmp_path, "two", texts, model="byte-bpe")]
    options = ("--size", "0.1m", "--characters", 20_000, "--seeds", 1, "--workers", 1)
    whole, killed = tmp_path / "whole" / "out", tmp_path / "killed" / "out"
    found = json.loads(jprep("compare", *recipes, *options, "-o", whole, "--json").stdout)
    assert all(1 < bits < 12 for seeds in found["bits_per_character"] for bits in seeds)
    env = environment(JPREP_FAILPOINT="compare.scored@1=die")
    command = [COMMAND, "compare", *map(str, recipes), *map(str, options), "-o", str(killed)]
    assert subprocess.run(command, env=env).returncode
    assert not (killed / "compare.json").exists()
    jprep("compare", *recipes, *options, "-o", killed)
    assert results(killed) == results(whole)
