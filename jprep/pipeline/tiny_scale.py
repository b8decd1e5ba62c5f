"""Scale a recipe down: cut its model, steps and data, and nothing else, to try all of it on any machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from jprep.corpus.config import CorpusConfig, Source, step_name
from jprep.dataset.labelled.reader import LabelledConfig
from jprep.dataset.manifest import DatasetConfig
from jprep.engine.fingerprint import differences, plain
from jprep.pipeline.recipe import Recipe, check_recipe, decode_recipe, load_recipe, register_steps, with_tiny_values
from jprep.pipeline.steps import wanted_steps
from jprep.plugins import plugins
from jprep.tokenizer.config import TokenizerConfig
from jprep.train.job.config import CheckpointConfig, ModelConfig, TrainConfig, ValidationConfig
from jprep.train.job.push import PushConfig
from jprep.train.models import FAMILIES, PRESETS
from jprep.train.models.config_values import INTEGER_KEYS
from jprep.train.pretrained.location import described_model

Scale = Literal["tiny"]

SUFFIX = "-tiny"
_WEIGHT_FILES = (".safetensors", ".bin", ".pt")

STEPS, BATCH, LENGTH = 20, 8, 128
_WARMUP = STEPS // 10  # where the number of steps depends on the data
_MIN_INTERVAL, _MAX_INTERVAL = STEPS // 4, STEPS // 2  # periodic actions happen two to four times
_VALIDATION_BATCHES = 4
_VOCABULARY, _ALPHABET = 3_000, 1_000
_VALIDATION_SHARE = 0.1  # of a few hundred documents; a recipe's usual share would select none
_SHARD_MB = 1

_SIZES = INTEGER_KEYS - {
    "type_vocab_size",
    "global_attn_every_n_layers",
    "local_attention",
    "position_buckets",
    "conv_kernel_size",
}
"""Keys of a model's config that set its size, not what it computes."""


def load_at_scale(
    recipe: Recipe | str | Path, overrides: Iterable[str] | Mapping[str, Any], scale: Scale | None
) -> tuple[Recipe, Recipe]:
    """Return a recipe with its settings at a scale, and at full scale; settings hold at any scale.

    Raises:
        ConfigError: the recipe is wrong, at one of the scales.
        ConfigError, MachineError: see `scale_down`.
    """
    overrides = overrides if isinstance(overrides, Mapping) else list(overrides)
    where = "the recipe" if isinstance(recipe, Recipe) else str(recipe)
    if isinstance(recipe, Recipe):
        loaded = decode_recipe(msgspec.to_builtins(recipe), overrides)
        check_recipe(loaded, where)
        register_steps(loaded)
    else:
        loaded = load_recipe(recipe, overrides)
    if not scale:
        return loaded, loaded
    small = with_tiny_values(scale_down(loaded), where)
    small = decode_recipe(msgspec.to_builtins(small), overrides, where=where)
    if small.tiny:
        check_recipe(small, where)
        register_steps(small)
    return small, loaded


def scale_down(recipe: Recipe) -> Recipe:
    """Cut a recipe's model, steps and data; kinds, packing, masking, special tokens and segmenter stay.

    - corpus: the first shard of each source, of a megabyte;
    - tokenizer: a vocabulary that a small text can fill;
    - dataset: a validation split that is not empty;
    - train: the family's tiny preset with the recipe's changes other than sizes, and without given weights, whose
      tokenizer is kept and whose config.json names the family if the recipe does not; 20 steps, at most 8 rows of
      128 tokens; the warm-up in proportion, and checkpoints, validation and logging at intervals that 20 steps show;
      the backend chooses the micro-batch.

    The recipe's own `[tiny]` is applied by `jprep.pipeline.recipe.with_tiny_values`.

    Raises:
        ConfigError, MachineError: the config.json of given weights cannot be read.
    """
    wanted, train = wanted_steps(recipe), recipe.train and _train(recipe.train, read=not replaces_model(recipe))
    own = recipe.tokenizer or not _init_with_tokenizer(recipe)
    return msgspec.structs.replace(
        recipe,
        name=recipe.name + SUFFIX,
        corpus=_corpus(recipe.corpus),
        tokenizer=_tokenizer(recipe.tokenizer or TokenizerConfig()) if "tokenizer" in wanted and own else None,
        dataset=_dataset(recipe.dataset or DatasetConfig()) if "dataset" in wanted else None,
        train=train,
    )


def kept_init(recipe: Recipe) -> str:
    """Return the given weights of a recipe whose tokenizer is used at any scale; "" if `[tiny]` has another model."""
    return "" if replaces_model(recipe) else _init_with_tokenizer(recipe)


def _init_with_tokenizer(recipe: Recipe) -> str:
    """Return the given weights of a recipe that may have a tokenizer beside them, which it uses; else ""."""
    model = recipe.train.model if recipe.train else ModelConfig()
    usable = model.vocabulary == "same" and not model.init.endswith(_WEIGHT_FILES)
    return model.init if usable else ""


def replaces_model(recipe: Recipe) -> bool:
    """Return whether `[tiny]` names another model, by its preset or its weights."""
    train = recipe.tiny.get("train")
    model = train.get("model") if isinstance(train, dict) else None
    return isinstance(model, dict) and not model.keys().isdisjoint(("preset", "init"))


