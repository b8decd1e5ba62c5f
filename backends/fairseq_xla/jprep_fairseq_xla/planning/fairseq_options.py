"""A job as options of `fairseq-train`; which options a user may add, and why others are refused."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from jprep.errors import ConfigError
from jprep.train.job.config import Job, Task
from jprep_fairseq_xla.options import SECTION, Device

FairseqOptions = dict[str, Any]
"""fairseq's options by name, with underscores; `True` is a flag that is set."""

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_accurate", "relu": "relu", "tanh": "tanh"}
"""transformers' name of an activation → fairseq's; its `gelu_accurate` is the one by tanh."""

TASKS: dict[str, Task] = {"roberta": "mlm", "bert": "mlm", "gpt2": "clm"}
"""`model_type` → the objective that fairseq trains it with."""

_ARCHITECTURES = {"roberta": "roberta", "bert": "bert_base", "gpt2": "transformer_lm"}
_USER_OPTIONS = {
    "roberta": ("activation_dropout",),
    "bert": ("act_dropout",),
    "gpt2": ("activation_dropout", "checkpoint_activations"),
}
_JOB_OPTIONS = {
    "lr": "optimizer.lr", "optimizer": "optimizer", "adam_betas": "optimizer.beta1", "adam_eps": "optimizer.eps",
    "weight_decay": "optimizer.weight_decay", "clip_norm": "optimizer.clip", "lr_scheduler": "schedule.kind",
    "warmup_updates": "schedule.warmup", "end_learning_rate": "schedule.floor", "total_num_update": "schedule.total",
    "max_update": "steps", "max_epoch": "epochs", "batch_size": "batch", "max_sentences": "batch",
    "max_tokens": "batch", "seed": "seed", "fp16": "precision", "bf16": "precision", "amp": "precision",
    "arch": "model", "task": "task", "criterion": "task", "tokens_per_sample": "length",
    "max_positions": "model.config",
    "sample_break_mode": "packing", "mask_prob": "masking.rate", "mask_whole_words": "masking.whole_word",
    "leave_unmasked_prob": "masking.masked", "random_token_prob": "masking.random",
    "dropout": "model.config", "attention_dropout": "model.config", "activation_fn": "model.config",
    "log_interval": "log_every", "validate_interval": "validation.every_epochs",
    "validate_interval_updates": "validation.every_steps", "save_interval": "checkpoint.every_epochs",
    "save_interval_updates": "checkpoint.every_steps", "keep_best_checkpoints": "checkpoint.keep_best",
    "keep_last_epochs": "checkpoint.keep_last", "keep_interval_updates": "checkpoint.keep_last",
    "no_epoch_checkpoints": "checkpoint.every_steps", "tensorboard_logdir": "trackers", "wandb_project": "trackers",
    "restore_file": "model.init", "update_freq": "backend.fairseq-xla.micro_batch", "tpu": "backend.fairseq-xla.device",
    "cpu": "backend.fairseq-xla.device", "distributed_world_size": "backend.fairseq-xla.devices",
}  # fmt: skip
"""Options that the job decides → the key of `[train]` that sets them."""


def training_options(
    job: Job, device: Device, processes: int, accumulate: int, user_options: FairseqOptions
) -> FairseqOptions:
    """Return all options of a run.

    Args:
        job: the job.
        device: `cpu`, `cuda` or `xla`.
        processes: number of processes that share a batch.
        accumulate: number of micro-batches of an update.
        user_options: the user's options.

    Raises:
        ConfigError: fairseq has no such model, or one of the user's options has no effect.
    """
    check_model(job)
    check_user_options(job.model["model_type"], user_options)
    options = model_options(job.model) | _optimizer(job, accumulate) | user_options
    options |= {} if device == "cuda" else {"tpu" if device == "xla" else "cpu": True}
    options |= {"distributed_world_size": processes}
    # fairseq's own DDP works on all devices (it passes a GPU's number to PyTorch's, and a CPU has none), and sums the
    # gradients in the same order in each step: a resumed run equals an uninterrupted one.
    return options | ({"ddp_backend": "legacy_ddp"} if processes > 1 else {})


def check_user_options(model_type: str, user_options: FairseqOptions) -> None:
    """Check that each of the user's options has an effect.

    Raises:
        ConfigError: an option has none; the fix names the key that decides it, or the nearest option.
    """
    allowed = _USER_OPTIONS[model_type]
    for name in user_options:
        where, plain = f"{SECTION}.options.{name}", name.replace("-", "_").lstrip("_")
        if name in allowed:
            continue
        if plain in _JOB_OPTIONS:
            what = f"fairseq's option {plain} has no effect: the job decides it"
            raise ConfigError(what, where=where, fix=f"set train.{_JOB_OPTIONS[plain]} instead")
        near = get_close_matches(plain, allowed, 1)
        fix = f"did you mean {near[0]!r}?" if near else f"remove it; options for {model_type}: {', '.join(allowed)}"
        what = f"fairseq's option {plain} has no effect when training a {model_type}"
        raise ConfigError(what, where=where, fix=fix)


def command_line(options: FairseqOptions) -> list[str]:
    """Return options as arguments of `fairseq-train`."""
    arguments = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(flag)
        elif value is not False:
            arguments += [flag, str(value)]
    return arguments


