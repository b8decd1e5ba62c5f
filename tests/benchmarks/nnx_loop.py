"""A training loop as Flax's documentation writes one, on batches that are given; prints its paces and losses as JSON.

`python nnx_loop.py ABOUT BATCHES.npz`, in the environment of the backend Flax. ABOUT is JSON: `model` (a GPT-2),
`steps`, `warm` and `init`.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from safetensors.numpy import load_file

LR, DECAY, CLIP = 3e-4, 0.01, 1.0


class Block(nnx.Module):
    """A layer of GPT-2."""

    def __init__(self, width: int, heads: int, dropout: dict[str, float], rngs: nnx.Rngs) -> None:
        self.ln_1, self.ln_2 = (nnx.LayerNorm(width, epsilon=1e-5, rngs=rngs) for _ in range(2))
        drops = {"dropout_rate": dropout["attn"], "broadcast_dropout": False}  # of each head and row, as in GPT-2
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs, **drops)
        self.c_fc, self.c_proj = nnx.Linear(width, 4 * width, rngs=rngs), nnx.Linear(4 * width, width, rngs=rngs)
        self.dropout = nnx.Dropout(dropout["resid"], rngs=rngs)

    def __call__(self, x: Any, mask: Any) -> Any:
        x = x + self.dropout(self.attention(self.ln_1(x), mask=mask))
        return x + self.dropout(self.c_proj(nnx.gelu(self.c_fc(self.ln_2(x)), approximate=True)))


class Gpt2(nnx.Module):
    """GPT-2 with tied embeddings."""

    def __init__(self, config: dict[str, Any], rngs: nnx.Rngs) -> None:
        width = config["n_embd"]
        dropout = {name: config.get(f"{name}_pdrop", 0.1) for name in ("attn", "embd", "resid")}
        self.wte = nnx.Embed(config["vocab_size"], width, rngs=rngs)
        self.wpe = nnx.Embed(config["n_positions"], width, rngs=rngs)
        self.dropout = nnx.Dropout(dropout["embd"], rngs=rngs)
        self.h = nnx.List([Block(width, config["n_head"], dropout, rngs) for _ in range(config["n_layer"])])
        self.ln_f = nnx.LayerNorm(width, epsilon=1e-5, rngs=rngs)

    def __call__(self, ids: Any) -> Any:
        x = self.dropout(self.wte(ids) + self.wpe(jnp.arange(ids.shape[1])))
        mask = nnx.make_causal_mask(ids)
        for block in self.h:
            x = block(x, mask)
        return self.wte.attend(self.ln_f(x))


def load(model: Gpt2, weights: dict[str, Any], heads: int) -> None:
    """Set the weights of a file with transformers' names."""
    found = {name.removeprefix("transformer."): jnp.asarray(value) for name, value in weights.items()}
    model.wte.embedding[...], model.wpe.embedding[...] = found["wte.weight"], found["wpe.weight"]
    _load(model.ln_f, found, "ln_f")
    for number, block in enumerate(model.h):
        at = f"h.{number}."
        for name in ("ln_1", "ln_2"):
            _load(getattr(block, name), found, at + name)
        for name in ("c_fc", "c_proj"):
            _load(getattr(block, name), found, f"{at}mlp.{name}")
        for name, kernel, bias in zip(
            ("query", "key", "value"),
            jnp.split(found[f"{at}attn.c_attn.weight"], 3, axis=1),
            jnp.split(found[f"{at}attn.c_attn.bias"], 3),
            strict=True,
        ):
            part = getattr(block.attention, name)
            part.kernel[...] = kernel.reshape(kernel.shape[0], heads, -1)
            part.bias[...] = bias.reshape(heads, -1)
        kernel = found[f"{at}attn.c_proj.weight"]
        block.attention.out.kernel[...] = kernel.reshape(heads, -1, kernel.shape[1])
        block.attention.out.bias[...] = found[f"{at}attn.c_proj.bias"]


def _load(layer: Any, found: dict[str, Any], name: str) -> None:
    weight = layer.scale if isinstance(layer, nnx.LayerNorm) else layer.kernel
    weight[...], layer.bias[...] = found[f"{name}.weight"], found[f"{name}.bias"]


def make_optimizer(model: Gpt2, steps: int) -> nnx.Optimizer[Gpt2]:
    """AdamW with clipping, a linear schedule, and decay of matrices."""

    def decayed(params: Any) -> Any:
        return jax.tree.map_with_path(lambda path, _: any(n in str(path) for n in ("kernel", "embedding")), params)

    schedule = optax.linear_schedule(LR, 0.0, steps)
    adamw = optax.adamw(schedule, weight_decay=DECAY, mask=decayed)
    return nnx.Optimizer(model, optax.chain(optax.clip_by_global_norm(CLIP), adamw), wrt=nnx.Param)


@nnx.jit
def train_step(model: Gpt2, optimizer: nnx.Optimizer[Gpt2], ids: Any, labels: Any) -> Any:
    """Update the model by a batch; return the loss."""

    def loss_of(model: Gpt2) -> Any:
        logits, wanted = model(ids)[:, :-1], labels[:, 1:]
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.maximum(wanted, 0))
        return jnp.where(wanted >= 0, losses, 0).sum() / (wanted >= 0).sum()

    loss, gradients = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, gradients)
    return loss


def main() -> None:
    about, batches = json.loads(sys.argv[1]), np.load(sys.argv[2])
    config, steps, warm = about["model"], about["steps"], about["warm"]
    model = Gpt2(config, nnx.Rngs(0))
    load(model, load_file(about["init"]), config["n_head"])
    model.train()
    optimizer, losses, ends = make_optimizer(model, steps), list[Any](), {}
    ids, labels = (batches[name].astype(np.int32) for name in ("ids", "labels"))
    begun = time.perf_counter()
    for step in range(steps):
        losses.append(train_step(model, optimizer, ids[step], labels[step]))
        if step + 1 in (warm, steps):
            losses[-1].block_until_ready()
            ends[step + 1] = time.perf_counter()
    tokens = ids[0].size
    paces = {
        "whole": tokens * steps / (ends[steps] - begun),
        "steady": tokens * (steps - warm) / (ends[steps] - ends[warm]),
    }
    print(json.dumps({"paces": paces, "losses": [float(loss) for loss in losses[warm - 1 :: warm]]}))


if __name__ == "__main__":
    main()
