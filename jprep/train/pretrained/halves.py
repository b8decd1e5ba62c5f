"""Start an ELECTRA from two folders: the discriminator's, which is `model.init`, and the generator's."""

from __future__ import annotations

from pathlib import Path

import msgspec

from jprep.errors import ConfigError
from jprep.train.job.config import TrainConfig
from jprep.train.job.rtd import GENERATOR_KEYS, RtdConfig
from jprep.train.models.presets import FAMILIES
from jprep.train.pretrained.config import PretrainedConfig, read_pretrained_config
from jprep.train.pretrained.weights import weights_sha256

WHERE = "train.rtd.generator_init"

_KIND = "electra"
_SHARED = ("embedding_size", "max_position_embeddings", "type_vocab_size")
"""Values of the config that the embeddings depend on, which both halves share."""


def with_generator(train: TrainConfig, discriminator: PretrainedConfig | None) -> RtdConfig:
    """Return `[train.rtd]` with the sizes of the generator that `generator_init` names.

    Args:
        train: the section; its `generator_init` is a local path.
        discriminator: the config of `model.init`; None if that is a file of weights.

    Raises:
        ConfigError: there is no such folder, it is not an ELECTRA, or its embeddings differ from the discriminator's.
    """
    rtd = train.rtd
    if not rtd.generator_init or train.task != "rtd":
        return rtd
    given = _read(rtd.generator_init)
    described = FAMILIES[_KIND].defaults | given.values
    for key, value in rtd.generator.items():
        if value != described[key]:
            what = f"{key} is {value!r} in train.rtd.generator, but {described[key]!r} in the generator's config.json"
            raise ConfigError(what, where=str(given.path), fix="remove it: config.json describes the given weights")
    if discriminator:
        _refuse_other_embeddings(given, discriminator)
    return msgspec.structs.replace(rtd, generator={key: described[key] for key in GENERATOR_KEYS})


def hash_generator(train: TrainConfig) -> dict[str, str]:
    """Return the hash of the generator's weights, which enters the job's fingerprint; nothing if none are given."""
    given = train.task == "rtd" and train.rtd.generator_init
    return {"generator_init": weights_sha256(Path(given))} if given else {}


def _read(init: str) -> PretrainedConfig:
    if not Path(init).is_dir():
        fix = "give a folder with config.json and weights, or a name on the Hub, e.g. google/electra-small-generator"
        raise ConfigError(f"there is no folder {init!r}", where=WHERE, fix=fix)
    given = read_pretrained_config(Path(init))
    if given.model_type != _KIND:
        what = f"this is a model of type {given.model_type!r}, not the generator of an ELECTRA"
        raise ConfigError(what, where=str(given.path), fix="e.g. google/electra-small-generator")
    return given


def _refuse_other_embeddings(generator: PretrainedConfig, discriminator: PretrainedConfig) -> None:
    """Raise ConfigError if two configs do not describe halves that can share their embeddings."""
    one, two = (
        FAMILIES[_KIND].defaults | given.values | {"vocab_size": given.vocab_size}
        for given in (generator, discriminator)
    )
    for key in ("vocab_size", *_SHARED):
        if one[key] != two.get(key):
            what = f"{key} is {one[key]!r} in the generator's config.json, but {two.get(key)!r} in the discriminator's"
            fix = "give both halves of the same ELECTRA: they share their embeddings"
            raise ConfigError(what, where=str(generator.path), fix=fix)
