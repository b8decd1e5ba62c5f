"""Match the tensor names of a file to those of a model: prefixes, old names, tied tensors, heads of other tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from jprep.config import suggest_name
from jprep.errors import ConfigError
from jprep.train.job.config import LABELLED_TASKS
from jprep.train.models.electra import GENERATOR, half_config, is_shared
from jprep.train.models.presets import FAMILIES, TransformersConfig
from jprep.train.models.weights import HEAD_PARAMETERS, TensorSpecs, base_prefix, half_names, parameters
from jprep.train.pretrained.stored_tensors import StoredTensor

_WRAPPERS = ("module.", "_orig_mod.")
"""Prefixes that PyTorch's wrappers of a model add."""

_OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}
"""Names of a norm's tensors in TensorFlow and the first releases of transformers."""

_SAME = {
    "cls.predictions.bias": ("cls.predictions.decoder.bias",),
    "lm_head.bias": ("lm_head.decoder.bias",),
    "generator_lm_head.bias": ("generator_lm_head.decoder.bias",),
    "bert.embeddings.word_embeddings.weight": ("cls.predictions.decoder.weight",),
    "deberta.embeddings.word_embeddings.weight": ("cls.predictions.decoder.weight",),
    "roberta.embeddings.word_embeddings.weight": ("lm_head.decoder.weight",),
    "electra.embeddings.word_embeddings.weight": ("generator_lm_head.weight",),
    "model.embeddings.tok_embeddings.weight": ("decoder.weight",),
    "transformer.wte.weight": ("lm_head.weight",),
    "model.embed_tokens.weight": ("lm_head.weight",),
}
"""Other names of tensors that are tied to these."""

_OTHERS = re.compile(
    r"(.*\.)?(attn\.(masked_)?bias|position_ids|token_type_ids|rotary_emb\.inv_freq)"  # constants in older files
    r"|(.*\.)?pooler\.dense\.(weight|bias)"
)

_BOTH_HALVES = (
    "rtd starts from both halves of an ELECTRA: give the generator's folder as train.rtd.generator_init, or the "
    "model.safetensors of a checkpoint, which has both, as train.model.init"
)


def match_tensors(
    config: TransformersConfig, task: str, found: Mapping[str, StoredTensor], where: str
) -> dict[str, StoredTensor]:
    """Return the tensors of a model that a file has, by the model's names.

    A head that the file lacks entirely is left out, as files of pretrained models lack those of other tasks.

    Args:
        config: from `model_config`.
        task: the task of the job.
        found: the tensors of the file by its names.
        where: the file or folder, for errors.

    Raises:
        ConfigError: a tensor of the model is missing, or the file has one that the architecture lacks.
    """
    return _match(config, parameters(config, task), found, where, needs_head=task != "mlm")


def refuse_untied(config: TransformersConfig, task: str, found: Mapping[str, StoredTensor], where: str) -> None:
    """Refuse a file with other numbers in two tensors that are one in the model, such as an untied projection.

    Args:
        config: from `model_config`.
        task: the task of the job.
        found: the tensors of the file by its names; those of the model have dtypes in `DTYPE_BYTES`.
        where: the file, for errors.

    Raises:
        ConfigError: it has.
    """
    if task in LABELLED_TASKS:  # their models have no output projection to the vocabulary
        return
    for own, other in _tied_pairs(parameters(config, task), found, base_prefix(config["model_type"])):
        if not found[own].equals(found[other], own):
            causal = FAMILIES[config["model_type"]].causal
            fix = "set train.model.config.tie_word_embeddings = false" if causal else "use a model that ties them"
            raise ConfigError(f"{other!r} differs from {own!r}, to which the model ties it", where=where, fix=fix)


def _tied_pairs(tensors: TensorSpecs, found: Iterable[str], base: str) -> Iterator[tuple[str, str]]:
    """Yield the names in a file of two tensors that are one in the model."""
    plain = {_modern(name, {}): name for name in found}
    for name in tensors:
        own = plain.get(name) or plain.get(name.removeprefix(base))
        others = [plain[other] for other in _SAME.get(name, ()) if other in plain and other not in tensors]
        yield from ((own, other) for other in others if own)


