"""Hugging Face's Trainer on batches that are given; prints its paces and losses as JSON.

`python hf_trainer.py ABOUT BATCHES.npz`, or the same under torchrun. ABOUT is JSON: `model`, `task`, `steps`, `warm`,
`init`, and perhaps `threads`, `rows` (of a process at a time), `accumulate`, `cuda`, `bf16`, `compile` and `deepspeed`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

CLASSES = {"clm": transformers.AutoModelForCausalLM, "mlm": transformers.AutoModelForMaskedLM}


class Rows(torch.utils.data.Dataset[dict[str, Any]]):
    """The rows of all batches, in order."""

    def __init__(self, ids: Any, labels: Any) -> None:
        self.ids, self.labels = (np.concatenate(list(part)).astype(np.int64) for part in (ids, labels))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": torch.from_numpy(self.ids[index]), "labels": torch.from_numpy(self.labels[index])}


class Clock(transformers.TrainerCallback):
    """Notes when training began and when some steps ended."""

    def __init__(self, steps: tuple[int, ...]) -> None:
        self.ends, self._steps = dict.fromkeys((0, *steps), 0.0), steps

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._note(0)

    def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
        if state.global_step in self._steps:
            self._note(state.global_step)

    def _note(self, step: int) -> None:
        if torch.cuda.is_available():  # steps are handed to a GPU long before they are done
            torch.cuda.synchronize()
        self.ends[step] = time.perf_counter()

    def pace(self, tokens: int, first: int, last: int) -> float:
        """Tokens a second between two steps."""
        return tokens * (last - first) / (self.ends[last] - self.ends[first])


class InOrder(transformers.Trainer):
    """Takes rows in their order, as jprep's sampler has shuffled them already, and keeps losses."""

    losses: list[torch.Tensor]

    def _get_train_sampler(self, *_: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def compute_loss(self, *given: Any, **more: Any) -> Any:
        loss = super().compute_loss(*given, **more)
        self.losses.append(loss.detach())
        return loss

    def step_losses(self, accumulate: int) -> list[float]:
        """The loss of each step, of all processes' rows."""
        losses = torch.stack(self.losses).double().view(-1, accumulate).sum(1)
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(losses)
            losses /= torch.distributed.get_world_size()
        return losses.tolist()


def arguments(about: dict[str, Any], folder: str, size: int) -> transformers.TrainingArguments:
    """Return the Trainer's arguments; the size is that of a batch, in rows."""
    cuda = about.get("cuda", False)
    return transformers.TrainingArguments(
        folder, per_device_train_batch_size=about.get("rows", size), max_steps=about["steps"], learning_rate=3e-4,
        gradient_accumulation_steps=about.get("accumulate", 1), weight_decay=0.01, max_grad_norm=1.0,
        lr_scheduler_type="linear", optim="adamw_torch_fused", logging_steps=about["steps"], save_strategy="no",
        report_to=[], disable_tqdm=True, use_cpu=not cuda, dataloader_pin_memory=cuda, bf16=about.get("bf16", False),
        torch_compile=about.get("compile", False), deepspeed=about.get("deepspeed"),
    )  # fmt: skip


def main() -> None:
    about, batches = json.loads(sys.argv[1]), np.load(sys.argv[2])
    torch.set_num_threads(about.get("threads", 2))
    config = transformers.AutoConfig.for_model(**about["model"])
    model = CLASSES[about["task"]].from_config(config)
    model.load_state_dict(load_file(about["init"]), strict=False)
    warm, steps, ids = about["warm"], about["steps"], batches["ids"]
    clock = Clock((warm, steps))
    with tempfile.TemporaryDirectory() as folder:
        training_arguments, rows = arguments(about, folder, ids.shape[1]), Rows(ids, batches["labels"])
        trainer = InOrder(model, training_arguments, train_dataset=rows, callbacks=[clock])
        trainer.losses = []
        trainer.train()
    paces = {"whole": clock.pace(ids[0].size, 0, steps), "steady": clock.pace(ids[0].size, warm, steps)}
    losses = trainer.step_losses(about.get("accumulate", 1))[warm - 1 :: warm]
    if trainer.is_world_process_zero():
        print(json.dumps({"paces": paces, "losses": losses}))


if __name__ == "__main__":
    main()
