"""The inference server: answers requests to an exported model on standard input and output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from jprep.errors import InputError
from jprep.io.safetensors_file import TensorFiles
from jprep.train.inference.decoding import next_token
from jprep.train.inference.protocol import Generate, Request, Response
from jprep.train.inference.server import check_request, serve
from jprep_new_backend.models.language_model import LanguageModel


def serve_model(folder: Path) -> None:
    """Answer requests from standard input until it ends.

    Args:
        folder: an exported directory.
    """
    serve(lambda: load_model(folder))


def load_model(folder: Path) -> Callable[[Request], Response]:
    """Load an exported model, and return the function that answers a request."""
    config = json.loads((folder / "config.json").read_bytes())
    files = TensorFiles([folder / "model.safetensors"])
    weights = {name: np.concatenate(list(files.blocks(name))).reshape(files.entries[name][1].shape) for name in files}
    model = LanguageModel(config, weights)

    def predict(request: Request) -> Response:
        check_request(config, request)
        if not isinstance(request, Generate):
            raise InputError("this backend only generates text", fix="use another backend for this model")
        return Response(ids=generate(model, request))

    return predict


def generate(model: LanguageModel, request: Generate) -> list[int]:
    """Return the tokens that follow a row."""
    row = list(request.ids)
    for position in range(request.tokens):
        logits, _, _ = model.forward(np.array([row]))
        token = next_token(logits[0, -1].astype(np.float64), request, position)
        if token in request.end:
            break
        row.append(token)
    return row[len(request.ids) :]