def check_model(job: Job) -> None:
    """Check that fairseq has the job's model, and can train it as the job says.

    Raises:
        ConfigError: it cannot.
    """
    model_type = job.model["model_type"]
    if job.train.task == "rtd":
        what = "fairseq-xla cannot train for rtd: fairseq has no ELECTRA, with a generator beside the discriminator"
        raise ConfigError(what, where="train.task", fix="use the backend torch, deepspeed or flax")
    if TASKS.get(model_type) != job.train.objective:
        what = f"fairseq-xla cannot train a {model_type} for {job.train.task}"
        fix = "use roberta or bert with mlm, gpt2 with clm or sft, or another backend"
        raise ConfigError(what, where="train.model", fix=fix)
    if job.train.next_sentence:
        what = "fairseq-xla cannot train the next-sentence task: fairseq's sentence head has no bias, unlike BERT's"
        fix = "use the backend torch, deepspeed or flax, or remove next_sentence"
        raise ConfigError(what, where="train.next_sentence", fix=fix)
    if job.train.precision == "fp16":
        fix = 'precision = "bf16", which TPUs and GPUs since Ampere compute in, or "fp32"'
        raise ConfigError("fairseq-xla does not support fp16", where="train.precision", fix=fix)


def model_options(config: dict[str, Any]) -> FairseqOptions:
    """Return the options that define a model.

    Args:
        config: the config of transformers, with a `model_type` of `TASKS`.

    Raises:
        ConfigError: fairseq's class does not support the config.
    """
    model_type = config["model_type"]
    _check_config(config)
    common = {"arch": _ARCHITECTURES[model_type], "task": "jprep", "ids": config["vocab_size"]}
    return common | (_decoder(config) if model_type == "gpt2" else _encoder(config, model_type))


def _check_config(config: dict[str, Any]) -> None:
    model_type = config["model_type"]
    for key, supported in _supported_values(model_type).items():
        if config[key] not in supported:
            what = f"fairseq's {model_type} does not support {key} = {config[key]!r}"
            fix = f"use {' or '.join(map(repr, supported))}, or another backend"
            raise ConfigError(what, where=f"train.model.config.{key}", fix=fix)
    if model_type == "gpt2" and config["embd_pdrop"] != config["resid_pdrop"]:
        what = "fairseq has one dropout rate for embeddings and residuals"
        raise ConfigError(what, where="train.model.config.embd_pdrop", fix="set embd_pdrop and resid_pdrop alike")


def _supported_values(model_type: str) -> dict[str, tuple[Any, ...]]:
    """Return the values that fairseq supports of keys that a job may set."""
    if model_type == "gpt2":
        return {"activation_function": tuple(ACTIVATIONS)}
    types: dict[str, tuple[Any, ...]] = {"type_vocab_size": (1,)} if model_type == "roberta" else {}
    return types | {"hidden_act": tuple(ACTIVATIONS)}


def _encoder(config: dict[str, Any], model_type: str) -> FairseqOptions:
    pad = config["pad_token_id"]
    lost = pad + 1 if model_type == "roberta" else 0  # transformers numbers RoBERTa's positions from there
    options = {
        "criterion": "masked_lm",
        "pad": pad,
        "encoder_layers": config["num_hidden_layers"],
        "encoder_embed_dim": config["hidden_size"],
        "encoder_ffn_embed_dim": config["intermediate_size"],
        "encoder_attention_heads": config["num_attention_heads"],
        "dropout": config["hidden_dropout_prob"],
        "attention_dropout": config["attention_probs_dropout_prob"],
        "activation_fn": ACTIVATIONS[config["hidden_act"]],
        "max_positions": config["max_position_embeddings"] - lost,
    }
    return options | ({"num_segment": config["type_vocab_size"]} if model_type == "bert" else {})


def _decoder(config: dict[str, Any]) -> FairseqOptions:
    width = config["n_embd"]
    return {
        "criterion": "cross_entropy",
        "decoder_layers": config["n_layer"],
        "decoder_embed_dim": width,
        "decoder_input_dim": width,
        "decoder_output_dim": width,
        "decoder_ffn_embed_dim": config["n_inner"],
        "decoder_attention_heads": config["n_head"],
        "dropout": config["resid_pdrop"],
        "attention_dropout": config["attn_pdrop"],
        "activation_fn": ACTIVATIONS[config["activation_function"]],
        "max_target_positions": config["n_positions"],
        "share_decoder_input_output_embed": config["tie_word_embeddings"],
        "decoder_learned_pos": True,
        "decoder_normalize_before": True,
        "no_scale_embedding": True,
    }


def _optimizer(job: Job, accumulate: int) -> FairseqOptions:
    section = job.train
    optimizer, schedule = section.optimizer, section.schedule
    return {
        "optimizer": "jprep_adamw",
        "adam_betas": f"({optimizer.beta1}, {optimizer.beta2})",
        "adam_eps": optimizer.eps,
        "weight_decay": optimizer.weight_decay,
        "decay": optimizer.decay,
        "clip_norm": optimizer.clip,
        "lr": optimizer.lr,
        "lr_scheduler": "jprep",
        "kind": schedule.kind,
        "warmup_updates": schedule.warmup,
        "floor": schedule.floor,
        "decay_steps": schedule.decay_steps,
        "decay_shape": schedule.decay_shape,
        "restarts": ",".join(map(str, schedule.restarts)),
        "restart_warmup": schedule.restart_warmup,
        "total_num_update": schedule.total or job.steps,
        "update_freq": accumulate,
        "seed": section.seed,
        "log_interval": job.steps + 1,  # jprep logs; fairseq's meters would keep the device's tensors alive
    }
