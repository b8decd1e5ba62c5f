"""An independent reference: transformers' models in float64, and a loop that follows docs/training.md literally.

It uses nothing of jprep_torch. `python backends/torch/tests/reference.py` writes the golden curves of the suite.
"""

from __future__ import annotations

import copy
import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
import transformers
from safetensors.torch import load_file

from jprep.testing import backend_suite
from jprep.testing.backend_suite.cases import CASES, GOLDEN, GoldenCurve, GoldenFile
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.job.config import Job
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep.train.optimization.schedule import ScheduleConfig
from jprep.train.run.directory import INIT, read_job
from jprep.train.worker.batches import Batches

DIGITS = 12


def model_of(job: Job, weights: Path, dtype: torch.dtype = torch.float64) -> Any:
    """Return the job's model with the weights of a file; for `rtd` both halves of ELECTRA."""
    if job.train.task == "rtd":
        return electra_of(job, weights, dtype)
    return single_model(job.model, load_file(weights), dtype)


def single_model(fields: dict[str, Any], tensors: dict[str, torch.Tensor], dtype: torch.dtype) -> Any:
    """Return a model of transformers with given weights."""
    # Eager attention in float64 is not a number where a token of padding has only padding within its window.
    attention = "sdpa" if fields["model_type"] == "modernbert" else "eager"
    config = transformers.AutoConfig.for_model(**copy.deepcopy(fields), attn_implementation=attention)
    if "num_experts" in fields:
        config._experts_implementation = "eager"  # PyTorch has no grouped products in float64
    model = getattr(transformers, fields["architectures"][0])(config)
    loaded = model.load_state_dict(with_joined_experts(tensors, fields.get("num_experts", 0)), strict=False)
    assert not loaded.unexpected_keys, loaded.unexpected_keys
    model.tie_weights()
    names = {name for name, _ in model.named_parameters()}  # tied weights once
    assert not names & set(loaded.missing_keys), names & set(loaded.missing_keys)
    return model.to(dtype).eval()


def with_joined_experts(tensors: dict[str, torch.Tensor], experts: int) -> dict[str, torch.Tensor]:
    """Return tensors with those of each layer's experts joined, as transformers 5 has them."""
    joined = {name: one for name, one in tensors.items() if ".experts." not in name}
    for layer in {name.partition(".experts.")[0] + ".experts." for name in tensors.keys() - joined.keys()}:
        gates, ups, downs = (
            torch.stack([tensors[f"{layer}{number}.{part}_proj.weight"] for number in range(experts)])
            for part in ("gate", "up", "down")
        )
        joined |= {f"{layer}gate_up_proj": torch.cat([gates, ups], 1), f"{layer}down_proj": downs}
    return joined


class Electra(torch.nn.Module):
    """A generator and a discriminator with the same embeddings."""

    def __init__(self, generator: Any, discriminator: Any, weight: float) -> None:
        super().__init__()
        generator.electra.embeddings = discriminator.electra.embeddings
        generator.generator_lm_head.weight = discriminator.electra.embeddings.word_embeddings.weight
        self.generator, self.discriminator, self.weight = generator, discriminator, weight
        self.config = discriminator.config


def electra_of(job: Job, weights: Path, dtype: torch.dtype) -> Any:
    """Return both halves with the weights of a file."""
    tensors, fields = load_file(weights), dict(job.model)
    small = fields.pop("generator")
    shared = {name: one for name, one in tensors.items() if name.startswith("electra.embeddings.")}
    own = {name.removeprefix("generator."): one for name, one in tensors.items() if name.startswith("generator.")}
    others = {name: one for name, one in tensors.items() if not name.startswith("generator.")}
    halves = [single_model(small, own | shared, dtype), single_model(fields, others, dtype)]
    return Electra(*halves, job.train.rtd.discriminator_weight)


def trained_weights(model: Any) -> dict[str, torch.nn.Parameter]:
    """Return the trained weights: all but the embedding of a single token type."""
    alone = getattr(model.config, "type_vocab_size", 0) == 1
    return {name: p for name, p in model.named_parameters() if not (alone and "token_type_embeddings" in name)}


