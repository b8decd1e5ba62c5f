"""A job's model and its loss as a pure function: weights and inputs in, the sum of their losses out."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.errors import MachineError
from jprep.train.hooks.loading import NO_HOOKS, LoadedHooks
from jprep.train.models import parameters
from jprep.train.models.next_sentence import has_next_sentence_head
from jprep_keras.models.backbones import build_backbone
from jprep_keras.models.custom_head import CustomHead
from jprep_keras.models.custom_loss import LossBatch, call_loss
from jprep_keras.models.documents import document_states
from jprep_keras.models.heads import (
    CAUSAL,
    ClassifierHead,
    build_classifier,
    build_lm_head,
    build_next_sentence_head,
)
from jprep_keras.models.loss import class_loss, score_loss, token_loss
from jprep_keras.models.variables import (
    Value,
    Weights,
    backbone_values,
    classifier_values,
    lm_head_values,
    next_sentence_values,
    pad_ids,
)

POLICIES = {"fp32": "float32", "bf16": "mixed_bfloat16", "fp16": "mixed_float16"}
"""A job's precision → Keras's policy."""


class ModelInputs(NamedTuple):
    """Rows of a batch.

    Attributes:
        ids: int32, (rows, length).
        lengths: int32, (rows,).
        types: token types, int32, (rows, length); zeros for models that have none.
        positions: of tokens that have a label, int32, (rows, labels); no column for `clm`, `classify` and `regress`.
        labels: int32, (rows, labels), `IGNORE_INDEX` where there is none. For `clm`, (rows, length): the next token.
            For `classify` classes, int32, and for `regress` scores, float32, (rows,).
        weight: float32, (rows,): 1 for a row that counts, 0 for one that only fills the shape.
        next_sentence: classes of sentence pairs, int32, (rows,); zeros for other rows.
        documents: the document of each token, int32, (rows, length): tokens see those of their own only; no column if
            they see their whole row.
    """

    ids: Any
    lengths: Any
    types: Any
    positions: Any
    labels: Any
    weight: Any
    next_sentence: Any
    documents: Any


class LossPart(NamedTuple):
    """A micro-batch's part of the loss of the global batch.

    Attributes:
        loss: its losses, divided by the number of labels.
        count: the count of a loss hook; 0 without one.
    """

    loss: Any
    count: Any


class ModelWithLoss:
    """A model and its loss.

    Args:
        config: the whole config of transformers.
        task: `clm`, `mlm`, `classify` or `regress`.
        precision: the job's precision.
        hooks: the job's hooks.
        padded: rows of the token embedding: the number of ids, or more, which take no part in the softmax.
        z_loss: factor of the squared logarithm of the softmax's denominator in training; see docs/training.md.

    Attributes:
        backbone: KerasHub's model without a head. Its own values are not used.
        has_loss_hook: whether the loss of a global batch is divided by the count of a hook.
        seeds: number of random generators.
    """

    def __init__(
        self,
        config: dict[str, Any],
        task: str,
        precision: str = "fp32",
        hooks: LoadedHooks = NO_HOOKS,
        padded: int = 0,
        z_loss: float = 0.0,
    ) -> None:
        dtype, labelled = POLICIES[precision], task not in ("clm", "mlm")
        self.config, self.task, self.model_type = config, task, config["model_type"]
        self._loss_hook, self.has_loss_hook, self._z_loss = hooks.loss, hooks.loss is not None, z_loss
        if labelled:
            config = config | {"tie_word_embeddings": True}  # there is no output embedding
        config = config | {"vocab_size": max(padded, config["vocab_size"])}
        self.backbone = build_backbone(config, dtype)
        self._lm_head = None if labelled else build_lm_head(self.backbone, config, dtype)
        self._custom_head = CustomHead(hooks.head, config) if hooks.head else None
        self._classifier = build_classifier(config, dtype) if labelled and not hooks.head else None
        self._pairs = build_next_sentence_head(config, dtype) if has_next_sentence_head(config) else None
        values = backbone_values(config) | (classifier_values(config) if self._classifier else {})
        values |= lm_head_values(config) if self._lm_head is not None else {}
        values |= next_sentence_values() if self._pairs is not None else {}
        values = pad_ids(values, config["vocab_size"])
        variables = _variables(self.backbone, *self._head_layers())
        self._values = _pair(variables, values)
        if self._custom_head:
            self._values += self._custom_head.values
            variables += self._custom_head.seeds
        self._seeds = [variable for variable in variables if not variable.trainable]
        specs = parameters(self.config, task) if labelled else {}
        self._fixed_rows = {name: spec.zero_row for name, spec in specs.items() if spec.zero_row >= 0}

    @property
    def seeds(self) -> int:
        """Number of random generators, each for one dropout."""
        return len(self._seeds)

    def mean_loss(self, weights: Weights, inputs: ModelInputs, seeds: Any, factors: Any) -> LossPart:
        """Return this micro-batch's part of the loss of the global batch.

        Args:
            weights: weights by transformers' names.
            inputs: the rows.
            seeds: states of the random generators, (generators, 2).
            factors: of the global batch: 1 / number of labels and 1 / number of rows; more values are not used.
        """
        loss, outputs, count = self(weights, inputs, seeds)
        loss = loss * factors[0]
        if self._pairs is not None:
            loss = loss + class_loss(outputs, inputs.next_sentence, inputs.weight) * factors[1]
        return LossPart(loss, count)

    def __call__(self, weights: Weights, inputs: ModelInputs, seeds: Any = None) -> tuple[Any, Any, Any]:
        """Return the sum of the losses, the outputs of rows, (rows, labels), and a loss hook's count; all fp32.

        Outputs are those of `classify` and `regress`, and of the next-sentence head, whose loss is not in the sum: it
        is divided by the number of rows, not of labels. The count is 0 without a hook: labels are counted.

        Args:
            weights: weights by transformers' names.
            inputs: the rows.
            seeds: states of the random generators, (generators, 2), for training; None drops nothing.
        """
        with self.scope(weights, seeds):
            hidden = self.hidden_states(inputs, training=seeds is not None)
            if self.task in ("clm", "mlm"):
                loss, count = self._token_loss(hidden, inputs, self._z_loss if seeds is not None else 0.0)
                return loss, self._next_sentence(hidden, inputs), count
            outputs = self._outputs(hidden, inputs, training=seeds is not None)
            loss, count = self._row_loss(outputs, inputs)
            return loss, outputs, count

    def outputs(self, weights: Weights, inputs: ModelInputs) -> Any:
        """Return what `infer` needs, in fp32.

        `mlm`: logits at `positions`, (rows, positions, ids); `clm`: logits of all tokens, (rows, length, ids);
        `classify` and `regress`: the outputs, (rows, labels).
        """
        with self.scope(weights):
            hidden = self.hidden_states(inputs, training=False)
            if self.task in ("clm", "mlm"):
                return self._logits(hidden, inputs)
            return self._outputs(hidden, inputs, training=False)

    def hidden_states(self, inputs: ModelInputs, *, training: bool) -> Any:
        """Return the outputs of the backbone, within `scope`: hidden states only for rows of several documents."""
        if inputs.documents.shape[1] != 0:
            return document_states(self.backbone, self.model_type, inputs, training=training)
        given = {"token_ids": inputs.ids, "padding_mask": _token_mask(inputs), "segment_ids": inputs.types}
        return self.backbone({name: given[name] for name in self.backbone.input}, training=training)

    def scope(self, weights: Weights, seeds: Any = None) -> Any:
        """Return a context in which the variables have these values."""
        weights = {**weights, **{name: _fix_row(weights[name], row) for name, row in self._fixed_rows.items()}}
        values = [(variable, value(weights)) for variable, value in self._values]
        if seeds is not None:
            values += [(one, ops.cast(seeds[number], one.dtype)) for number, one in enumerate(self._seeds)]
        return keras.StatelessScope(state_mapping=values)

    def _logits(self, hidden: Any, inputs: ModelInputs) -> Any:
        if self._lm_head is None:
            logits = self.backbone.token_embedding(hidden, reverse=True)
        else:
            logits = self._lm_head(_sequence(hidden), inputs.positions)
        return ops.cast(logits[..., : self.config["vocab_size"]], "float32")

    def _token_loss(self, hidden: Any, inputs: ModelInputs, z_loss: float) -> tuple[Any, Any]:
        logits = self._logits(hidden, inputs)
        if not self._loss_hook:
            return token_loss(logits, inputs.labels, z_loss), ops.zeros(())
        known = inputs.labels != IGNORE_INDEX
        return call_loss(self._loss_hook, logits, ops.where(known, inputs.labels, 0), self._loss_batch(inputs, known))

    def _row_loss(self, outputs: Any, inputs: ModelInputs) -> tuple[Any, Any]:
        if not self._loss_hook:
            loss = class_loss if self.task == "classify" else score_loss
            return loss(outputs, inputs.labels, inputs.weight), ops.zeros(())
        return call_loss(self._loss_hook, outputs, inputs.labels, self._loss_batch(inputs, inputs.weight > 0))

    def _loss_batch(self, inputs: ModelInputs, known: Any) -> LossBatch:
        types = inputs.types if self.config.get("type_vocab_size", 0) > 1 else None
        return LossBatch(inputs.ids, _token_mask(inputs), types, known)

    def _outputs(self, hidden: Any, inputs: ModelInputs, *, training: bool) -> Any:
        """Return the outputs: the first token of a row decides; for causal models, the last one."""
        if self._custom_head:
            return self._custom_head(_sequence(hidden), _token_mask(inputs), training=training)
        if self.model_type == "bert":
            chosen = hidden["pooled_output"]
        elif self.model_type in CAUSAL:
            last = ops.maximum(inputs.lengths - 1, 0)
            chosen = ops.take_along_axis(hidden, last[:, None, None], axis=1)[:, 0]
        else:
            chosen = _sequence(hidden)[:, 0]
        assert self._classifier is not None
        return ops.cast(self._classifier(chosen, training), "float32")

    def _next_sentence(self, hidden: Any, inputs: ModelInputs) -> Any:
        """Return the logits of both classes, (rows, 2); (rows, 0) without that head."""
        if self._pairs is None:
            return ops.zeros((ops.shape(inputs.ids)[0], 0))
        return ops.cast(self._pairs(hidden["pooled_output"]), "float32")

    def _head_layers(self) -> list[keras.layers.Layer]:
        if isinstance(self._classifier, ClassifierHead):
            return self._classifier.layers
        return [layer for layer in (self._lm_head, self._pairs) if layer is not None]


def _sequence(hidden: Any) -> Any:
    """Return the hidden states of all tokens."""
    return hidden["sequence_output"] if isinstance(hidden, dict) else hidden


def _fix_row(table: Any, row: int) -> Any:
    """Keep a row of an embedding, that of padding, from being trained by lookups, as PyTorch does.

    A row of the batch without tokens is classified from it.
    """
    own = ops.arange(ops.shape(table)[0])[:, None] == row
    return ops.where(own, ops.stop_gradient(table), table)


def _token_mask(inputs: ModelInputs) -> Any:
    """Return 1 for tokens and 0 for padding, int32, (rows, length)."""
    return ops.cast(ops.arange(ops.shape(inputs.ids)[1])[None] < inputs.lengths[:, None], "int32")


def _variables(*layers: Any) -> list[Any]:
    """Return the variables of some layers, those that layers share once."""
    return list({id(variable): variable for layer in layers for variable in layer.variables}.values())


def _pair(variables: list[Any], values: dict[str, Value]) -> list[tuple[Any, Value]]:
    """Return each variable that is trained with the function of its value.

    Raises:
        MachineError: KerasHub's model has different variables than this module knows.
    """
    found = {}
    for variable in variables:
        path = _known_path(variable.path, values)
        if variable.trainable and path:
            found[path] = variable
        elif variable.trainable and "pooled_dense" not in variable.path:
            raise _unknown(variable.path)
    if missing := values.keys() - found.keys():
        raise _unknown(min(missing))
    return [(variable, values[path]) for path, variable in found.items()]


def _known_path(path: str, values: dict[str, Value]) -> str:
    """Return the path of a variable without the names of the layers around its own."""
    parts = path.split("/")
    return next((name for start in range(len(parts)) if (name := "/".join(parts[start:])) in values), "")


def _unknown(path: str) -> MachineError:
    fix = "jprep backends install keras --restart --constraint backends/keras/constraints.txt"
    return MachineError(f"this version of KerasHub has another model: {path}", where="keras-hub", fix=fix)
