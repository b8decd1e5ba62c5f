"""An independent reference: plain transformers models in float64, a loop that follows docs/training.md to the letter.

Nothing of jprep_torch is used. `python backends/torch/tests/reference.py` writes the golden curves of the suite.
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import torch
import transformers
from safetensors.torch import load_file

from jprep.testing import backend_suite
from jprep.testing.backend_suite.cases import CASES, GOLDEN, GoldenCurve, GoldenFile
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.job.config import Job, OptimizerConfig, ScheduleConfig
from jprep.train.run.directory import INIT, read_job
from jprep.train.worker.batches import Batches

DIGITS = 12


def model_of(job: Job, weights: Path, dtype: torch.dtype = torch.float64) -> Any:
    """The job's model, with the weights of a file."""
    config = transformers.AutoConfig.for_model(**job.model, attn_implementation="eager")
    model = getattr(transformers, job.model["architectures"][0])(config)
    loaded = model.load_state_dict(load_file(weights), strict=False)
    assert not loaded.unexpected_keys, loaded.unexpected_keys
    model.tie_weights()
    names = {name for name, _ in model.named_parameters()}  # tied ones once
    assert not names & set(loaded.missing_keys), names & set(loaded.missing_keys)
    return model.to(dtype).eval()


def trained_of(model: Any) -> dict[str, torch.nn.Parameter]:
    """What is trained: all, but a token type that is the only one."""
    alone = getattr(model.config, "type_vocab_size", 0) == 1
    return {name: p for name, p in model.named_parameters() if not (alone and "token_type_embeddings" in name)}


def summed_loss(model: Any, task: str, batch: Any) -> tuple[torch.Tensor, int]:
    """The sum over a batch's labels, and how many there are."""
    ids, labels = (torch.from_numpy(array).long() for array in (batch.input_ids, batch.labels))
    inputs = {"input_ids": ids, "attention_mask": torch.from_numpy(batch.attention_mask).long()}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = torch.from_numpy(getattr(batch, "token_types", batch.input_ids * 0)).long()
    logits = model(**inputs).logits
    if task == "regress":
        return ((logits[:, 0] - torch.from_numpy(batch.labels).to(logits)) ** 2).sum(), len(ids)
    if task == "clm":
        logits, labels = logits[:, :-1], labels[:, 1:]
    there = labels != -100
    chances = torch.log_softmax(logits[there], -1)
    return -chances.gather(-1, labels[there][:, None]).sum(), int(there.sum())


def rate(step: int, steps: int, peak: float, schedule: ScheduleConfig) -> float:
    """The learning rate."""
    warmup, floor = schedule.warmup, schedule.floor
    if step < warmup:
        return peak * (step + 1) / warmup
    x = (step - warmup) / (steps - warmup)
    left = {"linear": 1 - x, "cosine": (1 + math.cos(math.pi * x)) / 2, "constant": 1}[schedule.kind]
    return peak if schedule.kind == "constant" else peak * (floor + (1 - floor) * left)


class AdamW:
    """The optimizer of docs/training.md."""

    def __init__(self, trained: dict[str, torch.nn.Parameter], section: OptimizerConfig) -> None:
        self.trained, self.section, self.t = trained, section, 0
        self.m = {name: torch.zeros_like(w) for name, w in trained.items()}
        self.v = {name: torch.zeros_like(w) for name, w in trained.items()}

    @torch.no_grad()
    def step(self, eta: float) -> float:
        """Clip, update; the gradient's norm."""
        s, self.t = self.section, self.t + 1
        gradients = {name: w.grad if w.grad is not None else torch.zeros_like(w) for name, w in self.trained.items()}
        norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in gradients.values()))
        share = s.clip / norm if 0 < s.clip < norm else 1.0
        for name, w in self.trained.items():
            g, m, v = gradients[name] * share, self.m[name], self.v[name]
            m.copy_(s.beta1 * m + (1 - s.beta1) * g)
            v.copy_(s.beta2 * v + (1 - s.beta2) * g**2)
            corrected = (m / (1 - s.beta1**self.t)) / ((v / (1 - s.beta2**self.t)).sqrt() + s.eps)
            w -= eta * (corrected + (s.weight_decay * w if w.dim() >= 2 else 0))
            w.grad = None
        return norm


@torch.no_grad()
def validation_loss(model: Any, task: str, batches: Batches) -> float:
    """Of the whole split."""
    found = [summed_loss(model, task, batch) for batch in batches.validating(0, 1) if len(batch.input_ids)]
    return float(sum(loss for loss, _ in found)) / sum(count for _, count in found)


def train(run: Path, dtype: torch.dtype = torch.float64) -> tuple[GoldenCurve, list[float]]:
    """The curve of a run, and the norms of its gradients."""
    job = read_job(run)
    section, batches = job.train, Batches(run, job)
    model = model_of(job, run / INIT, dtype)
    optimizer = AdamW(trained_of(model), section.optimizer)
    losses, norms, validation = [], [], {}
    for step in range(job.steps):
        loss, count = summed_loss(model, section.task, batches.train.batch(step))
        mean = loss / max(count, 1)
        mean.backward()
        norms.append(optimizer.step(rate(step, job.steps, section.optimizer.lr, section.schedule)))
        losses.append(mean.item())
        if not (step + 1) % section.validation.every_steps:
            validation[step + 1] = validation_loss(model, section.task, batches)
    return GoldenCurve(losses, validation), norms


def rounded(curve: GoldenCurve) -> GoldenCurve:
    """As it is written down."""
    figures = ((step, float(f"{loss:.{DIGITS}g}")) for step, loss in curve.validation.items())
    return GoldenCurve([float(f"{loss:.{DIGITS}g}") for loss in curve.train], dict(figures))


def main() -> None:
    """Write the golden curves."""
    with tempfile.TemporaryDirectory() as folder:
        bench = SuiteRunner(Path(folder), "torch", {})
        curves = {name: rounded(train(bench.prepare(name).run)[0]) for name in CASES}
    made_with = {"torch": torch.__version__.partition("+")[0], "transformers": transformers.__version__}
    data = msgspec.json.format(msgspec.json.encode(GoldenFile(made_with, curves)), indent=1)
    (Path(backend_suite.__file__).parent / GOLDEN).write_bytes(data + b"\n")


if __name__ == "__main__":
    sys.exit(main())
