"""Starting from a model in Hugging Face form: config, files of weights, tensor names, vocabulary."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from jprep.errors import ConfigError, InputError
from jprep.io.safetensors_file import write_tensors
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.external.extension import extend_tokenizer
from jprep.train.exporting import export
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, parse_train_config
from jprep.train.models.initial_weights import check_init_weights, write_initial_weights
from jprep.train.pretrained.config import read_pretrained_config
from jprep.train.pretrained.init import transferred_rows
from jprep.train.pretrained.start import describe_init
from jprep.train.pretrained.vocabulary import row_sources
from jprep.train.run.directory import open_run
from tests.fakes.hugging_face import PIECES, SIZES, weights, write_bert, write_pytorch, write_wordpiece
from tests.fakes.trained_run import save as save_checkpoint

WORDS, BIAS = "bert.embeddings.word_embeddings.weight", "cls.predictions.bias"


def build(rows: Path, init: Path | str, tokenizer: Path | None = None, **model: Any) -> Job:
    section = {"task": "classify", "data": [str(rows)], "model": {"init": str(init), **model}, "steps": 2, "batch": 2,
               "labelled": {"length": 16}}  # fmt: skip
    return build_job(parse_train_config(section, "here"), "run", "torch", {}, tokenizer or Path(init))


def started(job: Job, tokenizer: Path, folder: Path) -> dict[str, np.ndarray]:
    """Return the initial weights of a job."""
    init = Path(job.train.model.init)
    path = folder / "init.safetensors"
    given = transferred_rows(job.train, init, tokenizer)
    write_initial_weights(job.model, job.train.task, job.train.seed, path, init, given)
    return weights(path)


def save(folder: Path, tensors: dict[str, np.ndarray], name: str = "model.safetensors") -> None:
    write_tensors(folder / name, {key: one.shape for key, one in tensors.items()}, lambda key: [tensors[key]])


def test_the_config_beside_the_weights_defines_the_model(bert: Path, rows: Path, tmp_path: Path) -> None:
    job = build(rows, bert)
    assert {key: job.model[key] for key in SIZES} == SIZES
    assert (job.model["model_type"], job.model["vocab_size"], job.labels) == ("bert", len(PIECES), ["bad", "good"])
    made, given = started(job, bert, tmp_path), weights(bert)
    shared = {name for name in made if name in given}
    assert {name for name in made if not name.startswith(("classifier", "bert.pooler"))} == shared
    for name in shared:
        np.testing.assert_array_equal(made[name], given[name])


def test_keys_that_a_config_leaves_out_have_the_values_of_transformers(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "roberta", "vocab_size": 9, "type_vocab_size": 1}')
    assert read_pretrained_config(tmp_path).values == {
        "type_vocab_size": 1, "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
    }  # fmt: skip


def test_dropout_may_differ_and_sizes_may_not(bert: Path, rows: Path) -> None:
    assert build(rows, bert, config={"hidden_dropout_prob": 0.0}).model["hidden_dropout_prob"] == 0.0
    assert build(rows, bert, config={"hidden_size": 16}).model["hidden_size"] == 16
    with pytest.raises(ConfigError, match=r"hidden_size is 20 in train\.model\.config\.hidden_size, but 16"):
        build(rows, bert, config={"hidden_size": 20})
    with pytest.raises(ConfigError, match="hidden_size is 128 in preset 'bert-tiny', but 16"):
        build(rows, bert, preset="bert-tiny")
    with pytest.raises(ConfigError, match="model_type is 'roberta'"):
        build(rows, bert, config={"model_type": "roberta"})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_type": "deberta"}, "no architecture for models of type 'deberta'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type = 'absolute'"),
        ({"is_decoder": True}, "is_decoder = False"),
        ({"vocab_size": None}, "no vocab_size"),
        ({"hidden_act": "mish"}, "hidden_act cannot be 'mish'"),
        ({"num_hidden_layers": 3}, "no tensor 'bert.encoder.layer.2"),
        ({"intermediate_size": 20}, "has the shape 24 × 16; the model needs 20 × 16"),
    ],
)
def test_other_architectures_are_refused(change: dict[str, Any], says: str, rows: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        build(rows, write_bert(tmp_path / "other", **change))


def test_folders_without_a_config_or_weights_are_refused(bert: Path, rows: Path, tmp_path: Path) -> None:
    (bert / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="no weights that jprep reads") as caught:
        build(rows, bert)
    assert "pytorch_model.bin" in caught.value.fix
    (bert / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"no config\.json in this folder"):
        build(rows, bert)
    with pytest.raises(ConfigError, match="no file or folder"):
        build(rows, tmp_path / "nowhere", bert)


def old_names(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the names of an early transformers, with what other classes add."""
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): one
        for name, one in given.items()
    }
    extra = {"bert.embeddings.position_ids": np.zeros((1, 32), np.float32), "bert.pooler.dense.bias": np.ones(16, "f4")}
    heads = {"cls.seq_relationship.weight": np.zeros((2, 16), "f4"), "qa_outputs.bias": np.zeros(2, "f4")}
    tied = {"cls.predictions.decoder.weight": given[WORDS], "cls.predictions.decoder.bias": given[BIAS]}
    return {f"module.{name}": one for name, one in (renamed | extra | heads | tied).items()}


