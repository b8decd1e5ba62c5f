"""Supported models: their configs as plain data, the names and shapes of their weights, memory and FLOPs."""

from jprep.train.models.config import TokenizerInfo, check_model, max_positions, model_config
from jprep.train.models.memory import training_memory
from jprep.train.models.presets import FAMILIES, PRESETS
from jprep.train.models.weights import TensorSpec, half_names, parameter_count, parameters

__all__ = [
    "FAMILIES",
    "PRESETS",
    "TensorSpec",
    "TokenizerInfo",
    "check_model",
    "half_names",
    "max_positions",
    "model_config",
    "parameter_count",
    "parameters",
    "training_memory",
]
