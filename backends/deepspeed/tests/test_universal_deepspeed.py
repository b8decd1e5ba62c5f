"""DeepSpeed's universal checkpoints: a run's checkpoint is loaded by DeepSpeed alone, and DeepSpeed's own by jprep."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deepspeed.checkpoint import constants

from jprep.errors import ConfigError, InputError
from jprep.testing.backend_suite.cases import case_of
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.exporting.conversion import to_universal
from jprep.train.models.initial_weights import write_initial_weights
from jprep.train.run.checkpoint_files import CheckpointReader, TrainProgress, write_part, write_progress
from jprep.train.run.directory import checkpoints_of, given_state, read_job
from jprep_deepspeed.convert import to_universal as converter

SCRIPT = Path(__file__).with_name("plain_training.py")
STEPS, STEP, SEED = 6, 4, 1
CASE = "gpt2-clm"
CHANGES = {"steps": STEPS, "checkpoint": {"every_steps": STEP}, "schedule": {"kind": "constant"}}
MARKS = {"w": "fp32", "m": "exp_avg", "v": "exp_avg_sq"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runner(tmp_path_factory.mktemp("runs")).trained(CASE, **CHANGES).run


@pytest.fixture(scope="module")
def universal(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("universal") / "out"
    assert to_universal(run, folder) == 0
    return folder


def runner(folder: Path) -> SuiteRunner:
    """Return a runner of jprep's trainings."""
    return SuiteRunner(folder, "deepspeed", {"device": "cpu", "stage": 0})


def continued(universal: Path) -> dict[str, Any]:
    """Return the changes of the case for a run that continues the training of a universal checkpoint."""
    model = case_of(CASE).section["model"] | {"init": str(universal), "continue_training": True}
    return CHANGES | {"model": model}


def saved(run: Path, step: int = STEPS) -> dict[str, np.ndarray]:
    """Return weights and averages of a checkpoint, as `w.NAME`, `m.NAME` and `v.NAME`."""
    return state_of(next(one.folder for one in checkpoints_of(run, read_job(run)).committed() if one.step == step))


def state_of(folder: Path) -> dict[str, np.ndarray]:
    """Return what a folder of a checkpoint has, see `saved`."""
    reader = CheckpointReader(folder)
    return {f"w.{name}": reader.weights[name] for name in reader.weights} | dict(reader.averages)


def plain(run: Path, folder: Path, stage: int, *flags: object, processes: int = 1) -> dict[str, np.ndarray]:
    """Run DeepSpeed without jprep, and return what it has: weights, averages, steps."""
    folder.mkdir(exist_ok=True)
    config, out = folder.parent / "config.json", folder.parent / f"stage-{stage}.npz"
    config.write_text(json.dumps(read_job(run).model))
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [sys.executable, *launcher, str(SCRIPT), config, stage, folder, out, *flags]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    settings = {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*map(str, command)], env=env | settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    with np.load(out) as found:
        return dict(found)


