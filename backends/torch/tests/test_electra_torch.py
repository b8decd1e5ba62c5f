"""ELECTRA: sampled tokens, exports of both halves in plain transformers, and faults that the golden curve shows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import torch

from jprep.dataset.sampling.token_noise import gumbel_noise, id_words, noise_keys
from jprep.io.safetensors_file import TensorFiles
from jprep.testing.backend_suite.cases import golden_curve
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.testing.backend_suite.suite import PARITY
from jprep.train.exporting import export
from jprep.train.run.directory import read_job
from jprep_torch.models.token_sampling import sample_tokens
from jprep_torch.models.transformers_models import build_model, load_weights, weight_names

IDS = [2, 70, 71, 4, 80, 81, 82, 3]
SCRIPT = """
import sys
import numpy as np
import torch
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining

folder, ids = sys.argv[1], torch.tensor([[int(one) for one in sys.argv[2].split(",")]])
for name, loader in (("export", AutoModelForPreTraining), ("generator", AutoModelForMaskedLM)):
    model, found = loader.from_pretrained(f"{folder}/{name}", output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"], found
    np.save(f"{folder}/{name}.npy", model.eval()(input_ids=ids).logits.detach().numpy())
"""


def test_samples_are_those_of_the_noise_in_double_precision() -> None:
    keys = noise_keys(1, "train", np.zeros(8, np.int64), np.arange(8), 512).ravel()
    words = id_words(1000)
    logits = np.random.default_rng(3).normal(size=(len(keys), 1000)).astype(np.float32)
    expected = (logits + gumbel_noise(keys, words)).argmax(1)
    numbers = (torch.from_numpy(array.astype(np.int64)) for array in (keys, words))
    found = sample_tokens(torch.from_numpy(logits), *numbers)
    assert found.tolist() == expected.tolist()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps, with exports of both halves."""
    bench = SuiteRunner(tmp_path_factory.mktemp("electra"), "torch", {"device": "cpu", "threads": 1})
    done = bench.train(bench.prepare("electra-rtd", steps=2, schedule={}, validation={}))
    assert done.code == 0, done.messages
    export(done.run)
    export(done.run, generator=True)
    return done.run


@pytest.mark.backends
@pytest.mark.parametrize("version", ["4", "5"])
def test_both_halves_load_in_transformers_with_the_same_logits(version: str, trained: Path) -> None:
    arguments = [str(trained), ",".join(map(str, IDS))]
    if version == "5":  # that of this environment
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["-c", *arguments])
            exec(SCRIPT, {})
    else:
        _run_with_transformers4(arguments)
    job, [checkpoint] = read_job(trained), sorted(trained.glob("checkpoints/step-*"))
    model: Any = build_model(job.model, "rtd")
    names = weight_names(model, job.model, "rtd")
    load_weights(model, names, TensorFiles([checkpoint / "model.safetensors"]), lambda tensor, _: tensor.clone())
    for name, half in (("export", model.eval()), ("generator", model.generator.eval())):
        logits = half(input_ids=torch.tensor([IDS])).logits.detach().numpy()
        assert np.abs(np.load(trained / f"{name}.npy") - logits).max() < 1e-6


def _run_with_transformers4(arguments: list[str]) -> None:
    if not (python := os.environ.get("JPREP_TRANSFORMERS4")):
        pytest.skip("JPREP_TRANSFORMERS4 names no Python that has transformers 4")
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    env = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": packages}
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def _greedy(keys: Any, ids: int) -> Any:
    return np.zeros((len(keys), ids))


def _other_noise(keys: Any, ids: int) -> Any:
    return gumbel_noise(keys + np.uint32(1), id_words(ids))


def _changed(change: Callable[[reference.Losses], reference.Losses]) -> Any:
    plain = reference.rtd_losses
    return lambda model, batch: change(plain(model, batch))


FAULTS: dict[str, tuple[str, Callable[[], Any]]] = {
    "greedy samples": ("gumbel", lambda: _greedy),
    "other noise": ("gumbel", lambda: _other_noise),
    "weight 1": ("rtd_losses", lambda: _changed(lambda sums: sums._replace(pairs=sums.pairs / 50))),
    "no generator loss": ("rtd_losses", lambda: _changed(lambda sums: sums._replace(loss=0 * sums.loss))),
    "divided by masked tokens": ("rtd_losses", lambda: _changed(lambda sums: sums._replace(rows=sums.labels))),
    "divided by all tokens": ("rtd_losses", lambda: _changed(lambda sums: sums._replace(labels=sums.rows))),
    "padding counted": ("rtd_losses", lambda: _changed(lambda sums: sums._replace(rows=8 * 32))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_step_leaves_the_golden_curve(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, make = FAULTS[fault]
    monkeypatch.setattr(reference, name, make())
    found = _largest_difference(SuiteRunner(tmp_path, "torch", {}).prepare("electra-rtd", steps=10).run)
    assert found > 10 * PARITY, f"{fault}: {found:.2g}"


def test_without_a_fault_the_first_steps_are_the_golden_ones(tmp_path: Path) -> None:
    assert _largest_difference(SuiteRunner(tmp_path, "torch", {}).prepare("electra-rtd", steps=10).run) < 1e-9


def test_separate_embeddings_leave_the_golden_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Separate(torch.nn.Module):
        def __init__(self, generator: Any, discriminator: Any, weight: float) -> None:
            super().__init__()
            self.generator, self.discriminator, self.weight = generator, discriminator, weight
            self.config = discriminator.config

    monkeypatch.setattr(reference, "Electra", Separate)
    run = SuiteRunner(tmp_path, "torch", {}).prepare("electra-rtd", steps=10).run
    assert _largest_difference(run) > 10 * PARITY


def _largest_difference(run: Path) -> float:
    """Return the largest relative difference of the first steps from the golden curve."""
    curve, _ = reference.train(run)
    pairs = zip(curve.train, golden_curve("electra-rtd").train, strict=False)
    return max(abs(one / other - 1) for one, other in pairs)
