"""Names, shapes and initialization of a model's weights, as in transformers' `state_dict`, tied ones once."""

from jprep.train.models.weights.parameters import (
    HEAD_PARAMETERS,
    HEAD_PREFIX,
    base_prefix,
    half_names,
    parameter_count,
    parameters,
)
from jprep.train.models.weights.specs import TensorSpec, TensorSpecs

__all__ = [
    "HEAD_PARAMETERS",
    "HEAD_PREFIX",
    "TensorSpec",
    "TensorSpecs",
    "base_prefix",
    "half_names",
    "parameter_count",
    "parameters",
]
