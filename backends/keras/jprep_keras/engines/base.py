"""The interface of an engine: it places the state on the devices, differentiates and compiles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from keras import ops

from jprep.train.job.config import Precision
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep_keras.models.model_with_loss import LossPart, ModelInputs, ModelWithLoss
from jprep_keras.planning.layout import Layout
from jprep_keras.worker.optimizer import StateArrays, StepResult, Tensors

Seeds = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]


class EngineSettings(NamedTuple):
    """How an engine computes.

    Attributes:
        layout: the layout of the plan.
        optimizer: AdamW's constants.
        precision: the job's precision.
        deterministic: whether results may not depend on the order of threads.
        jit_compile: whether TensorFlow compiles the forward and backward pass with XLA.
    """

    layout: Layout
    optimizer: OptimizerConfig
    precision: Precision
    deterministic: bool
    jit_compile: bool


class Engine(ABC):
    """Computes steps on the devices. Create it before the model: frameworks set up their devices once."""

    @property
    @abstractmethod
    def replicas(self) -> int:
        """Number of independent sequences of random states that a step takes."""

    @abstractmethod
    def load(self, model: ModelWithLoss, state: StateArrays) -> None:
        """Take a model, and place its state, numpy arrays, on the devices."""

    @abstractmethod
    def get(self) -> StateArrays:
        """Return a copy of the state as numpy arrays."""

    @abstractmethod
    def update(self, inputs: ModelInputs, seeds: Seeds, factors: Floats, rate: float) -> StepResult:
        """Dispatch a step, and return its figures without waiting for them.

        Args:
            inputs: the global batch; each field is (micro-batches, rows, …).
            seeds: states of random generators, (replicas, micro-batches, generators, 2).
            factors: of the global batch: 1 / number of labels, 1 / number of rows, and the number of labels, (3,).
            rate: the learning rate.
        """

    @abstractmethod
    def loss(self, inputs: ModelInputs) -> tuple[float, Floats, float]:
        """Return the sum of a batch's losses without dropout, its outputs, and the count of a loss hook.

        The outputs are (micro-batches · rows, labels). The count is 0 without a hook.
        """

    @property
    @abstractmethod
    def compiled(self) -> int:
        """Number of batch shapes for which the step was compiled."""


def divided_by_count(part: LossPart, gradient: Tensors, labels: Any) -> tuple[Any, Tensors]:
    """Return the global batch's loss and gradient, divided by a loss hook's count in place of the number of labels.

    Args:
        part: the sum of all parts.
        gradient: the sum of their gradients.
        labels: number of labels, fp32.
    """
    factor = labels / ops.where(part.count == 0, 1.0, part.count)
    return part.loss * factor, {name: one * factor for name, one in gradient.items()}
