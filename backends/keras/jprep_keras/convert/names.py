"""The published variable names of BERT and ELECTRA, and those of transformers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

Part = Literal["discriminator", "generator"]

_OPTIMIZER = re.compile(r"(.*/)?(adam_[mv]|[mv]|global_step|beta[12]_power|loss_scale|good_steps|Adam(_1)?)(:0)?")
_LAYER = re.compile(r"/layer_(\d+)/")
_WHOLE = {
    "cls/predictions/output_bias": "cls.predictions.bias",
    "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
    "generator_predictions/output_bias": "generator_lm_head.bias",
    "discriminator_predictions/dense_1/kernel": "discriminator_predictions.dense_prediction.weight",
    "discriminator_predictions/dense_1/bias": "discriminator_predictions.dense_prediction.bias",
}
_TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")
_ENDINGS = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


class TensorSource(NamedTuple):
    """Where a tensor of transformers comes from.

    Attributes:
        variable: the checkpoint's variable.
        transposed: whether it is a kernel, whose inputs come first.
    """

    variable: str
    transposed: bool


def weight_names(variables: Iterable[str]) -> list[str]:
    """Return the variables that are weights: not those of the optimizer."""
    return sorted(name for name in variables if not _OPTIMIZER.fullmatch(name))


def model_type(variables: Iterable[str]) -> str:
    """Return `bert` or `electra`; "" if the variables are those of neither."""
    roots = {name.split("/")[0] for name in variables}
    return "electra" if "electra" in roots else "bert" if "bert" in roots else ""


def tensor_sources(variables: Iterable[str], part: Part) -> dict[str, TensorSource]:
    """Return transformers' tensors and the variables that they come from.

    Args:
        variables: the names of weights.
        part: which ELECTRA model to convert; ignored for BERT. A generator that shares its embeddings with the
            discriminator, or all of it, takes them from there.

    Returns:
        transformers' name → its source.
    """
    known = set(variables)
    chosen = {name: name for name in known} if model_type(known) == "bert" else _half(known, part)
    return {_transformers_name(plain): _source(name) for name, plain in sorted(chosen.items()) if _is_known(plain)}


def unknown_variables(variables: Iterable[str]) -> list[str]:
    """Return the variables that belong to no part of a published model."""
    roots = ("bert/", "cls/", "electra/", "generator/", "generator_predictions/", "discriminator_predictions/")
    return [name for name in variables if not name.startswith(roots) and name not in _WHOLE]


def _half(known: set[str], part: Part) -> dict[str, str]:
    """Return the variables of one ELECTRA model, with the names that they would have in a model of its own."""
    head = f"{part}_predictions/"
    chosen = {name: name for name in known if name.startswith(head)}
    own = {name for name in known if name.startswith("generator/")} if part == "generator" else set[str]()
    if not own:
        return chosen | {name: name for name in known if name.startswith("electra/")}
    shared = {name for name in known if name.startswith("electra/embeddings/")}
    covered = {_rooted(name) for name in own}
    return chosen | {name: _rooted(name) for name in own} | {name: name for name in shared if name not in covered}


def _rooted(name: str) -> str:
    return "electra/" + name.removeprefix("generator/")


def _is_known(name: str) -> bool:
    return name in _WHOLE or name.split("/")[-1] in (*_TABLES, *_ENDINGS)


def _source(name: str) -> TensorSource:
    return TensorSource(name, name.endswith("/kernel"))


def _transformers_name(name: str) -> str:
    if name in _WHOLE:
        return _WHOLE[name]
    *parents, last = _LAYER.sub(r"/layer/\1/", name).split("/")
    ending = [last, "weight"] if last in _TABLES else [_ENDINGS[last]]
    return ".".join([*parents, *ending])
