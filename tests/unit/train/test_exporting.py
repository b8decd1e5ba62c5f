"""Exports are atomic, deterministic, and contain the job's model only."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from tokenizers import Tokenizer

from jprep.errors import ConfigError, DamagedError, InputError, JprepError, MismatchError
from jprep.io.safetensors_file import read_blocks, read_header, write_tensors
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.card import read_card, verify_files
from jprep.train.exporting import export, export_default, find_default_export, weights
from jprep.train.exporting.loss_plot import plot_losses
from jprep.train.exporting.manifest import read_export, verify_export
from jprep.train.models import parameters
from jprep.train.run.directory import read_job
from tests.conftest import digests
from tests.fakes.trained_run import SETS, save, trained_run

FILES = {
    "README.md", "card.json", "config.json", "export.json", "loss.svg", "model.safetensors", "special_tokens_map.json",
    "tokenizer.json", "tokenizer_config.json",
}  # fmt: skip


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[Path], None]]:
    """A worker that copies the weights; `spoil` may change them."""
    spoil: dict[str, Callable[[Path], None]] = {}

    def work(name: str, run: Path, checkpoint: Path, folder: Path) -> None:
        shutil.copyfile(checkpoint / "model.safetensors", folder / "model.safetensors")
        for change in spoil.values():
            change(folder / "model.safetensors")

    monkeypatch.setattr(weights, "_run_worker", work)
    return spoil


def tensors(path: Path) -> dict[str, np.ndarray]:
    return {
        name: np.concatenate(list(read_blocks(path, name, entry))).reshape(entry.shape)
        for name, entry in read_header(path).items()
    }


def rewritten(path: Path, changed: dict[str, np.ndarray]) -> None:
    write_tensors(path, {name: value.shape for name, value in changed.items()}, lambda name: [changed[name].ravel()])


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("mlm", "bert"),
        ("clm", "gpt2"),
        ("classify", "electra"),
        ("regress", "llama"),
        ("regress", "qwen3"),
        ("mlm", "modernbert"),
        ("classify", "modernbert"),
        ("mlm", "deberta-v2"),
    ],
)
def test_an_export_has_all_files(task: str, kind: str, tmp_path: Path, copying: Any) -> None:
    run = trained_run(tmp_path, task, kind)
    folder = export(run)
    job, about = read_job(run), read_export(folder)
    optional = {"generation_config.json"} if task == "clm" else set[str]()
    optional |= {"spm.model"} if SETS[kind] == "roberta" else set()
    assert {path.name for path in folder.iterdir()} == FILES | optional
    assert list(read_header(folder / "model.safetensors")) == sorted(parameters(job.model, task))
    assert about.files.keys() == {path.name for path in folder.iterdir()} - {"export.json"}
    verify_export(folder, about)
    config = json.loads((folder / "config.json").read_bytes())
    assert config == {**job.model, "dtype": "float32"}
    assert (about.task, about.step, about.job, about.special) == (task, 10, job.fingerprint, job.special)
    assert (about.end, about.length) == ((-1, 32) if job.train.data else (about.end, 0))
    loaded = load_tokenizer(folder)
    assert loaded.encode("日本語") == load_tokenizer(tmp_path / "tokenizer").encode("日本語")
    verify_files(folder, read_card(folder))
    found, given = tensors(folder / "model.safetensors"), tensors(run / "checkpoints/step-00000010/model.safetensors")
    assert found.keys() == given.keys() and all((found[name] == given[name]).all() for name in found)


def test_a_damaged_tokenizer_of_an_export_is_exported_again(tmp_path: Path, copying: Any) -> None:
    folder = export(trained_run(tmp_path), tmp_path / "export")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(DamagedError) as caught:
        load_tokenizer(folder)
    assert caught.value.fix == "move this folder away and export the run again"


def test_a_checkpoint_gives_the_same_bytes_although_the_run_went_on(tmp_path: Path, copying: Any) -> None:
    run = trained_run(tmp_path)
    first = digests(export(run, tmp_path / "first"))
    save(run, 15, 3.0)
    again = digests(export(run, tmp_path / "again", which="10"))
    assert again == first
    assert digests(export(run, tmp_path / "last"))["model.safetensors"] != first["model.safetensors"]


@pytest.mark.parametrize(
    ("section", "expected"), [({"packing": "stream"}, ""), ({"packing": "complete"}, ""), ({"packing": "line"}, "<s>")]
)
def test_a_clm_export_adds_no_end_token_to_a_prompt(
    section: dict[str, Any], expected: str, tmp_path: Path, copying: Any
) -> None:
    folder = export(trained_run(tmp_path, "clm", "llama", **section))
    served = Tokenizer.from_file(str(folder / "tokenizer.json"))
    bare = served.encode("日本語", add_special_tokens=False).tokens
    assert served.encode("日本語").tokens == [*expected.split(), *bare]
    assert served.encode("日本語", "東京").tokens[: len(bare) + len(expected.split())] == [*expected.split(), *bare]
    settings = json.loads((folder / "tokenizer_config.json").read_bytes())
    assert settings["bos_token"] == (expected or "</s>") and settings["padding_side"] == "left"
    assert settings["model_input_names"] == ["input_ids", "attention_mask"] and settings["model_max_length"] == 64
    generation = json.loads((folder / "generation_config.json").read_bytes())
    about = read_export(folder)
    assert generation["bos_token_id"] == served.token_to_id(settings["bos_token"])
    assert {*generation["suppress_tokens"], about.end} == set(about.special.special)
    assert load_tokenizer(folder).card.fingerprint == load_tokenizer(tmp_path / "tokenizer").card.fingerprint


@pytest.mark.parametrize(("kind", "limit"), [("gpt2", {"max_length": 64}), ("llama", {"max_new_tokens": 32})])
def test_an_export_limits_generation_to_its_positions(kind: str, limit: Any, tmp_path: Path, copying: Any) -> None:
    folder = export(trained_run(tmp_path, "clm", kind))
    generation = json.loads((folder / "generation_config.json").read_bytes())
    assert {key: value for key, value in generation.items() if key.startswith("max_")} == limit


def test_an_mlm_export_keeps_special_tokens_around_a_text(tmp_path: Path, copying: Any) -> None:
    folder = export(trained_run(tmp_path))
    assert (folder / "tokenizer.json").read_bytes() == (tmp_path / "tokenizer/tokenizer.json").read_bytes()


def test_which_checkpoint(tmp_path: Path, copying: Any) -> None:
    run = trained_run(tmp_path)
    for which, step in (("last", 10), ("best", 5), ("5", 5), ("10", 10)):
        assert read_export(export(run, which=which)).step == step
    with pytest.raises(ConfigError, match="no checkpoint '7'") as caught:
        export(run, which="7")
    assert caught.value.fix == "choose last, best, 5, 10"
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(ConfigError, match="no checkpoint yet"):
        export(run)


def test_the_run_s_own_export_is_known_to_be_the_default_one(tmp_path: Path, copying: Any) -> None:
    run = trained_run(tmp_path)
    assert find_default_export(run) is None
    export(run, which="best")
    assert find_default_export(run) is None
    export(run)
    assert find_default_export(run) == run / "export"
    save(run, 15, 3.0)
    assert find_default_export(run) is None


def test_a_loss_of_one_s_own_has_no_perplexity(tmp_path: Path, copying: Any) -> None:
    (tmp_path / "losses.py").write_text("def loss(logits, labels, label_mask, **more):\n    return 0.0, 1\n")
    hooks = {"loss": f"{tmp_path / 'losses.py'}:loss"}
    cards = [
        (export(trained_run(tmp_path / name, **section)) / "README.md").read_text()
        for name, section in (("plain", {}), ("hook", {"hooks": hooks}))
    ]
    assert ["validation perplexity" in card for card in cards] == [True, False]


def test_the_default_export_of_a_training_that_ended_early_is_the_best_one(tmp_path: Path, copying: Any) -> None:
    early = {"validation": {"every_steps": 5, "patience": 1}, "steps": 20}
    run = trained_run(tmp_path / "kept", checkpoint={"keep_best": 1}, **early)
    export(run)
    assert find_default_export(run) is None
    assert read_export(export_default(run)).step == 5
    run = trained_run(tmp_path / "not kept", checkpoint={"keep_best": 0}, **early)
    assert read_export(export_default(run)).step == 10
    run = trained_run(tmp_path / "going on", checkpoint={"keep_best": 1}, **early | {"validation": {"every_steps": 5}})
    assert read_export(export_default(run)).step == 10


def test_a_damaged_checkpoint_is_refused_and_another_one_named(tmp_path: Path, copying: Any) -> None:
    run = trained_run(tmp_path)
    path = run / "checkpoints/step-00000010/model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="was changed or damaged") as caught:
        export(run)
    assert caught.value.fix.startswith("--which 5") and not (run / "export").exists()
    assert path.parent.exists()  # a trainer may be at work: only it sets checkpoints aside


def test_an_export_is_replaced_and_other_folders_are_refused(tmp_path: Path, copying: Any) -> None:
    run = trained_run(tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir()
    mine.joinpath("thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="jprep has not written: thesis"):
        export(run, mine)
    assert [path.name for path in mine.iterdir()] == ["thesis.tex"]
    folder = export(run, which="5")
    export(run)
    assert read_export(folder).step == 10


@pytest.mark.parametrize("name", ["notes.txt", "README.md", "config.json", "model.safetensors"])
def test_added_and_changed_files_of_an_export_are_not_lost(name: str, tmp_path: Path, copying: Any) -> None:
    run = trained_run(tmp_path)
    written = export(run, which="5") / name
    written.write_text("an evening of work")
    with pytest.raises(ConfigError, match=name):
        export(run)
    assert written.read_text() == "an evening of work" and read_export(run / "export").step == 5


def test_a_failed_export_keeps_the_previous_one(tmp_path: Path, copying: Any) -> None:
    run = trained_run(tmp_path)
    before = digests(export(run, which="5"))

    def die(path: Path) -> None:
        raise JprepError("the worker died")

    copying["die"] = die
    with pytest.raises(JprepError, match="the worker died"):
        export(run)
    assert digests(run / "export") == before
    assert not list(run.glob("partial-*"))


def test_leftovers_of_a_killed_export_are_deleted(tmp_path: Path, copying: Any) -> None:
    run = trained_run(tmp_path)
    left = run / "partial-export" / "raw"
    left.mkdir(parents=True)
    left.joinpath("model.safetensors").write_bytes(b"half")
    assert "raw" not in {path.name for path in export(run).iterdir()}
    assert not list(run.glob("partial-*"))


def without_a_bias(found: dict[str, np.ndarray]) -> None:
    del found["lm_head.bias"]


def with_a_second_copy(found: dict[str, np.ndarray]) -> None:
    found["lm_head.decoder.bias"] = found["lm_head.bias"]


def transposed(found: dict[str, np.ndarray]) -> None:
    name = "roberta.encoder.layer.0.intermediate.dense.weight"
    found[name] = np.ascontiguousarray(found[name].T)


def diverged(found: dict[str, np.ndarray]) -> None:
    found["lm_head.bias"] = np.full_like(found["lm_head.bias"], np.nan)


@pytest.mark.parametrize("spoil", [without_a_bias, with_a_second_copy, transposed, diverged])
def test_weights_that_are_not_the_model_s_are_refused(spoil: Any, tmp_path: Path, copying: Any) -> None:
    run = trained_run(tmp_path)

    def change(path: Path) -> None:
        found = tensors(path)
        spoil(found)
        rewritten(path, found)

    copying["spoil"] = change
    with pytest.raises(InputError) as caught:
        export(run)
    assert "lm_head" in str(caught.value) or "intermediate" in str(caught.value)
    assert not (run / "export").exists()


def test_weights_in_16_bits_are_rounded_to_nearest(tmp_path: Path, copying: Any) -> None:
    run = trained_run(tmp_path)
    exact = tensors(export(run) / "model.safetensors")
    for dtype, bits in (("bf16", 8), ("fp16", 11)):
        folder = export(run, dtype=dtype)
        assert (
            json.loads((folder / "config.json").read_bytes())["dtype"] == {"bf16": "bfloat16", "fp16": "float16"}[dtype]
        )
        found = tensors(folder / "model.safetensors")
        for name, values in exact.items():
            wide = values.astype(np.float64)
            spacing = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(wide), 2.0**-14))) - bits + 1)
            nearest = np.rint(wide / spacing) * spacing  # to even, as the formats round
            assert (found[name] == nearest.astype(np.float32)).all()


@pytest.mark.parametrize(("dtype", "large"), [("F16", 65_520.0), ("BF16", 3.4e38)])
def test_a_weight_too_large_for_fp16_is_refused(dtype: str, large: float, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too large"):
        write_tensors(tmp_path / "w", {"a": (1,)}, lambda _: [np.array([large], np.float32)], dtype)


def test_the_model_card_has_provenance_and_metrics(tmp_path: Path, copying: Any) -> None:
    run = trained_run(tmp_path)
    card = (export(run) / "README.md").read_text(encoding="utf-8")
    head = card.split("---\n")[1].splitlines()
    assert "license: [cc-by-sa-4.0, other]" in head and "pipeline_tag: fill-mask" in head and "language: ja" in head
    for said in (
        "Common Crawl terms of use",
        "a" * 64,
        read_job(run).fingerprint,
        "60 documents",
        "![Loss",
        "| 3.7500 |",
    ):
        assert said in card
    assert "tokens_per_second" not in card  # of a machine, not of the model


def test_the_model_card_names_the_optimizer_and_what_has_an_effect(tmp_path: Path, copying: Any) -> None:
    rates = {"kind": "wsd", "decay_steps": 2}
    run = trained_run(tmp_path, optimizer={"kind": "muon", "lr": 2e-3}, schedule=rates, document_masks=True)
    card = (export(run) / "README.md").read_text(encoding="utf-8")
    assert "| optimizer | Muon for the matrices of layers, AdamW for other weights, lr 0.002, momentum 0.95" in card
    assert "| schedule | wsd, warmup 0, floor 0, decay_steps 2" in card and "restarts" not in card
    assert "| documents of a row | do not see each other |" in card
    plain = (export(trained_run(tmp_path / "plain")) / "README.md").read_text(encoding="utf-8")
    assert "| optimizer | AdamW, lr" in plain and "momentum" not in plain and "decay_steps" not in plain


def test_the_model_card_lists_labelled_files_with_hashes(tmp_path: Path, copying: Any) -> None:
    card = (export(trained_run(tmp_path, "classify", "bert")) / "README.md").read_text(encoding="utf-8")
    assert digests(tmp_path)["rows.jsonl"] in card and "Classes: a, b, c" in card and "license: unknown" in card


def test_another_tokenizer_is_refused(tmp_path: Path, copying: Any) -> None:
    run = trained_run(tmp_path)
    path = tmp_path / "tokenizer" / "card.json"
    card = json.loads(path.read_bytes())
    assert card.pop("checksum")
    path.write_text(json.dumps(card | {"fingerprint": "another"}))
    with pytest.raises(MismatchError, match="the tokenizer is a different one"):
        export(run)


def points(svg: str) -> list[list[tuple[float, float]]]:
    lines = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}polyline")
    return [[tuple(map(float, point.split(","))) for point in line.attrib["points"].split()] for line in lines]


@pytest.mark.parametrize(
    "losses", [[2.5], [3.0, 3.0], [1e-7, 2e-7], [9.0, 0.001], [1e6, 5.0], [float(n % 13) for n in range(5000)]]
)
def test_a_curve_stays_within_its_frame(losses: list[float]) -> None:
    steps = list(range(10, 10 + len(losses)))
    svg = plot_losses({"training": (steps, losses), "validation": ([], [])})
    [line] = points(svg)
    assert 1 <= len(line) <= 400
    assert all(64 <= x <= 676 and 34 <= y <= 316 for x, y in line)
    assert [x for x, _ in line] == sorted(x for x, _ in line)


def test_a_lower_loss_lies_lower() -> None:
    training, validation = points(plot_losses({"training": ([1, 2], [4.0, 2.0]), "validation": ([2], [3.0])}))
    assert training[0][1] < validation[0][1] < training[1][1]
    assert training[0][0] < validation[0][0] == training[1][0]
