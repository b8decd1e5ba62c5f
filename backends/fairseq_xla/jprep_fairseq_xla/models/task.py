"""The task through which fairseq computes losses of jprep's batches.

Importing this module registers it; import it after `import_fairseq`. Annotations of the dataclass must be types, not
strings, as fairseq builds its command line from them.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import FairseqTask, register_task
from torch import Tensor, nn

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.train.worker.profiling import Profiler


@dataclass
class JprepTaskConfig(FairseqDataclass):
    """Options of the task: the number of ids, and the id of padding; -1 for none."""

    ids: int = field(default=0, metadata={"help": "number of ids of the tokenizer"})
    pad: int = field(default=-1, metadata={"help": "id of padding"})
    max_target_positions: int = field(default=1024, metadata={"help": "positions of a decoder"})
    tokens_per_sample: int = field(default=1024, metadata={"help": "same as max_target_positions"})
    add_bos_token: bool = field(default=False, metadata={"help": "always false: rows are complete"})


class IdDictionary(Dictionary):
    """A dictionary whose symbols are the ids of the tokenizer, and no others.

    Args:
        ids: number of ids.
        pad: the id of padding; None for none.
    """

    def __init__(self, ids: int, pad: int | None) -> None:
        super().__init__()
        self.symbols = [str(number) for number in range(ids)]
        self.count = [1] * ids
        self.indices = {symbol: number for number, symbol in enumerate(self.symbols)}
        self.pad_index, self.nspecial = pad, 0


@register_task("jprep", dataclass=JprepTaskConfig)
class JprepTask(FairseqTask):
    """The task of jprep's batches, which the worker samples; fairseq gets one micro-batch at a time.

    Attributes:
        precision: returns the context of the forward pass.
        masking_documents: returns the context of the forward and backward pass of rows, given the documents of their
            tokens.
        losses: losses of the micro-batches trained on since they were last cleared: sums, natural logarithms.
        profiler: measures the phases of a step.
    """

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self._dictionary = IdDictionary(cfg.ids, None if cfg.pad < 0 else cfg.pad)
        self.precision: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
        self.masking_documents: Callable[[Tensor | None], contextlib.AbstractContextManager[Any]] = (
            contextlib.nullcontext
        )
        self.losses: list[Tensor] = []
        self.profiler = Profiler(Path())

    @property
    def source_dictionary(self) -> IdDictionary:
        """All ids."""
        return self._dictionary

    @property
    def target_dictionary(self) -> IdDictionary:
        """All ids."""
        return self._dictionary

    @property
    def dictionary(self) -> IdDictionary:
        """All ids, under the name that older models use."""
        return self._dictionary

    def max_positions(self) -> int:
        """Return the number of positions of the model."""
        return int(self.cfg.max_target_positions)

    def build_criterion(self, cfg: Any) -> nn.Module:
        """Build fairseq's own criterion, with jprep's mark for tokens without a label."""
        criterion = super().build_criterion(cfg)
        criterion.padding_idx = IGNORE_INDEX
        return criterion

    def train_step(
        self, sample: Any, model: Any, criterion: Any, optimizer: Any, update_num: int, ignore_grad: bool = False
    ) -> tuple[Tensor, Any, dict[str, Any]]:
        """Accumulate the gradient of one micro-batch."""
        with self.masking_documents(sample["documents"]):
            with self.profiler.phase("forward"), self.precision():
                loss, size, figures = criterion(model, sample)
            with self.profiler.phase("backward"):
                optimizer.backward(loss * 0 if ignore_grad else loss)
        self.losses.append(loss.detach())
        return loss, size, figures

    def optimizer_step(self, optimizer: Any, model: Any, update_num: int) -> None:
        """Update the weights."""
        with self.profiler.phase("optimizer"):
            super().optimizer_step(optimizer, model, update_num)

    def valid_step(self, sample: Any, model: Any, criterion: Any) -> tuple[Tensor, Any, dict[str, Any]]:
        """Return the loss of one micro-batch."""
        with self.masking_documents(sample["documents"]), torch.no_grad(), self.precision():
            return criterion(model, sample)
