"""Model configs from presets and tokenizers, and weights with the names and shapes of transformers."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from jprep.errors import ConfigError
from jprep.train.job.config import ModelConfig
from jprep.train.models import (
    FAMILIES,
    PRESETS,
    TokenizerInfo,
    check_model,
    half_names,
    model_config,
    parameter_count,
    parameters,
    training_memory,
)

ABOUT = TokenizerInfo(vocab_size=50, length=16, bos=0, eos=2, pad=1, labels=("a", "b", "c"))
GPT = TokenizerInfo(vocab_size=50, length=16, bos=49, eos=49, pad=49, labels=("a", "b"))
SMALL = {
    "gpt2": {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16},
    "bert": {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12},
    "roberta": {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12},
    "electra": {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12},
    "llama": {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 12},
    "modernbert": {"hidden_size": 8, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 12},
    "deberta-v2": {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12},
    "qwen3_moe": {
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_experts": 6,
        "moe_intermediate_size": 10,
        "num_experts_per_tok": 2,
    },
    "qwen3": {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 12},
}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((kind, {}) for kind in SMALL),
    ("gpt2", {"n_inner": 20, "tie_word_embeddings": False}),
    ("bert", {"type_vocab_size": 1}),
    ("electra", {"embedding_size": 8}),
    ("llama", {"num_key_value_heads": 2, "head_dim": 6, "attention_bias": True, "mlp_bias": True}),
    ("llama", {"tie_word_embeddings": True, "rope_theta": 500.0}),
    ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 1024}}),
    ("modernbert", {"norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True}),
    ("modernbert", {"decoder_bias": False, "classifier_pooling": "mean", "global_attn_every_n_layers": 2}),
    ("deberta-v2", {"type_vocab_size": 2, "conv_kernel_size": 3, "position_buckets": 8}),
    ("qwen3", {"num_key_value_heads": 2, "head_dim": 6, "attention_bias": True, "tie_word_embeddings": True}),
]
CASES = [(kind, more, task) for kind, more in VARIANTS for task in FAMILIES[kind].classes]


def config_of(kind: str, task: Any, about: TokenizerInfo = ABOUT, **more: Any) -> dict[str, Any]:
    return model_config(ModelConfig(config={"model_type": kind, **SMALL[kind], **more}), task, about)


# What Hugging Face counts for the published models of these sizes: the tokens are theirs, not ours.
@pytest.mark.parametrize(
    ("preset", "task", "vocab", "expected"),
    [
        ("gpt2-small", "clm", 50257, 124_439_808),
        ("gpt2-medium", "clm", 50257, 354_823_168),
        ("gpt2-xl", "clm", 50257, 1_557_611_200),
        ("bert-base", "mlm", 30522, 109_514_298),
        ("roberta-base", "mlm", 50265, 124_697_433),
        ("roberta-large", "mlm", 50265, 355_412_057),
        ("llama-1b", "clm", 32000, 1_100_048_384),
        ("llama3-1b", "clm", 128256, 1_235_814_400),
        ("llama3-8b", "clm", 128256, 8_030_261_248),
        ("modernbert-base", "mlm", 50368, 149_655_232),
        ("modernbert-large", "mlm", 50368, 395_881_664),
        ("qwen3-0.6b", "clm", 151936, 596_049_920),
        ("qwen3-1.7b", "clm", 151936, 1_720_574_976),
        ("qwen3-4b", "clm", 151936, 4_022_468_096),
        ("qwen3-moe-30b-a3b", "clm", 151936, 30_532_122_624),
    ],
)
def test_published_sizes_have_their_published_numbers_of_weights(preset, task, vocab, expected):
    about = ABOUT._replace(vocab_size=vocab, length=512)
    assert parameter_count(model_config(ModelConfig(preset=preset), task, about), task) == expected


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_makes_a_model_for_each_of_its_tasks(preset):
    for task, served in FAMILIES[PRESETS[preset]["model_type"]].classes.items():
        config = model_config(ModelConfig(preset=preset), task, ABOUT)
        assert config["architectures"] == [served]
        tensors = parameters(config, task)
        assert all(tensor.std > 0 for tensor in tensors.values() if tensor.kind == "normal")
        assert {len(tensor.shape) for tensor in tensors.values() if tensor.kind == "normal"} <= {2, 3}
        assert {len(tensor.shape) for tensor in tensors.values() if tensor.kind != "normal"} <= {1, 2}


def test_the_tokenizer_and_the_job_determine_the_rest():
    config = model_config(ModelConfig(preset="gpt2-small", config={"n_layer": 3}), "clm", ABOUT)
    from_tokenizer = {
        key: config[key] for key in ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id", "n_layer")
    }
    assert from_tokenizer == {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "n_layer": 3}
    assert config["n_inner"] == 4 * 768
    classes = model_config(ModelConfig(preset="bert-tiny"), "classify", ABOUT)
    assert classes["id2label"] == {"0": "a", "1": "b", "2": "c"}
    assert classes["label2id"] == {"a": 0, "b": 1, "c": 2}
    assert model_config(ModelConfig(preset="bert-tiny"), "regress", ABOUT)["problem_type"] == "regression"


def test_a_row_fits_into_the_positions():
    def positions(preset: str, length: int) -> int:
        config = model_config(ModelConfig(preset=preset), "mlm", ABOUT._replace(length=length))
        return int(config["max_position_embeddings"])

    assert (positions("bert-base", 128), positions("bert-base", 600)) == (512, 600)
    assert (positions("roberta-base", 512), positions("roberta-base", 513)) == (514, 515)


def test_a_padding_token_that_ends_documents_is_learnt():
    assert config_of("llama", "clm", GPT)["pad_token_id"] is None
    assert parameters(config_of("llama", "clm", GPT), "clm")["model.embed_tokens.weight"].zero_row == -1
    assert config_of("llama", "classify", GPT)["pad_token_id"] == 49
    assert parameters(config_of("llama", "clm"), "clm")["model.embed_tokens.weight"].zero_row == 1


def test_the_only_token_type_is_not_trained():
    tensors = parameters(config_of("roberta", "mlm", type_vocab_size=1), "mlm")
    [name] = [name for name, tensor in tensors.items() if not tensor.trained]
    assert name == "roberta.embeddings.token_type_embeddings.weight"
    assert tensors[name].kind == "zeros"
    assert all(tensor.trained for tensor in parameters(config_of("bert", "mlm"), "mlm").values())


def test_memory_grows_with_rows_and_shrinks_with_half_precision():
    config = model_config(ModelConfig(preset="gpt2-small"), "clm", ABOUT._replace(vocab_size=50257))
    one, many = (training_memory(config, "clm", rows, 512, "fp32") for rows in (1, 16))
    weights = 16 * parameter_count(config, "clm")
    assert weights < one < many
    assert many - weights == 16 * (one - weights)
    assert training_memory(config, "clm", 16, 512, "bf16") < many


@pytest.mark.parametrize(
    ("preset", "attention", "numbers"),
    [("bert-small", False, 20), ("bert-small", True, 46), ("gpt2-tiny", False, 56), ("llama-tiny", False, 32)],
)
def test_activations_match_the_documentation(preset, attention, numbers):
    wide = {"gpt2": "n_embd", "bert": "hidden_size", "llama": "hidden_size"}[PRESETS[preset]["model_type"]]
    config = model_config(ModelConfig(preset=preset, config={wide: 512}), "classify", ABOUT)
    if preset == "bert-small":
        assert config["num_attention_heads"] * 256 == 4 * 512
    layers = config.get("n_layer") or config["num_hidden_layers"]
    kept = training_memory(config, "classify", 8, 256, "fp32", attention=attention) - 16 * parameter_count(
        config, "classify"
    )
    assert kept == 8 * 256 * layers * 512 * numbers * 4


def test_wide_heads_and_the_experts_of_a_token_take_memory():
    def values(preset: str, **config: Any) -> float:
        made = model_config(ModelConfig(preset=preset, config=config), "classify", ABOUT)
        kept = training_memory(made, "classify", 8, 256, "fp32") - 16 * parameter_count(made, "classify")
        return kept / (8 * 256 * 4 * made["num_hidden_layers"])

    assert values("qwen3-tiny", head_dim=32) == 32 * 128
    assert values("qwen3-tiny", head_dim=48) == 32 * 128 + 6 * 64
    assert values("qwen3-moe-tiny", head_dim=32) == 20 * 128 + 2 * (4 * 96 + 2 * 128)


@pytest.mark.parametrize(
    ("section", "task", "says"),
    [
        ({"preset": "gpt2-smal"}, "clm", "gpt2-small"),
        ({}, "clm", "preset"),
        ({"config": {"model_type": "gtp2"}}, "clm", "gpt2"),
        ({"preset": "bert-tiny"}, "clm", "gpt2-tiny"),
        ({"preset": "gpt2-tiny"}, "mlm", "bert-tiny"),
        ({"preset": "gpt2-tiny", "config": {"n_layers": 2}}, "clm", "n_layer"),
        ({"preset": "gpt2-tiny", "config": {"vocab_size": 2}}, "clm", "tokenizer"),
        ({"preset": "gpt2-tiny", "config": {"n_embd": 130, "n_head": 3}}, "clm", "divided"),
        ({"preset": "gpt2-tiny", "config": {"n_embd": 0}}, "clm", "above 0"),
        ({"preset": "gpt2-tiny", "config": {"n_embd": True}}, "clm", "above 0"),
        ({"preset": "gpt2-tiny", "config": {"n_inner": 1.5}}, "clm", "above 0"),
        ({"preset": "gpt2-tiny", "config": {"resid_pdrop": 1}}, "clm", "from 0 to below 1"),
        ({"preset": "gpt2-tiny", "config": {"activation_function": "gelu_old"}}, "clm", "gelu_new"),
        ({"preset": "gpt2-tiny", "config": {"tie_word_embeddings": 1}}, "clm", "true or false"),
        ({"preset": "gpt2-tiny", "config": {"n_positions": 15}}, "clm", "16"),
        ({"preset": "roberta-tiny", "config": {"max_position_embeddings": 17}}, "mlm", "18"),
        ({"preset": "llama-tiny", "config": {"num_key_value_heads": 3}}, "clm", "cannot share"),
        ({"preset": "llama-tiny", "config": {"head_dim": 5}}, "clm", "even"),
        ({"preset": "qwen3-moe-tiny", "config": {"num_experts_per_tok": 9}}, "clm", "at most num_experts"),
        ({"preset": "deberta-v2-tiny", "config": {"conv_kernel_size": 4}}, "mlm", "odd number"),
        ({"preset": "deberta-v2-tiny", "config": {"legacy": False}}, "mlm", "unknown key"),
        ({"preset": "llama-tiny", "config": {"rope_scaling": 2.0}}, "clm", "a table"),
        ({"preset": "llama-tiny", "config": {"rope_scaling": {"rope_type": "longrope"}}}, "clm", "type 'longrope'"),
        ({"preset": "llama-tiny", "config": {"rope_scaling": {"rope_type": "linear"}}}, "clm", "needs factor"),
        ({"preset": "llama-tiny", "config": {"rope_scaling": {"type": "linear", "factor": 0.5}}}, "clm", "at least 1"),
        ({"preset": "llama-tiny", "config": {"rope_scaling": {"type": "linear", "beta_fast": 8}}}, "clm", "no key"),
    ],
)
def test_invalid_models_are_refused(section, task, says):
    with pytest.raises(ConfigError, match=says):
        model_config(ModelConfig(**section), task, ABOUT)


def test_rope_scaling_is_written_as_transformers_checks_it():
    given = {"type": "yarn", "factor": 4, "original_max_position_embeddings": 512, "beta_fast": None}
    config = config_of("llama", "clm", rope_scaling=given)
    assert config["rope_scaling"] == {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
    assert isinstance(config["rope_scaling"]["factor"], float)
    assert "rope_scaling" not in config_of("llama", "clm", rope_scaling={"rope_type": "default"})


@pytest.mark.parametrize(("preset", "task"), [("gpt2-tiny", "classify"), ("roberta-tiny", "mlm")])
def test_a_missing_padding_token_is_refused(preset, task):
    with pytest.raises(ConfigError, match="padding token"):
        model_config(ModelConfig(preset=preset), task, ABOUT._replace(pad=None))


SCRIPT = """
import copy, json, sys, tempfile, torch, transformers
from pathlib import Path
from safetensors import safe_open

