"""Hooks in JAX: the example of the documentation, and what the check refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jprep.errors import ConfigError
from jprep.train.hooks.config import JobHooks
from jprep.train.hooks.loading import LoadedHooks, load_hooks
from jprep.train.hooks.metrics import hook_metrics
from jprep_flax.models.custom_loss import LossBatch, call_loss
from jprep_flax.worker.hooks import check_hooks

PAGE = Path(__file__).parents[3] / "docs" / "custom-loss.md"
MODEL = {"model_type": "bert", "hidden_size": 8, "id2label": {"0": "a", "1": "b", "2": "c"}}


def loaded(folder: Path, text: str, **names: Any) -> LoadedHooks:
    (folder / "my_hooks.py").write_text(text, encoding="utf-8")
    return load_hooks(folder, JobHooks(**{key: f"my_hooks.py:{name}" for key, name in names.items()}))


def test_the_example_of_the_page(tmp_path: Path):
    [text] = re.findall(r'```python title="my_hooks.py, JAX"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL)
    hooks = loaded(tmp_path, text, loss="focal_loss", head="MeanPoolingHead")
    assert check_hooks(hooks, MODEL, "classify") == {"out.bias": (3,), "out.kernel": (8, 3)}
    logits, labels = jax.random.normal(jax.random.key(1), (5, 3)), jnp.array([0, 1, 2, 1, 0])
    batch = LossBatch(jnp.zeros((5, 4)), jnp.ones((5, 4)), None, jnp.array([True, True, True, True, False]))
    total, count = call_loss(hooks.loss, logits, labels, batch)
    p = jax.nn.softmax(logits)[jnp.arange(4), labels[:4]]
    assert count == 4 and float(total) == pytest.approx(float((-((1 - p) ** 2) * jnp.log(p)).sum()), rel=1e-5)
    metrics = load_hooks(tmp_path, JobHooks(metrics=["my_hooks.py:recall"])).metrics
    assert hook_metrics(metrics, np.eye(3, dtype=np.float32), np.array([0, 1, 1])) == {"metrics/recall": 0.5}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return logits.mean()", "returned an array of shape"),
        ("return logits, 1", r"returned an array of shape \(6, 3\) as its loss"),
        ("return logits.sum(), labels", "as its count: return a number"),
        ("return jax.numpy.ones(()), 1", "does not depend on the logits"),
        ("return logits.sum() / 0, 1", "for finite logits"),
        ("return (logits ** 2).sum(), len(labels)", "counts labels that batch.label_mask leaves out"),
        ("return logits.sum() if logits.sum() > 0 else 0, 1", "raised TracerBoolConversionError"),
    ],
)
def test_a_wrong_loss_is_refused(tmp_path: Path, body: str, message: str):
    hooks = loaded(tmp_path, f"import jax\ndef loss(logits, labels, batch):\n    {body}\n", loss="loss")
    with pytest.raises(ConfigError, match=message):
        check_hooks(hooks, MODEL, "classify")


HEAD = """from flax import nnx
class Head(nnx.Module):
    def __init__(self, config, rngs):
        self.out = nnx.Linear(config.hidden_size, config.num_labels, rngs=rngs)
        {init}
    def __call__(self, hidden, mask, key):
        return {output}
"""


@pytest.mark.parametrize(
    ("init", "output", "message"),
    [
        ("", "self.out(hidden)", r"returned \(2, 4, 3\): return \(rows, labels\), here \(2, 3\)"),
        ("self.more = nnx.Param(hidden_ones())", "self.out(hidden[:, 0])", "raised NameError"),
        ("self.more = nnx.Linear(2, 2, rngs=rngs)", "self.out(hidden[:, 0])", "does not use its parameter 'more."),
        (
            "self.drop = nnx.Dropout(0.1, rngs=rngs)",
            "self.out(self.drop(hidden[:, 0]))",
            "of the type RngCount, and only nnx.Param is saved",
        ),
    ],
)
def test_a_wrong_head_is_refused(tmp_path: Path, init: str, output: str, message: str):
    with pytest.raises(ConfigError, match=message):
        check_hooks(loaded(tmp_path, HEAD.format(init=init, output=output), head="Head"), MODEL, "classify")
