"""The inference server: answers requests to an exported model. `jprep.train.inference` defines their types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from jprep.train.inference.decoding import most_probable, next_token, softmax
from jprep.train.inference.exported_model import padded_length, padded_row, task_of, weight_reader
from jprep.train.inference.protocol import Classify, FillMask, Generate, Request, Response, Score
from jprep.train.inference.server import check_request, serve
from jprep.train.models import parameters
from jprep_keras.engines import compile_function
from jprep_keras.models.decoding import Cache, continue_from, empty_cache
from jprep_keras.models.model_with_loss import ModelInputs, ModelWithLoss


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
        task = task_of(self.config, folder)
        read = weight_reader(folder, self.config, task)
        names = parameters(self.config, task)
        self._weights = {name: keras.ops.convert_to_tensor(read(name), "float32") for name in names}
        self.model = ModelWithLoss(self.config, task)
        self._outputs = compile_function(self._model_outputs)
        self._continue = compile_function(self._model_continue)

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
        masks = [position for position, token in enumerate(request.ids) if token == request.mask]
        found = [self._computed(request.ids, position=position)[0] for position in masks]
        return Response(masks=[most_probable(logits, request.top) for logits in found])

    def _generate(self, request: Generate) -> Response:
        generated: list[int] = []
        cache: Any = empty_cache(self.config, padded_length(len(request.ids) + request.tokens, self.config))
        row, start, last = padded_row(request.ids, self.config), 0, len(request.ids) - 1
        for number in range(request.tokens):
            logits, cache = self._continue(self._weights, row, np.int32(start), np.int32(last), cache)
            token = next_token(_numbers(logits), request, number)
            if token in request.end:
                break
            generated.append(token)
            row, start, last = np.array([[token]], np.int32), len(request.ids) + number, 0
        return Response(ids=generated)

    def _classify(self, request: Classify) -> Response:
        scores = self._computed(request.ids, request.token_types)
        if self.config["problem_type"] != "regression":
            scores = softmax(scores)
        return Response(scores=scores.tolist())

    def _computed(self, ids: list[int], types: list[int] | None = None, position: int = 0) -> npt.NDArray[np.float64]:
        """Return the outputs of a row: (positions, ids) or (labels,)."""
        row = padded_row(ids, self.config)
        given = padded_row(types, self.config) if types else np.zeros_like(row)
        lengths, none = np.array([len(ids)], np.int32), np.zeros((1, 0), np.int32)
        inputs = ModelInputs(row, lengths, given, np.array([[position]], np.int32), none, none, none, none)
        return _numbers(self._outputs(self._weights, inputs)[0])

    def _model_outputs(self, weights: Any, inputs: ModelInputs) -> Any:
        return self.model.outputs(weights, inputs)

    def _model_continue(self, weights: Any, row: Any, start: Any, last: Any, cache: Cache) -> Any:
        return continue_from(self.model, weights, row, start, last, cache)


def _numbers(tensor: Any) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = keras.ops.convert_to_numpy(tensor).astype(np.float64)
    return found
