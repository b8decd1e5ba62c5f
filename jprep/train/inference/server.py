"""The inference server of a worker: requests from standard input, responses to standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec

from jprep.errors import InputError
from jprep.train.inference.protocol import Classify, Generate, Request, Response, Score
from jprep.train.models import max_positions

Predict = Callable[[Request], Response]


def serve(load: Callable[[], Predict]) -> None:
    """Respond to requests until standard input ends. A request that fails gets a response with an error.

    Args:
        load: loads the model, and returns the function that responds to a request.
    """
    out = _reserve_stdout()
    predict = load()
    for line in sys.stdin.buffer:
        out.write(msgspec.json.encode(_respond(predict, line)) + b"\n")
        out.flush()


def check_request(config: dict[str, Any], request: Request) -> None:
    """Check a request before it gets to the model: an index out of range can make a GPU unusable.

    Args:
        config: transformers' config of the model.
        request: the request.

    Raises:
        InputError: no ids, one that the model does not have, or more of them than it has positions.
    """
    if isinstance(request, Score):
        raise InputError("this backend cannot score rows", fix="use the backend torch")
    size = config["vocab_size"]
    if not request.ids:
        raise InputError("the text has no tokens", fix="give a text that is not empty")
    if any(not 0 <= number < size for number in request.ids):
        raise InputError(f"ids must be numbers from 0 to {size - 1}")
    if isinstance(request, Classify) and request.token_types:
        types = config["type_vocab_size"]
        if len(request.token_types) != len(request.ids) or any(not 0 <= one < types for one in request.token_types):
            raise InputError(f"token_types must be one number for each id, from 0 to {types - 1}")
    new = request.tokens if isinstance(request, Generate) else 0
    if len(request.ids) + new > (most := max_positions(config)):
        raise InputError(f"the request has {len(request.ids) + new} tokens, but the model has {most} positions")


def check_score(config: dict[str, Any], request: Score) -> None:
    """Check a request to score rows; see `check_request`.

    Args:
        config: transformers' config of the model.
        request: the request.

    Raises:
        InputError: an id that the model does not have, a row with more tokens than it has positions, or a start that is
            not in its row.
    """
    size, most = config["vocab_size"], max_positions(config)
    if not request.rows or len(request.rows) != len(request.starts):
        raise InputError("rows and starts must be lists of the same length, at least 1")
    for row, start in zip(request.rows, request.starts, strict=True):
        if not 0 < start < len(row):
            raise InputError(f"the start {start} must lie in its row of {len(row)} tokens, after the first")
        if len(row) > most:
            raise InputError(f"a row has {len(row)} tokens, but the model has {most} positions")
        if min(row) < 0 or max(row) >= size:
            raise InputError(f"ids must be numbers from 0 to {size - 1}")


def _respond(predict: Predict, line: bytes) -> Response:
    try:
        return predict(msgspec.json.decode(line, type=Request))
    except Exception as error:  # a failed request must not end the server
        return Response(error=str(error) or type(error).__name__)


def _reserve_stdout() -> BinaryIO:
    """Return standard output for responses; what libraries print goes to standard error instead."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return out
