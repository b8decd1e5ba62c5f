"""The inference server: answers requests to an exported model with fairseq's own class."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jprep.errors import InputError
from jprep.train.inference.decoding import most_probable, next_token
from jprep.train.inference.protocol import FillMask, Generate, Request, Response
from jprep.train.inference.server import check_request, serve
from jprep_fairseq_xla.convert.exported_model import read_exported_model
from jprep_fairseq_xla.planning.fairseq_options import TASKS, model_options
from jprep_fairseq_xla.worker.patches import import_fairseq


def serve_model(folder: Path) -> None:
    """Answer requests from standard input until it ends, on a CPU.

    Args:
        folder: an exported directory.

    Raises:
        InputError: it holds no model that fairseq supports, or an incomplete one.
        MachineError: the installed versions are not those that the patches are for.
    """
    serve(lambda: partial(predict, *load_model(folder)))


def load_model(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Load an exported model into fairseq's class; return it with the config of transformers.

    Raises:
        InputError: it holds no model that fairseq supports, or weights are missing.
        ConfigError: fairseq has no such model.
    """
    import_fairseq("cpu")
    from jprep_fairseq_xla.models.fairseq_models import build_fairseq_model

    config, read = read_exported_model(folder)
    built = build_fairseq_model(config, TASKS[config["model_type"]], model_options(config) | {"cpu": True}, read)
    return built.model.eval(), config


def predict(model: Any, config: dict[str, Any], request: Request) -> Response:
    """Answer one request.

    Raises:
        InputError: an id is not in the vocabulary, there are more ids than positions, or the model has another task.
    """
    check_request(config, request)
    with torch.inference_mode():
        if isinstance(request, FillMask) and config["model_type"] != "gpt2":
            return _fill_mask(model, config, request)
        if isinstance(request, Generate) and config["model_type"] == "gpt2":
            return _generate(model, request)
    fix = "use a roberta or bert to fill masks, a gpt2 to generate"
    raise InputError(f"this model does not support {request.__struct_config__.tag}", fix=fix)


def logits(model: Any, config: dict[str, Any], ids: Tensor) -> Tensor:
    """Return the logits of every token, (rows, length, vocabulary)."""
    from jprep_fairseq_xla.worker.data import fairseq_sample

    inputs = fairseq_sample(config["model_type"], ids, torch.zeros_like(ids))["net_input"]
    found: Tensor = model(**inputs)[0]
    return found


def _fill_mask(model: Any, config: dict[str, Any], request: FillMask) -> Response:
    positions = [position for position, token in enumerate(request.ids) if token == request.mask]
    found = logits(model, config, torch.tensor([request.ids]))[0, positions].double().numpy()
    return Response(masks=[most_probable(row, request.top) for row in found])


def _generate(model: Any, request: Generate) -> Response:
    """Generate with fairseq's decoder, which takes one token at a time and caches what it needs of earlier ones."""
    row, generated = list(request.ids), []
    cache: dict[str, Any] = {}
    for length in range(1, len(row)):
        model(torch.tensor([row[:length]]), incremental_state=cache)
    for number in range(request.tokens):
        last = model(torch.tensor([row]), incremental_state=cache)[0][0, -1]
        token = next_token(last.double().numpy(), request, number)
        if token in request.end:
            break
        generated.append(token)
        row.append(token)
    return Response(ids=generated)
