"""The inference server: answers requests to an exported model. `jprep.train.inference` defines their types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from jprep.errors import InputError
from jprep.io.safetensors_file import TensorFiles
from jprep.train.inference.decoding import next_token
from jprep.train.inference.protocol import Classify, FillMask, Generate, Request, Response, TokenProbability
from jprep.train.inference.server import check_request, serve
from jprep.train.models import FAMILIES, max_positions, parameters
from jprep.train.models.next_sentence import has_next_sentence_head
from jprep_keras.engines import compile_function
from jprep_keras.models.decoding import Cache, continue_from, empty_cache
from jprep_keras.models.model_with_loss import ModelInputs, ModelWithLoss

SHORTEST_ROW = 16
"""Shortest length to which rows are padded. Lengths are doubled from there, so that few are compiled."""


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
        task = _task(self.config, folder)
        self._weights = _read(folder, self.config, task)
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
        return self._generate(request) if isinstance(request, Generate) else self._classify(request)

    def padded_row(self, ids: list[int]) -> npt.NDArray[np.int32]:
        """Return ids as a padded row, (1, padded length)."""
        row = np.full((1, self._padded_length(len(ids))), self.config.get("pad_token_id") or 0, np.int32)
        row[0, : len(ids)] = ids
        return row

    def _fill_mask(self, request: FillMask) -> Response:
        masks = [position for position, token in enumerate(request.ids) if token == request.mask]
        found = [self._computed(request.ids, position=position)[0] for position in masks]
        return Response(masks=[_most_probable(logits, request.top) for logits in found])

    def _generate(self, request: Generate) -> Response:
        generated: list[int] = []
        cache: Any = empty_cache(self.config, self._padded_length(len(request.ids) + request.tokens))
        row, start, last = self.padded_row(request.ids), 0, len(request.ids) - 1
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
            scores = _softmax(scores)
        return Response(scores=scores.tolist())

    def _computed(self, ids: list[int], types: list[int] | None = None, position: int = 0) -> npt.NDArray[np.float64]:
        """Return the outputs of a row: (positions, ids) or (labels,)."""
        row = self.padded_row(ids)
        given = self.padded_row(types) if types else np.zeros_like(row)
        lengths, none = np.array([len(ids)], np.int32), np.zeros((1, 0), np.int32)
        inputs = ModelInputs(row, lengths, given, np.array([[position]], np.int32), none, none, none)
        return _numbers(self._outputs(self._weights, inputs)[0])

    def _model_outputs(self, weights: Any, inputs: ModelInputs) -> Any:
        return self.model.outputs(weights, inputs)

    def _model_continue(self, weights: Any, row: Any, start: Any, last: Any, cache: Cache) -> Any:
        return continue_from(self.model, weights, row, start, last, cache)

    def _padded_length(self, length: int) -> int:
        """Return the next length that is compiled."""
        return min(max(SHORTEST_ROW, 1 << (length - 1).bit_length()), max_positions(self.config))


def _task(config: dict[str, Any], folder: Path) -> str:
    """Return the task of a config's class."""
    [name], kind = config["architectures"], config.get("problem_type")
    if has_next_sentence_head(config):
        return "mlm"
    classes = FAMILIES[config["model_type"]].classes if config["model_type"] in FAMILIES else {}
    tasks = [task for task, cls in classes.items() if cls == name and (task == "regress") == (kind == "regression")]
    if not tasks:
        fix = "use a model that jprep exported"
        raise InputError(f"inference with a {name} is not supported", where=str(folder), fix=fix)
    return tasks[0]


def _read(folder: Path, config: dict[str, Any], task: str) -> dict[str, Any]:
    """Return the weights as tensors."""
    files, found = TensorFiles([folder / "model.safetensors"]), {}
    for name, spec in parameters(config, task).items():
        if name not in files or files.entries[name][1].shape != spec.shape:
            raise InputError(f"the file lacks the tensor {name}", where=str(folder), fix="export the model again")
        array = np.concatenate([*files.blocks(name)]).reshape(spec.shape)
        found[name] = keras.ops.convert_to_tensor(array, "float32")
    return found


def _numbers(tensor: Any) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = keras.ops.convert_to_numpy(tensor).astype(np.float64)
    return found


def _most_probable(logits: npt.NDArray[np.float64], count: int) -> list[TokenProbability]:
    probabilities = _softmax(logits)
    order = np.argsort(-probabilities, kind="stable")[:count]
    return [TokenProbability(int(token), float(probabilities[token])) for token in order]


def _softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    powers = np.exp(logits - logits.max())
    probabilities: npt.NDArray[np.float64] = powers / powers.sum()
    return probabilities
