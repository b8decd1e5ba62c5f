"""Answers requests to an exported model: `jprep.train.inference.protocol` has their types."""

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

from jprep.errors import InputError
from jprep.io.safetensors_file import TensorFiles
from jprep.train.inference.decoding import next_token
from jprep.train.inference.protocol import Classify, FillMask, Generate, Request, Response, TokenProbability
from jprep.train.inference.server import check_request, serve
from jprep.train.models import FAMILIES, max_positions, parameters
from jprep_flax.models.layer_scan import KVCache
from jprep_flax.models.model_with_loss import ModelWithLoss
from jprep_flax.models.weights import load_weights

SHORTEST_ROW = 16
"""Tokens that a row is filled up to; each length is twice the one before, so that few are compiled."""


def serve_model(folder: Path) -> None:
    """Answer requests from standard input until it ends.

    Args:
        folder: an exported directory.

    Raises:
        InputError: it holds no model, or not the whole of one.
    """
    serve(lambda: InferenceModel(folder).answer_to)


class InferenceModel:
    """An exported model, ready to be asked; in fp32 whatever its file has.

    Args:
        folder: an exported directory.

    Raises:
        InputError: it is no such model, or its file lacks weights.
    """

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_bytes())
        task, config = _task(self.config, folder), self.config
        abstract = nnx.eval_shape(lambda: ModelWithLoss(config, task, dtype=jnp.float32, rngs=nnx.Rngs(0)))
        graph, empty = nnx.split(abstract)
        read = partial(_read, TensorFiles([folder / "model.safetensors"]), parameters(config, task), folder)
        self.weights = load_weights(empty, config, task, read, lambda array, _: jnp.asarray(array))
        self._hidden, self._outputs, self._logits, self._go_on = (
            jax.jit(partial(one, graph)) for one in (_hidden, _outputs, _logits, _go_on)
        )

    def answer_to(self, request: Request) -> Response:
        """The answer to one request.

        Raises:
            InputError: an id that the model does not have, or more of them than it has positions for.
        """
        check_request(self.config, request)
        if isinstance(request, FillMask):
            return self._fill(request)
        return self._generate(request) if isinstance(request, Generate) else self._judge(request)

    def _fill(self, request: FillMask) -> Response:
        hidden = self._hidden(self.weights, *self.row(request.ids), None)
        places = [place for place, number in enumerate(request.ids) if number == request.mask]
        return Response(masks=[_likeliest(self._logits_at(hidden, place), request.top) for place in places])

    def _generate(self, request: Generate) -> Response:
        found: list[int] = []
        cache = KVCache.empty(self.config, self._filled(len(request.ids) + request.tokens))
        row, start, last = self.row(request.ids)[0], 0, len(request.ids) - 1
        for place in range(request.tokens):
            hidden, cache = self._go_on(self.weights, row, start, cache)
            token = next_token(self._logits_at(hidden, last), request, place)
            if token in request.end:
                break
            found.append(token)
            row, start, last = np.array([[token]], np.int32), len(request.ids) + place, 0
        return Response(ids=found)

    def _judge(self, request: Classify) -> Response:
        row, length = self.row(request.ids)
        types = self.row(request.token_types)[0] if request.token_types else None
        scores = np.asarray(self._outputs(self.weights, row, length, types))[0].astype(np.float64)
        if self.config["problem_type"] != "regression":
            scores = _softmax(scores)
        return Response(scores=scores.tolist())

    def _logits_at(self, hidden: Array, place: int) -> npt.NDArray[np.float64]:
        return np.asarray(self._logits(self.weights, hidden, place)).astype(np.float64)

    def row(self, ids: list[int]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """A row, filled up behind, and its length."""
        row = np.full((1, self._filled(len(ids))), self.config.get("pad_token_id") or 0, np.int32)
        row[0, : len(ids)] = ids
        return row, np.array([len(ids)], np.int32)

    def _filled(self, length: int) -> int:
        """The next length that is compiled."""
        return min(max(SHORTEST_ROW, 1 << (length - 1).bit_length()), max_positions(self.config))


def _hidden(graph: Any, weights: Any, ids: Array, lengths: Array, types: Array | None) -> Array:
    found: Array = nnx.merge(graph, weights).body(ids, lengths, types, None)
    return found


def _outputs(graph: Any, weights: Any, ids: Array, lengths: Array, types: Array | None) -> Array:
    model = nnx.merge(graph, weights)
    found: Array = model.judged(model.body(ids, lengths, types, None), lengths)
    return found


def _logits(graph: Any, weights: Any, hidden: Array, place: Array) -> Array:
    found: Array = nnx.merge(graph, weights).predictor(hidden[0, place])
    return found


def _go_on(graph: Any, weights: Any, ids: Array, place: Array, cache: KVCache) -> tuple[Array, KVCache]:
    found: tuple[Array, KVCache] = nnx.merge(graph, weights).body.go_on(ids, place, cache)
    return found


def _task(config: dict[str, Any], folder: Path) -> str:
    """The task that a config's class is for."""
    [name], kind = config["architectures"], config.get("problem_type")
    classes = FAMILIES[config["model_type"]].classes if config["model_type"] in FAMILIES else {}
    tasks = [task for task, one in classes.items() if one == name and (task == "regress") == (kind == "regression")]
    if not tasks:
        fix = "give a model that jprep exported"
        raise InputError(f"a {name} cannot be asked anything", where=str(folder), fix=fix)
    return tasks[0]


def _read(files: TensorFiles, wanted: Any, folder: Path, name: str) -> npt.NDArray[np.float32]:
    shape = wanted[name].shape
    if name not in files or files.entries[name][1].shape != shape:
        raise InputError(f"the file lacks the tensor {name}", where=str(folder), fix="export the model again")
    return np.concatenate([*files.blocks(name)]).reshape(shape)


def _likeliest(logits: npt.NDArray[np.float64], most: int) -> list[TokenProbability]:
    shares = _softmax(logits)
    return [TokenProbability(int(place), float(shares[place])) for place in np.argsort(-shares, kind="stable")[:most]]


def _softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    powers = np.exp(logits - logits.max())
    found: npt.NDArray[np.float64] = powers / powers.sum()
    return found
