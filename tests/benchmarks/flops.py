"""How much of a GPU's arithmetic a training takes: model FLOPs utilisation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jprep.train.models import FAMILIES

# 10¹² multiplications and additions a second, dense, in bf16 with sums in fp32, as makers say. Names are parts of those
# that the driver tells; the first that is found counts.
PEAKS = {
    "B200": 2250, "H100 PCIe": 756, "H100 NVL": 835, "H100": 989, "H200": 989, "A100": 312, "A800": 312, "L40S": 362,
    "L40": 181, "L4": 121, "A40": 150, "A30": 165, "A10G": 70, "A10": 125, "RTX 5090": 209, "RTX 4090": 165,
    "RTX 3090": 71,
}  # fmt: skip


def peak(name: str, given: str = "") -> float | None:
    """What a GPU can do at most, in FLOP/s; None where nobody says it.

    Args:
        name: as the driver has it.
        given: 10¹² FLOP/s, for a GPU that is not in the table.
    """
    if given:
        return float(given) * 1e12
    found = (tera for part, tera in PEAKS.items() if re.search(rf"\b{part}\b", name))
    return next((tera * 1e12 for tera in found), None)


def flops_per_token(model: Mapping[str, Any], parameters: int, length: int) -> int:
    """6 · parameters + 12 · layers · width · length.

    Each weight is multiplied once on the way forward and twice on the way back; attention's two products are counted
    whole, although a causal model needs half of them. What is computed again for want of memory does not count.

    Args:
        model: transformers' config.
        parameters: how many weights, tied ones once.
        length: tokens of a row.
    """
    layers: int = model.get("n_layer") or model["num_hidden_layers"]
    return 6 * parameters + 12 * layers * int(model[FAMILIES[model["model_type"]].width]) * length
