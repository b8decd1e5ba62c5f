"""Which models there are: their configs as plain data, and the names and shapes of their weights."""

from jprep.train.models.config import About, check_model, model_config, positions
from jprep.train.models.memory import training_memory
from jprep.train.models.presets import FAMILIES, PRESETS
from jprep.train.models.weights import Tensor, count, parameters

__all__ = [
    "FAMILIES",
    "PRESETS",
    "About",
    "Tensor",
    "check_model",
    "count",
    "model_config",
    "parameters",
    "positions",
    "training_memory",
]
