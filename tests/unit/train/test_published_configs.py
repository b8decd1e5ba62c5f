"""Configs with the keys that published models have, as transformers 4 and 5 write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jprep.errors import ConfigError
from jprep.train.job.config import ModelConfig, Task
from jprep.train.models import TokenizerInfo, model_config
from jprep.train.pretrained.config import read_pretrained_config

LLAMA3 = {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 64,
          "rope_type": "llama3"}  # fmt: skip
SHARED = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 60,
    "torch_dtype": "bfloat16",
    "initializer_range": 0.02,
    "transformers_version": "4.57.6",
}
DECODER = SHARED | {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": [2, 3, 4],
    "head_dim": 8,
    "hidden_act": "silu",
    "intermediate_size": 48,
    "max_position_embeddings": 2048,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 5e5,
    "tie_word_embeddings": True,
    "use_cache": True,
}
LLAMA = DECODER | {"architectures": ["LlamaForCausalLM"], "mlp_bias": False, "model_type": "llama", "pretraining_tp": 1,
                   "rope_scaling": LLAMA3}  # fmt: skip
"""As meta-llama/Llama-3.2-1B."""
QWEN3 = DECODER | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 16, "rope_scaling": None,
                   "max_window_layers": 28, "sliding_window": None, "use_sliding_window": False}  # fmt: skip
"""As Qwen/Qwen3-0.6B."""
QWEN3_MOE = QWEN3 | {
    "architectures": ["Qwen3MoeForCausalLM"], "decoder_sparse_step": 1, "mlp_only_layers": [],
    "model_type": "qwen3_moe", "moe_intermediate_size": 24, "norm_topk_prob": True, "num_experts": 8,
    "num_experts_per_tok": 2, "output_router_logits": False, "router_aux_loss_coef": 0.001,
}  # fmt: skip
"""As Qwen/Qwen3-30B-A3B."""
MODERNBERT = SHARED | {
    "architectures": ["ModernBertForMaskedLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1,
    "classifier_activation": "gelu", "classifier_bias": False, "classifier_dropout": 0.0, "classifier_pooling": "mean",
    "cls_token_id": 1, "decoder_bias": True, "deterministic_flash_attn": False, "embedding_dropout": 0.0,
    "eos_token_id": 2, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "gradient_checkpointing": False,
    "hidden_activation": "gelu", "initializer_cutoff_factor": 2.0, "intermediate_size": 48, "layer_norm_eps": 1e-05,
    "local_attention": 128, "local_rope_theta": 10000.0, "max_position_embeddings": 8192, "mlp_bias": False,
    "mlp_dropout": 0.0, "model_type": "modernbert", "norm_bias": False, "norm_eps": 1e-05, "num_hidden_layers": 7,
    "pad_token_id": 3, "position_embedding_type": "absolute", "sep_token_id": 2, "tie_word_embeddings": True,
}  # fmt: skip
"""As answerdotai/ModernBERT-base."""
DEBERTA = SHARED | {
    "architectures": ["DebertaV2ForMaskedLM"], "attention_head_size": 8, "attention_probs_dropout_prob": 0.1,
    "conv_act": "gelu", "conv_kernel_size": 3, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "intermediate_size": 48, "layer_norm_eps": 1e-07, "max_position_embeddings": 512, "max_relative_positions": -1,
    "model_type": "deberta-v2", "norm_rel_ebd": "layer_norm", "pad_token_id": 0, "pooler_dropout": 0,
    "pooler_hidden_act": "gelu", "pooler_hidden_size": 32, "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False, "position_buckets": 256, "relative_attention": True, "share_att_key": True,
    "type_vocab_size": 0,
}  # fmt: skip
"""As ku-nlp/deberta-v2-base-japanese."""


def config_of(folder: Path, published: dict[str, Any], task: Task = "clm", **section: Any) -> dict[str, Any]:
    """Return the job's config of a model that starts from a folder with a published config."""
    (folder / "config.json").write_text(json.dumps(published))
    given = read_pretrained_config(folder)
    about = TokenizerInfo(published["vocab_size"], 32, 1, 2, 0, labels=("a", "b"))
    return model_config(ModelConfig(config=section), task, about, given)