def match_halves(
    config: TransformersConfig,
    discriminator: Mapping[str, StoredTensor],
    generator: Mapping[str, StoredTensor],
    where: tuple[str, str],
) -> dict[str, StoredTensor]:
    """Return the tensors of both halves of an ELECTRA from two files. The embeddings are the discriminator's.

    Args:
        config: from `model_config` for `rtd`.
        discriminator: the tensors of the discriminator's file by its names.
        generator: the tensors of the generator's file by its names.
        where: the two files or folders, for errors.

    Raises:
        ConfigError: a tensor is missing, or a file has one that the architecture lacks.
    """
    own, names = half_names(config, "discriminator"), half_names(config, "generator")
    tensors, small = parameters(config, "rtd"), half_config(config, "generator")
    first = _match(half_config(config, "discriminator"), {name: tensors[name] for name in own}, discriminator, where[0])
    second = _match(small, parameters(small, "mlm"), generator, where[1])
    return first | {names[name]: tensor for name, tensor in second.items() if not is_shared(name)}


def _match(
    config: TransformersConfig,
    tensors: TensorSpecs,
    found: Mapping[str, StoredTensor],
    where: str,
    *,
    needs_head: bool = True,
) -> dict[str, StoredTensor]:
    """Return the given tensors of a model that a file has; see `match_tensors`."""
    endings = {old: new for old, new in _OLD_ENDINGS.items() if not any(name.endswith(old) for name in tensors)}
    base, plain = base_prefix(config["model_type"]), {_modern(name, endings): name for name in found}
    names = {name: _find(name, plain, base) for name in tensors}
    headless = not any(names[name] for name in tensors if not name.startswith(base))
    for name, tensor in tensors.items():
        optional = tensor.head or (headless and not needs_head and not name.startswith(base))
        if not names[name] and not optional:
            fix = _BOTH_HALVES if name.startswith(f"{GENERATOR}.") else suggest_name(name, plain)
            raise ConfigError(f"there is no tensor {name!r}", where=where, fix=fix)
    used = {plain[one] for one in names.values() if one}
    _refuse_strangers(config, (name for name, other in plain.items() if other not in used), plain, where)
    return {name: found[plain[one]] for name, one in names.items() if one}


def head_tensors(config: TransformersConfig, tensors: TensorSpecs) -> set[str]:
    """Return the names of a classification head's tensors that depend on the labels.

    Those that the head for pretraining has, too, do not: ModernBERT's layer before the last one.
    """
    plain, kind = {key: value for key, value in config.items() if key != HEAD_PARAMETERS}, config["model_type"]
    kept = parameters(plain, "clm" if FAMILIES[kind].causal else "mlm")
    head = (name for name, tensor in tensors.items() if tensor.head and name not in kept)
    return {name for name in head if not name.startswith(base_prefix(kind))}


def _modern(name: str, old_endings: Mapping[str, str]) -> str:
    for wrapper in _WRAPPERS:
        name = name.removeprefix(wrapper)
    for old, new in old_endings.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _find(name: str, plain: Mapping[str, str], base: str) -> str:
    """Return the name of a tensor in the file, or ""."""
    candidates = (name, name.removeprefix(base), *_SAME.get(name, ()))
    return next((one for one in candidates if one in plain), "")


def _refuse_strangers(config: TransformersConfig, left: Iterable[str], plain: Mapping[str, str], where: str) -> None:
    """Refuse tensors that the architecture lacks. Heads of other tasks, outside of the base model, are ignored."""
    base, whole = base_prefix(config["model_type"]), {"id2label": ("",)}
    config = {key: value for key, value in config.items() if key != HEAD_PARAMETERS}
    tasks = [task for task in FAMILIES[config["model_type"]].classes if task != "rtd" or GENERATOR in config]
    known = {name for task in tasks for name in parameters(config | whole, task)}
    known |= {name.removeprefix(base) for name in known} | {other for others in _SAME.values() for other in others}
    prefixed = any(name.startswith(base) for name in plain)
    for name in sorted(left):
        inside = name.startswith(base) or not prefixed
        if inside and name not in known and not _OTHERS.fullmatch(name):
            raise ConfigError(f"the model has no tensor {name!r}", where=where, fix=suggest_name(name, known))
