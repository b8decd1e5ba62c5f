"""The inference server: predictions of an exported model (protocol: `jprep.train.inference.protocol`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.nn.functional import cross_entropy

from jprep.errors import InputError
from jprep.train.inference.decoding import most_probable, next_token
from jprep.train.inference.exported_model import task_of, weight_reader
from jprep.train.inference.protocol import Classify, FillMask, Generate, Request, Response, Score
from jprep.train.inference.server import check_request, check_score, serve
from jprep.train.models import FAMILIES
from jprep.train.models.registry import is_plugin_model
from jprep_torch.models.plugin_model import PluginModel
from jprep_torch.models.transformers_models import build_model, load_weights, weight_names

_LOADERS = {
    "LMHeadModel": transformers.AutoModelForCausalLM,
    "ForCausalLM": transformers.AutoModelForCausalLM,
    "ForMaskedLM": transformers.AutoModelForMaskedLM,
    "BertForPreTraining": transformers.AutoModelForMaskedLM,
    "ForSequenceClassification": transformers.AutoModelForSequenceClassification,
}
"""Suffix of a model's class → the class that loads it."""

_CAUSAL = ("LMHeadModel", "ForCausalLM")

_BATCH_TOKENS = 4096
"""Tokens that `score` computes together: with a vocabulary of 32,000 their logits have 0.5 GiB."""


def serve_model(folder: Path) -> None:
    """Answer requests from standard input until it ends; requests that fail are answered with an error.

    Args:
        folder: an exported directory.

    Raises:
        InputError: transformers cannot load a complete model from it.
    """
    serve(lambda: partial(predict, load_model(folder)))


def load_model(folder: Path) -> Any:
    """Load an exported model in fp32, on a GPU if there is one.

    Args:
        folder: an exported directory.

    Raises:
        InputError: its class is not supported, or weights are missing.
    """
    config = json.loads((folder / "config.json").read_bytes())
    [name] = config["architectures"]
    if config["model_type"] in FAMILIES and is_plugin_model(config):
        return _load_plugin_model(folder, config)
    loader = next((loader for suffix, loader in _LOADERS.items() if name.endswith(suffix)), None)
    if loader is None:
        fix = "use a model that jprep exported"
        raise InputError(f"no inference with a {name}", where=str(folder), fix=fix)
    transformers.utils.logging.set_verbosity_error()
    model, loading = loader.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, use_safetensors=True, output_loading_info=True
    )
    if missing := [*loading["missing_keys"], *loading["mismatched_keys"]]:
        raise InputError(f"the file lacks the tensor {missing[0]}", where=str(folder), fix="export the model again")
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


def _load_plugin_model(folder: Path, config: dict[str, Any]) -> Any:
    task = task_of(config, folder)
    model = build_model(config, task)
    read, names = weight_reader(folder, config, task), weight_names(model, config, task)
    load_weights(model, names, {name: read(name) for name in sorted(set(names.values()))}, lambda tensor, _: tensor)
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


def predict(model: Any, request: Request) -> Response:
    """Return the response to a request.

    Raises:
        InputError: an id is out of range, or there are more ids than positions.
    """
    if isinstance(request, Score):
        if not _is_causal(model):
            raise InputError(f"a {type(model).__name__} does not score rows", fix="use a model for clm")
        check_score(model.config.to_dict(), request)
        with torch.inference_mode():
            return Response(scores=score(lambda ids: model(input_ids=ids.to(model.device)).logits, request))
    check_request(model.config.to_dict(), request)
    with torch.inference_mode():
        if isinstance(request, FillMask):
            return _fill_mask(model, request)
        return _generate(model, request) if isinstance(request, Generate) else _classify(model, request)


def score(logits: Callable[[torch.Tensor], torch.Tensor], request: Score) -> list[float]:
    """Return the natural log-likelihood of the end of each row.

    Rows of similar length are computed together, padded after their ends, where a causal model does not look.

    Args:
        logits: returns the logits of rows of ids, (rows, length) → (rows, length, vocabulary).
        request: the rows.

    Raises:
        InputError: a likelihood is not finite, which JSON could not hold.
    """
    found = [0.0] * len(request.rows)
    order = sorted(range(len(found)), key=lambda number: len(request.rows[number]))
    while order:
        longest = len(request.rows[order[-1]])
        batch, order = order[-max(1, _BATCH_TOKENS // longest) :], order[: -max(1, _BATCH_TOKENS // longest)]
        ids = torch.zeros((len(batch), longest), dtype=torch.long)
        for place, number in enumerate(batch):
            ids[place, : len(request.rows[number])] = torch.tensor(request.rows[number])
        computed = logits(ids)
        for place, number in enumerate(batch):
            start, end = request.starts[number], len(request.rows[number])
            labels = ids[place, start:end].to(computed.device)
            losses = cross_entropy(computed[place, start - 1 : end - 1].float(), labels, reduction="none")
            found[number] = -float(losses.double().sum())
    if not all(map(isfinite, found)):
        raise InputError("the model's likelihoods are not finite: its training has diverged")
    return found


def _is_causal(model: Any) -> bool:
    """Return whether a model continues texts, by its class in transformers or, of a plugin's, in `config.json`."""
    name = model.config.architectures[0] if isinstance(model, PluginModel) else type(model).__name__
    return bool(name.endswith(_CAUSAL))


def _row(model: Any, ids: list[int]) -> torch.Tensor:
    return torch.tensor([ids], device=model.device)


def _fill_mask(model: Any, request: FillMask) -> Response:
    positions = [position for position, token in enumerate(request.ids) if token == request.mask]
    logits = model(input_ids=_row(model, request.ids)).logits[0, positions].double().cpu().numpy()
    return Response(masks=[most_probable(row, request.top) for row in logits])


def _generate(model: Any, request: Generate) -> Response:
    generated: list[int] = []
    row, cache = _row(model, request.ids), None
    for position in range(request.tokens):
        output = model(input_ids=row, past_key_values=cache, use_cache=True)
        token = next_token(output.logits[0, -1].double().cpu().numpy(), request, position)
        if token in request.end:
            break
        generated.append(token)
        cache = output.past_key_values
        row = _row(model, [token] if cache is not None else [*request.ids, *generated])
    return Response(ids=generated)


def _classify(model: Any, request: Classify) -> Response:
    types = {"token_type_ids": _row(model, request.token_types)} if request.token_types else {}
    logits = model(input_ids=_row(model, request.ids), **types).logits[0].double()
    return Response(scores=(logits if model.config.problem_type == "regression" else logits.softmax(-1)).tolist())
