"""Answers requests to an exported model, a line of JSON each: `jprep.train.inference.protocol` has their types."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from jprep.errors import InputError
from jprep.train.inference.decoding import next_token
from jprep.train.inference.protocol import Classify, FillMask, Generate, Request, Response, TokenProbability
from jprep.train.inference.server import check_request, serve

_LOADERS = {
    "LMHeadModel": transformers.AutoModelForCausalLM,
    "ForCausalLM": transformers.AutoModelForCausalLM,
    "ForMaskedLM": transformers.AutoModelForMaskedLM,
    "ForSequenceClassification": transformers.AutoModelForSequenceClassification,
}
"""What a class's name ends in → what loads it."""


def serve_model(folder: Path) -> None:
    """Answer requests from standard input until it ends; a request that cannot be answered gets an error.

    Args:
        folder: an exported directory.

    Raises:
        InputError: it holds no model that transformers can load whole.
    """
    serve(lambda: partial(predict, load(folder)))


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


def predict(model: Any, request: Request) -> Response:
    """The answer to one request.

    Raises:
        InputError: an id that the model does not have, or more of them than it has positions for.
    """
    check_request(model.config.to_dict(), request)
    with torch.inference_mode():
        if isinstance(request, FillMask):
            return _fill(model, request)
        return _generate(model, request) if isinstance(request, Generate) else _judge(model, request)


def _row(model: Any, ids: list[int]) -> torch.Tensor:
    return torch.tensor([ids], device=model.device)


def _fill(model: Any, request: FillMask) -> Response:
    places = [place for place, number in enumerate(request.ids) if number == request.mask]
    shares = model(input_ids=_row(model, request.ids)).logits[0, places].double().softmax(-1)
    found = shares.topk(min(request.top, shares.shape[-1]))
    rows = zip(found.indices.tolist(), found.values.tolist(), strict=True)
    return Response(masks=[[TokenProbability(*pair) for pair in zip(*row, strict=True)] for row in rows])


def _generate(model: Any, request: Generate) -> Response:
    found: list[int] = []
    row, cache = _row(model, request.ids), None
    for place in range(request.tokens):
        output = model(input_ids=row, past_key_values=cache, use_cache=True)
        token = next_token(output.logits[0, -1].double().cpu().numpy(), request, place)
        if token in request.end:
            break
        found.append(token)
        row, cache = _row(model, [token]), output.past_key_values
    return Response(ids=found)


def _judge(model: Any, request: Classify) -> Response:
    types = {"token_type_ids": _row(model, request.token_types)} if request.token_types else {}
    logits = model(input_ids=_row(model, request.ids), **types).logits[0].double()
    return Response(scores=(logits if model.config.problem_type == "regression" else logits.softmax(-1)).tolist())