def list_changes(recipe: Recipe, other: Recipe) -> list[str]:
    """Return a line for each key in which two recipes differ; a key that a recipe leaves out has its default."""
    return list(differences(_with_defaults(other), _with_defaults(recipe)))


def _with_defaults(recipe: Recipe) -> dict[str, Any]:
    sections: dict[str, Any] = {
        "tokenizer": recipe.tokenizer or TokenizerConfig(),
        "dataset": recipe.dataset or DatasetConfig(),
        "train": recipe.train or {},
    }
    return plain(msgspec.structs.asdict(recipe) | sections)


def _corpus(corpus: CorpusConfig) -> CorpusConfig:
    return msgspec.structs.replace(corpus, sources=[_source(source) for source in corpus.sources])


def _source(source: Source) -> Source:
    """Return the source cut to its first shard, which is small where the reader has an option for the size."""
    reader = source.reader
    if "shard_mb" in plugins().get("reader", step_name(reader)).Config.__struct_fields__:
        options = {"use": reader} if isinstance(reader, str) else reader
        reader = options | {"shard_mb": min(options.get("shard_mb", _SHARD_MB), _SHARD_MB)}
    return msgspec.structs.replace(source, reader=reader, shards=1)


def _tokenizer(config: TokenizerConfig) -> TokenizerConfig:
    alphabet = 0 if config.model in ("byte-bpe", "words") else min(config.alphabet or _ALPHABET, _ALPHABET)
    size = min(config.vocab_size, _VOCABULARY)
    return msgspec.structs.replace(config.for_small_text(), vocab_size=size, alphabet=alphabet)


def _dataset(config: DatasetConfig) -> DatasetConfig:
    if isinstance(config.validation, list) or not config.validation:
        return config
    return msgspec.structs.replace(config, validation=max(config.validation, _VALIDATION_SHARE))


def _train(train: TrainConfig, *, read: bool) -> TrainConfig:
    replace, model = msgspec.structs.replace, _model(train.model, read=read)
    return replace(
        train,
        model=model,
        rtd=train.rtd if model.init else replace(train.rtd, generator_init=""),
        batch=min(train.batch, BATCH),
        length=train.length if train.has_labelled_rows else min(train.length, LENGTH),
        steps=min(train.steps or STEPS, STEPS),
        epochs=0.0,
        schedule=replace(train.schedule, warmup=_warmup(train), decay_steps=0, restarts=[]),
        stages=[],
        checkpoint=_checkpoint(train.checkpoint, train.steps),
        validation=_validation(train.validation, train.steps),
        log_every=_interval(train.log_every, train.steps),
        push=PushConfig(),  # a trial is not published
        labelled=_labelled(train.labelled) if train.has_labelled_rows else train.labelled,
        backend={name: _without(options, *_MICRO_BATCH) for name, options in train.backend.items()},
    )


_MICRO_BATCH = ("micro_batch", "rows")  # `rows` was its name before


def _without(section: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key not in keys}


def _labelled(labelled: LabelledConfig) -> LabelledConfig:
    length = min(labelled.length, LENGTH)
    buckets = [bucket for bucket in labelled.buckets if bucket < length]
    return msgspec.structs.replace(labelled, length=length, buckets=buckets)


def _model(model: ModelConfig, *, read: bool) -> ModelConfig:
    """Return the family's tiny preset with the model's own changes other than sizes, and without initial weights.

    Args:
        model: the model of the recipe.
        read: whether config.json of the initial weights says which model it is, if the recipe does not.
    """
    chosen = PRESETS.get(model.preset, {}) | model.config
    if read and model.init and "model_type" not in chosen:
        chosen = described_model(model.init) | chosen
    kind = str(chosen.get("model_type"))
    preset = f"{kind.replace('_', '-')}{SUFFIX}"
    if kind not in FAMILIES or preset not in PRESETS:
        return model  # building the job reports what is wrong with it
    small = FAMILIES[kind].defaults | PRESETS[preset]
    kept = _without(FAMILIES[kind].defaults | chosen, *_SIZES)
    changed = {key: value for key, value in kept.items() if small.get(key) != value}
    return ModelConfig(preset=preset, config=changed)


def _warmup(train: TrainConfig) -> int:
    warmup, steps = train.schedule.warmup, train.steps
    if 0 < steps <= STEPS:
        return min(warmup, steps)
    share = max(1, warmup * STEPS // steps) if steps else _WARMUP
    return min(share, warmup, STEPS // 2)


def _checkpoint(checkpoint: CheckpointConfig, steps: int) -> CheckpointConfig:
    every = _interval(checkpoint.every_steps, steps) or (_MAX_INTERVAL if checkpoint.every_epochs else 0)
    return msgspec.structs.replace(checkpoint, every_steps=every, every_epochs=0.0, mirror="")  # that of the whole run


def _validation(validation: ValidationConfig, steps: int) -> ValidationConfig:
    batches = min(validation.batches or _VALIDATION_BATCHES, _VALIDATION_BATCHES)
    every = _interval(validation.every_steps, steps) or (_MAX_INTERVAL if validation.every_epochs else 0)
    return msgspec.structs.replace(validation, every_steps=every, every_epochs=0.0, batches=batches)


def _interval(every: int, steps: int) -> int:
    """Return an interval in proportion to the steps; 0, for never, stays 0."""
    if not every or 0 < steps <= STEPS:
        return every
    return min(max(every * STEPS // steps if steps else _MAX_INTERVAL, _MIN_INTERVAL), _MAX_INTERVAL)