transformers.logging.set_verbosity_error()
def plain(value):
    return json.loads(json.dumps(value))

found = []
for config in json.load(sys.stdin):
    made = transformers.AutoConfig.for_model(**copy.deepcopy(config))
    known = {key: plain(getattr(made, key)) for key in config if hasattr(made, key)}
    rope = dict(getattr(made, "rope_parameters", None) or {})  # where version 5 puts them
    scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
    known |= {"rope_theta": rope.get("rope_theta"), "rope_scaling": scaling}
    for key, layers in (("global_rope_theta", "full_attention"), ("local_rope_theta", "sliding_attention")):
        known[key] = rope.get(layers, {}).get("rope_theta")
    unknown = [key for key in config if key not in known or known[key] != config[key]]
    model = getattr(transformers, config["architectures"][0])(made)
    tensors = {}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        saved = json.loads(Path(folder, "config.json").read_text())
        with safe_open(Path(folder, "model.safetensors"), "pt") as file:
            for name in file.keys():
                value = file.get_tensor(name)
                rows = [n for n, row in enumerate(value) if not row.any()] if value.ndim == 2 else []
                kind = "zeros" if not value.any() else "ones" if (value == 1).all() else "normal"
                tensors[name] = [list(value.shape), kind, rows]
    parameters = sum(one.numel() for one in model.parameters())
    changed = [key for key in config if key in saved and saved[key] != config[key] and key != "rope_scaling"]
    found.append([tensors, parameters, unknown + changed])
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def transformers_says() -> list[Any]:
    python = os.environ.get("JPREP_TORCH")
    if not python:
        pytest.skip("JPREP_TORCH names no Python that has torch and transformers")
    configs = [config_of(kind, task, **more) for kind, more, task in CASES]
    done = subprocess.run([python, "-c", SCRIPT], input=json.dumps(configs), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


@pytest.mark.backends
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: "-".join(map(str, CASES[number])))
def test_weights_are_those_of_transformers(number, transformers_says):
    kind, more, task = CASES[number]
    config = config_of(kind, task, **more)
    ours, [theirs, total, changed] = parameters(config, task), transformers_says[number]
    if task == "rtd":  # its generator is an ElectraForMaskedLM of another size, which is another case
        ours = {name: ours[name] for name in half_names(config, "discriminator")}
    assert {name: list(tensor.shape) for name, tensor in ours.items()} == {name: one[0] for name, one in theirs.items()}
    assert sum(tensor.size for tensor in ours.values()) == total
    assert changed == []
    for name, tensor in ours.items():
        _, started, rows = theirs[name]
        assert started == (tensor.kind if tensor.trained else "normal"), name
        if tensor.kind == "normal":
            assert rows == [tensor.zero_row] * (tensor.zero_row >= 0), name


def test_an_encoder_is_no_start_of_instruction_tuning() -> None:
    with pytest.raises(ConfigError, match="clm and sft need a causal model") as caught:
        check_model(ModelConfig(init="work/a/export", config={"model_type": "modernbert"}), "clm")
    assert caught.value.where == "train.model.init" and "qwen3" in caught.value.fix and "tiny" not in caught.value.fix
