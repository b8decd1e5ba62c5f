"""Rotary positions: the frequencies that transformers computes for each scaling."""

from __future__ import annotations

from typing import Any

import pytest

from jprep_flax.models.architectures.rope import make_rotation

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}  # fmt: skip
OWN = {"beta_fast": 8.0, "beta_slow": 0.5, "truncate": False, "mscale": 0.7, "mscale_all_dim": 1.0}
PLAIN = [1.0, 0.3549537, 0.1259921, 0.04472136, 0.01587401, 0.005634539]


# Computed by transformers 5.23 for heads of 12 numbers and a base of 500.
@pytest.mark.parametrize(
    ("scaling", "frequencies", "scale"),
    [
        (None, PLAIN, 1.0),
        ({"rope_type": "dynamic", "factor": 4.0}, PLAIN, 1.0),
        ({"rope_type": "linear", "factor": 4.0}, [one / 4 for one in PLAIN], 1.0),
        (YARN, [1.0, 0.2662153, 0.06299605, 0.01118034, 0.003968502, 0.001408635], 1.138629436),
        (YARN | OWN, [1.0, 0.2786967, 0.06362387, 0.01118034, 0.003968502, 0.001408635], 0.963474657),
        (YARN | {"attention_factor": 1.5}, [1.0, 0.2662153, 0.06299605, 0.01118034, 0.003968502, 0.001408635], 1.5),
        (LLAMA3, [1.0, 0.31515, 0.02616129, 0.00559017, 0.001984251, 0.0007043174], 1.0),
    ],
    ids=["none", "dynamic", "linear", "yarn", "yarn, all keys", "yarn, given factor", "llama3"],
)
def test_frequencies_are_those_of_transformers(
    scaling: dict[str, Any] | None, frequencies: list[float], scale: float
) -> None:
    found = make_rotation(12, 500.0, scaling)
    assert found.frequencies == pytest.approx(frequencies, rel=1e-6)
    assert found.scale == pytest.approx(scale, rel=1e-8)
