"""Hooks in PyTorch: the example of the documentation, what the check refuses, and a broken loss in a real run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from jprep.errors import ConfigError
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.testing.backend_suite.suite import LABELLED, _takes_the_same_steps
from jprep.train.hooks.config import JobHooks
from jprep.train.hooks.loading import LoadedHooks, load_hooks
from jprep.train.hooks.metrics import hook_metrics
from jprep_torch.models.custom_loss import LossBatch, call_loss
from jprep_torch.worker.hooks import check_hooks

PAGE = Path(__file__).parents[3] / "docs" / "custom-loss.md"
MODEL = {"model_type": "bert", "hidden_size": 8, "num_attention_heads": 2, "id2label": {"0": "a", "1": "b", "2": "c"}}


def loaded(folder: Path, text: str, **names: Any) -> LoadedHooks:
    (folder / "my_hooks.py").write_text(text, encoding="utf-8")
    return load_hooks(folder, JobHooks(**{key: f"my_hooks.py:{name}" for key, name in names.items()}))


def test_the_example_of_the_page(tmp_path: Path):
    [text] = re.findall(
        r'```python title="my_hooks.py, PyTorch"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    hooks = loaded(tmp_path, text, loss="focal_loss", head="MeanPoolingHead")
    assert check_hooks(hooks, MODEL, "classify") == {"out.weight": (3, 8), "out.bias": (3,)}
    logits, labels = torch.randn(5, 3), torch.tensor([0, 1, 2, 1, 0])
    batch = LossBatch(torch.zeros(5, 4), torch.ones(5, 4), None, torch.tensor([True, True, True, True, False]))
    total, count = call_loss(hooks.loss, logits, labels, batch)
    p = logits.softmax(-1)[torch.arange(4), labels[:4]]
    assert count == 4 and total.item() == pytest.approx((-((1 - p) ** 2) * p.log()).sum().item(), rel=1e-5)
    metrics = load_hooks(tmp_path, JobHooks(metrics=["my_hooks.py:recall"])).metrics
    assert hook_metrics(metrics, np.eye(3, dtype=np.float32), np.array([0, 1, 1])) == {"metrics/recall": 0.5}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return logits.mean()", "returned a tensor of shape"),
        ("return logits, 1", r"returned a tensor of shape \(6, 3\) as its loss"),
        ("return logits.sum(), labels", "as its count: return a number"),
        ("return torch.tensor(1.0), 1", "does not depend on the logits"),
        ("return logits.sum() / 0, 1", "returned the loss"),
        ("return logits.sum() * float('nan'), 1", "returned the loss nan"),
        ("return (logits * 0).sqrt().sum(), 1", "gradient that is not finite"),
        ("return (logits * labels).sum(), 1", "raised RuntimeError: The size of tensor"),
    ],
)
def test_a_wrong_loss_is_refused(tmp_path: Path, body: str, message: str):
    hooks = loaded(tmp_path, f"import torch\ndef loss(logits, labels, batch):\n    {body}\n", loss="loss")
    with pytest.raises(ConfigError, match=message):
        check_hooks(hooks, MODEL, "classify")


HEAD = """import torch
class Head(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.out = torch.nn.Linear(config.hidden_size, config.num_labels)
        {init}
    def forward(self, hidden, mask):
        return {output}
"""


@pytest.mark.parametrize(
    ("init", "output", "message"),
    [
        ("", "self.out(hidden)", r"returned \(2, 4, 3\): return \(rows, labels\), here \(2, 3\)"),
        ("self.more = torch.nn.Linear(2, 2)", "self.out(hidden[:, 0])", "does not use its parameter 'more.weight'"),
        ("self.norm = torch.nn.BatchNorm1d(3)", "self.norm(self.out(hidden[:, 0]))", "has the buffer 'norm."),
        ("self.out.bias.requires_grad = False", "self.out(hidden[:, 0])", "'out.bias' without a gradient"),
        ("self.out.double()", "self.out(hidden[:, 0])", "'out.weight' in torch.float64"),
        ("raise KeyError('x')", "0", "raised KeyError"),
    ],
)
def test_a_wrong_head_is_refused(tmp_path: Path, init: str, output: str, message: str):
    with pytest.raises(ConfigError, match=message):
        check_hooks(loaded(tmp_path, HEAD.format(init=init, output=output), head="Head"), MODEL, "classify")


@pytest.mark.backends
def test_a_mean_in_place_of_a_sum_turns_the_suite_red(tmp_path: Path):
    """In micro-batches of two, a loss that returns its mean and 1 differs from the golden curve."""
    bench = SuiteRunner(tmp_path, "torch", {"device": "cpu", "threads": 1})
    hooks = {"loss": f"{Path(__file__).parent / 'hooks' / 'suite_hooks.py'}:mean_as_sum"}
    trained = bench.train(bench.prepare(LABELLED, {"micro_batch": 2}, hooks=hooks))
    with pytest.raises(AssertionError, match="off by"):
        _takes_the_same_steps(bench, LABELLED, trained)
