"""The same recipe, small: its model, steps and data are cut, and nothing else, to see anywhere that all of it works."""

from __future__ import annotations

from typing import Any

import msgspec

from jprep.corpus.config import CorpusConfig, Recipe, Source, step_name
from jprep.dataset.labelled.reader import LabelledConfig
from jprep.dataset.manifest import dataset_config
from jprep.engine.fingerprint import differences, plain
from jprep.pipeline.steps import wanted_steps
from jprep.plugins import plugins
from jprep.tokenizer.config import tokenizer_config
from jprep.train.job.config import CheckpointConfig, ModelConfig, TrainConfig, ValidationConfig, parse_train_config
from jprep.train.models import FAMILIES, PRESETS
from jprep.train.models.config import INTEGER_KEYS

SUFFIX = "-tiny"

STEPS, BATCH, LENGTH = 20, 8, 128
_WARMUP = STEPS // 10  # where only the data tells how many steps the recipe has
_OFTEN, _SELDOM = STEPS // 4, STEPS // 2  # whatever a run does now and then it does two to four times
_VALIDATION_BATCHES = 4
_VOCABULARY, _ALPHABET = 3_000, 1_000
_HELD_OUT = 0.1  # of a few hundred documents; a recipe's usual share would leave none
_SHARD_MB = 1

_SIZES = INTEGER_KEYS - {"type_vocab_size"}
"""Keys of a model's config that say how large it is, and not what it computes."""


def scale_down(recipe: Recipe) -> Recipe:
    """Cut a recipe's model, steps and data; kinds, packing, masking, special tokens and segmenter stay.

    - corpus: the first shard of each source, of a megabyte;
    - tokenizer: as many ids as a small text carries;
    - dataset: a share for validation that is not empty;
    - train: the family's tiny preset with whatever the recipe changes but sizes, 20 steps, at most 8 rows of 128
      tokens; the warm-up in proportion, and checkpoints, validation and figures often enough to be seen; the backend
      chooses how many rows go through the model at a time.

    Raises:
        ConfigError: a section is not valid as it is.
    """
    wanted = wanted_steps(recipe)
    return msgspec.structs.replace(
        recipe,
        name=recipe.name + SUFFIX,
        corpus=_corpus(recipe.corpus),
        tokenizer=_tokenizer(recipe.tokenizer) if "tokenizer" in wanted else {},
        dataset=_dataset(recipe.dataset) if "dataset" in wanted else {},
        train=_train(recipe.train) if recipe.train else {},
    )


def list_changes(recipe: Recipe, other: Recipe) -> list[str]:
    """Every key in which two recipes differ, a line each; what a recipe leaves out has its default."""
    return list(differences(_whole(other), _whole(recipe)))


def _whole(recipe: Recipe) -> dict[str, Any]:
    sections: dict[str, Any] = {
        "tokenizer": tokenizer_config(recipe.tokenizer, "[tokenizer]"),
        "dataset": dataset_config(recipe.dataset, "[dataset]"),
        "train": parse_train_config(recipe.train, "[train]") if recipe.train else {},
    }
    return plain(msgspec.structs.asdict(recipe) | sections)


def _corpus(corpus: CorpusConfig) -> CorpusConfig:
    return msgspec.structs.replace(corpus, sources=[_source(source) for source in corpus.sources])


def _source(source: Source) -> Source:
    """Readers cut an input into shards of `shard_mb` megabytes; a plugin's may not."""
    reader = source.reader
    if "shard_mb" in plugins().get("reader", step_name(reader)).Config.__struct_fields__:
        options = {"use": reader} if isinstance(reader, str) else reader
        reader = options | {"shard_mb": min(options.get("shard_mb", _SHARD_MB), _SHARD_MB)}
    return msgspec.structs.replace(source, reader=reader, shards=1)


def _tokenizer(section: dict[str, Any]) -> dict[str, Any]:
    config = tokenizer_config(section, "[tokenizer]")
    cut: dict[str, Any] = {"vocab_size": min(config.vocab_size, _VOCABULARY)}
    if config.model != "byte-bpe":
        cut["alphabet"] = min(config.alphabet or _ALPHABET, _ALPHABET)
    return section | cut


def _dataset(section: dict[str, Any]) -> dict[str, Any]:
    share = dataset_config(section, "[dataset]").validation
    return section | {"validation": max(share, _HELD_OUT) if share else 0.0}


def _train(section: dict[str, Any]) -> dict[str, Any]:
    train = parse_train_config(section, "[train]")
    cut: dict[str, Any] = {
        "model": _model(train.model),
        "batch": min(train.batch, BATCH),
        "length": min(train.length, LENGTH),
        "schedule": section.get("schedule", {}) | {"warmup": _warmup(train)},
        "checkpoint": section.get("checkpoint", {}) | _checkpoint(train.checkpoint, train.steps),
        "validation": section.get("validation", {}) | _validation(train.validation, train.steps),
        "log_every": _often(train.log_every, train.steps),
    }
    if train.data:
        cut["labelled"] = section.get("labelled", {}) | _labelled(train.labelled)
    if train.backend:
        cut["backend"] = {name: _without(options, "rows", "micro_batch") for name, options in train.backend.items()}
    kept = _without(section, "steps", "epochs")
    return kept | cut | {"steps": min(train.steps or STEPS, STEPS)}


def _without(section: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key not in keys}


def _labelled(labelled: LabelledConfig) -> dict[str, Any]:
    length = min(labelled.length, LENGTH)
    return {"length": length, "buckets": [bucket for bucket in labelled.buckets if bucket < length]}


def _model(model: ModelConfig) -> dict[str, Any]:
    """The tiny preset, and all that the model differs in from it but sizes. Given weights would not fit it."""
    chosen = PRESETS.get(model.preset, {}) | model.config
    kind = str(chosen.get("model_type"))
    preset = f"{kind}{SUFFIX}"
    if kind not in FAMILIES or preset not in PRESETS:
        return plain(msgspec.structs.asdict(model))  # whoever makes the job says what is wrong with it
    small = FAMILIES[kind].defaults | PRESETS[preset]
    kept = _without(FAMILIES[kind].defaults | chosen, *_SIZES)
    return {"preset": preset, "config": {key: value for key, value in kept.items() if small.get(key) != value}}


def _warmup(train: TrainConfig) -> int:
    warmup, steps = train.schedule.warmup, train.steps
    if 0 < steps <= STEPS:
        return min(warmup, steps)
    share = max(1, warmup * STEPS // steps) if steps else _WARMUP
    return min(share, warmup, STEPS // 2)


def _checkpoint(checkpoint: CheckpointConfig, steps: int) -> dict[str, Any]:
    return {"every_steps": _often(checkpoint.every_steps, steps)}


def _validation(validation: ValidationConfig, steps: int) -> dict[str, Any]:
    batches = min(validation.batches or _VALIDATION_BATCHES, _VALIDATION_BATCHES)
    return {"every_steps": _often(validation.every_steps, steps), "batches": batches}


def _often(every: int, steps: int) -> int:
    """A number of steps in proportion; 0 is never, and stays it."""
    if not every or 0 < steps <= STEPS:
        return every
    return min(max(every * STEPS // steps if steps else _SELDOM, _OFTEN), _SELDOM)
