"""The tables of a starter recipe that train the model: `[train]` and the options of its backend."""

from __future__ import annotations

from typing import Any

from jprep.dataset.sampling.config import MaskingConfig
from jprep.pipeline.starter.choices import FAMILIES, LARGE, Answers, BackendName, ModelFamily
from jprep.pipeline.starter.corpus_tables import known_size
from jprep.pipeline.starter.inputs import InputSummary
from jprep.pipeline.starter.toml_lines import Key, table
from jprep.train.models.presets import PRESETS
from jprep.train.planning.published import family_masking, published_masking

_BYTES_PER_TOKEN = 6  # two characters
_MIN_STEPS, _MAX_STEPS = 200, 500_000
_SMALL_TEXT, _SMALL_BATCH, _BATCH = 100_000_000, 32, 256
_PASSES = {"clm": 3, "mlm": 10, "rtd": 10}
"""How often the text is read, by task; a text as large as CC-100 is read once."""

_CONTINUED_PASSES, _MIN_CONTINUED_STEPS = 3, 20  # so many times fewer passes where a training is continued

_UNPUBLISHED = ("llama-160m",)  # and tiny presets
_LARGE_TEXT = 20_000_000_000
_ADAM: dict[str, dict[str, float]] = {
    "clm": {"beta2": 0.95, "weight_decay": 0.1, "clip": 1.0},
    "mlm": {"beta2": 0.98, "eps": 1e-6, "weight_decay": 0.01, "clip": 1.0},
    "rtd": {"beta2": 0.999, "eps": 1e-6, "weight_decay": 0.01, "clip": 1.0},
}


def train_table(answers: Answers, inputs: InputSummary) -> str:
    """Return `[train]`."""
    family, size = FAMILIES[answers.family], known_size(answers, inputs)
    length, batch = row_length(answers), _SMALL_BATCH if size < _SMALL_TEXT else _BATCH
    passes = 1 if size > _LARGE_TEXT else _PASSES[family.task] // (_CONTINUED_PASSES if answers.start else 1)
    least = _MIN_CONTINUED_STEPS if answers.start else _MIN_STEPS
    steps = _rounded(passes * size / _BYTES_PER_TOKEN / (batch * length), least)
    every = min(max(50, steps // 50), steps)
    keys = [
        Key("task", family.task, _TASKS[family.task]),
        _model_key(answers),
        Key("length", length, "tokens in a row"),
        *_task_keys(family, answers),
        Key("batch", batch, BATCH),
        Key("steps", steps, _passes_comment(steps * batch * length * _BYTES_PER_TOKEN / size)),
        Key("precision", answers.precision, PRECISIONS[answers.precision]),
        Key("optimizer", {"lr": _rate(answers), **_ADAM[family.task]}, "AdamW; lr is the highest learning rate"),
        Key("schedule", _schedule(family, steps), SCHEDULE),
        Key("validation", {"every_steps": every, "batches": 50}, "how often the validation loss is measured"),
        Key(
            "checkpoint", {"every_steps": every, "keep_last": 2, "keep_best": 1}, "saved at these steps, and on Ctrl-C"
        ),
        Key("seed", 1, "of weights, order of rows and masks: the same seed gives the same model"),
    ]
    return table("[train]", keys, "The model, and how it is trained.")


def _model_key(answers: Answers) -> Key:
    if answers.start:
        return Key("model", {"init": answers.start.init}, "the model to continue; its tokenizer is used")
    about = f"{_size(answers.model)}; `config = {{ … }}` in it changes single values"
    return Key("model", {"preset": answers.model}, about)


def _rate(answers: Answers) -> float:
    """Return the highest learning rate: a low one where the weights are good already."""
    family = FAMILIES[answers.family]
    if answers.start:
        return float(f"{family.large_rate / 10:.1g}")
    return family.large_rate if answers.model in LARGE else family.rate


def _size(model: str) -> str:
    return "one of jprep's small sizes" if model.endswith("-tiny") or model in _UNPUBLISHED else "a published size"


def _passes_comment(passes: float) -> str:
    count = max(1, round(passes))
    return f"about {count:,} {'pass' if count == 1 else 'passes'} over the text; or `epochs = 1`"


BATCH = "rows in a step, on all devices together; the result does not depend on their number"
SCHEDULE = "the rate rises for `warmup` steps, and then falls"
PRECISIONS = {
    "bf16": "of the computation; weights stay in fp32. Old GPUs need fp16 or fp32",
    "fp32": "of the computation, for CPUs; bf16 is faster on TPUs and newer GPUs",
}
_TASKS = {
    "clm": "predict the next token",
    "mlm": "predict masked tokens",
    "rtd": "find tokens that a small generator has replaced",
}


def row_length(answers: Answers) -> int:
    """Return the tokens per row: the family's usual number, or as many as a smaller model has positions."""
    usual = FAMILIES[answers.family].length
    if answers.start:
        return min(usual, answers.start.positions)
    config = PRESETS[answers.model]
    return min(usual, int(config.get("n_positions") or config.get("max_position_embeddings") or usual))


def _task_keys(family: ModelFamily, answers: Answers) -> list[Key]:
    if family.task == "clm":
        return [Key("packing", "stream", "rows are cut from the joined documents, so none has padding")]
    whole = answers.segmenter != "none" and family.task == "mlm"
    published = family_masking(answers.family) if answers.start else published_masking(answers.model)
    masking: dict[str, Any] = {"rate": (published or MaskingConfig()).rate, **({"whole_word": True} if whole else {})}
    return [
        Key("packing", "complete", "rows have whole sentences only"),
        Key("masking", masking, "the share of tokens that are masked" + (", by whole words" if whole else "")),
    ]


def _schedule(family: ModelFamily, steps: int) -> dict[str, Any]:
    warmup = max(10, steps // 20)
    if family.task == "clm":
        return {"kind": "cosine", "warmup": warmup, "floor": 0.1}
    return {"kind": "linear", "warmup": warmup}


def _rounded(steps: float, least: int) -> int:
    """Return a number of steps with two significant digits."""
    return int(float(f"{min(max(steps, least), _MAX_STEPS):.1e}"))


_MICRO_BATCH = Key("micro_batch", 0, "rows on a device at a time; 0: as many as fit")
_BACKENDS = {
    "torch": [Key("device", "auto", "GPUs if there are some, else the CPU; xla: TPUs"), _MICRO_BATCH,
              Key("compile", False, "torch.compile: faster steps, after a slow first one")],
    "deepspeed": [Key("stage", "auto", "ZeRO: 1 shards the optimizer, 2 gradients too, 3 weights too"), _MICRO_BATCH,
                  Key("gradient_checkpointing", False, "less memory, a third slower")],
    "flax": [Key("device", "auto", "GPUs, else TPUs, else the CPU"), _MICRO_BATCH,
             Key("fsdp", 0, "devices that share one copy of the weights; 0: one, or all if they do not fit")],
    "fairseq-xla": [Key("device", "auto", "xla (TPUs), cuda or cpu: the first that this machine has"), _MICRO_BATCH],
    "keras": [Key("engine", "tensorflow", "what Keras computes with: tensorflow or jax"), _MICRO_BATCH,
              Key("device", "auto", "GPUs, else TPUs, else the CPU")],
}  # fmt: skip
"""Backend → the keys of its table."""


def backend_table(backend: BackendName) -> str:
    """Return `[train.backend.NAME]`, which also chooses the backend."""
    above = f"Options of the backend {backend}; `jprep train FILE --dry-run` shows what they lead to."
    return table(f"[train.backend.{backend}]", _BACKENDS[backend], above)
