"""Folders that transformers has saved are starting points: the same tokens, weights and logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from tokenizers.pre_tokenizers import ByteLevel

from jprep.io.safetensors_file import TensorFiles
from jprep.tokenizer import load_tokenizer
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, parse_train_config
from jprep.train.models.initial_weights import write_initial_weights
from jprep.train.pretrained.start import describe_init
from jprep_torch import tokenize
from jprep_torch.models.transformers_models import build_model, load_weights, weight_names
from tests.fakes.hugging_face import write_byte_level, write_metaspace, write_wordpiece
from tests.fakes.small_dataset import SPLITS, lay_out

TEXT = "吾輩は猫 the cats run"
ENCODER = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
           "max_position_embeddings": 40, "initializer_range": 0.2}  # fmt: skip


QWEN = {**ENCODER, "num_key_value_heads": 1, "head_dim": 12, "tie_word_embeddings": False, "bos_token_id": None,
        "eos_token_id": 256, "pad_token_id": None}  # fmt: skip


def write_roberta(folder: Path) -> None:
    """Write the files of a RoBERTa's tokenizer: bytes without merges, as it had them before `tokenizer.json`."""
    folder.mkdir()
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *sorted(ByteLevel.alphabet()), "<mask>"]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "RobertaTokenizer"}))


class Family(NamedTuple):
    """A kind of model, made by transformers.

    Attributes:
        tokenizer: writes its tokenizer.
        config: the class of its config.
        model: the class of the model.
        values: of its config.
        task: the task.
    """

    tokenizer: Any
    config: Any
    model: Any
    values: dict[str, Any]
    task: str = "mlm"


