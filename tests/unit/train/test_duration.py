from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jprep.train.backend import Host, Plan, Target
from jprep.train.job.config import ModelConfig, TrainConfig
from jprep.train.models import TokenizerInfo, model_config, parameter_count
from jprep.train.models.flops import flops_per_token, idle_parameters, peak_flops
from jprep.train.planning import duration
from jprep.train.planning.duration import Duration


def test_flops_per_token() -> None:
    model = {"model_type": "gpt2", "n_layer": 2, "n_embd": 8}
    assert flops_per_token(model, 1000, 16) == 6 * 1000 + 12 * 2 * 8 * 16


def test_models_with_other_names_for_layers_and_width_count_alike() -> None:
    model = {"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 4}
    assert flops_per_token(model, 10, 5) == 60 + 12 * 3 * 4 * 5


def test_attention_costs_what_it_attends_to() -> None:
    heads = {"model_type": "qwen3", "num_hidden_layers": 3, "hidden_size": 4, "num_attention_heads": 2, "head_dim": 8}
    assert flops_per_token(heads, 10, 5) == 60 + 12 * 3 * 16 * 5
    local = {"model_type": "modernbert", "num_hidden_layers": 4, "hidden_size": 4, "num_attention_heads": 2,
             "global_attn_every_n_layers": 3, "local_attention": 8}  # fmt: skip
    assert flops_per_token(local, 10, 100) == 60 + 12 * 4 * (2 * 100 + 2 * 9)
    assert flops_per_token(local, 10, 5) == 60 + 12 * 4 * 4 * 5


def test_only_the_experts_of_a_token_count() -> None:
    model = model_config(ModelConfig(preset="qwen3-moe-30b-a3b"), "clm", TokenizerInfo(151936, 512))
    active = parameter_count(model, "clm") - idle_parameters(model)
    assert active == 3_353_032_704  # "3B active"


@pytest.mark.parametrize(
    ("name", "tera"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA A10G", 70),
        ("NVIDIA A10", 125),
        ("NVIDIA L40S", 362),
        ("NVIDIA L4", 121),
        ("NVIDIA GeForce RTX 4090", 165),
    ],
)
def test_a_gpu_is_known_by_its_whole_name(name: str, tera: int) -> None:
    assert peak_flops(name) == tera * 1e12


def test_an_unknown_gpu_has_the_given_peak() -> None:
    assert peak_flops("NVIDIA A1000") is None
    assert peak_flops("NVIDIA A1000", "50.5") == 50.5e12


@pytest.mark.parametrize(
    ("name", "tera"), [("A100-40GB", 312), ("rtx4090", 165), ("RTX-4090", 165), ("H100_PCIe", 756)]
)
def test_a_gpu_is_known_by_the_name_that_a_user_gives_it(name: str, tera: int) -> None:
    assert peak_flops(name) == tera * 1e12


def test_fp32_has_a_lower_peak() -> None:
    assert peak_flops("A100", half=False) == 19.5e12


def job(steps: int, samples: int = 1000, **options: object) -> Any:
    section = TrainConfig(batch=10, length=100, precision="bf16")
    model = {"model_type": "gpt2", "n_layer": 2, "n_embd": 8}
    return SimpleNamespace(
        steps_before=0,
        train=section,
        model=model,
        parameters=10**6,
        steps=steps,
        samples=samples,
        options=options,
        backend="mine",
        epochs=lambda step: step * 10 / samples,
    )


def plan(target: Target | None) -> Plan:
    return Plan((), {}, 1, 1, 1, 0, target=target)


HOST = Host("python", 4, 1)
FLOPS = 10 * 100 * (6 * 10**6 + 12 * 2 * 8 * 100)
"""Of a step."""


def test_a_gpu_s_time_comes_from_its_peak() -> None:
    target = Target(name="A100-40GB", kind="gpu", count=4)
    found = duration.estimate_duration(job(1000), plan(target), HOST)
    assert found.seconds == pytest.approx(1000 * FLOPS / (4 * 0.35 * 312e12))
    assert "4 × A100-40GB" in found.text and "35%" in found.text and "about" in found.text
    again = duration.estimate_duration(job(1000, gradient_checkpointing=True), plan(target), HOST)
    assert again.seconds == pytest.approx(found.seconds * 4 / 3)


def test_a_cpu_s_time_comes_from_a_measured_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duration, "core_rate", lambda: 1e10)
    found = duration.estimate_duration(job(1000), plan(None), HOST)
    assert found.seconds == pytest.approx(1000 * FLOPS / (0.5 * 4e10))
    assert "4 cores" in found.text and "10 GFLOP/s" in found.text
    limited = duration.estimate_duration(job(1000, threads=1), plan(None), HOST)
    assert limited.seconds == pytest.approx(4 * found.seconds) and "on 1 core " in limited.text


def test_the_speed_of_a_core_is_measured() -> None:
    assert 1e8 < duration.core_rate() < 1e13


@pytest.mark.parametrize("target", [Target(name="a TPU", kind="tpu"), Target(name="40", kind="gpu")])
def test_the_duration_on_an_unknown_device_is_unknown(target: Target) -> None:
    found = duration.estimate_duration(job(1000), plan(target), HOST)
    assert found.seconds is None and "unknown" in found.text and target.name in found.text


@pytest.mark.parametrize(
    ("steps", "seconds", "warned"),
    [
        (100, 86_400.0, []),
        (100, None, []),
        (100, 40 * 86_400.0, ["train.steps"]),
        (125_552, 60.0, ["--set train.steps=100 "]),
        (125_552, 400 * 86_400.0, ["400 days", "1,256 times"]),
    ],
)
def test_an_unreasonable_run_gets_a_warning_with_the_option(
    steps: int, seconds: float | None, warned: list[str]
) -> None:
    found = duration.duration_warnings(job(steps), Duration(seconds, ""))
    assert len(found) == len(warned)
    assert all(part in line for part, line in zip(warned, found, strict=True))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 second"), (1.9, "2 seconds"), (90, "90 seconds"), (150, "2 minutes"), (6000, "100 minutes"),
        (10_000, "3 hours"), (200_000, "2 days"), (86_400 * 1234, "1,200 days"),
    ],
)  # fmt: skip
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration.format_duration(seconds) == words
