"""Muon: its direction, which weights it updates, and runs that are sharded and killed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.job.config import ModelConfig
from jprep.train.models import PRESETS, TokenizerInfo, model_config, parameters
from jprep.train.optimization.muon import uses_muon
from jprep_torch.worker.update_rules.muon import orthogonal
from tests.fakes.muon_run import assert_golden_muon_run


@pytest.mark.parametrize("shape", [(8, 8), (5, 20), (20, 5), (3, 6, 4)])
def test_singular_values_become_equal(shape: tuple[int, ...]):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    found = torch.linalg.svdvals(orthogonal(matrix)) / (0.2 * max(shape[-2:]) ** 0.5)
    assert float(found.min()) > 0.3 and float(found.max()) < 1.3
    assert torch.allclose(orthogonal(matrix.mT), orthogonal(matrix).mT, atol=1e-5)


@pytest.mark.parametrize("preset", sorted(name for name in PRESETS if name.endswith("-tiny")))
def test_matrices_of_layers_are_updated(preset: str):
    kind = PRESETS[preset]["model_type"]
    task = "mlm" if kind in ("bert", "roberta", "electra", "modernbert", "deberta-v2") else "clm"
    tensors = parameters(model_config(ModelConfig(preset=preset), task, TokenizerInfo(300, 32, 0, 2, 1)), task)
    chosen = {name for name, tensor in tensors.items() if uses_muon(name, tensor.shape)}
    assert len(chosen) >= 4 * 2
    assert not any("embed" in name or "norm" in name.lower() or "head" in name for name in chosen)
    assert all(len(tensors[name].shape) >= 2 for name in chosen)


def test_a_sharded_and_killed_run_takes_the_same_steps(tmp_path: Path):
    bench = SuiteRunner(tmp_path, "torch", {"device": "cpu", "threads": 1})
    prepared = bench.prepare("gpt2-muon", {"processes": 2, "shard": "yes"})
    assert_golden_muon_run(bench.train(prepared, JPREP_FAILPOINT="run.committed@2"))
