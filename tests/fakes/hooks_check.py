"""The check of hooks of the backend `numpy`: a loss is called with 1.0, and every head has the same two parameters."""

from __future__ import annotations

from typing import Any

from jprep.train.hooks.loading import LoadedHooks


def check_hooks(hooks: LoadedHooks, model: dict[str, Any], task: str) -> dict[str, tuple[int, ...]] | None:
    if hooks.loss and hooks.loss.name == "loss":
        hooks.loss(1.0)
    return {"out.weight": (len(model["id2label"]), model["hidden_size"]), "scale": ()} if hooks.head else None
