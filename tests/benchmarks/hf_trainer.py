"""Hugging Face's Trainer on batches that are given; prints its paces as JSON.

`python hf_trainer.py ABOUT BATCHES.npz SETTING`
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
    """Notes when each step ended."""

    def __init__(self) -> None:
        self.begun, self.ends = 0.0, []

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.begun = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.perf_counter())


class InOrder(transformers.Trainer):
    """Takes rows in their order, as jprep's sampler has shuffled them already."""

    def _get_train_sampler(self, *_: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)


def main() -> None:
    about, setting = json.loads(sys.argv[1]), sys.argv[3]
    batches = np.load(sys.argv[2])
    torch.set_num_threads(about.get("threads", 2))
    config = transformers.AutoConfig.for_model(**about["model"])
    model = CLASSES[about["task"]].from_config(config)
    model.load_state_dict(load_file(about["init"]), strict=False)
    clock, size = Clock(), batches["ids"].shape[1]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, per_device_train_batch_size=size, max_steps=about["steps"], learning_rate=3e-4, weight_decay=0.01,
            max_grad_norm=1.0, lr_scheduler_type="linear", optim="adamw_torch_fused", logging_steps=about["warm"],
            save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, dataloader_pin_memory=False,
            torch_compile=setting == "compiled",
        )  # fmt: skip
        rows = Rows(batches["ids"], batches["labels"])
        InOrder(model, arguments, train_dataset=rows, callbacks=[clock]).train()
    tokens, warm = batches["ids"][0].size, about["warm"]
    whole = tokens * len(clock.ends) / (clock.ends[-1] - clock.begun)
    steady = tokens * (len(clock.ends) - warm) / (clock.ends[-1] - clock.ends[warm - 1])
    print(json.dumps({"whole": whole, "steady": steady}))


if __name__ == "__main__":
    main()