def assert_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert {name for name in found if name[:2] in ("w.", "m.", "v.")} == set(wanted)
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def universal_state(tag: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a universal checkpoint, flat, as `w.NAME`, `m.NAME` and `v.NAME`."""
    found = {}
    for folder in (tag / "zero").iterdir():
        for mark, file in MARKS.items() if folder.is_dir() else ():
            read = torch.load(folder / f"{file}.pt", weights_only=True)
            found[f"{mark}.{folder.name}"] = (read["param"] if isinstance(read, dict) else read).flatten().numpy()
    return found


def started(run: Path, init: Path, folder: Path) -> dict[str, np.ndarray]:
    """Return the initial weights of the run's model, if it starts from `init`."""
    job, path = read_job(run), folder / "init.safetensors"
    write_initial_weights(job.model, job.train.objective, SEED, path, init)
    folder.joinpath("model.safetensors").write_bytes(path.read_bytes())
    reader = CheckpointReader(folder)
    return {f"w.{name}": np.array(reader.weights[name]) for name in reader.weights}


def convert(tag: Path, out: Path) -> None:
    """Call DeepSpeed's own converter."""
    arguments = ["--input_folder", tag, "--output_folder", out, "--inject_missing_state"]
    command = [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", *arguments]
    env = os.environ | {"DS_ACCELERATOR": "cpu"}
    done = subprocess.run([*map(str, command)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


def test_the_files_have_only_tensors_and_plain_values(run: Path, universal: Path) -> None:
    tag = universal / f"global_step{STEPS}"
    assert (universal / "latest_universal").read_text() == tag.name
    for path in tag.rglob("*.pt"):
        torch.load(path, weights_only=True)
    wanted = {name: values.reshape(-1) for name, values in saved(run).items()}
    found = universal_state(tag)
    assert_same(found, wanted)
    state = torch.load(tag / "mp_rank_00_model_states.pt", weights_only=True)
    version = state[constants.UNIVERSAL_CHECKPOINT_INFO][constants.UNIVERSAL_CHECKPOINT_VERSION_KEY]
    assert version == constants.UNIVERSAL_CHECKPOINT_VERSION_VALUE


@pytest.mark.parametrize(
    ("stage", "flags", "processes"),
    [
        (1, (), 1),
        (3, (), 1),
        pytest.param(3, (), 2, marks=pytest.mark.soak),
        pytest.param(1, ("--groups", 1), 2, marks=pytest.mark.soak),
        pytest.param(2, (), 2, marks=pytest.mark.soak),
        pytest.param(1, ("--bf16",), 1, marks=pytest.mark.soak),
        pytest.param(3, ("--bf16",), 1, marks=pytest.mark.soak),
    ],
)
def test_deepspeed_loads_the_weights_and_averages_of_a_run(
    run: Path, universal: Path, tmp_path: Path, stage: int, flags: tuple[object, ...], processes: int
) -> None:
    (tmp_path / "out").symlink_to(universal)
    found = plain(run, tmp_path / "out", stage, "--load", *flags, processes=processes)
    assert_same(found, saved(run))
    assert found["steps"].tolist() == [STEPS]
    assert (found["global_steps"], found["schedule"]) == (STEPS, STEPS - 1)


@pytest.mark.soak
@pytest.mark.parametrize(("stage", "processes"), [(1, 1), (2, 2), (3, 2)])
def test_a_training_in_deepspeed_continues_here_and_goes_back(
    run: Path, tmp_path: Path, stage: int, processes: int
) -> None:
    """Universal checkpoint → DeepSpeed's training → its checkpoint → its converter → `train.model.init`."""
    assert to_universal(run, tmp_path / "out", which=str(STEP)) == 0
    begun = saved(run, STEP)
    found = plain(run, tmp_path / "out", stage, "--load", "--steps", 2, "--save", "trained", processes=processes)
    convert(tmp_path / "out" / "trained", tmp_path / "converted" / "trained")
    weights = {name: values for name, values in found.items() if name.startswith("w.")}
    assert any((weights[name] != begun[name]).any() for name in weights)
    for init in (tmp_path / "converted", tmp_path / "converted" / "trained"):
        assert_same(started(run, init, tmp_path), weights)
    tag = (tmp_path / "converted" / "trained").rename(tmp_path / f"global_step{STEP + 2}_universal")
    prepared = runner(tmp_path).prepare(CASE, **continued(tag) | {"steps": STEPS + 2})
    given = given_state(prepared.run, prepared.job)
    assert given and given.name == "step-00000006"
    assert_same(state_of(given), {name: values for name, values in found.items() if name[:2] in ("w.", "m.", "v.")})


def test_a_run_starts_from_its_own_universal_checkpoint(run: Path, universal: Path, tmp_path: Path) -> None:
    wanted = {name: values for name, values in saved(run).items() if name.startswith("w.")}
    assert_same(started(run, universal, tmp_path), wanted)


def test_a_run_continues_a_universal_checkpoint_to_the_same_bits(run: Path, tmp_path: Path) -> None:
    assert to_universal(run, tmp_path / "out", which=str(STEP)) == 0
    trained = runner(tmp_path).trained(CASE, **continued(tmp_path / "out"))
    assert list(trained.losses()) == list(range(STEP + 1, STEPS + 1))
    assert_same(saved(trained.run), saved(run))


def test_names_of_another_model_are_listed(run: Path, universal: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "zero").mkdir(parents=True)
    source = universal / f"global_step{STEPS}" / "zero" / "transformer.ln_f.bias"
    (tmp_path / "other" / "zero" / "encoder.bias").symlink_to(source)
    with pytest.raises(ConfigError, match=r"(?s)there is no tensor .transformer.*available: encoder.bias"):
        started(run, tmp_path / "other", tmp_path)


def test_a_file_with_code_is_refused(run: Path, universal: Path, tmp_path: Path) -> None:
    folder = tmp_path / "zero" / "transformer.wte.weight"
    folder.mkdir(parents=True)
    torch.save({"param": torch.zeros(1), "other": Path("x")}, folder / "fp32.pt")
    with pytest.raises(InputError, match="may run code"):
        started(run, tmp_path, tmp_path)


def test_experts_have_the_names_and_shapes_of_the_model(tmp_path: Path) -> None:
    """One weight of all experts for transformers 5, with its averages, from one tensor of each expert."""
    random, checkpoint = np.random.default_rng(1), tmp_path / "step-00000005"
    checkpoint.mkdir()
    parts = {"gate_proj": (3, 4), "up_proj": (3, 4), "down_proj": (4, 3)}
    names = {f"model.layers.0.mlp.experts.{one}.{part}.weight": parts[part] for one in range(2) for part in parts}
    for kind, marks in (("model", ("",)), ("optimizer", ("m.", "v."))):
        tensors = {mark + name: random.random(shape, np.float32) for name, shape in names.items() for mark in marks}
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        write_part(checkpoint, kind, shapes, lambda name, of=tensors: [of[name]])
    write_progress(checkpoint, TrainProgress(5))
    converter.to_universal(checkpoint, tmp_path / "out")
    reader, zero = CheckpointReader(checkpoint), tmp_path / "out" / "global_step5" / "zero"
    layer = "model.layers.0.mlp.experts"
    sources = {"w": (reader.weights, ""), "m": (reader.averages, "m."), "v": (reader.averages, "v.")}
    for mark, (files, prefix) in sources.items():
        for whole, rows in (("gate_up_proj", ("gate_proj", "up_proj")), ("down_proj", ("down_proj",))):
            wanted = [
                np.concatenate([files[f"{prefix}{layer}.{one}.{row}.weight"] for row in rows]) for one in range(2)
            ]
            found = torch.load(zero / f"{layer}.{whole}" / f"{MARKS[mark]}.pt", weights_only=True)["param"]
            np.testing.assert_array_equal(found.numpy(), np.stack(wanted))
    assert len([path for path in zero.iterdir() if path.is_dir()]) == 2


def test_only_its_own_output_is_replaced(run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    assert to_universal(run, folder, which=str(STEP)) == to_universal(run, folder) == 0
    assert sorted(path.name for path in folder.iterdir()) == [f"global_step{STEPS}", "latest_universal"]
    (folder / f"global_step{STEPS}" / "notes.txt").touch()
    assert to_universal(run, folder) == 2
    assert "holds other files" in capfd.readouterr().err
    assert (folder / f"global_step{STEPS}" / "notes.txt").exists()


def test_an_interrupted_export_leaves_the_earlier_one(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    assert to_universal(run, folder, which=str(STEP)) == 0
    newest = checkpoints_of(run, read_job(run)).committed()[-1].folder

    def fail(*arguments: object) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(converter, "_optimizer_state", fail)
    with pytest.raises(KeyboardInterrupt):
        converter.to_universal(newest, folder)
    assert (folder / "latest_universal").read_text() == f"global_step{STEP}"
    monkeypatch.undo()
    converter.to_universal(newest, folder)
    assert (folder / "latest_universal").read_text() == f"global_step{STEPS}"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