class Losses(NamedTuple):
    """The summed losses of a batch, and what they are divided by.

    Attributes:
        loss: of tokens, classes or scores.
        labels: their number.
        pairs: of the next-sentence head, or of the discriminator times its weight; 0 without one.
        rows: number of sentence pairs, or of tokens.
    """

    loss: Any
    labels: float
    pairs: Any = 0.0
    rows: int = 0

    @property
    def mean(self) -> Any:
        """The loss of the batch: the mean over labels, plus that over sentence pairs or tokens."""
        return self.loss / (self.labels or 1) + self.pairs / max(self.rows, 1)


def summed_loss(model: Any, task: str, batch: Any, z: float = 0.0, weights: Sequence[float] = ()) -> Losses:
    """Return the summed losses of a batch; z is for batches with documents, weights are those of classes."""
    if task == "rtd":
        return rtd_losses(model, batch)
    if getattr(batch, "documents", None) is not None:
        return _losses_alone(model, task, batch, z)
    ids, labels = (torch.from_numpy(array).long() for array in (batch.input_ids, batch.labels))
    inputs = {"input_ids": ids, "attention_mask": torch.from_numpy(batch.attention_mask).long()}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        types = getattr(batch, "token_types", getattr(batch, "segments", None))
        inputs["token_type_ids"] = torch.from_numpy(batch.input_ids * 0 if types is None else types).long()
    outputs = model(**inputs)
    if getattr(batch, "next_sentence", None) is not None:
        classes = torch.from_numpy(batch.next_sentence).long()
        chosen = torch.log_softmax(outputs.seq_relationship_logits, -1).gather(-1, classes[:, None])
        return _token_losses(outputs.prediction_logits, labels)._replace(pairs=-chosen.sum(), rows=len(ids))
    logits = outputs.logits
    if task == "regress":
        return Losses(((logits[:, 0] - torch.from_numpy(batch.labels).to(logits)) ** 2).sum(), len(ids))
    if task == "clm":
        logits, labels = logits[:, :-1], labels[:, 1:]
    if weights:
        own = torch.tensor(weights)[labels]
        chosen = torch.log_softmax(logits, -1).gather(-1, labels[:, None])[:, 0]
        return Losses(-(own * chosen).sum(), float(own.sum()))
    return _token_losses(logits, labels)


def _losses_alone(model: Any, task: str, batch: Any, z: float) -> Losses:
    """Return the summed losses of the documents of a batch, each in a row of its own."""
    found = []
    for ids, labels, numbers in zip(batch.input_ids, batch.labels, batch.documents, strict=True):
        for number in range(numbers.max() + 1):
            inside = numbers == number
            logits = model(input_ids=torch.from_numpy(ids[inside]).long()[None]).logits[0]
            own = torch.from_numpy(labels[inside]).long()
            found.append(_token_losses(*((logits[:-1], own[1:]) if task == "clm" else (logits, own)), z))
    return Losses(*map(sum, zip(*found, strict=True)))


def _token_losses(logits: torch.Tensor, labels: torch.Tensor, z: float = 0.0) -> Losses:
    labelled = labels != -100
    chosen = logits[labelled]
    normalizers = torch.log(torch.exp(chosen).sum(-1, keepdim=True))
    losses = normalizers - chosen.gather(-1, labels[labelled][:, None]) + z * normalizers**2
    return Losses(losses.sum(), int(labelled.sum()))


def rtd_losses(model: Electra, batch: Any) -> Losses:
    """Return the generator's loss, and the discriminator's on rows with tokens that the generator chose."""
    ids, labels = (torch.from_numpy(array).long() for array in (batch.input_ids, batch.labels))
    masked, real = labels != -100, torch.from_numpy(batch.attention_mask)
    logits = model.generator(input_ids=ids, attention_mask=real.long()).logits[masked]
    generator = -torch.log_softmax(logits, -1).gather(-1, labels[masked][:, None]).sum()
    original = torch.where(masked, labels, ids)
    replaced = original.clone()
    noise = torch.from_numpy(gumbel(batch.noise_keys[masked.numpy()], logits.shape[-1]))
    replaced[masked] = (logits.detach() + noise.to(logits)).argmax(-1)
    outputs = model.discriminator(input_ids=replaced, attention_mask=real.long()).logits
    chance = torch.sigmoid(torch.where(replaced != original, outputs, -outputs))
    return Losses(generator, int(masked.sum()), -model.weight * torch.log(chance)[real].sum(), int(real.sum()))


