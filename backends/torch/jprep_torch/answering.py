"""Answers requests to an exported model, a line of JSON each: `jprep.train.inference` has their types."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import torch
import transformers

from jprep.errors import InputError
from jprep.train.decoding import next_token
from jprep.train.inference import Answer, FillMask, Generate, Guess, Judge, Request
from jprep.train.models import positions

_LOADERS = {
    "LMHeadModel": transformers.AutoModelForCausalLM,
    "ForCausalLM": transformers.AutoModelForCausalLM,
    "ForMaskedLM": transformers.AutoModelForMaskedLM,
    "ForSequenceClassification": transformers.AutoModelForSequenceClassification,
}
"""What a class's name ends in → what loads it."""


def answer(folder: Path) -> None:
    """Answer requests from standard input until it ends; a request that cannot be answered gets an error.

    Args:
        folder: an exported directory.

    Raises:
        InputError: it holds no model that transformers can load whole.
    """
    out = _answers_only()
    model = load(folder)
    for line in sys.stdin.buffer:
        out.write(msgspec.json.encode(_answered(model, line)) + b"\n")
        out.flush()


def load(folder: Path) -> Any:
    """An exported model, ready to be asked, on a GPU where there is one; in fp32 whatever its file has.

    Raises:
        InputError: it is no such model, or its file lacks weights.
    """
    [name] = json.loads((folder / "config.json").read_bytes())["architectures"]
    loader = next((each for end, each in _LOADERS.items() if name.endswith(end)), None)
    if loader is None:
        raise InputError(
            f"a {name} cannot be asked anything", where=str(folder), fix="give a model that jprep exported"
        )
    transformers.utils.logging.set_verbosity_error()
    model, about = loader.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, use_safetensors=True, output_loading_info=True
    )
    if lacking := [*about["missing_keys"], *about["mismatched_keys"]]:
        raise InputError(f"the file lacks the tensor {lacking[0]}", where=str(folder), fix="export the model again")
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


def answer_to(model: Any, request: Request) -> Answer:
    """The answer to one request.

    Raises:
        InputError: an id that the model does not have, or more of them than it has positions for.
    """
    _check(model, request)
    with torch.inference_mode():
        if isinstance(request, FillMask):
            return _fill(model, request)
        return _generate(model, request) if isinstance(request, Generate) else _judge(model, request)


def _answered(model: Any, line: bytes) -> Answer:
    try:
        return answer_to(model, msgspec.json.decode(line, type=Request))
    except Exception as error:  # whatever one request meets, the next is another one
        return Answer(error=str(error) or type(error).__name__)


def _answers_only() -> BinaryIO:
    """Standard output for answers; what libraries print there goes to standard error instead."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return out


def _check(model: Any, request: Request) -> None:
    """An index out of range would leave a GPU unusable, so it never gets there."""
    size = model.config.vocab_size
    if not request.ids or any(not 0 <= number < size for number in request.ids):
        raise InputError(f"ids are one or more numbers from 0 to below {size}")
    if isinstance(request, Judge) and request.token_types:
        types = model.config.type_vocab_size
        if len(request.token_types) != len(request.ids) or any(not 0 <= one < types for one in request.token_types):
            raise InputError(f"token types are one for each id, from 0 to below {types}")
    new = request.tokens if isinstance(request, Generate) else 0
    if len(request.ids) + new > (most := positions(model.config.to_dict())):
        raise InputError(f"{len(request.ids) + new} tokens, and the model has {most} positions")


def _row(model: Any, ids: list[int]) -> torch.Tensor:
    return torch.tensor([ids], device=model.device)


def _fill(model: Any, request: FillMask) -> Answer:
    places = [place for place, number in enumerate(request.ids) if number == request.mask]
    shares = model(input_ids=_row(model, request.ids)).logits[0, places].double().softmax(-1)
    found = shares.topk(min(request.top, shares.shape[-1]))
    rows = zip(found.indices.tolist(), found.values.tolist(), strict=True)
    return Answer(masks=[[Guess(*pair) for pair in zip(*row, strict=True)] for row in rows])


def _generate(model: Any, request: Generate) -> Answer:
    found: list[int] = []
    row, cache = _row(model, request.ids), None
    for place in range(request.tokens):
        output = model(input_ids=row, past_key_values=cache, use_cache=True)
        token = next_token(output.logits[0, -1].double().cpu().numpy(), request, place)
        if token in request.end:
            break
        found.append(token)
        row, cache = _row(model, [token]), output.past_key_values
    return Answer(ids=found)


def _judge(model: Any, request: Judge) -> Answer:
    types = {"token_type_ids": _row(model, request.token_types)} if request.token_types else {}
    logits = model(input_ids=_row(model, request.ids), **types).logits[0].double()
    return Answer(scores=(logits if model.config.problem_type == "regression" else logits.softmax(-1)).tolist())
