"""Compute the outputs of transformers for the models in a directory, with a Python that has it.

    python transformers_peer.py FOLDER

Each subdirectory has `config.json`, `model.safetensors` and `rows.npz`, and gets `outputs.npz`: logits, the summed
loss, the gradient of each weight and, for a causal language model, the ids that it generates.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch.nn import functional

NEW = 12
"""Number of tokens that a causal model generates."""

CAUSAL = ("LMHeadModel", "ForCausalLM")


def loss_of(logits: torch.Tensor, labels: torch.Tensor, kind: str) -> torch.Tensor:
    if labels.ndim == 2:
        if kind.endswith(CAUSAL):
            logits, labels = logits[:, :-1], labels[:, 1:]
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
    if labels.is_floating_point():
        return ((logits[:, 0] - labels) ** 2).sum()
    return functional.cross_entropy(logits, labels, reduction="sum")


def measure(folder: Path) -> dict[str, Any]:
    config = json.loads((folder / "config.json").read_bytes())
    rows = {name: torch.from_numpy(value) for name, value in np.load(folder / "rows.npz").items()}
    [kind] = config["architectures"]
    # transformers numbers RoBERTa's positions and finds the last token by the id of padding: only padding may have it.
    model = getattr(transformers, kind).from_pretrained(folder, dtype=torch.float32).eval()
    more = {"token_type_ids": rows["types"].long()} if "types" in rows else {}
    mask = torch.arange(rows["ids"].shape[1]) < rows["lengths"][:, None]
    logits = model(input_ids=rows["ids"].long(), attention_mask=mask.long(), **more).logits
    labels = rows["labels"] if rows["labels"].is_floating_point() else rows["labels"].long()
    loss = loss_of(logits, labels, kind)
    loss.backward()
    found = {"logits": logits, "loss": loss}
    found |= {f"gradient {name}": one.grad for name, one in model.named_parameters() if one.grad is not None}
    if kind.endswith(CAUSAL):
        row = rows["ids"][:1, : int(rows["lengths"][0])].long()
        greedy = {"max_new_tokens": NEW, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        found["next"] = model.generate(row, attention_mask=torch.ones_like(row), **greedy)[:, row.shape[1] :]
    return {name: value.detach().numpy() for name, value in found.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    for path in sorted(Path(sys.argv[1]).iterdir()):
        np.savez(path / "outputs.npz", **measure(path))
