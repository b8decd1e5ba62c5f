"""Build transformers' complete config from the recipe's `[train.model]`, a preset and the tokenizer, and check it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jprep.config import suggest_name
from jprep.errors import ConfigError
from jprep.train.job.config import LABELLED_TASKS, ModelConfig, Task
from jprep.train.job.rtd import RtdConfig
from jprep.train.models.config_values import WHERE, check_keys, check_values
from jprep.train.models.electra import GENERATOR, generator_config
from jprep.train.models.next_sentence import PRETRAINING_CLASS, check_next_sentence_model
from jprep.train.models.presets import FAMILIES, PRESETS, ModelFamily, TransformersConfig
from jprep.train.models.registry import VERSION, unknown_family
from jprep.train.models.rope import SCALING, rope_scaling
from jprep.train.pretrained.config import PretrainedConfig, fitting_vocab_size, with_pretrained_config

_DEFAULT_RTD = RtdConfig()


class TokenizerInfo(NamedTuple):
    """What a model's config takes from the tokenizer and the job.

    Attributes:
        vocab_size: the number of ids.
        length: tokens in the longest row.
        bos: the id of the beginning-of-sequence token; None if the tokenizer has none.
        eos: the id of the end-of-sequence token; None if the tokenizer has none.
        pad: the id of the padding token; None if the tokenizer has none.
        labels: the class names; empty unless the task is `classify`.
    """

    vocab_size: int
    length: int
    bos: int | None = None
    eos: int | None = None
    pad: int | None = None
    labels: Sequence[str] = ()


def model_config(
    section: ModelConfig,
    task: Task,
    about: TokenizerInfo,
    given: PretrainedConfig | None = None,
    *,
    next_sentence: bool = False,
    rtd: RtdConfig = _DEFAULT_RTD,
) -> TransformersConfig:
    """Return the complete config of a model: the section's values override the preset's, and these the defaults.

    That of `rtd` is the discriminator's; its key `generator` holds the generator's.

    Args:
        section: the recipe's section.
        task: the task of the model.
        about: the values that the tokenizer and the job determine.
        given: the config of the pretrained model to start from; None to build the model from the section alone.
        next_sentence: whether the model has a next-sentence head, too.
        rtd: the sizes of the generator, for `rtd`.

    Raises:
        ConfigError: an unknown preset, model type or key, an invalid value, or a model that does not fit the job.
    """
    if given:
        about = about._replace(vocab_size=fitting_vocab_size(section, given, about.vocab_size, about.pad))
        section = with_pretrained_config(section, given, task)
    chosen = _preset(section.preset) | section.config
    kind, family = _family(chosen, task, section.init)
    check_keys(section.config, family)
    config = family.defaults | {key: value for key, value in chosen.items() if key != "model_type"}
    check_values(config, family)
    if not family.plugin:
        _derive(config, kind)
    pad = _pad(kind, task, about)
    needed = about.length + (pad + 1 if kind == "roberta" and pad is not None else 0)
    stated = family.positions in section.config
    if given and (stated or not (family.rotary or family.plugin)):
        _check_given_positions(config[family.positions], needed, family, task, about.length)
    _fill_positions(config, family, needed, fixed=stated)
    ids = {"bos_token_id": about.bos, "eos_token_id": about.eos, "pad_token_id": pad}
    if kind == "modernbert":  # transformers' defaults are ids of the published vocabulary
        ids |= {"cls_token_id": about.bos, "sep_token_id": about.eos}
    if next_sentence:
        check_next_sentence_model(kind, config["type_vocab_size"], WHERE)
    served = PRETRAINING_CLASS if next_sentence else family.classes[task]
    head = {"model_type": kind, "architectures": [served], "vocab_size": about.vocab_size}
    complete = head | ids | family.fixed | config | _labels(task, about.labels)
    return complete | (_generator(complete, section, rtd) if task == "rtd" else {})


def _generator(config: TransformersConfig, section: ModelConfig, rtd: RtdConfig) -> TransformersConfig:
    """Return the key for the generator's config."""
    found, family = generator_config(config, section.preset, rtd), FAMILIES[config["model_type"]]
    check_values({key: found[key] for key in family.defaults}, family, "train.rtd.generator")
    return {GENERATOR: found}


def check_model(section: ModelConfig, task: Task, *, next_sentence: bool = False) -> None:
    """Check the section as far as possible without a tokenizer: the model type, its keys and their values.

    Args:
        section: the recipe's section.
        task: the task of the model.
        next_sentence: whether the model has a next-sentence head, too.

    Raises:
        ConfigError: an unknown preset, model type or key, or an invalid value.
    """
    chosen = _preset(section.preset) | section.config
    if "model_type" in chosen:
        _, family = _family(chosen, task, section.init)
        check_keys(section.config, family)
        config = family.defaults | {key: chosen[key] for key in chosen if key != "model_type"}
        check_values(config, family)
        if next_sentence:
            check_next_sentence_model(chosen["model_type"], config.get("type_vocab_size", 0), WHERE)


def max_positions(config: TransformersConfig) -> int:
    """Return the maximum length of a model's input in tokens.

    Raises:
        ConfigError: the model type is not supported, or the config lacks the key.
    """
    kind = str(config.get("model_type"))
    if kind not in FAMILIES or not isinstance(config.get(FAMILIES[kind].positions), int):
        what = f"jprep cannot run a model of type {kind!r} with this config"
        other = "" if VERSION in config else "; or load it with AutoModel"
        raise ConfigError(what, where="config.json", fix=unknown_family(kind, config, FAMILIES) + other)
    most: int = config[FAMILIES[config["model_type"]].positions]
    return most - config["pad_token_id"] - 1 if config["model_type"] == "roberta" else most


