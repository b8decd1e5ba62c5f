"""AdamW with averages of eight bits: what is kept, its curve beside AdamW's, and exact resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from jprep.io.atomic import file_sha256
from jprep.testing.backend_suite.cases import golden_curve
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep_torch.worker.update_rules.adamw_8bit import BLOCK, AdamW8bit, compress, values_of

CASE, NEAR = "gpt2-clm", 0.02
KIND = {"optimizer": {"lr": 0.01, "eps": 1e-6, "weight_decay": 0.1, "clip": 0.5, "kind": "adamw-8bit"}}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> SuiteRunner:
    return SuiteRunner(tmp_path_factory.mktemp("eight"), "torch", {"device": "cpu", "threads": 1})


def samples() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    normal = torch.randn(7, 1_000, generator=generator)
    found = [normal, normal * 10.0 ** torch.randint(-12, 3, normal.shape, generator=generator), -normal.abs()]
    return [*found, torch.zeros(5_000), torch.full((300,), 1e-38), torch.tensor([3.0]), normal[:, :BLOCK]]


@pytest.mark.parametrize("signed", [True, False])
def test_values_fit_into_a_byte_and_include_both_ends(signed: bool) -> None:
    values = values_of(signed, torch.device("cpu"))
    assert len(values) == (255 if signed else 256) and len(values.unique()) == len(values)
    assert values[0] == (-1 if signed else 0) and values[-1] == 1 and 0 in values


@pytest.mark.parametrize("signed", [True, False])
def test_numbers_compressed_again_have_the_same_bytes(signed: bool) -> None:
    for sample in samples():
        numbers = sample if signed else sample.abs()
        once = compress(numbers, signed=signed)
        again = compress(once.expand(), signed=signed)
        assert once.expand().shape == numbers.shape and once.codes.dtype == torch.uint8
        assert torch.equal(once.codes, again.codes) and torch.equal(once.scales, again.scales)
        largest = numbers.abs().amax()
        assert (once.expand() - numbers).abs().amax() <= 0.012 * largest + 1e-30
        assert once.expand().abs().amax() == (largest if largest > 1e-30 else 0)


def test_an_update_that_is_not_finite_changes_nothing() -> None:
    weight = torch.nn.Parameter(torch.ones(64, 64))
    optimizer = AdamW8bit([{"params": [weight], "weight_decay": 0.1}], 0.1, (0.9, 0.999), 1e-8)
    weight.grad = torch.full((64, 64), 0.5)
    optimizer.step()
    kept, average = weight.detach().clone(), optimizer.average(weight, "exp_avg")
    weight.grad = torch.full((64, 64), torch.nan)
    optimizer.found_inf = torch.tensor(1.0)
    optimizer.step()
    assert torch.equal(weight, kept) and torch.equal(optimizer.average(weight, "exp_avg"), average)


def test_the_curve_is_about_that_of_adamw(bench: SuiteRunner) -> None:
    losses = bench.trained(CASE, **KIND).losses()
    assert list(losses.values()) == pytest.approx(golden_curve(CASE).train, rel=NEAR)
    assert list(losses.values()) != pytest.approx(golden_curve(CASE).train, rel=1e-5)


@pytest.mark.parametrize(
    "options",
    [pytest.param({"processes": 2}, marks=pytest.mark.soak), {"processes": 2, "shard": "yes"}],
    ids=["ddp", "fsdp"],
)
def test_several_processes(bench: SuiteRunner, options: dict[str, Any]) -> None:
    losses = bench.trained(CASE, options, **KIND).losses()
    assert list(losses.values()) == pytest.approx(golden_curve(CASE).train, rel=NEAR)


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"processes": 2, "shard": "yes"}, marks=pytest.mark.soak)], ids=["one", "fsdp"]
)
def test_a_killed_run_ends_with_the_bytes_of_an_uninterrupted_one(bench: SuiteRunner, options: dict[str, Any]) -> None:
    whole = bench.trained(CASE, options, **KIND)
    prepared = bench.prepare(CASE, options, **KIND)
    killed = bench.train(prepared, JPREP_FAILPOINT="run.renamed@1")
    assert [event.step for event in killed.events() if event.kind == "start"] == [0, 30]
    assert digests(killed.checkpoint()) == digests(whole.checkpoint())


def digests(folder: Path) -> dict[str, str]:
    return {path.name: file_sha256(path) for path in folder.glob("*.safetensors")}
