"""Which models there are: their configs as plain data, and the names and shapes of their weights."""

from jprep.train.models.config import TokenizerInfo, check_model, max_positions, model_config
from jprep.train.models.memory import training_memory
from jprep.train.models.presets import FAMILIES, PRESETS
from jprep.train.models.weights import TensorSpec, parameter_count, parameters

__all__ = [
    "FAMILIES",
    "PRESETS",
    "TensorSpec",
    "TokenizerInfo",
    "check_model",
    "max_positions",
    "model_config",
    "parameter_count",
    "parameters",
    "training_memory",
]
