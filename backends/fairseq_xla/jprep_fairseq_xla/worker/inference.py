"""The inference server for models of fairseq's own classes; see `jprep.train.inference.protocol`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jprep.errors import InputError
from jprep.train.inference.decoding import next_token
from jprep.train.inference.protocol import FillMask, Generate, Request, Response, TokenProbability
from jprep.train.inference.server import check_request, serve
from jprep_fairseq_xla.convert.exported_model import read_exported_model
from jprep_fairseq_xla.planning.fairseq_options import TASKS, model_options
from jprep_fairseq_xla.worker.patches import import_fairseq


def serve_model(folder: Path) -> None:
    """Answer requests from standard input until it ends, on a CPU.

    Args:
        folder: an exported directory.

    Raises:
        InputError: it holds no model that fairseq can be, or not the whole of one.
        MachineError: this environment's versions are not those that the mends are for.
    """
    serve(lambda: partial(predict, *load_model(folder)))


def load_model(folder: Path) -> tuple[Any, dict[str, Any]]:
    """An exported model as fairseq's, ready to be asked, and transformers' config of it.

    Raises:
        InputError: it is no such model, or its file lacks weights.
        ConfigError: fairseq has no such model.
    """
    import_fairseq("cpu")
    from jprep_fairseq_xla.models.fairseq_models import build_fairseq_model

    config, weights = read_exported_model(folder)
    made = build_fairseq_model(config, TASKS[config["model_type"]], model_options(config) | {"cpu": True}, weights)
    return made.model.eval(), config


def predict(model: Any, config: dict[str, Any], request: Request) -> Response:
    """The answer to one request.

    Raises:
        InputError: an id that the model does not have, more of them than it has positions for, or no task of its own.
    """
    check_request(config, request)
    with torch.inference_mode():
        if isinstance(request, FillMask) and config["model_type"] != "gpt2":
            return _fill(model, config, request)
        if isinstance(request, Generate) and config["model_type"] == "gpt2":
            return _generate(model, request)
    fix = "a roberta or bert fills masks, a gpt2 generates"
    raise InputError(f"this model cannot {request.__struct_config__.tag}", fix=fix)


def logits(model: Any, config: dict[str, Any], ids: Tensor) -> Tensor:
    """Of every token of some rows, (rows, length, ids)."""
    from jprep_fairseq_xla.models.fairseq_models import fairseq_sample

    found: Tensor = model(**fairseq_sample(config["model_type"], ids, torch.zeros_like(ids))["net_input"])[0]
    return found


def _fill(model: Any, config: dict[str, Any], request: FillMask) -> Response:
    places = [place for place, number in enumerate(request.ids) if number == request.mask]
    shares = logits(model, config, torch.tensor([request.ids]))[0, places].double().softmax(-1)
    found = shares.topk(min(request.top, shares.shape[-1]))
    rows = zip(found.indices.tolist(), found.values.tolist(), strict=True)
    return Response(masks=[[TokenProbability(*pair) for pair in zip(*row, strict=True)] for row in rows])


def _generate(model: Any, request: Generate) -> Response:
    """fairseq's decoder takes a token at a time, and keeps what it needs of those before."""
    known, found = list(request.ids), []
    kept: dict[str, Any] = {}
    for length in range(1, len(known)):
        model(torch.tensor([known[:length]]), incremental_state=kept)
    for place in range(request.tokens):
        last = model(torch.tensor([known]), incremental_state=kept)[0][0, -1]
        token = next_token(last.double().numpy(), request, place)
        if token in request.end:
            break
        found.append(token)
        known.append(token)
    return Response(ids=found)
