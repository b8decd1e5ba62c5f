"""How much memory a training takes, by arithmetic."""

from __future__ import annotations

from jprep.train.job.config import Precision
from jprep.train.models.presets import FAMILIES, TransformersConfig
from jprep.train.models.weights import parameter_count

STATE = 16
"""Bytes a weight: itself, its gradient and AdamW's two averages, in fp32."""

# Numbers that a layer keeps for the way back, for each token and each of its width; measured with transformers.
_LAYER, _GATED, _TANH, _DROPPED, _ATTENTION = 20, 12, 36, 6, 5


def training_memory(
    config: TransformersConfig,
    task: str,
    rows: int,
    length: int,
    precision: Precision,
    *,
    attention: bool = False,
    lean: bool = False,
) -> int:
    """Bytes for weights, gradients, optimizer and activations on one device: an estimate, for plans and warnings.

    Args:
        config: from `model_config`.
        task: the job's.
        rows: rows that go through the model at a time.
        length: their tokens.
        precision: of the arithmetic.
        attention: whether attention's matrices are kept, as they are where it drops without a fused kernel.
        lean: whether the backend never has a table of tokens by ids, and has `gelu_new` in one kernel.
    """
    family, number = FAMILIES[config["model_type"]], 4 if precision == "fp32" else 2
    layers: int = config.get("n_layer") or config["num_hidden_layers"]
    width: int = config[family.width]
    numbers = _LAYER * width + (_GATED * width if config["model_type"] == "llama" else 0)
    tanh = "gelu_new" in (config.get("activation_function"), config.get("hidden_act"))
    if tanh and not lean:  # made of many small operations
        numbers += _TANH * width
    if attention:
        numbers += _DROPPED * width + _ATTENTION * config[family.heads] * length
    tokens = rows * length
    tables = task in ("clm", "mlm") and not lean
    outputs: int = tokens * config["vocab_size"] * (8 + number) if tables else 0
    state = parameter_count(config, task) * (STATE + (0 if precision == "fp32" else number))
    return state + tokens * layers * numbers * number + outputs
