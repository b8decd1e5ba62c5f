"""What a starter recipe can be about: sources, backends, models and tokenizers, and what suits what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from jprep.corpus.config import DEFAULT_SEGMENTER
from jprep.errors import ConfigError
from jprep.train.job.config import Task
from jprep.train.models.presets import PRESETS

SourceKind = Literal["wikipedia", "cc100", "text", "hf"]
BackendName = Literal["torch", "deepspeed", "flax", "fairseq-xla", "keras"]
TokenizerKind = Literal["bpe", "byte-bpe", "unigram", "wordpiece"]

SOURCES: dict[SourceKind, str] = {
    "wikipedia": "articles of the Japanese Wikipedia",
    "cc100": "web pages of CC-100, Japanese",
    "text": "files of your own: text, JSONL, Parquet, CSV or TSV",
    "hf": "a dataset on the Hugging Face Hub",
}
TOKENIZERS: dict[TokenizerKind, str] = {
    "bpe": "pieces of characters, bytes for rare ones",
    "byte-bpe": "pieces of bytes, as GPT-2",
    "unigram": "pieces of characters by a Unigram language model",
    "wordpiece": "pieces of words, as BERT",
}


class ModelFamily(NamedTuple):
    """What a family of models is trained for, and how.

    Attributes:
        task: the task of `[train]`.
        tokenizer: the usual kind of tokenizer.
        special: the usual set of special tokens.
        length: tokens per row.
        rate: peak learning rate of the smaller models.
        large_rate: that of the larger ones.
    """

    task: Task
    tokenizer: TokenizerKind
    special: str
    length: int
    rate: float
    large_rate: float


FAMILIES: dict[str, ModelFamily] = {
    "gpt2": ModelFamily("clm", "byte-bpe", "gpt", 1024, 6e-4, 2.5e-4),
    "llama": ModelFamily("clm", "bpe", "sentencepiece", 1024, 6e-4, 3e-4),
    "qwen3": ModelFamily("clm", "bpe", "sentencepiece", 1024, 6e-4, 3e-4),
    "qwen3_moe": ModelFamily("clm", "bpe", "sentencepiece", 1024, 6e-4, 3e-4),
    "bert": ModelFamily("mlm", "wordpiece", "bert", 512, 4e-4, 2e-4),
    "roberta": ModelFamily("mlm", "bpe", "roberta", 512, 4e-4, 2e-4),
    "modernbert": ModelFamily("mlm", "bpe", "roberta", 1024, 8e-4, 5e-4),
    "deberta-v2": ModelFamily("mlm", "wordpiece", "bert", 512, 4e-4, 2e-4),
    "electra": ModelFamily("rtd", "wordpiece", "bert", 512, 5e-4, 2e-4),
}
LARGE = ("gpt2-medium", "gpt2-large", "gpt2-xl", "llama-1b", "llama3-1b", "llama3-8b", "qwen3-0.6b", "qwen3-1.7b",
         "qwen3-4b", "qwen3-moe-30b-a3b", "bert-large", "roberta-large", "modernbert-large", "deberta-v2-large",
         "electra-base", "electra-large")  # fmt: skip
"""Presets that are trained with `large_rate`."""

_FLAX = tuple(family for family in FAMILIES if family != "qwen3_moe")


class BackendChoice(NamedTuple):
    """A backend as a starter recipe uses it.

    Attributes:
        about: what it is for.
        families: the families that it trains.
        model: the preset that is suggested.
    """

    about: str
    families: tuple[str, ...]
    model: str


BACKENDS: dict[BackendName, BackendChoice] = {
    "torch": BackendChoice("PyTorch, on CPU, GPUs or TPUs", tuple(FAMILIES), "gpt2-small"),
    "deepspeed": BackendChoice("PyTorch with ZeRO, for models that do not fit one GPU", tuple(FAMILIES), "gpt2-medium"),
    "flax": BackendChoice("JAX, on TPUs or GPUs", _FLAX, "bert-base"),
    "fairseq-xla": BackendChoice("fairseq, on TPUs through XLA", ("gpt2", "bert", "roberta"), "roberta-base"),
    "keras": BackendChoice("Keras on TensorFlow or JAX", ("gpt2", "llama", "bert", "roberta"), "bert-base"),
}


class StartingModel(NamedTuple):
    """A finished model whose training a recipe continues.

    Attributes:
        init: its folder, or its name on the Hub.
        family: its family.
        positions: how many positions it has.
        needs_words: whether its tokenizer takes the words of a corpus, and not raw text.
        segmenter: the segmenter that finds the words that it was trained on, with its options; empty if any will do.
        width: the size of a layer's output.
    """

    init: str
    family: str
    positions: int
    needs_words: bool
    segmenter: Mapping[str, Any]
    width: int


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers that a recipe is written for.

    Attributes:
        name: name of the recipe, and of its directory of outputs.
        source: where the text comes from.
        inputs: paths, patterns or URLs of the text; empty for the download of `wikipedia`, `cc100` and `hf`.
        text_field: the field or column with the text, for files of records; "" finds it.
        backend: what trains.
        model: a preset.
        start: a finished model to continue, with its tokenizer, in place of `model` and `tokenizer`.
        tokenizer: the kind of tokenizer.
        segmenter: what finds words, or `none`.
        precision: the precision of the computation: `fp32` where there is no accelerator.
    """

    name: str
    source: SourceKind = "wikipedia"
    inputs: tuple[str, ...] = ()
    text_field: str = ""
    backend: BackendName = "torch"
    model: str = "gpt2-small"
    start: StartingModel | None = None
    tokenizer: TokenizerKind = "byte-bpe"
    segmenter: str = DEFAULT_SEGMENTER
    precision: Literal["bf16", "fp32"] = "bf16"

    @property
    def family(self) -> str:
        """The model's family."""
        return self.start.family if self.start else family_of(self.model)

    @property
    def model_name(self) -> str:
        """What the model is called: a preset, a folder, or a name on the Hub."""
        return self.start.init if self.start else self.model


def family_of(model: str) -> str:
    """Return the family of a preset, e.g. `gpt2`."""
    return str(PRESETS[model]["model_type"])


def models_for(backend: BackendName) -> list[str]:
    """Return the presets that a backend trains."""
    return [name for name in PRESETS if family_of(name) in BACKENDS[backend].families]


def usual_tokenizer(model: str) -> TokenizerKind:
    """Return the kind of tokenizer that such models usually have."""
    return FAMILIES[family_of(model)].tokenizer


def check_model(backend: BackendName, model: str) -> None:
    """Refuse a model that does not exist, or that the backend does not train.

    Raises:
        ConfigError: it does not.
    """
    allowed = models_for(backend)
    if model in allowed:
        return
    what = f"{backend} does not train {model}" if model in PRESETS else f"there is no model {model!r}"
    if model in PRESETS and family_of(model) not in FAMILIES:
        what = f"starter recipes know no settings for {model}, a model of a plugin: write it into a recipe"
    raise ConfigError(what, where="--model", fix=f"one of {', '.join(allowed)}")
