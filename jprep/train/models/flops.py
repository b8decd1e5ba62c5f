"""How much arithmetic a training takes, and how much a device does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jprep.train.models.presets import FAMILIES

# 10¹² multiplications and additions a second, dense, as makers publish them: in bf16 with sums in fp32, and in fp32.
# Names are parts of those that the driver has; the first that is found counts.
_PEAKS = {
    "B200": (2250, 75), "H100 PCIE": (756, 51), "H100 NVL": (835, 60), "H100": (989, 67), "H200": (989, 67),
    "A100": (312, 19.5), "A800": (312, 19.5), "L40S": (362, 91.6), "L40": (181, 90.5), "L4": (121, 30.3),
    "A40": (150, 37.4), "A30": (165, 10.3), "A10G": (70, 31.2), "A10": (125, 31.2), "RTX 5090": (209, 104.8),
    "RTX 4090": (165, 82.6), "RTX 3090": (71, 35.6),
}  # fmt: skip


def peak_flops(name: str, given: str = "", *, half: bool = True) -> float | None:
    """Return what a GPU can do at most, in FLOP/s; None where its maker's figure is not in the table.

    Args:
        name: as the driver has it, or as a user writes it (`A100-40GB`, `rtx4090`).
        given: 10¹² FLOP/s, for a GPU that is not in the table.
        half: whether products are of numbers of two bytes, else of fp32.
    """
    if given:
        return float(given) * 1e12
    plain = re.sub(r"RTX(?=\d)", "RTX ", re.sub(r"[\s_-]+", " ", name.upper()))
    found = (figures for part, figures in _PEAKS.items() if re.search(rf"\b{part}\b", plain))
    return next((figures[0 if half else 1] * 1e12 for figures in found), None)


def flops_per_token(model: Mapping[str, Any], parameters: int, length: int) -> int:
    """Return 6 · parameters + 12 · layers · width · length.

    Each weight is multiplied once on the way forward and twice on the way back; attention's two products are counted
    whole, although a causal model needs half of them. What is computed again for want of memory does not count.

    Args:
        model: transformers' config.
        parameters: how many weights, tied ones once.
        length: tokens of a row.
    """
    layers: int = model.get("n_layer") or model["num_hidden_layers"]
    return 6 * parameters + 12 * layers * int(model[FAMILIES[model["model_type"]].width]) * length