def _preset(name: str) -> TransformersConfig:
    if name and name not in PRESETS:
        raise ConfigError(f"there is no preset {name!r}", where=f"{WHERE}.preset", fix=suggest_name(name, PRESETS))
    return PRESETS.get(name, {})


def _family(chosen: TransformersConfig, task: Task, init: str) -> tuple[str, ModelFamily]:
    kind = chosen.get("model_type")
    if kind is None:
        fix = f'preset = "gpt2-small", or config.model_type; {suggest_name("", PRESETS)}'
        raise ConfigError("no model is given", where=WHERE, fix=fix)
    if kind not in FAMILIES:
        where = f"{WHERE}.config.model_type"
        raise ConfigError(
            f"jprep cannot train a model of type {kind!r}", where=where, fix=suggest_name(str(kind), FAMILIES)
        )
    if task not in FAMILIES[kind].classes:
        raise _unsupported_task(kind, task, init)
    return kind, FAMILIES[kind]


def _unsupported_task(kind: str, task: Task, init: str) -> ConfigError:
    what = f"a model of type {kind!r} does not support the task {task!r}"
    if task == "clm":
        what += "; clm and sft need a causal model"
    able = {name: preset["model_type"] for name, preset in PRESETS.items()}
    able = {name: each for name, each in able.items() if task in FAMILIES[each].classes}
    if init:
        types = ", ".join(dict.fromkeys(able.values()))
        return ConfigError(what, where=f"{WHERE}.init", fix=f"give a model of one of these types: {types}")
    return ConfigError(what, where=WHERE, fix=f"use one of {', '.join(able)}")


def _derive(config: TransformersConfig, kind: str) -> None:
    """Set the values that transformers would derive."""
    if kind == "gpt2" and config["n_inner"] is None:
        config["n_inner"] = 4 * config["n_embd"]
    if SCALING in config:
        _derive_rotary(config)
    if kind == "modernbert" and (config["hidden_size"] // config["num_attention_heads"]) % 2:
        raise _odd_heads("num_attention_heads")


def _derive_rotary(config: TransformersConfig) -> None:
    """Set the sizes of heads, and the scaling of positions if there is one."""
    scaling = rope_scaling(config.pop(SCALING), f"{WHERE}.config.{SCALING}")
    config |= {SCALING: scaling} if scaling else {}
    config["num_key_value_heads"] = config["num_key_value_heads"] or config["num_attention_heads"]
    config["head_dim"] = config["head_dim"] or config["hidden_size"] // config["num_attention_heads"]
    if config["head_dim"] % 2:
        raise _odd_heads("head_dim")


def _odd_heads(key: str) -> ConfigError:
    fix = "use heads of an even size: rotary embeddings rotate pairs"
    return ConfigError("the size of a head must be even", where=f"{WHERE}.config.{key}", fix=fix)


def _pad(kind: str, task: Task, about: TokenizerInfo) -> int | None:
    """Return the padding id for the config.

    transformers neither initializes nor trains the embedding of the padding token. If that token also ends documents,
    as in GPT-2's set, a language model must learn it: the config then has no padding id, but rows are padded with it.
    """
    needs = kind == "roberta" or (FAMILIES[kind].causal and task != "clm")
    if about.pad is None and needs:
        fix = 'train a tokenizer with special = ["roberta"], ["bert"] or ["gpt"]'
        raise ConfigError(f"{kind} needs a padding token, but the tokenizer has none", where=WHERE, fix=fix)
    return None if task == "clm" and about.pad in (about.bos, about.eos) else about.pad


def _fill_positions(config: TransformersConfig, family: ModelFamily, needed: int, *, fixed: bool) -> None:
    key = family.positions
    if fixed and config[key] < needed:
        fix = f"{key} = {needed}, or remove it; or use shorter rows"
        raise ConfigError(_too_few(config[key], needed), where=f"{WHERE}.config.{key}", fix=fix)
    config[key] = max(config[key], needed)


def _check_given_positions(most: int, needed: int, family: ModelFamily, task: Task, length: int) -> None:
    """Check that given weights have a position for each token of a row; rotary families can have more than are given.

    Args:
        most: positions of the model.
        needed: positions that the longest row needs.
        family: the model's family.
        task: the job's task.
        length: tokens in the longest row.

    Raises:
        ConfigError: the rows are too long.
    """
    if most >= needed:
        return
    section = "train.labelled" if task in LABELLED_TASKS else "train"
    fix = f"{section}.length = {most - (needed - length)}"
    if family.rotary or family.plugin:
        fix = f"{WHERE}.config.{family.positions} = {needed}; or {fix}"
    raise ConfigError(_too_few(most, needed), where=f"{WHERE}.init", fix=fix)


def _too_few(most: int, needed: int) -> str:
    return f"rows need {needed} positions, but the model has {most}"


def _labels(task: Task, names: Sequence[str]) -> TransformersConfig:
    if task not in LABELLED_TASKS:
        return {}
    names = names if task == "classify" else ["LABEL_0"]
    kind = "single_label_classification" if task == "classify" else "regression"
    return {
        "problem_type": kind,
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
    }
