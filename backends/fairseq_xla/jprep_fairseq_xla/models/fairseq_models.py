"""Build fairseq's models, tasks and criteria from fairseq's options, and load weights into them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from fairseq import options, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import setup_task
from torch import Tensor, nn

import jprep_fairseq_xla.models.task  # noqa: F401 - registers the task
from jprep.train.models import parameters
from jprep_fairseq_xla.models.documents import RowDocuments
from jprep_fairseq_xla.models.weights import ReadTensor, tensor_locations, to_fairseq_weights
from jprep_fairseq_xla.planning.fairseq_options import FairseqOptions, command_line

_NO_ID = -1


class FairseqModel(NamedTuple):
    """A model with what fairseq's trainer needs to train it.

    Attributes:
        cfg: fairseq's whole configuration.
        task: the task that wraps jprep's batches.
        model: the model, with weights.
        criterion: fairseq's own criterion.
        trained: fairseq's names of the weights that are trained.
    """

    cfg: Any
    task: Any
    model: Any
    criterion: Any
    trained: tuple[str, ...]


def build_fairseq_model(
    config: dict[str, Any], task: str, fairseq_options: FairseqOptions, read: ReadTensor
) -> FairseqModel:
    """Build a model and load its weights.

    Args:
        config: the config of transformers.
        task: the task whose model and loss the job has.
        fairseq_options: fairseq's options.
        read: returns a weight of transformers by name.
    """
    parser = options.get_training_parser(default_task="jprep")
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, command_line(fairseq_options)))
    fairseq_task = setup_task(cfg.task)
    model = fairseq_task.build_model(cfg.model)
    fairseq_task.masking_documents = _row_documents(model, config).masking_documents
    _adapt(model, config)
    _load(model, config, task, read)
    trained = _freeze_untrained(model, config, task)
    return FairseqModel(cfg, fairseq_task, model, fairseq_task.build_criterion(cfg.criterion), trained)


def _row_documents(model: Any, config: dict[str, Any]) -> RowDocuments:
    causal = config["model_type"] == "gpt2"
    layered = model.decoder if causal else model.encoder.sentence_encoder
    attentions = [layer.self_attn for layer in layered.layers]
    first = 0 if causal else config["pad_token_id"] + 1
    return RowDocuments(attentions, layered.embed_positions, first, causal=causal)


def _adapt(model: Any, config: dict[str, Any]) -> None:
    """Adapt fairseq's model to that of transformers where fairseq has no option for it."""
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = config.get("layer_norm_eps") or config["layer_norm_epsilon"]
    if config["model_type"] == "gpt2":
        _number_positions_from_zero(model.decoder)
    if config["model_type"] == "roberta":
        # transformers uses GELU in the head whatever the layers use.
        model.encoder.lm_head.activation_fn = utils.get_activation_fn("gelu")
        _add_token_type(model.encoder.sentence_encoder)


def _number_positions_from_zero(decoder: Any) -> None:
    """Number positions as GPT-2 does, and treat no token as padding: causality masks what is after a row's end."""

    def with_positions(
        module: nn.Module, arguments: tuple[Tensor, ...], keywords: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        ids = arguments[0]
        positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        return arguments, {**keywords, "positions": positions}

    decoder.embed_positions.register_forward_pre_hook(with_positions, with_kwargs=True)
    decoder.padding_idx = _NO_ID


def _add_token_type(encoder: Any) -> None:
    """Add RoBERTa's only token type to the positions; fairseq's class has none."""
    encoder.token_type = nn.Embedding(1, encoder.embed_positions.embedding_dim)

    def with_token_type(module: nn.Module, arguments: Any, positions: Tensor) -> Tensor:
        return positions + encoder.token_type.weight

    encoder.embed_positions.register_forward_hook(with_token_type)


def _load(model: Any, config: dict[str, Any], task: str, read: ReadTensor) -> None:
    own = dict(model.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for name, array in to_fairseq_weights(config, task, read).items():
            own[name].copy_(torch.from_numpy(array))


def _freeze_untrained(model: Any, config: dict[str, Any], task: str) -> tuple[str, ...]:
    """Turn off gradients of weights that the job does not train, and return the names of the others."""
    specs, locations = parameters(config, task), tensor_locations(config, task)
    names = [own for name, where in locations.items() if specs[name].trained for own in where.names]
    for name, weight in model.named_parameters():
        weight.requires_grad_(name in names)
    return tuple(names)
