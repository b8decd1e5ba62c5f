"""One model on one device, the same on several, or one divided among several (FSDP2)."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from jprep.train.job import Job
from jprep_torch.devices import Place
from jprep_torch.heads import Trainee
from jprep_torch.models import build, load, names_of

_LAYERS = {"gpt2": "h", "llama": "layers"}


class Spread:
    """A model where it is trained.

    Args:
        job: the job.
        weights: the file that they are read from.
        place: this process's.
        shard: whether they are divided.

    Attributes:
        trainee: what gives the loss; each process calls it as often as the others.
        weights: the trained ones by the names that files have them under, in the order of these names.
        shapes: the whole of all weights, trained or not, in the same order.
    """

    def __init__(self, job: Job, weights: Path, place: Place, *, shard: bool) -> None:
        self._place, self._shard = place, shard
        model = build(job.model, job.train.task)
        names = names_of(model, job.model, job.train.task)
        own = sorted(set(names.values()))
        self.shapes = {name: tuple(model.get_parameter(name).shape) for name in own}
        self.trainee = Trainee(model, job)
        if shard:
            _shard(self.trainee, place)
        load(model, names, weights, self._put)
        model.to(place.device)  # constants; weights are there
        self._all = {name: model.get_parameter(name) for name in own}
        self.weights = {name: weight for name, weight in self._all.items() if weight.requires_grad}
        self._call: nn.Module = self.trainee
        if place.world > 1 and not shard:
            self._call = DistributedDataParallel(self.trainee, broadcast_buffers=False, gradient_as_bucket_view=True)

    def __call__(self, rows: Any) -> tuple[Tensor, Tensor]:
        """The sum of the losses of some rows."""
        found: tuple[Tensor, Tensor] = self._call(rows)
        return found

    def measure(self, rows: Any) -> tuple[Tensor, Tensor]:
        """The same without a way back."""
        found: tuple[Tensor, Tensor] = self.trainee(rows)
        return found

    def holding_back(self, more: bool) -> contextlib.AbstractContextManager[Any]:
        """Gradients stay where they are while more of the batch is to come."""
        if self._shard:
            self.trainee.set_requires_gradient_sync(not more)  # type: ignore[operator]
        if more and isinstance(self._call, DistributedDataParallel):
            return self._call.no_sync()
        return contextlib.nullcontext()

    def whole(self, name: str) -> Tensor:
        """A weight, gathered. Each process asks for it."""
        return gathered(self._all[name])

    def restore(self, name: str, tensor: Tensor) -> Tensor:
        """A tensor of a weight's shape where the weight is: for what the optimizer keeps of it."""
        return self._put(tensor, self._all[name])

    def _put(self, tensor: Tensor, like: Tensor) -> Tensor:
        if isinstance(like, DTensor):
            moved = tensor.to(self._place.device)
            return distribute_tensor(moved, like.device_mesh, like.placements, src_data_rank=None)
        return tensor.to(self._place.device, copy=True)  # what was read lies in a file


def gathered(tensor: Tensor) -> Tensor:
    """A tensor on the CPU, whole, whether it is divided or not."""
    whole = tensor.detach()
    if isinstance(whole, DTensor):
        whole = whole.full_tensor()
    return whole.cpu()


def _shard(trainee: Trainee, place: Place) -> None:
    """Layer by layer, so that only one is whole at a time; what is around the layers belongs together."""
    mesh = init_device_mesh(place.kind, (place.world,))
    body: Any = trainee.body
    layers = getattr(body, _LAYERS.get(body.config.model_type, ""), None)
    for layer in layers if layers is not None else body.encoder.layer:
        fully_shard(layer, mesh=mesh)
    fully_shard(trainee, mesh=mesh)


def compiled(trainee: Trainee) -> None:
    """Have torch.compile make the kernels of the part that all tasks share; heads see a different number of tokens each
    time."""
    body: Any = trainee.body
    body.compile(dynamic=False)


def recomputed(model: Any) -> None:
    """Keep only each layer's input."""
    model.gradient_checkpointing_enable({"use_reentrant": False})
