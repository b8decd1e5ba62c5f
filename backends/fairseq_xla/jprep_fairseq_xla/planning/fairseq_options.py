"""A job as options of `fairseq-train`; which of them a user may add, and why others are refused."""

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
"""`model_type` → the task that fairseq trains it for."""

_ARCHITECTURES = {"roberta": "roberta", "bert": "bert_base", "gpt2": "transformer_lm"}
_FREE = {
    "roberta": ("activation_dropout",),
    "bert": ("act_dropout",),
    "gpt2": ("activation_dropout", "checkpoint_activations"),
}
_JOB = {
    "lr": "optimizer.lr", "optimizer": "optimizer", "adam_betas": "optimizer.beta1", "adam_eps": "optimizer.eps",
    "weight_decay": "optimizer.weight_decay", "clip_norm": "optimizer.clip", "lr_scheduler": "schedule.kind",
    "warmup_updates": "schedule.warmup", "end_learning_rate": "schedule.floor", "total_num_update": "steps",
    "max_update": "steps", "max_epoch": "epochs", "batch_size": "batch", "max_sentences": "batch",
    "max_tokens": "batch", "seed": "seed", "fp16": "precision", "bf16": "precision", "amp": "precision",
    "arch": "model", "task": "task", "criterion": "task", "tokens_per_sample": "length",
    "max_positions": "model.config",
    "sample_break_mode": "packing", "mask_prob": "masking.rate", "mask_whole_words": "masking.whole_word",
    "leave_unmasked_prob": "masking.masked", "random_token_prob": "masking.random",
    "dropout": "model.config", "attention_dropout": "model.config", "activation_fn": "model.config",
    "log_interval": "log_every", "validate_interval": "validation.every_steps",
    "validate_interval_updates": "validation.every_steps", "save_interval": "checkpoint.every_steps",
    "save_interval_updates": "checkpoint.every_steps", "keep_best_checkpoints": "checkpoint.keep_best",
    "keep_last_epochs": "checkpoint.keep_last", "keep_interval_updates": "checkpoint.keep_last",
    "no_epoch_checkpoints": "checkpoint.every_steps", "tensorboard_logdir": "trackers", "wandb_project": "trackers",
    "restore_file": "model.init", "update_freq": "backend.fairseq-xla.rows", "tpu": "backend.fairseq-xla.device",
    "cpu": "backend.fairseq-xla.device", "distributed_world_size": "backend.fairseq-xla.devices",
}  # fmt: skip
"""Options that the job decides → the key of `[train]` that does it."""


def training_options(
    job: Job, device: Device, processes: int, accumulate: int, chosen: FairseqOptions
) -> FairseqOptions:
    """Every option that a run is given.

    Args:
        job: the job.
        device: `cpu` or `xla`.
        processes: how many divide the batch.
        accumulate: how often gradients are added up before an update.
        chosen: the user's.

    Raises:
        ConfigError: fairseq has no such model, or one of the user's options changes nothing here.
    """
    check_model(job)
    check_user_options(job.model["model_type"], chosen)
    settings = model_options(job.model) | _updates(job, accumulate) | chosen
    settings |= {"tpu" if device == "xla" else "cpu": True, "distributed_world_size": processes}
    # fairseq hands a GPU's number to the one of PyTorch, which on a CPU has none.
    return settings | ({"ddp_backend": "legacy_ddp"} if processes > 1 else {})


def check_user_options(kind: str, chosen: FairseqOptions) -> None:
    """See that each of the user's options changes something.

    Raises:
        ConfigError: the name of the first that does not, and what decides it or which is the nearest that would.
    """
    free = _FREE[kind]
    for name in chosen:
        where, plain = f"{SECTION}.options.{name}", name.replace("-", "_").lstrip("_")
        if name in free:
            continue
        if plain in _JOB:
            what = f"fairseq's {plain} has no effect here: the job decides it"
            raise ConfigError(what, where=where, fix=f"set train.{_JOB[plain]}, or look there")
        near = get_close_matches(plain, free, 1)
        fix = f"did you mean {near[0]!r}?" if near else f"leave it out; of {kind} there are {', '.join(free)}"
        raise ConfigError(f"fairseq's {plain} has no effect when a {kind} is trained here", where=where, fix=fix)


