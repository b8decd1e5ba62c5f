"""The inference server: answers requests to an exported model. `jprep.train.inference` defines their types."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from flax import nnx
from jax import Array

from jprep.train.inference.decoding import most_probable, next_token, softmax
from jprep.train.inference.exported_model import padded_length, padded_row, task_of, weight_reader
from jprep.train.inference.protocol import Classify, FillMask, Generate, Request, Response, Score
from jprep.train.inference.server import check_request, serve
from jprep_flax.models.layer_scan import KVCache
from jprep_flax.models.model_with_loss import ModelWithLoss
from jprep_flax.models.weights import load_weights


def serve_model(folder: Path) -> None:
    """Answer requests from standard input until it ends.

    Args:
        folder: an exported directory.

    Raises:
        InputError: the directory holds no model, or an incomplete one.
    """
    serve(lambda: InferenceModel(folder).predict)


class InferenceModel:
    """An exported model, loaded for inference in fp32 whatever the type of its file.

    Args:
        folder: an exported directory.

    Raises:
        InputError: the directory holds no model that jprep exported, or weights are missing.
    """

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_bytes())
        task, config = task_of(self.config, folder), self.config
        abstract = nnx.eval_shape(lambda: ModelWithLoss(config, task, dtype=jnp.float32, rngs=nnx.Rngs(0)))
        self._model = abstract
        graph, empty = nnx.split(abstract)
        read = weight_reader(folder, config, task)
        self.weights = load_weights(empty, config, task, read, lambda array, _: jnp.asarray(array.whole()))
        self._hidden, self._outputs, self._logits, self._continue = (
            jax.jit(partial(function, graph)) for function in (_hidden, _outputs, _logits, _continue)
        )

    def predict(self, request: Request) -> Response:
        """Answer one request.

        Raises:
            InputError: an id is not in the vocabulary, or there are more ids than positions.
        """
        check_request(self.config, request)
        if isinstance(request, FillMask):
            return self._fill_mask(request)
        assert not isinstance(request, Score)  # `check_request` has refused it
        return self._generate(request) if isinstance(request, Generate) else self._classify(request)

    def _fill_mask(self, request: FillMask) -> Response:
        hidden = self._hidden(self.weights, *self.padded_row(request.ids), None)
        masks = [position for position, token in enumerate(request.ids) if token == request.mask]
        return Response(masks=[most_probable(self._logits_at(hidden, position), request.top) for position in masks])

    def _generate(self, request: Generate) -> Response:
        if not hasattr(self._model.base_model, "continue_from"):
            return self._generate_without_cache(request)
        generated: list[int] = []
        cache = KVCache.empty(self.config, padded_length(len(request.ids) + request.tokens, self.config))
        row, start, last = self.padded_row(request.ids)[0], 0, len(request.ids) - 1
        for number in range(request.tokens):
            hidden, cache = self._continue(self.weights, row, start, cache)
            token = next_token(self._logits_at(hidden, last), request, number)
            if token in request.end:
                break
            generated.append(token)
            row, start, last = np.array([[token]], np.int32), len(request.ids) + number, 0
        return Response(ids=generated)

    def _generate_without_cache(self, request: Generate) -> Response:
        """Compute the whole row for each token, with models of plugins that keep nothing of earlier ones."""
        generated: list[int] = []
        for number in range(request.tokens):
            ids = [*request.ids, *generated]
            hidden = self._hidden(self.weights, *self.padded_row(ids), None)
            token = next_token(self._logits_at(hidden, len(ids) - 1), request, number)
            if token in request.end:
                break
            generated.append(token)
        return Response(ids=generated)

    def _classify(self, request: Classify) -> Response:
        row, length = self.padded_row(request.ids)
        types = self.padded_row(request.token_types)[0] if request.token_types else None
        scores = np.asarray(self._outputs(self.weights, row, length, types))[0].astype(np.float64)
        if self.config["problem_type"] != "regression":
            scores = softmax(scores)
        return Response(scores=scores.tolist())

    def _logits_at(self, hidden: Array, position: int) -> npt.NDArray[np.float64]:
        return np.asarray(self._logits(self.weights, hidden, position)).astype(np.float64)

    def padded_row(self, ids: list[int]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return ids as a padded row, (1, padded length), and its length, (1,)."""
        return padded_row(ids, self.config), np.array([len(ids)], np.int32)


def _hidden(graph: Any, weights: Any, ids: Array, lengths: Array, types: Array | None) -> Array:
    hidden: Array = nnx.merge(graph, weights).base_model(ids, lengths, types, None)
    return hidden


def _outputs(graph: Any, weights: Any, ids: Array, lengths: Array, types: Array | None) -> Array:
    model = nnx.merge(graph, weights)
    outputs: Array = model.classify(model.base_model(ids, lengths, types, None), lengths)
    return outputs


def _logits(graph: Any, weights: Any, hidden: Array, position: Array) -> Array:
    logits: Array = nnx.merge(graph, weights).lm_logits(hidden[0, position])
    return logits


def _continue(graph: Any, weights: Any, ids: Array, position: Array, cache: KVCache) -> tuple[Array, KVCache]:
    result: tuple[Array, KVCache] = nnx.merge(graph, weights).base_model.continue_from(ids, position, cache)
    return result
