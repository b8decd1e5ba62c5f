"""One model on one device, the same on several, or one divided among several."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from jprep.io.safetensors_file import Floats
from jprep.train.job.config import Job
from jprep_torch.models.model_with_loss import ModelInputs, ModelWithLoss
from jprep_torch.models.transformers_models import build, load, weight_names
from jprep_torch.worker.distributed import DistributedContext


class ParallelModel:
    """A model where it is trained.

    Args:
        job: the job.
        weights: what they start as, by transformers' names.
        place: this process's.
        shard: whether they are divided.

    Attributes:
        trainee: what gives the loss; of a divided model each process has to call it as often as the others.
        divided: whether weights are.
        weights: the trained ones by the names that files have them under, in the order of these names.
        shapes: the whole of all weights, trained or not, in the same order.
    """

    def __init__(self, job: Job, weights: Mapping[str, Floats], place: DistributedContext, *, shard: bool) -> None:
        self._place, self.divided = place, shard
        model = build(job.model, job.train.task)
        names = weight_names(model, job.model, job.train.task)
        own = sorted(set(names.values()))
        self.shapes = {name: tuple(model.get_parameter(name).shape) for name in own}
        self.trainee = ModelWithLoss(model, job)
        if shard:
            from jprep_torch.worker.fsdp import shard as divide

            divide(self.trainee, self.trainee.body, place.kind, place.world)
        load(model, names, weights, self._put)
        model.to(place.device)  # constants; weights are there
        self._all = {name: model.get_parameter(name) for name in own}
        self.weights = {name: weight for name, weight in self._all.items() if weight.requires_grad}
        self._call: nn.Module = self._alike() if place.world > 1 and not shard else self.trainee

    def __call__(self, rows: ModelInputs) -> tuple[Tensor, Tensor]:
        """The sum of some rows' losses, and their outputs: see `ModelWithLoss`."""
        found: tuple[Tensor, Tensor] = self._call(rows)
        return found

    def holding_back(self, more: bool) -> contextlib.AbstractContextManager[Any]:
        """Gradients stay where they are while more of the batch is to come, but for a divided model's.

        These are summed where they belong each time: kept, they would be whole on every device.
        """
        if more and self._call is not self.trainee:
            held: contextlib.AbstractContextManager[Any] = self._call.no_sync()  # type: ignore[operator]
            return held
        return contextlib.nullcontext()

    def whole(self, name: str) -> Tensor:
        """A weight, gathered. Each process asks for it."""
        return gathered(self._all[name])

    def placed(self, name: str, tensor: Tensor) -> Tensor:
        """A tensor of a weight's shape where the weight is: for what the optimizer keeps of it."""
        return self._put(tensor, self._all[name])

    def _alike(self) -> nn.Module:
        from torch.nn.parallel import DistributedDataParallel

        # No weight is unused; without this, gradients are put into other buckets after the first step, where they are
        # summed in another order: a run that goes on would not take the step that the undisturbed one took.
        fixed = {"find_unused_parameters": True}
        return DistributedDataParallel(self.trainee, broadcast_buffers=False, gradient_as_bucket_view=True, **fixed)

    def _put(self, tensor: Tensor, like: Any) -> Tensor:
        if self.divided:
            from jprep_torch.worker.fsdp import part

            return part(tensor, like, self._place.device)
        return tensor.to(self._place.device, copy=True)  # what was read lies in a file


def gathered(tensor: Any) -> Tensor:
    """A tensor on the CPU, whole, whether it is divided or not."""
    here = tensor.detach()
    whole: Tensor = here.full_tensor() if hasattr(here, "full_tensor") else here
    return whole.cpu()


def enable_gradient_checkpointing(model: Any) -> None:
    """Keep only each layer's input."""
    model.gradient_checkpointing_enable({"use_reentrant": False})


def compiled(trainee: ModelWithLoss) -> None:
    """Have torch.compile make the kernels of what all tasks share; heads see another number of tokens each time."""
    trainee.body.compile(dynamic=False)
