"""Hooks in Keras: the example of the documentation, what the check refuses, and the names of a head's variables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from jprep.errors import ConfigError
from jprep.train.hooks.config import JobHooks
from jprep.train.hooks.loading import Hook, LoadedHooks, load_hooks
from jprep.train.hooks.metrics import hook_metrics
from jprep_keras.models.custom_head import CustomHead
from jprep_keras.models.custom_loss import LossBatch, call_loss
from jprep_keras.worker.hooks import check_hooks

PAGE = Path(__file__).parents[3] / "docs" / "custom-loss.md"
MODEL = {"model_type": "bert", "hidden_size": 8, "id2label": {"0": "a", "1": "b", "2": "c"}}


def loaded(folder: Path, text: str, **names: Any) -> LoadedHooks:
    (folder / "my_hooks.py").write_text(text, encoding="utf-8")
    return load_hooks(folder, JobHooks(**{key: f"my_hooks.py:{name}" for key, name in names.items()}))


def test_the_example_of_the_page(tmp_path: Path) -> None:
    [text] = re.findall(r'```python title="my_hooks.py, Keras"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL)
    hooks = loaded(tmp_path, text, loss="focal_loss", head="MeanPoolingHead")
    assert check_hooks(hooks, MODEL, "classify") == {"out.kernel": (8, 3), "out.bias": (3,)}
    logits, labels = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32), np.array([0, 1, 2, 1, 0])
    mask = ops.array([True, True, True, True, False])
    total, count = call_loss(hooks.loss, ops.array(logits), ops.array(labels), LossBatch(None, None, None, mask))
    p = (np.exp(logits) / np.exp(logits).sum(-1, keepdims=True))[np.arange(4), labels[:4]]
    assert count == 4 and float(total) == pytest.approx((-((1 - p) ** 2) * np.log(p)).sum(), rel=1e-5)
    metrics = load_hooks(tmp_path, JobHooks(metrics=["my_hooks.py:recall"])).metrics
    assert hook_metrics(metrics, np.eye(3, dtype=np.float32), np.array([0, 1, 1])) == {"metrics/recall": 0.5}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return ops.mean(logits)", "returned a tensor of shape"),
        ("return logits, 1", r"returned a tensor of shape \(6, 3\) as its loss"),
        ("return ops.sum(logits), labels", "as its count: return a number"),
        ("return ops.ones(()), 1", "does not depend on the logits"),
        ("return ops.sum(logits) / 0, 1", "for finite logits"),
        ("return ops.sum(logits ** 2), labels.shape[0]", "counts labels that batch.label_mask leaves out"),
        ("return ops.sum(logits) if ops.sum(logits) > 0 else 0, 1", "raised OperatorNotAllowedInGraphError"),
    ],
)
def test_a_wrong_loss_is_refused(tmp_path: Path, body: str, message: str) -> None:
    hooks = loaded(tmp_path, f"from keras import ops\ndef loss(logits, labels, batch):\n    {body}\n", loss="loss")
    with pytest.raises(ConfigError, match=message):
        check_hooks(hooks, MODEL, "classify")


HEAD = """import keras
class Head(keras.layers.Layer):
    def __init__(self, config):
        super().__init__()
        self.out = keras.layers.Dense(config.num_labels)
        {init}
    def call(self, hidden, mask):
        return {output}
"""


@pytest.mark.parametrize(
    ("init", "output", "message"),
    [
        ("", "self.out(hidden)", r"returned \(2, 4, 3\): return \(rows, labels\), here \(2, 3\)"),
        ("self.more = self.add_weight((2,))", "self.out(hidden[:, 0])", "does not use its variable 'more'"),
        ("self.norm = keras.layers.BatchNormalization()", "self.norm(self.out(hidden[:, 0]))", "'norm.moving_mean'"),
        ("self.out = keras.layers.Dense(3, dtype='float16')", "self.out(hidden[:, 0])", "'out.kernel' in float16"),
        ("", "self.out(hidden[:, 0]) if keras.ops.sum(hidden) > 0 else 0", "raised OperatorNotAllowedInGraphError"),
        ("raise KeyError('x')", "0", "raised KeyError"),
        ("", "undefined", "raised NameError: name 'undefined' is not defined"),
    ],
)  # fmt: skip
def test_a_wrong_head_is_refused(tmp_path: Path, init: str, output: str, message: str) -> None:
    hooks = loaded(tmp_path, HEAD.format(init=init, output=output), head="Head")
    with pytest.raises(ConfigError, match=message):
        check_hooks(hooks, MODEL, "classify")


class DeepHead(keras.layers.Layer):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.scale = self.add_weight((config.hidden_size,))
        self.blocks = [keras.Sequential([keras.layers.Dropout(0.5), keras.layers.Dense(8)])]
        self.attention = keras.layers.MultiHeadAttention(2, 4, use_bias=False)
        self.out = {"scores": keras.layers.Dense(config.num_labels)}

    def call(self, hidden: Any, mask: Any, training: bool = False) -> Any:
        hidden = self.attention(hidden * self.scale, self.blocks[0](hidden, training=training))
        return self.out["scores"](hidden[:, 0])


def test_variables_are_named_by_attributes_however_many_layers_were_created() -> None:
    parts = ("query_dense", "key_dense", "value_dense", "output_dense")
    expected = {"scale", "blocks.0.layers.1.kernel", "blocks.0.layers.1.bias", "out.scores.kernel", "out.scores.bias"}
    expected |= {f"attention.{part}.kernel" for part in parts}
    for _ in range(2):
        head = CustomHead(Hook("train.hooks.head", "x.py:DeepHead", DeepHead), MODEL)
        assert head.variables.keys() == expected and len(head.seeds) == 1
        hidden, mask = ops.ones((2, 4, 8)), ops.ones((2, 4), "int32")
        dropped = [ops.convert_to_numpy(head(hidden, mask, training=training)) for training in (False, False, True)]
        assert np.array_equal(dropped[0], dropped[1]) and not np.array_equal(dropped[1], dropped[2])
