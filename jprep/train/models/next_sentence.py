"""BERT with both of its pretraining heads: transformers' class `BertForPreTraining`."""

from __future__ import annotations

from jprep.errors import ConfigError
from jprep.train.models.presets import TransformersConfig

PRETRAINING_CLASS = "BertForPreTraining"
"""The class with a masked-language-modeling head and a next-sentence head."""

NEXT_SENTENCE_LABELS = 2
"""Classes of the next-sentence head: 0 if the second segment follows the first one, 1 if it is from elsewhere."""


def has_next_sentence_head(config: TransformersConfig) -> bool:
    """Return whether a model has a next-sentence head (`bert.pooler` and `cls.seq_relationship`)."""
    return config.get("architectures") == [PRETRAINING_CLASS]


def check_next_sentence_model(kind: str, token_types: int, where: str) -> None:
    """Check that a model can learn the next-sentence task.

    Args:
        kind: its `model_type`.
        token_types: its number of token types.
        where: its place in the recipe, for errors.

    Raises:
        ConfigError: it is not BERT, or cannot tell two segments apart.
    """
    if kind != "bert":
        fix = 'use a preset such as "bert-base", or set train.next_sentence = false'
        raise ConfigError(f"next_sentence is for models of type 'bert', not {kind!r}", where=where, fix=fix)
    if token_types < NEXT_SENTENCE_LABELS:
        fix = "leave type_vocab_size out (it is 2), or set train.next_sentence = false"
        raise ConfigError("next_sentence needs two token types", where=f"{where}.config.type_vocab_size", fix=fix)