def command_line(settings: FairseqOptions) -> list[str]:
    """Settings as words of `fairseq-train`'s command line."""
    words = []
    for name, value in settings.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value is not False:
            words += [flag, str(value)]
    return words


def check_model(job: Job) -> None:
    """See that fairseq can be this model, and train it as the job says.

    Raises:
        ConfigError: what it lacks.
    """
    kind = job.model["model_type"]
    if TASKS.get(kind) != job.train.task:
        what = f"fairseq trains no {kind} for {job.train.task} here"
        fix = "roberta or bert with mlm, gpt2 with clm, or another backend"
        raise ConfigError(what, where="train.model", fix=fix)
    if job.train.precision == "fp16":
        fix = 'precision = "bf16", which TPUs compute in, or "fp32"'
        raise ConfigError("fairseq-xla has no fp16", where="train.precision", fix=fix)


def model_options(config: dict[str, Any]) -> FairseqOptions:
    """The options that say which model it is.

    Args:
        config: transformers' config, of a kind in `TASKS`.

    Raises:
        ConfigError: fairseq's class cannot be it.
    """
    kind = config["model_type"]
    _check_config(config)
    common = {"arch": _ARCHITECTURES[kind], "task": "jprep", "ids": config["vocab_size"]}
    return common | (_decoder(config) if kind == "gpt2" else _encoder(config, kind))


def _check_config(model: dict[str, Any]) -> None:
    kind = model["model_type"]
    for key, wanted in _wanted(kind).items():
        if model[key] not in wanted:
            what = f"fairseq's {kind} has no {key} of {model[key]!r}"
            fix = f"one of {', '.join(map(repr, wanted))}, or another backend"
            raise ConfigError(what, where=f"train.model.config.{key}", fix=fix)
    if kind == "gpt2" and model["embd_pdrop"] != model["resid_pdrop"]:
        what = "fairseq drops as much of embeddings as of what layers add"
        raise ConfigError(what, where="train.model.config.embd_pdrop", fix="the same embd_pdrop and resid_pdrop")


def _wanted(kind: str) -> dict[str, tuple[Any, ...]]:
    """Of keys that a job may set, the values that fairseq has too."""
    if kind == "gpt2":
        return {"activation_function": tuple(ACTIVATIONS)}
    types: dict[str, tuple[Any, ...]] = {"type_vocab_size": (1,)} if kind == "roberta" else {}
    return types | {"hidden_act": tuple(ACTIVATIONS)}


def _encoder(config: dict[str, Any], kind: str) -> FairseqOptions:
    pad = config["pad_token_id"]
    lost = pad + 1 if kind == "roberta" else 0  # transformers counts RoBERTa's positions from there
    settings = {
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
    return settings | ({"num_segment": config["type_vocab_size"]} if kind == "bert" else {})


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


def _updates(job: Job, accumulate: int) -> FairseqOptions:
    section = job.train
    optimizer, schedule = section.optimizer, section.schedule
    return {
        "optimizer": "jprep_adamw",
        "adam_betas": f"({optimizer.beta1}, {optimizer.beta2})",
        "adam_eps": optimizer.eps,
        "weight_decay": optimizer.weight_decay,
        "clip_norm": optimizer.clip,
        "lr": optimizer.lr,
        "lr_scheduler": "jprep",
        "kind": schedule.kind,
        "warmup_updates": schedule.warmup,
        "floor": schedule.floor,
        "total_num_update": schedule.steps or job.steps,
        "update_freq": accumulate,
        "seed": section.seed,
        "log_interval": job.steps + 1,  # figures are jprep's; fairseq's meters would hold on to the device's tensors
    }
