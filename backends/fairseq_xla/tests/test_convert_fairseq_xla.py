"""Checkpoints of fairseq convert to models of transformers, and exported models to checkpoints of fairseq."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from native_training import state_of

from jprep.errors import ConfigError, InputError, MachineError
from jprep.io.safetensors_file import TensorFiles, write_tensors
from jprep.tokenizer import load_tokenizer
from jprep.train.exporting import export, weights
from jprep.train.exporting.manifest import read_config, read_export
from jprep.train.inference import pipeline
from jprep.train.inference.protocol import Request, Response
from jprep.train.models.initial_weights import check_init_weights, write_initial_weights
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep.train.run.directory import read_job
from jprep_fairseq_xla.convert.__main__ import main
from jprep_fairseq_xla.convert.from_fairseq import from_fairseq
from jprep_fairseq_xla.convert.to_fairseq import to_fairseq
from jprep_fairseq_xla.planning.fairseq_options import TASKS
from jprep_fairseq_xla.worker.inference import load_model, predict
from tests.fakes import trained_run

LEARNT = {"roberta": (), "bert": (), "gpt2": ("--decoder-learned-pos",)}
"""Options that make fairseq's architecture match transformers'."""

ROWS = [[0, 9, 30, 404, 408, 8, 70, 2], [0, 70, 8, 31, 2, 1, 1, 1]]
ROWS_OF = {"roberta": ROWS, "bert": ROWS, "gpt2": [[0, 9, 30, 404, 8, 70, 2]]}
"""Ids, the second row with padding; fairseq's decoders have no `<mask>`, the last id."""


def from_transformers(folder: Path, rows: list[list[int]]) -> torch.Tensor:
    """Return the logits of transformers, (rows, length, ids)."""
    transformers = pytest.importorskip("transformers")
    kind = read_config(folder)["model_type"]
    loader = transformers.AutoModelForMaskedLM if TASKS[kind] == "mlm" else transformers.AutoModelForCausalLM
    ids = torch.tensor(rows)
    with torch.inference_mode():
        return loader.from_pretrained(folder).eval()(input_ids=ids, attention_mask=(ids != 1).int()).logits


def from_fairseq_itself(checkpoint: Path, data: Path, rows: list[list[int]]) -> torch.Tensor:
    """Return the logits of the model that fairseq itself loads, (rows, length, ids)."""
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # as in `native_cli`
    from fairseq import checkpoint_utils as utils

    try:
        [model], _, _ = utils.load_model_ensemble_and_task([str(checkpoint)], arg_overrides={"data": str(data)})
    finally:
        del os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"]
    ids = torch.tensor(rows)
    with torch.inference_mode():
        return model.eval()(ids, src_lengths=(ids != 1).sum(1))[0]


def seen(logits: torch.Tensor, rows: list[list[int]], ids: int = 408) -> torch.Tensor:
    """Return the logits of tokens that are not padding, for ids that both have."""
    return logits[torch.tensor(rows) != 1][:, :ids]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Export in this process; all kinds of models have fairseq's special tokens."""
    copying(monkeypatch)
    for kind in LEARNT:
        monkeypatch.setitem(trained_run.SETS, kind, "roberta")


