"""Starting from a universal checkpoint of DeepSpeed, and which runs can be exported as one."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from jprep.errors import ConfigError, InputError, MachineError
from jprep.train.exporting import conversion, export
from jprep.train.exporting.conversion import to_universal
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, parse_train_config
from jprep.train.models.initial_weights import write_initial_weights
from jprep.train.pretrained.location import check_init
from jprep.train.run.directory import checkpoints_of, open_run, read_job
from tests.fakes.hugging_face import SIZES, weights, write_pytorch
from tests.fakes.trained_run import save, trained_run

MODEL = {"model_type": "bert", **SIZES, "max_position_embeddings": 32}
TAG = "global_step10"


def build(rows: Path, init: Path, tokenizer: Path, run: Path | None = None, **model: object) -> Job:
    section = {"task": "classify", "data": [str(rows)], "model": {"init": str(init), "config": MODEL} | model,
               "steps": 2, "batch": 2, "labelled": {"length": 16}}  # fmt: skip
    train = parse_train_config(section, "here")
    check_init(train)
    return build_job(train, "run", "torch", {}, tokenizer, run=run)


def started(job: Job, folder: Path) -> dict[str, np.ndarray]:
    path = folder / "init.safetensors"
    write_initial_weights(job.model, job.train.task, job.train.seed, path, Path(job.train.model.init))
    return weights(path)


def write_universal(folder: Path, tensors: dict[str, np.ndarray], *, flat: bool = False) -> Path:
    """Write weights as DeepSpeed's converter does; `flat` as it does for ZeRO 3."""
    for name, array in tensors.items():
        zero = folder / TAG / "zero" / name
        zero.mkdir(parents=True)
        write_pytorch(zero / "fp32.pt", {"param": array.reshape(-1) if flat else array, "cat_dim": 0})
    (folder / "latest_universal").write_text(TAG)
    return folder


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("tag", ["", TAG])
def test_the_weights_are_those_of_the_checkpoint(flat: bool, tag: str, bert: Path, rows: Path, tmp_path: Path) -> None:
    given = weights(bert)
    folder = write_universal(tmp_path / "universal", given, flat=flat)
    made = started(build(rows, folder / tag, bert), tmp_path)
    shared = set(given) & set(made)
    assert {name for name in made if not name.startswith(("classifier", "bert.pooler"))} == shared
    for name in shared:
        np.testing.assert_array_equal(made[name], given[name])


def test_the_fingerprint_is_of_the_weights(bert: Path, rows: Path, tmp_path: Path) -> None:
    given = weights(bert)
    first = build(rows, write_universal(tmp_path / "one", given), bert).fingerprint
    moved = shutil.copytree(tmp_path / "one", tmp_path / "moved")
    assert build(rows, moved, bert).fingerprint == first
    name = next(iter(given))
    other = write_universal(tmp_path / "two", given | {name: given[name] + 1})
    assert build(rows, other, bert).fingerprint != first


def test_a_config_beside_it_describes_the_model(bert: Path, rows: Path, tmp_path: Path) -> None:
    folder = write_universal(tmp_path / "universal", weights(bert))
    with pytest.raises(ConfigError, match="preset"):
        build(rows, folder, bert, config={})
    shutil.copy(bert / "config.json", folder)
    assert {key: build(rows, folder, bert, config={}).model[key] for key in SIZES} == SIZES


def test_another_model_is_refused(bert: Path, rows: Path, tmp_path: Path) -> None:
    folder = write_universal(tmp_path / "universal", weights(bert), flat=True)
    wider = {"config": MODEL | {"intermediate_size": 2 * SIZES["intermediate_size"]}}
    with pytest.raises(ConfigError, match="has the shape") as error:
        build(rows, folder, bert, **wider)
    assert "train.model.config" in error.value.fix
    with pytest.raises(ConfigError, match=r"there is no tensor 'bert\.encoder") as error:
        build(rows, folder, bert, config=MODEL | {"num_hidden_layers": 9})
    assert "bert.encoder" in error.value.fix


def test_a_transfer_needs_a_tokenizer_beside_it(bert: Path, rows: Path, tmp_path: Path) -> None:
    folder = write_universal(tmp_path / "universal", weights(bert))
    with pytest.raises(ConfigError, match=r"needs a folder in train\.model\.init"):
        build(rows, folder, bert, vocabulary="transfer")


@pytest.mark.parametrize("tag", ["", "..", "other", "a/b"])
def test_a_damaged_pointer_is_an_error(tag: str, bert: Path, rows: Path, tmp_path: Path) -> None:
    folder = write_universal(tmp_path / "universal", weights(bert))
    (folder / "latest_universal").write_text(tag)
    with pytest.raises(ConfigError, match="there is no universal checkpoint"):
        build(rows, folder, bert)


def test_files_that_are_no_tensors_are_errors(bert: Path, rows: Path, tmp_path: Path) -> None:
    folder = write_universal(tmp_path / "universal", weights(bert))
    file = next((folder / TAG / "zero").glob("*embeddings*/fp32.pt"))
    write_pytorch(file, {"cat_dim": 0})
    with pytest.raises(InputError, match="not a tensor"):
        build(rows, folder, bert)
    write_pytorch(file, {"param": np.zeros(3, np.float32), "other": Path("x")})
    with pytest.raises(InputError, match="may run code"):
        build(rows, folder, bert)
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(InputError, match="damaged"):
        build(rows, folder, bert)


def test_a_folder_without_weights_is_an_error(bert: Path, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "zero").mkdir()
    with pytest.raises(ConfigError, match="has no weights"):
        build(rows, tmp_path, bert)


def test_the_model_card_names_no_base_model(bert: Path, rows: Path, tmp_path: Path, copying: None) -> None:
    folder, run = write_universal(tmp_path / "universal", weights(bert)), tmp_path / "run"
    job = build(rows, folder, bert, run)
    open_run(run, job)
    save(run, 1, 1.0)
    export(run)
    assert "base_model" not in (run / "export" / "README.md").read_text()


def test_an_export_converts_the_selected_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(conversion, "_run", lambda backend, arguments: calls.append((backend, arguments)) or 0)
    run = trained_run(tmp_path)
    folders = [each.folder for each in checkpoints_of(run, read_job(run)).committed()]
    for which in ("last", "5"):
        assert to_universal(run, tmp_path / "out", which) == 0
    out = str(tmp_path / "out")
    assert calls == [("deepspeed", ["to-universal", str(folder), out]) for folder in reversed(folders)]
    with pytest.raises(ConfigError, match="no checkpoint '7'"):
        to_universal(run, tmp_path / "out", "7")


def test_a_checkpoint_that_a_training_deletes_meanwhile_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(backend: str, arguments: list[str]) -> int:
        shutil.rmtree(arguments[1])
        return 1

    monkeypatch.setattr(conversion, "_run", fail)
    with pytest.raises(MachineError, match="deleted during the export"):
        to_universal(trained_run(tmp_path), tmp_path / "out")


def test_a_run_with_muon_is_refused(tmp_path: Path) -> None:
    run = trained_run(tmp_path, optimizer={"kind": "muon"})
    with pytest.raises(ConfigError, match="Muon"):
        to_universal(run, tmp_path / "out")
