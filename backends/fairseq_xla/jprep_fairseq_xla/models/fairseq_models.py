"""fairseq's models, tasks and criteria, made from a job's settings and given a file's weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from fairseq import options, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import setup_task
from torch import Tensor, nn

import jprep_fairseq_xla.models.registered_classes  # noqa: F401 - fairseq then finds the task by its name
from jprep.io.safetensors_file import Floats
from jprep.train.models import parameters
from jprep_fairseq_xla.models.weights import tensor_locations, to_fairseq_weights
from jprep_fairseq_xla.planning.fairseq_options import FairseqOptions, command_line
from jprep_torch.models.model_with_loss import NO_LABEL

_NO_ID = -1


class FairseqModel(NamedTuple):
    """What fairseq's trainer is given.

    Attributes:
        cfg: fairseq's configuration, whole.
        task: the one that wraps jprep's batches.
        model: with the weights of a file.
        criterion: fairseq's own.
        trained: fairseq's names of the weights that are.
    """

    cfg: Any
    task: Any
    model: Any
    criterion: Any
    trained: tuple[str, ...]


def build_fairseq_model(
    model: dict[str, Any], task: str, settings: FairseqOptions, weights: Mapping[str, Floats]
) -> FairseqModel:
    """fairseq's part of a job.

    Args:
        model: transformers' config.
        task: the job's.
        settings: fairseq's options.
        weights: by transformers' names.
    """
    parser = options.get_training_parser(default_task="jprep")
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, command_line(settings)))
    found = setup_task(cfg.task)
    built = found.build_model(cfg.model)
    _adapt(built, model)
    _load(built, model, task, weights)
    trained = _trained(built, model, task)
    return FairseqModel(cfg, found, built, found.build_criterion(cfg.criterion), trained)


def fairseq_sample(kind: str, ids: Tensor, labels: Tensor) -> dict[str, Any]:
    """A batch as fairseq's models and criteria take it.

    Args:
        kind: `model_type`.
        ids: (rows, length).
        labels: (rows, length), `NO_LABEL` where there is none. A decoder's are those of the same places, and are
            shifted here.
    """
    inputs = {"src_tokens": ids, "src_lengths": torch.full_like(ids[:, 0], ids.shape[1])}
    if kind == "bert":
        inputs["segment_labels"] = torch.zeros_like(ids)
    if kind == "gpt2":
        labels = torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], NO_LABEL)], 1)
    known = (labels != NO_LABEL).sum()
    return {"net_input": inputs, "target": labels, "ntokens": known, "nsentences": len(ids)}


def _adapt(built: Any, config: dict[str, Any]) -> None:
    """What fairseq's classes do not let one choose."""
    for module in built.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = config.get("layer_norm_eps") or config["layer_norm_epsilon"]
    if config["model_type"] == "gpt2":
        _count_from_zero(built.decoder)
    if config["model_type"] == "roberta":
        # transformers' has this one in its head whatever its layers have.
        built.encoder.lm_head.activation_fn = utils.get_activation_fn("gelu")
        _add_type(built.encoder.sentence_encoder)


def _count_from_zero(decoder: Any) -> None:
    """GPT-2's positions do, and no token is padding: what is behind a row's end is never seen by what is before it."""

    def counted(module: nn.Module, given: tuple[Tensor, ...], more: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        places = torch.arange(given[0].shape[1], device=given[0].device).expand_as(given[0])
        return given, {**more, "positions": places}

    decoder.embed_positions.register_forward_pre_hook(counted, with_kwargs=True)
    decoder.padding_idx = _NO_ID


def _add_type(encoder: Any) -> None:
    """RoBERTa's one token type, which fairseq has not: it is added to the positions."""
    encoder.token_type = nn.Embedding(1, encoder.embed_positions.embedding_dim)

    def added(module: nn.Module, given: Any, found: Tensor) -> Tensor:
        return found + encoder.token_type.weight

    encoder.embed_positions.register_forward_hook(added)


def _load(built: Any, config: dict[str, Any], task: str, weights: Mapping[str, Floats]) -> None:
    own = dict(built.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for name, array in to_fairseq_weights(config, task, weights.__getitem__).items():
            own[name].copy_(torch.from_numpy(array))


def _trained(built: Any, config: dict[str, Any], task: str) -> tuple[str, ...]:
    """The names of those that a job trains; others have no gradient."""
    tensors = parameters(config, task)
    names = [
        own for name, spot in tensor_locations(config, task).items() if tensors[name].trained for own in spot.names
    ]
    for name, weight in built.named_parameters():
        weight.requires_grad_(name in names)
    return tuple(names)
