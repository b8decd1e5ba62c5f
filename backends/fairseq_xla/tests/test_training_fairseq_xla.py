"""Updates by fairseq's trainer: the optimizer's arithmetic, memory, and compilations of XLA."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from jprep.dataset.manifest import TRAIN
from jprep.testing.backend_suite import data
from jprep.testing.backend_suite.cases import STEPS, WITH_DROPOUT
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.run.events import read_events
from jprep_torch.worker.update_rules.xla_adamw import XlaAdamW, clip

DIVIDED = "roberta-mlm"
DEVICE = "xla" if find_spec("torch_xla") else "cpu"


def stepped(decay: float) -> list[float]:
    """Return the example of docs/training.md: a matrix of one weight, three gradients."""
    weight = torch.nn.Parameter(torch.full((1, 1), 0.5))
    groups = [{"params": [weight], "weight_decay": decay}]
    adam, found = XlaAdamW(groups, 0.1, (0.9, 0.999), 0.001), []
    for grad in (0.3, -2.0, 0.01):
        weight.grad = torch.full((1, 1), grad)
        adam.step()
        found.append(weight.item())
    return found


def test_adamw_is_the_documented_one() -> None:
    assert stepped(0.01) == pytest.approx([0.3998322259, 0.4630443142, 0.5114293774], rel=1e-6)
    assert stepped(0.0) == pytest.approx([0.4003322259, 0.4639441464, 0.5127922539], rel=1e-6)


def test_clipping_adds_nothing_to_the_norm() -> None:
    one, other = (torch.nn.Parameter(torch.zeros(size)) for size in (2, 1))
    one.grad, other.grad = torch.tensor([3.0, 4.0]), torch.tensor([12.0])
    assert float(clip([one, other], 1.0)) == 13.0
    assert one.grad.tolist() == pytest.approx([3 / 13, 4 / 13], rel=1e-7)
    assert float(clip([one, other], 0.0)) == pytest.approx(1.0, rel=1e-7)
    assert float(other.grad) == pytest.approx(12 / 13, rel=1e-7)


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's memory besides mapped files is the same with ten times the corpus."""
    base = {split: data.documents(split) for split in data.DOCUMENTS}

    def held(times: int) -> int:
        monkeypatch.setattr(data, "documents", lambda split: base[split] * (times if split == TRAIN else 1))
        bench = SuiteRunner(tmp_path / str(times), "fairseq-xla", {"device": DEVICE, "threads": 1})
        (tmp_path / str(times)).mkdir()
        prepared = bench.prepare(DIVIDED, steps=10, validation={}, checkpoint={"every_steps": 0})
        argv = prepared.plan.argv[prepared.plan.argv.index("train") :]
        code = f"from jprep_fairseq_xla.worker.__main__ import main; assert main({list(argv)!r}) == 0\n"
        code += "print([line for line in open('/proc/self/status') if line.startswith('RssAnon')][0].split()[1])"
        env = os.environ | prepared.plan.env
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        return int(done.stdout)

    small, large = held(300), held(3000)  # the second one has 42 MB of ids; XLA itself holds some 10 MiB more or less
    assert large - small < 20 << 10, f"{small} KiB, and {large} KiB with ten times the corpus"


@pytest.mark.skipif(not find_spec("torch_xla"), reason="torch_xla is not here")
def test_xla_compiles_only_in_the_first_steps_and_the_first_validation(tmp_path: Path) -> None:
    bench = SuiteRunner(tmp_path, "fairseq-xla", {"device": "xla", "threads": 1})
    trained = bench.trained(WITH_DROPOUT, validation={"every_steps": 5}, checkpoint={"every_steps": 7})
    assert len(trained.losses()) == STEPS
    compiling = [event.step for event in read_events(trained.run) if event.figures.get("compiling")]
    assert compiling and max(compiling) <= 6, "in the first steps, and for the validation after the fifth"
    paces = [event.figures.get("tokens_per_second") or 0 for event in read_events(trained.run)]
    assert max(paces) < 1e6, "compilation in a validation is not subtracted from the time of the next step"