def copying(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(
        weights, "_run_worker", lambda name, run, checkpoint, folder: CheckpointReader(checkpoint).export(folder)
    )


def exported(folder: Path, kind: str, **config: Any) -> Path:
    model = trained_run.model_of(kind)["config"] | ({"layer_norm_eps": 1e-5} if kind == "bert" else {}) | config
    return export(trained_run.trained_run(folder, TASKS[kind], kind, model={"config": model}))


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with an exported RoBERTa in `export`, converted for fairseq in `out`."""
    folder = tmp_path_factory.mktemp("roberta")
    with pytest.MonkeyPatch.context() as patched:
        copying(patched)
        exported(folder, "roberta").rename(folder / "export")
    to_fairseq(folder / "export", folder / "out")
    return folder


@pytest.mark.parametrize("kind", LEARNT)
def test_a_checkpoint_of_fairseq_converts_to_transformers(
    kind: str, train_natively: Callable[..., Any], tmp_path: Path
) -> None:
    hand = train_natively(kind, *LEARNT[kind])
    folder = tmp_path / "model"
    assert main(["from-fairseq", str(hand.checkpoint), str(hand.tokenizer), str(folder)]) == 0
    wanted, found = (
        from_fairseq_itself(hand.checkpoint, hand.bin, ROWS_OF[kind]),
        from_transformers(folder, ROWS_OF[kind]),
    )
    assert (seen(found, ROWS_OF[kind]) - seen(wanted, ROWS_OF[kind])).abs().max() < 1e-4
    assert read_export(folder).step == 8 and read_export(folder).special.mask == 408
    check_init_weights(read_config(folder), TASKS[kind], folder / "model.safetensors")


@pytest.mark.parametrize(
    "options",
    [
        ("--no-scale-embedding",),
        ("--share-decoder-input-output-embed",),
        ("--no-scale-embedding", "--share-decoder-input-output-embed"),
    ],
)
def test_scaled_and_tied_embeddings_convert(
    options: tuple[str, ...], train_natively: Callable[..., Any], tmp_path: Path
) -> None:
    hand, rows = train_natively("gpt2", "--decoder-learned-pos", *options), ROWS_OF["gpt2"]
    from_fairseq(hand.checkpoint, hand.tokenizer, tmp_path / "model")
    assert read_config(tmp_path / "model")["tie_word_embeddings"] == (len(options) == 2)
    wanted, found = from_fairseq_itself(hand.checkpoint, hand.bin, rows), from_transformers(tmp_path / "model", rows)
    assert (seen(found, rows) - seen(wanted, rows)).abs().max() < 1e-4
    assert torch.equal(found[..., 408], found[..., 3]), "fairseq has no <mask> there: it is as unknown as <unk>"


@pytest.mark.parametrize("kind", LEARNT)
def test_an_exported_model_converts_to_fairseq_and_back(kind: str, tmp_path: Path) -> None:
    model = exported(tmp_path, kind)
    assert main(["to-fairseq", str(model), str(tmp_path / "out")]) == 0
    checkpoint, rows = tmp_path / "out" / "model.pt", ROWS_OF[kind]
    wanted, found = from_transformers(model, rows), from_fairseq_itself(checkpoint, tmp_path / "out", rows)
    assert (seen(found, rows, 409) - seen(wanted, rows, 409)).abs().max() < 1e-4
    back = tmp_path / "back"
    from_fairseq(checkpoint, model, back, tmp_path / "out" / "dict.txt")
    if kind == "bert":  # what it adds for the first segment lies with the positions then
        assert (seen(from_transformers(back, rows), rows) - seen(wanted, rows)).abs().max() < 1e-4
        return
    assert (back / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert read_config(back) == read_config(model) | {"initializer_range": 0.02}
    to_fairseq(back, tmp_path / "again")
    assert (tmp_path / "again" / "model.pt").read_bytes() == checkpoint.read_bytes()


MANY_GPUS = """
import sys, torch
torch.cuda.device_count = lambda: 4
from jprep_fairseq_xla.convert.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_checkpoint_for_fairseq_depends_on_no_machine(tmp_path: Path) -> None:
    model = exported(tmp_path, "roberta")
    to_fairseq(model, tmp_path / "here")
    command = [sys.executable, "-c", MANY_GPUS, "to-fairseq", str(model), str(tmp_path / "there")]
    subprocess.run(command, env=os.environ | {"LOCAL_RANK": "3"}, check=True)
    here, there = (folder / "model.pt" for folder in (tmp_path / "here", tmp_path / "there"))
    assert state_of(there)["cfg"] == state_of(here)["cfg"]
    assert there.read_bytes() == here.read_bytes()


def test_a_failure_keeps_the_previous_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    to_fairseq(exported(tmp_path / "a", "gpt2"), out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    other = exported(tmp_path / "b", "roberta")
    with monkeypatch.context() as patched, pytest.raises(MachineError, match="enforce fail"):
        patched.setattr(torch, "save", full_disk)
        to_fairseq(other, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert not list(tmp_path.glob("partial-*"))
    to_fairseq(other, out)
    assert sorted(path.name for path in out.iterdir()) == ["dict.txt", "model.pt", "sentencepiece.bpe.model"]
    (out / "notes.txt").write_text("an evening of work")
    with pytest.raises(ConfigError, match="holds other files"):
        to_fairseq(other, out)
    assert (out / "notes.txt").exists()


def full_disk(state: Any, path: Path) -> None:
    path.write_bytes(b"half")
    raise RuntimeError("enforce fail at inline_container.cc")


def test_a_nonzero_token_type_is_added_to_the_positions(tmp_path: Path) -> None:
    folder = exported(tmp_path, "roberta")
    path, types = folder / "model.safetensors", "roberta.embeddings.token_type_embeddings.weight"
    arrays = {name: np.array(array) for name, array in TensorFiles([path]).items()}
    arrays[types] += np.linspace(-1, 1, arrays[types].size, dtype=np.float32)
    write_tensors(path, {name: array.shape for name, array in arrays.items()}, lambda name: [arrays[name]])
    about = json.loads((folder / "export.json").read_bytes())
    del about["checksum"]
    about["files"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "export.json").write_text(json.dumps(about))
    to_fairseq(folder, tmp_path / "out")
    found = from_fairseq_itself(tmp_path / "out" / "model.pt", tmp_path / "out", ROWS)
    assert (seen(found, ROWS) - seen(from_transformers(folder, ROWS), ROWS)).abs().max() < 1e-4


class LocalClient:
    """The worker of `jprep infer`, in this process."""

    def __init__(self, folder: Path, backend: str, *, on_cpu: bool = False) -> None:
        self._model, self._config = load_model(folder)

    def send(self, request: Request) -> Response:
        return predict(self._model, self._config, request)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("text", ["日本語<mask>東京", "日本の首都は<mask>である。", "ﾃﾞｰﾀ １２３<mask>、Ａｂｃ 東京"])
def test_fill_mask_gives_the_same_result_everywhere(text: str, roberta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sentencepiece")
    from fairseq.models.roberta import RobertaModel

    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    monkeypatch.setattr(pipeline, "InferenceClient", LocalClient)
    with pipeline.InferencePipeline(roberta / "export", "fairseq-xla") as model:
        [ours] = model.predict(text, pipeline.GenerationConfig(top=8)).masks
    shares = pytest.approx([guess.probability for guess in ours], rel=1e-4)

    hub = RobertaModel.from_pretrained(str(roberta / "out"), "model.pt", bpe="sentencepiece").eval()
    theirs = hub.fill_mask(text, topk=8)
    assert [share for _, share, _ in theirs] == shares
    pieces = [hub.task.source_dictionary[guess.id] for guess in ours]
    assert [word for _, _, word in theirs] == [piece.replace("▁", " ") for piece in pieces]

    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(roberta / "export")
    ids = tokenizer(text)["input_ids"]
    found = from_transformers(roberta / "export", [ids])[0, ids.index(tokenizer.mask_token_id)].softmax(-1).topk(8)
    assert found.values.tolist() == shares and tokenizer.convert_ids_to_tokens(found.indices.tolist()) == pieces


def test_fill_mask_takes_text_with_spaces_between_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sentencepiece")
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    monkeypatch.setattr(pipeline, "InferenceClient", LocalClient)
    monkeypatch.setitem(trained_run.KINDS, "roberta", "words")
    folder, out, text = exported(tmp_path, "roberta"), tmp_path / "out", "日本 の <mask> です 猫猫"
    to_fairseq(folder, out)
    from fairseq.models.roberta import RobertaModel

    assert "▁日本 1" in (out / "dict.txt").read_text(encoding="utf-8").split("\n")
    hub = RobertaModel.from_pretrained(str(out), "model.pt", bpe="sentencepiece").eval()
    ours = load_tokenizer(folder)
    plain = "日本 の 東京 です 猫猫"
    assert hub.encode(plain).tolist() == [ours.bos, *ours.encode(plain), ours.eos]
    with pipeline.InferencePipeline(folder, "fairseq-xla") as model:
        prediction = model.predict(text, pipeline.GenerationConfig(top=5))
    [masks], theirs = prediction.masks, hub.fill_mask(text, topk=5)
    assert prediction.filled == theirs[0][0]
    assert [share for _, share, _ in theirs] == pytest.approx([guess.probability for guess in masks], rel=1e-4)
    assert [filled for filled, _, _ in theirs] == [text.replace("<mask>", ours.piece_of(guess.id)) for guess in masks]
    from_fairseq(out / "model.pt", folder, tmp_path / "back", out / "dict.txt")
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_a_run_starts_from_converted_weights(train_natively: Callable[..., Any], tmp_path: Path) -> None:
    hand = train_natively("roberta")
    from_fairseq(hand.checkpoint, hand.tokenizer, tmp_path / "model")
    given = tmp_path / "model" / "model.safetensors"
    model = trained_run.model_of("roberta")
    model["config"]["max_position_embeddings"] = read_config(tmp_path / "model")["max_position_embeddings"]
    job = read_job(trained_run.trained_run(tmp_path / "work", model=model | {"init": str(given)}))
    write_initial_weights(job.model, "mlm", job.train.seed, tmp_path / "init.safetensors", given)
    assert (tmp_path / "init.safetensors").read_bytes() == given.read_bytes()


def test_fairseq_fine_tunes_a_model_that_jprep_trained(tmp_path: Path, train_natively: Callable[..., Any]) -> None:
    folder = exported(tmp_path, "roberta", max_position_embeddings=34)
    to_fairseq(folder, tmp_path / "out")
    trained = train_natively("roberta", f"--finetune-from-model={tmp_path}/out/model.pt")
    assert "loading pretrained model from" in trained.output.lower() and len(trained.losses) == 8


def test_code_in_an_option_does_not_run(
    train_natively: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hand = train_natively("gpt2", "--decoder-learned-pos")
    options = {"character_embeddings": True, "character_filters": "__import__('os').system('touch it-ran')"}
    with pytest.raises(ConfigError, match="character_embeddings"):
        from_fairseq(changed(hand.checkpoint, tmp_path, **options), hand.tokenizer, tmp_path / "model")
    assert not Path("it-ran").exists()


def changed(checkpoint: Path, folder: Path, **options: Any) -> Path:
    """Return a checkpoint with other options of the model."""
    state = state_of(checkpoint)
    held = state["cfg"]["model"]
    (held if isinstance(held, dict) else vars(held)).update(options)
    torch.save(state, folder / "changed.pt")
    return folder / "changed.pt"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("roberta", {"encoder_normalize_before": True}, "encoder_normalize_before = True"),
        ("roberta", {"untie_weights_roberta": True}, "untie_weights_roberta"),
        ("roberta", {"activation_fn": "relu"}, "activation_fn = 'relu'"),
        ("roberta", {"_name": "camembert"}, "'camembert'"),
        ("roberta", {"_name": "wav2vec2"}, "'wav2vec2'"),
        ("roberta", {"encoder_attention_heads": 3}, "3 heads"),
        ("roberta", {"encoder_attention_heads": "2"}, "cannot be '2'"),
        ("roberta", {"dropout": [1]}, "hidden_dropout_prob cannot be"),
        ("bert", {"share_encoder_input_output_embed": False}, "share_encoder_input_output_embed"),
        ("bert", {"activation_fn": "linear"}, "'linear'"),
        ("gpt2", {"decoder_learned_pos": False}, "decoder_learned_pos"),
        ("gpt2", {"adaptive_softmax_cutoff": "100,200"}, "adaptive_softmax_cutoff"),
    ],
)
def test_unsupported_options_of_fairseq_are_refused_by_name(
    kind: str, options: dict[str, Any], message: str, train_natively: Callable[..., Any], tmp_path: Path
) -> None:
    hand = train_natively(kind, *LEARNT[kind])
    with pytest.raises(ConfigError, match=message):
        from_fairseq(changed(hand.checkpoint, tmp_path, **options), hand.tokenizer, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_checkpoint_from_before_hydra_in_half_precision_is_read(
    train_natively: Callable[..., Any], tmp_path: Path
) -> None:
    hand = train_natively("roberta")
    state = state_of(hand.checkpoint)
    old = {"args": state["cfg"]["model"], "model": {name: one.half() for name, one in state["model"].items()}}
    torch.save(old, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    from_fairseq(tmp_path / "old.pt", hand.tokenizer, tmp_path / "model")
    wanted, found = from_fairseq_itself(hand.checkpoint, hand.bin, ROWS), from_transformers(tmp_path / "model", ROWS)
    assert (seen(found, ROWS) - seen(wanted, ROWS)).abs().max() < 0.05
    assert read_export(tmp_path / "model").step == 0


def test_a_dictionary_of_another_tokenizer_is_refused(train_natively: Callable[..., Any], tmp_path: Path) -> None:
    hand, given = train_natively("roberta"), tmp_path / "dict.txt"
    lines = (hand.bin / "dict.txt").read_text(encoding="utf-8").splitlines()

    def converted(lines: list[str], checkpoint: Path = hand.checkpoint) -> Path:
        given.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        from_fairseq(checkpoint, hand.tokenizer, tmp_path / "model", given)
        return tmp_path / "model"

    plain = converted(lines)
    kept = (plain / "model.safetensors").read_bytes()
    for other, message in (
        (lines[:-1], "409 symbols, but dict.txt has 408"),
        ([*lines[:-1], "何 1"], "lacks 1 of its pieces"),
        ([*lines[:-1], lines[0]], "twice"),
        ([*lines[:-1], "<pad> 1"], "twice"),
    ):
        with pytest.raises((ConfigError, InputError), match=message):
            converted(other)
    small = trained_run.finished(tmp_path / "small", trained_run.small("bpe", special=["roberta", "[X]"]))
    with pytest.raises(ConfigError, match="was trained with 409 symbols"):
        from_fairseq(hand.checkpoint, small, tmp_path / "model")
    with pytest.raises(ConfigError, match="begin with <s> <pad>"):
        from_fairseq(
            hand.checkpoint, trained_run.finished(tmp_path / "gpt", trained_run.small("byte-bpe")), tmp_path / "other"
        )
    state = state_of(hand.checkpoint)
    reversed_, made_up = lines[::-1], ["madeupword0000 0", "madeupword0001 0"]
    rows = [0, 1, 2, 3, *range(407, 3, -1), 5, 6, 408]
    for name in ("encoder.sentence_encoder.embed_tokens.weight", "encoder.lm_head.weight", "encoder.lm_head.bias"):
        state["model"][name] = state["model"][name][rows]
    torch.save(state, tmp_path / "sorted.pt")
    found = converted([*reversed_, *made_up], tmp_path / "sorted.pt")
    assert (found / "model.safetensors").read_bytes() == kept, "rows are found by their symbols"


def test_models_that_fairseq_does_not_support_are_refused(tmp_path: Path) -> None:
    for number, (kind, config, message) in enumerate((
        ("bert", {"layer_norm_eps": 1e-12}, "epsilon"),
        ("roberta", {"hidden_act": "relu"}, "head"),
        ("gpt2", {"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon = 1e-05"),
    )):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            to_fairseq(exported(tmp_path / str(number), kind, **config), tmp_path / "out")
    assert not (tmp_path / "out").exists()