def without_prefix(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix("bert."): one for name, one in given.items() if name.startswith("bert.")}


@pytest.mark.parametrize("rename", [old_names, without_prefix])
def test_names_of_other_classes_and_releases_are_mapped(rename: Any, bert: Path, rows: Path, tmp_path: Path) -> None:
    expected = weights(bert)
    save(bert, rename(expected))
    made = started(build(rows, bert), bert, tmp_path)
    for name, values in expected.items():
        if name.startswith("bert."):
            np.testing.assert_array_equal(made[name], values, name)


def test_a_file_whose_output_projection_is_not_the_embeddings_is_refused(tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "bert")
    config, tensors = json.loads((folder / "config.json").read_text()), weights(folder)
    file, name = folder / "model.safetensors", "cls.predictions.decoder.weight"
    save(folder, tensors | {name: tensors[WORDS]})
    check_init_weights(config, "mlm", file)
    save(folder, tensors | {name: tensors[WORDS] + 1})
    with pytest.raises(ConfigError, match=r"decoder\.weight' differs from '.*word_embeddings\.weight', to which"):
        check_init_weights(config, "mlm", file)
    check_init_weights(config, "mlm", folder)  # its config.json says that they are tied


def test_a_tensor_that_the_architecture_lacks_is_refused(bert: Path, rows: Path) -> None:
    save(bert, weights(bert) | {"bert.encoder.layer.0.adapter.weight": np.zeros((2, 2), np.float32)})
    with pytest.raises(ConfigError, match=r"no tensor 'bert.encoder.layer.0.adapter.weight'"):
        build(rows, bert)