FAMILIES = {
    "roberta": Family(write_roberta, transformers.RobertaConfig, transformers.RobertaForMaskedLM,
                      {**ENCODER, "type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "xlm-roberta": Family(write_metaspace, transformers.XLMRobertaConfig, transformers.XLMRobertaForMaskedLM,
                          {**ENCODER, "type_vocab_size": 1}),
    "camembert": Family(write_metaspace, transformers.CamembertConfig, transformers.CamembertForMaskedLM,
                        {**ENCODER, "type_vocab_size": 1}),
    "electra": Family(write_wordpiece, transformers.ElectraConfig, transformers.ElectraForMaskedLM,
                      {**ENCODER, "embedding_size": 8}),
    "llama": Family(write_byte_level, transformers.LlamaConfig, transformers.LlamaForCausalLM,
                    {**ENCODER, "num_key_value_heads": 1, "tie_word_embeddings": False, "bos_token_id": None,
                     "eos_token_id": 256, "pad_token_id": None}, "clm"),
    "gpt2": Family(write_byte_level, transformers.GPT2Config, transformers.GPT2LMHeadModel,
                   {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40, "initializer_range": 0.2,
                    "bos_token_id": 256, "eos_token_id": 256}, "clm"),
    "bert": Family(write_wordpiece, transformers.BertConfig, transformers.BertForMaskedLM, ENCODER),
    "qwen3": Family(write_byte_level, transformers.Qwen3Config, transformers.Qwen3ForCausalLM, QWEN, "clm"),
    "qwen3_moe": Family(write_byte_level, transformers.Qwen3MoeConfig, transformers.Qwen3MoeForCausalLM,
                        {**QWEN, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12}, "clm"),
    "modernbert": Family(write_metaspace, transformers.ModernBertConfig, transformers.ModernBertForMaskedLM,
                         {**ENCODER, "local_attention": 8, "cls_token_id": None, "sep_token_id": None,
                          "bos_token_id": None, "eos_token_id": None}),
    "deberta-v2": Family(write_wordpiece, transformers.DebertaV2Config, transformers.DebertaV2ForMaskedLM,
                         {**ENCODER, "relative_attention": True, "position_buckets": 4, "share_att_key": True,
                          "norm_rel_ebd": "layer_norm", "pos_att_type": ["p2c", "c2p"], "position_biased_input": False,
                          "type_vocab_size": 0}),
}  # fmt: skip


def save(family: Family, folder: Path, model: Any = None) -> Any:
    """Save a tokenizer and a random model as users of transformers do; return the model."""
    family.tokenizer(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(7)
    pad = {} if "pad_token_id" in family.values else {"pad_token_id": tokenizer.pad_token_id}
    made = (model or family.model)(family.config(vocab_size=len(tokenizer) + 3, **family.values, **pad))
    made.save_pretrained(folder)
    return made.eval()


def start(init: Path, folder: Path, task: str, **rtd: Any) -> tuple[Job, Any, list[int]]:
    """Return the job that begins with a folder, its model with the initial weights, and the ids of a text."""
    loaded = load_tokenizer(init)
    documents = {
        name: [[[[token % 5 for token in sentence] for sentence in part] for part in one] for one in several]
        for name, several in SPLITS.items()
    }
    made_from = {"tokenizer": {"fingerprint": loaded.card.fingerprint}, "segmenter": {"name": "pointwise"}}
    end = loaded.id_of(loaded.special.eos or loaded.special.sep)
    dataset = lay_out(folder / "dataset", documents, made_from=made_from, vocab_size=loaded.vocab_size, end=end)
    section = {"task": task, "model": {"init": str(init)}, "length": 16, "batch": 2, "steps": 2, "rtd": rtd}
    job = build_job(parse_train_config(section, "here"), "run", "torch", {}, init, dataset)
    path, generator = folder / "init.safetensors", rtd.get("generator_init")
    write_initial_weights(job.model, task, 1, path, init, None, Path(generator) if generator else None)
    model: Any = build_model(job.model, task)
    tensors = TensorFiles([path])
    load_weights(model, weight_names(model, job.model, task), tensors, lambda tensor, _: tensor.clone())
    return job, model.eval(), loaded.encode(TEXT)


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_model_that_transformers_saved_computes_the_same(kind: str, tmp_path: Path) -> None:
    family = FAMILIES[kind]
    saved = save(family, tmp_path / kind)
    job, model, ids = start(tmp_path / kind, tmp_path, family.task)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / kind)
    assert ids == tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    assert [*job.special.before, *ids, *job.special.after] == tokenizer(TEXT)["input_ids"] or family.task == "clm"
    with torch.inference_mode():
        given = torch.tensor([ids])
        torch.testing.assert_close(model(input_ids=given).logits, saved(input_ids=given).logits, rtol=1e-5, atol=1e-5)
    assert describe_init(job, tmp_path).endswith("no tensor starts from the seed")


def test_an_electra_starts_from_the_folders_of_both_halves(tmp_path: Path) -> None:
    """As google/electra-small-discriminator and -generator are: separate folders, each with the embeddings."""
    large = FAMILIES["electra"]
    small = large._replace(values={**large.values, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1})
    discriminator = save(large, tmp_path / "discriminator", transformers.ElectraForPreTraining)
    generator = save(small, tmp_path / "generator")
    job, model, ids = start(tmp_path / "discriminator", tmp_path, "rtd", generator_init=str(tmp_path / "generator"))
    assert (job.model["generator"]["hidden_size"], job.model["generator"]["num_hidden_layers"]) == (8, 1)
    generator.electra.embeddings.load_state_dict(discriminator.electra.embeddings.state_dict())
    with torch.inference_mode():
        given = torch.tensor([ids])
        for ours, theirs in ((model, discriminator), (model.generator, generator)):
            found, expected = ours(input_ids=given).logits, theirs(input_ids=given).logits
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_sentencepiece_model_without_protobuf_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers alone would ask for tiktoken."""
    (tmp_path / "spiece.model").write_bytes(b"")
    monkeypatch.setattr(tokenize, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="-m pip install protobuf"):
        tokenize.load(str(tmp_path))
