"""The worker's side of `jprep.train.inference.protocol`: requests from standard input, answers to standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec

from jprep.errors import InputError
from jprep.train.inference.protocol import Classify, Generate, Request, Response
from jprep.train.models import max_positions

Predict = Callable[[Request], Response]


def serve(load: Callable[[], Predict]) -> None:
    """Answer requests until standard input ends; a request that cannot be answered gets an error.

    Args:
        load: loads a model, and gives what answers one request.
    """
    out = _answers_only()
    answer_to = load()
    for line in sys.stdin.buffer:
        out.write(msgspec.json.encode(_answered(answer_to, line)) + b"\n")
        out.flush()


def check_request(config: dict[str, Any], request: Request) -> None:
    """An index out of range would leave a GPU unusable, or be answered with nonsense, so it never gets to a model.

    Args:
        config: transformers' config of the model.
        request: what it is asked.

    Raises:
        InputError: an id that the model does not have, or more of them than it has positions for.
    """
    size = config["vocab_size"]
    if not request.ids or any(not 0 <= number < size for number in request.ids):
        raise InputError(f"ids are one or more numbers from 0 to below {size}")
    if isinstance(request, Classify) and request.token_types:
        types = config["type_vocab_size"]
        if len(request.token_types) != len(request.ids) or any(not 0 <= one < types for one in request.token_types):
            raise InputError(f"token types are one for each id, from 0 to below {types}")
    new = request.tokens if isinstance(request, Generate) else 0
    if len(request.ids) + new > (most := max_positions(config)):
        raise InputError(f"{len(request.ids) + new} tokens, and the model has {most} positions")


def _answered(answer_to: Predict, line: bytes) -> Response:
    try:
        return answer_to(msgspec.json.decode(line, type=Request))
    except Exception as error:  # whatever one request meets, the next is another one
        return Response(error=str(error) or type(error).__name__)


def _answers_only() -> BinaryIO:
    """Standard output for answers; what libraries print there goes to standard error instead."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return out