def test_the_rope_of_llama_3_is_that_of_its_config(tmp_path: Path) -> None:
    found = config_of(tmp_path, LLAMA)
    assert (found["rope_theta"], found["rope_scaling"], found["head_dim"]) == (5e5, LLAMA3, 8)
    fifth = {key: value for key, value in LLAMA.items() if key not in ("rope_theta", "rope_scaling")}
    assert config_of(tmp_path, fifth | {"rope_parameters": {"rope_theta": 5e5, **LLAMA3}}) == found
    plain = config_of(tmp_path, fifth | {"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}})
    assert plain["rope_theta"] == 5e5 and "rope_scaling" not in plain


def test_rows_beyond_the_positions_of_given_weights_name_what_is_possible(tmp_path: Path) -> None:
    learned = {"model_type": "roberta", "vocab_size": 100, "pad_token_id": 0, "type_vocab_size": 1}
    for stated in ({"max_position_embeddings": 31}, {}):
        most = stated.get("max_position_embeddings", 512) - 1  # RoBERTa counts positions from its padding id, 0
        assert refused_rows(tmp_path, learned | stated, "mlm", length=600) == f"train.length = {most}"
    labelled = refused_rows(tmp_path, learned | {"max_position_embeddings": 31}, "classify", length=600)
    assert labelled == "train.labelled.length = 30"
    rotary = LLAMA | {"max_position_embeddings": 64}
    fix = refused_rows(tmp_path, rotary, "clm", length=600)
    assert fix == "train.model.config.max_position_embeddings = 600; or train.length = 64"
    given = read_pretrained_config(tmp_path)
    longer = ModelConfig(config={"max_position_embeddings": 600})
    about = TokenizerInfo(rotary["vocab_size"], 600, 1, 2, 0)
    assert model_config(longer, "clm", about, given)["max_position_embeddings"] == 600


def refused_rows(folder: Path, published: dict[str, Any], task: Task, length: int) -> str:
    """Return the fix for rows that a given model has too few positions for."""
    (folder / "config.json").write_text(json.dumps(published))
    about = TokenizerInfo(published["vocab_size"], length, 1, 2, 0, labels=("a", "b"))
    with pytest.raises(ConfigError, match="positions, but the model has") as refused:
        model_config(ModelConfig(), task, about, read_pretrained_config(folder))
    assert refused.value.where == "train.model.init"
    return refused.value.fix


def test_qwen3_may_have_other_heads_than_its_width(tmp_path: Path) -> None:
    found = config_of(tmp_path, QWEN3)
    assert (found["model_type"], found["head_dim"], found["hidden_size"]) == ("qwen3", 16, 32)
    assert "rope_scaling" not in found
    with pytest.raises(ConfigError, match="use_sliding_window = False"):
        config_of(tmp_path, QWEN3 | {"use_sliding_window": True, "sliding_window": 64})


def test_experts_are_in_every_layer(tmp_path: Path) -> None:
    found = config_of(tmp_path, QWEN3_MOE)
    assert (found["num_experts"], found["norm_topk_prob"], found["mlp_only_layers"]) == (8, True, [])
    with pytest.raises(ConfigError, match="decoder_sparse_step = 1"):
        config_of(tmp_path, QWEN3_MOE | {"decoder_sparse_step": 2})


def test_modernbert_is_read_as_transformers_4_and_5_write_it(tmp_path: Path) -> None:
    found = config_of(tmp_path, MODERNBERT, "mlm")
    assert (found["classifier_pooling"], found["global_attn_every_n_layers"]) == ("mean", 3)
    moved = ("global_rope_theta", "local_rope_theta", "global_attn_every_n_layers")
    fifth = {key: value for key, value in MODERNBERT.items() if key not in moved}
    layers = ["full_attention", "sliding_attention", "sliding_attention"]
    thetas = {"full_attention": 80000.0, "sliding_attention": 500.0}
    rope = {kind: {"rope_theta": theta, "rope_type": "default"} for kind, theta in thetas.items()}
    other = config_of(tmp_path, fifth | {"layer_types": (3 * layers)[:7], "rope_parameters": rope}, "mlm")
    assert other == found | {"global_rope_theta": 80000.0, "local_rope_theta": 500.0}
    with pytest.raises(ConfigError, match="no regular interval"):
        config_of(
            tmp_path, fifth | {"layer_types": [*layers, *layers[::-1], layers[0]], "rope_parameters": rope}, "mlm"
        )
    rope["full_attention"] |= {"rope_type": "linear", "factor": 2.0}
    with pytest.raises(ConfigError, match="rope_scaling = None"):
        config_of(tmp_path, fifth | {"rope_parameters": rope}, "mlm")


def test_deberta_is_read_in_both_spellings(tmp_path: Path) -> None:
    found = config_of(tmp_path, DEBERTA, "mlm")
    assert (found["conv_kernel_size"], found["conv_act"], found["pos_att_type"]) == (3, "gelu", ["p2c", "c2p"])
    assert config_of(tmp_path, DEBERTA | {"pos_att_type": "c2p|p2c"}, "mlm") == found


@pytest.mark.parametrize(
    ("key", "value"),
    [("position_biased_input", None), ("share_att_key", False), ("legacy", False), ("pooler_hidden_size", 16)],
)
def test_other_forms_of_deberta_are_refused(key: str, value: Any, tmp_path: Path) -> None:
    changed = {name: one for name, one in (DEBERTA | {key: value}).items() if one is not None}
    with pytest.raises(ConfigError, match=f"{key} = "):
        config_of(tmp_path, changed, "mlm")


def test_rows_may_become_longer(tmp_path: Path) -> None:
    scaling = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 2048}
    found = config_of(tmp_path, LLAMA, max_position_embeddings=4096, rope_scaling=scaling, rope_theta=1e6)
    assert (found["max_position_embeddings"], found["rope_theta"], found["rope_scaling"]) == (4096, 1e6, scaling)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rope_scaling": {"rope_type": "longrope", "factor": 4.0}}, "RoPE scaling of type 'longrope'"),
        ({"rope_scaling": None, "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "no key"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 1.0"),
    ],
)
def test_what_jprep_would_compute_otherwise_is_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        config_of(tmp_path, LLAMA | changes)