def router_loss(model: Any, batch: Any) -> Any:
    """Return the mean over tokens of the loss of the routers in their row; 0 for models without experts."""
    if not hasattr(model.config, "num_experts_per_tok"):
        return 0.0
    from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

    config, total = model.config, 0.0
    for ids, real in zip(torch.from_numpy(batch.input_ids).long(), torch.from_numpy(batch.attention_mask), strict=True):
        given = {"input_ids": ids[None], "attention_mask": real[None].long()}
        logits = model.model(**given, output_router_logits=True).router_logits
        loss = load_balancing_loss_func(logits, config.num_experts, config.num_experts_per_tok, given["attention_mask"])
        total = total + loss * real.sum()
    return config.router_aux_loss_coef * total / batch.attention_mask.sum()


def mix(words: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the 32-bit mixer of docs/sampling.md, in 64 bits."""
    words = words ^ words >> 16
    words = words * 0x85EBCA6B % 2**32
    words = words ^ words >> 13
    words = words * 0xC2B2AE35 % 2**32
    return words ^ words >> 16


def gumbel(keys: np.ndarray[Any, Any], ids: int) -> np.ndarray[Any, Any]:
    """Return the noise of docs/sampling.md, (tokens, ids)."""
    words = mix(np.arange(1, ids + 1, dtype=np.uint64) * 0x9E3779B9 % 2**32)
    share = (mix(keys[:, None].astype(np.uint64) ^ words) + 0.5) / 2**32
    return -np.log(-np.log1p(-share))


def rate(step: int, steps: int, peak: float, schedule: ScheduleConfig) -> float:
    """Return the learning rate of a step, from 0."""
    warmup, floor = schedule.warmup, schedule.floor
    if schedule.restarts:
        [restart] = schedule.restarts
        cycle = msgspec.structs.replace(
            schedule, restarts=[], warmup=schedule.restart_warmup if step >= restart else warmup
        )
        return (
            rate(step - restart, steps - restart, peak, cycle) if step >= restart else rate(step, restart, peak, cycle)
        )
    if step < warmup:
        return peak * (step + 1) / warmup
    if schedule.kind == "inverse_sqrt":
        return peak * math.sqrt(warmup / (step + 1))
    if schedule.kind == "wsd":
        left = steps - step
        return peak * (1 - math.sqrt(max(0.0, 1 - left / schedule.decay_steps)))
    x = (step - warmup) / (steps - warmup)
    left = {"linear": 1 - x, "cosine": (1 + math.cos(math.pi * x)) / 2, "constant": 1}[schedule.kind]
    return peak if schedule.kind == "constant" else peak * (floor + (1 - floor) * left)


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """Return Muon's direction of docs/training.md: five steps of Newton and Schulz."""
    x = matrix / matrix.norm()
    for _ in range(5):
        if matrix.shape[0] > matrix.shape[1]:
            square = x.T @ x
            x = 3.4445 * x + x @ (-4.7750 * square + 2.0315 * square @ square)
        else:
            square = x @ x.T
            x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return 0.2 * math.sqrt(max(matrix.shape)) * x


def _depth(name: str, names: Iterable[str]) -> int:
    """Return how many factors of `layer_decay` the rate of a weight has."""
    layers = {one: int(number[0]) for one in names if (number := [part for part in one.split(".") if part.isdigit()])}
    if name in layers:
        return max(layers.values()) + 1 - layers[name]
    return max(layers.values()) + 2 if "embeddings" in name or "wte" in name or "wpe" in name else 0


class AdamW:
    """The optimizer of docs/training.md; with Muon for matrices of layers."""

    def __init__(self, trained: dict[str, torch.nn.Parameter], section: OptimizerConfig) -> None:
        self.trained, self.section, self.t = trained, section, 0
        self.m = {name: torch.zeros_like(w) for name, w in trained.items()}
        self.v = {name: torch.zeros_like(w) for name, w in trained.items()}

    @torch.no_grad()
    def step(self, eta: float) -> float:
        """Clip the gradients, update the weights, and return the norm before clipping."""
        s, self.t = self.section, self.t + 1
        gradients = {name: w.grad if w.grad is not None else torch.zeros_like(w) for name, w in self.trained.items()}
        norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in gradients.values()))
        share = s.clip / norm if 0 < s.clip < norm else 1.0
        before = eta
        for name, w in self.trained.items():
            eta = before * s.layer_decay ** _depth(name, self.trained)
            g, m, v = gradients[name] * share, self.m[name], self.v[name]
            if s.kind == "muon" and w.dim() == 2 and any(part.isdigit() for part in name.split(".")):
                m.copy_(s.momentum * m + g)
                w -= eta * (orthogonal(g + s.momentum * m) + s.weight_decay * w)
                w.grad = None
                continue
            m.copy_(s.beta1 * m + (1 - s.beta1) * g)
            v.copy_(s.beta2 * v + (1 - s.beta2) * g**2)
            corrected = (m / (1 - s.beta1**self.t)) / ((v / (1 - s.beta2**self.t)).sqrt() + s.eps)
            w -= eta * (corrected + (s.weight_decay * w if w.dim() >= 2 else 0))
            w.grad = None
        return norm


