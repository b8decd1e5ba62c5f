from __future__ import annotations

import pytest

from tests.benchmarks.flops import flops_per_token, peak


def test_flops_are_six_for_each_weight_and_twelve_for_each_number_that_attention_looks_at() -> None:
    model = {"model_type": "gpt2", "n_layer": 2, "n_embd": 8}
    assert flops_per_token(model, 1000, 16) == 6 * 1000 + 12 * 2 * 8 * 16


def test_models_with_other_names_for_layers_and_width_count_alike() -> None:
    model = {"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 4}
    assert flops_per_token(model, 10, 5) == 60 + 12 * 3 * 4 * 5


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
    assert peak(name) == tera * 1e12


def test_an_unknown_gpu_has_the_peak_that_is_given() -> None:
    assert peak("NVIDIA A1000") is None
    assert peak("NVIDIA A1000", "50.5") == 50.5e12
