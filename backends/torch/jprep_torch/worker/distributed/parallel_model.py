"""A model on one device, replicated on several (DDP), or sharded among several (FSDP2)."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from jprep.io.safetensors_file import Floats
from jprep.train.hooks.loading import NO_HOOKS, LoadedHooks
from jprep.train.job.config import Job
from jprep_torch.models.model_with_loss import ModelInputs, ModelResult, ModelWithLoss
from jprep_torch.models.transformers_models import build_job_model, load_weights, weight_names
from jprep_torch.worker.distributed.context import DistributedContext


class ParallelModel:
    """A model on the devices of the run.

    Args:
        job: the job.
        weights: initial weights under transformers' names.
        context: this process's device and rank.
        shard: whether the weights are sharded.
        hooks: the job's hooks.
        trains: whether gradients are summed over processes, for which weights that are not sharded need buffers.

    Attributes:
        model: the model with its loss. With sharded weights each process must call it the same number of times.
        sharded: whether weights are sharded.
        weights: trained weights by their names in files, sorted by name.
        shapes: shapes of all whole weights, trained or not, sorted by name.
    """

    def __init__(
        self,
        job: Job,
        weights: Mapping[str, Floats],
        context: DistributedContext,
        *,
        shard: bool,
        hooks: LoadedHooks = NO_HOOKS,
        trains: bool = True,
    ) -> None:
        self._context, self.sharded = context, shard
        model = build_job_model(job, hooks.head)
        names = weight_names(model, job.model, job.train.objective)
        own = sorted(set(names.values()))
        self.shapes = {name: tuple(model.get_parameter(name).shape) for name in own}
        self.model = ModelWithLoss(model, job, hooks)
        if shard:
            from jprep_torch.worker.distributed.fsdp import shard_model

            shard_model(self.model, self.model.base_models, context.kind, context.world)
        load_weights(model, names, weights, self._put)
        model.to(context.device)  # buffers; the weights are there
        self._all = {name: model.get_parameter(name) for name in own}
        self.weights = {name: weight for name, weight in self._all.items() if weight.requires_grad}
        replicates = trains and context.world > 1 and not shard
        self._forward: nn.Module = self._replicate() if replicates else self.model

    def __call__(self, inputs: ModelInputs) -> ModelResult:
        """Return the summed loss of some rows, their outputs, and the count of a loss hook."""
        found: ModelResult = self._forward(inputs)
        return found

    def delay_reduction(self, more: bool) -> contextlib.AbstractContextManager[Any]:
        """Return a context that does not sum gradients over processes if more micro-batches follow.

        Gradients of sharded weights are always summed: unsummed they would be whole on each device.

        Args:
            more: whether more micro-batches of the batch follow.
        """
        if more and self._forward is not self.model:
            context: contextlib.AbstractContextManager[Any] = self._forward.no_sync()  # type: ignore[operator]
            return context
        return contextlib.nullcontext()

    def weight(self, name: str) -> Tensor:
        """Return a weight, trained or not, as this process has it."""
        found: Tensor = self._all[name]
        return found

    def place_like(self, name: str, tensor: Tensor) -> Tensor:
        """Return a tensor of a weight's shape on the weight's device, sharded like it.

        Args:
            name: of the weight.
            tensor: a whole tensor on the CPU, e.g. an average of the optimizer.
        """
        return self._put(tensor, self._all[name])

    def _replicate(self) -> nn.Module:
        from torch.nn.parallel import DistributedDataParallel

        # All weights are used. Without this option DDP rebuilds its buckets after the first step and then sums
        # gradients in another order: a resumed run would differ from an uninterrupted one.
        options = {"find_unused_parameters": True}
        is_new = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
        options["forward_sync_buffers" if is_new else "broadcast_buffers"] = False  # PyTorch 2.13 renamed it
        return DistributedDataParallel(self.model, gradient_as_bucket_view=True, **options)

    def _put(self, tensor: Tensor, like: Any) -> Tensor:
        if self.sharded:
            from jprep_torch.worker.distributed.fsdp import shard_tensor

            return shard_tensor(tensor, like, self._context.device)
        return tensor.to(self._context.device, copy=True)  # the source is mapped from a file


def enable_gradient_checkpointing(model: Any) -> None:
    """Make a model of transformers keep only the inputs of its layers for the backward pass."""
    model.gradient_checkpointing_enable({"use_reentrant": False})


def compile_model(model: ModelWithLoss) -> None:
    """Compile the base models with torch.compile. Heads see another number of tokens in each batch."""
    for part in model.base_models:
        part.compile(dynamic=False)