@torch.no_grad()
def validation_loss(model: Any, task: str, batches: Batches) -> float:
    """Return the validation loss of the whole split."""
    found = [summed_loss(model, task, batch) for batch in batches.validating(0, 1) if len(batch.input_ids)]
    return float(Losses(*map(sum, zip(*found, strict=True))).mean)


def train(run: Path, dtype: torch.dtype = torch.float64) -> tuple[GoldenCurve, list[float]]:
    """Return the loss curve of a run, and the norms of its gradients."""
    job = read_job(run)
    section, batches = job.train, Batches(run, job)
    model = model_of(job, run / INIT, dtype)
    optimizer = AdamW(trained_weights(model), section.optimizer)
    losses, norms, validation = [], [], {}
    for step in range(job.steps):
        given = (section.z_loss, job.class_weights) if section.z_loss or job.class_weights else ()
        batch = batches.train.batch(step)
        mean = summed_loss(model, section.objective, batch, *given).mean + router_loss(model, batch)
        mean.backward()
        norms.append(optimizer.step(rate(step, job.steps, section.optimizer.lr, section.schedule)))
        losses.append(mean.item())
        if not (step + 1) % section.validation.every_steps:
            validation[step + 1] = validation_loss(model, section.objective, batches)
    return GoldenCurve(losses, validation), norms


def rounded(curve: GoldenCurve) -> GoldenCurve:
    """Return a curve with the digits of the golden file."""
    figures = ((step, float(f"{loss:.{DIGITS}g}")) for step, loss in curve.validation.items())
    return GoldenCurve([float(f"{loss:.{DIGITS}g}") for loss in curve.train], dict(figures))


def main() -> None:
    """Write the golden curves of the named cases, by default of all; other curves stay."""
    path = Path(backend_suite.__file__).parent / GOLDEN
    chosen = sys.argv[1:] or list(CASES)
    before = msgspec.json.decode(path.read_bytes(), type=GoldenFile).curves if sys.argv[1:] else {}
    with tempfile.TemporaryDirectory() as folder:
        bench = SuiteRunner(Path(folder), "torch", {})
        curves = {name: rounded(train(bench.prepare(name).run)[0]) for name in chosen}
    curves = {name: (before | curves)[name] for name in CASES if name in before or name in curves}
    made_with = {"torch": torch.__version__.partition("+")[0], "transformers": transformers.__version__}
    data = msgspec.json.format(msgspec.json.encode(GoldenFile(made_with, curves)), indent=1)
    path.write_bytes(data + b"\n")


if __name__ == "__main__":
    sys.exit(main())