@pytest.mark.parametrize("form", ["sharded", "zip", "legacy", "sharded pickles"])
def test_every_file_of_weights_gives_the_same(form: str, bert: Path, rows: Path, tmp_path: Path) -> None:
    expected, names = weights(bert), sorted(weights(bert))
    parts = [{name: expected[name] for name in names[at::2]} for at in range(2)]
    (bert / "model.safetensors").unlink()
    if form == "sharded":
        for at, part in enumerate(parts):
            save(bert, part, f"model-{at}.safetensors")
        index = {name: f"model-{at}.safetensors" for at, part in enumerate(parts) for name in part}
        (bert / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    elif form == "sharded pickles":
        for at, part in enumerate(parts):
            write_pytorch(bert / f"pytorch_model-{at}.bin", part)
        index = {name: f"pytorch_model-{at}.bin" for at, part in enumerate(parts) for name in part}
        (bert / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": index}))
    else:  # one tensor is stored transposed
        strided = {name: np.asfortranarray(one) if "intermediate" in name else one for name, one in expected.items()}
        write_pytorch(bert / "pytorch_model.bin", strided, legacy=form == "legacy")
    made = started(build(rows, bert), bert, tmp_path)
    for name in made.keys() & expected.keys():
        np.testing.assert_array_equal(made[name], expected[name], name)
    if "sharded" in form:
        next(bert.glob("*-1.*")).unlink()
        with pytest.raises(ConfigError, match="1 of 2 files of weights are missing"):
            build(rows, bert)


class Attack:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("attacked",)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickle_with_code_is_refused_and_not_run(
    legacy: bool, bert: Path, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (bert / "model.safetensors").unlink()
    write_pytorch(bert / "pytorch_model.bin", weights(write_bert(tmp_path / "same")) | {"x": Attack()}, legacy=legacy)
    with pytest.raises(InputError, match=r"may run code: (posix|os)\.mkdir"):
        build(rows, bert)
    assert not Path("attacked").exists()


def test_damaged_pickles_are_errors(bert: Path, rows: Path) -> None:
    whole = write_pytorch(bert / "pytorch_model.bin", weights(bert)).read_bytes()
    (bert / "model.safetensors").unlink()
    for size in (0, 10, len(whole) // 2, len(whole) - 40):
        (bert / "pytorch_model.bin").write_bytes(whole[:size])
        with pytest.raises(InputError, match="not a file of PyTorch weights, or damaged"):
            build(rows, bert)


def test_a_head_for_other_labels_is_replaced(rows: Path, tmp_path: Path) -> None:
    same = write_bert(tmp_path / "same", "classify")
    other = write_bert(tmp_path / "other", "classify", id2label={"0": "no", "1": "yes"})
    kept, new = (started(build(rows, each), each, each)["classifier.weight"] for each in (same, other))
    np.testing.assert_array_equal(kept, weights(same)["classifier.weight"])
    assert not np.array_equal(new, kept)


def test_models_may_have_more_rows_than_the_tokenizer_has_ids(rows: Path, tmp_path: Path) -> None:
    bert = write_bert(tmp_path / "bert", rows=len(PIECES) + 4)
    job = build(rows, bert)
    assert (job.model["vocab_size"], job.special.vocab_size) == (len(PIECES) + 4, len(PIECES))


def test_another_tokenizer_is_refused(bert: Path, rows: Path, tmp_path: Path) -> None:
    swapped = [*PIECES[:5], *reversed(PIECES[5:])]
    with pytest.raises(ConfigError, match="the tokenizer is not that of the model: id 5 is '##本', but '吾'"):
        build(rows, bert, write_wordpiece(tmp_path / "swapped", swapped))
    with pytest.raises(ConfigError, match="the tokenizer has 21 ids, but the model 20"):
        build(rows, bert, write_wordpiece(tmp_path / "larger", [*PIECES, "東"]))


def test_new_tokens_begin_as_means_of_their_old_pieces(bert: Path, rows: Path, tmp_path: Path) -> None:
    extended = tmp_path / "extended"
    assert extend_tokenizer(bert, ["吾輩", "猫", "the猫"], extended) == ["吾輩", "the猫"]
    job = build(rows, bert, extended, vocabulary="transfer")
    assert job.model["vocab_size"] == len(PIECES) + 2
    made, given = started(job, extended, tmp_path), weights(bert)
    np.testing.assert_array_equal(made[WORDS][: len(PIECES)], given[WORDS])
    ids = load_tokenizer(bert).encode("吾輩")
    assert len(ids) == 2
    np.testing.assert_allclose(made[WORDS][len(PIECES)], given[WORDS][ids].mean(axis=0), rtol=1e-6)
    assert load_tokenizer(extended).encode("吾輩は") == [len(PIECES), PIECES.index("は")]
    assert job.made_from["vocabulary"] == load_tokenizer(bert).card.fingerprint
    assert "vocabulary" not in build(rows, bert).made_from


def test_a_vocabulary_in_another_order_keeps_each_row(bert: Path, rows: Path, tmp_path: Path) -> None:
    mixed = write_wordpiece(tmp_path / "mixed", [*PIECES[:5], *reversed(PIECES[5:])])
    made = started(build(rows, bert, mixed, vocabulary="transfer"), mixed, tmp_path)
    old, new = load_tokenizer(bert), load_tokenizer(mixed)
    for piece in PIECES:
        np.testing.assert_array_equal(made[WORDS][new.id_of(piece)], weights(bert)[WORDS][old.id_of(piece)])
    assert row_sources(old, old) == [[number] for number in range(len(PIECES))]


def test_a_transfer_needs_the_old_tokenizer(bert: Path, rows: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs a folder in train\.model\.init"):
        build(rows, bert / "model.safetensors", bert, vocabulary="transfer", config={"model_type": "bert", **SIZES})


def test_the_fingerprint_is_of_the_content(bert: Path, rows: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(bert, moved)
    assert build(rows, bert).fingerprint == build(rows, moved).fingerprint
    save(moved, weights(bert) | {BIAS: np.ones(len(PIECES), np.float32)})
    assert build(rows, bert).fingerprint != build(rows, moved).fingerprint


@pytest.mark.parametrize(
    ("place", "name", "header"),
    [
        (f"models--acme--bert/snapshots/{'a' * 40}", "acme/bert", 'base_model: "acme/bert"'),
        ("mine", "mine", 'base_model: "mine"'),
        ("a`b\n[x]", "a'b\\n[x]", None),
    ],
)
def test_the_model_card_names_the_base_model(
    place: str, name: str, header: str | None, rows: Path, tmp_path: Path, copying: None
) -> None:
    init, run = write_bert(tmp_path / place), tmp_path / "run"
    section = {"task": "classify", "data": [str(rows)], "model": {"init": str(init)}, "steps": 2, "batch": 2}
    config = parse_train_config(section | {"labelled": {"length": 16}}, "here")
    job = build_job(config, "small", "torch", {}, init, run=run)
    open_run(run, job)
    save_checkpoint(run, 5, 1.0)
    card = (export(run) / "README.md").read_text(encoding="utf-8")
    assert f"trained from the weights of `{name}` with jprep" in card
    assert header in card.splitlines() if header else "base_model" not in card
    assert describe_init(job, run).endswith(
        "start from the seed: bert.pooler.dense.weight, bert.pooler.dense.bias, classifier.weight, classifier.bias"
    )


def test_the_head_for_masked_tokens_that_an_encoder_lacks_is_named(bert: Path, rows: Path, tmp_path: Path) -> None:
    save(bert, without_prefix(weights(bert)))
    config = json.loads((bert / "config.json").read_text())
    section = {"task": "mlm", "model": {"init": str(bert)}, "steps": 2, "batch": 2, "length": 16}
    made = build(rows, bert)
    job = msgspec.structs.replace(made, train=parse_train_config(section, "here"), model=config)
    head = "cls.predictions.transform.dense.weight, cls.predictions.transform.dense.bias"
    assert describe_init(job, tmp_path).startswith(f"from {bert}; these tensors start from the seed: {head}")
    assert describe_init(job, tmp_path).endswith(" and 1 more")


def test_paths_are_stored_resolved(bert: Path, rows: Path) -> None:
    job = build(rows, bert)
    assert Path(job.train.model.init) == bert.resolve() == Path(job.tokenizer)
    assert msgspec.json.decode(msgspec.json.encode(job), type=Job) == job
