"""Runs that continue the training of a universal checkpoint: the state that they begin with, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jprep.errors import ConfigError, InputError, JprepError, MismatchError
from jprep.train.backend import Host, Plan
from jprep.train.evaluation.weights import select_weights
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, parse_train_config
from jprep.train.launcher.launch import PreparedRun, create_run, delete_earlier_run
from jprep.train.models.initial_weights import write_initial_weights
from jprep.train.planning import duration
from jprep.train.pretrained.given_state import ensure_given_state, read_given_state
from jprep.train.pretrained.start import describe_init
from jprep.train.results.deletion import delete_run
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep.train.run.directory import INIT, START, given_state, open_run, read_job
from jprep.train.run.profile import ProfileSteps
from jprep.train.worker.session import Session
from tests.fakes.hugging_face import SIZES, weights, write_pytorch
from tests.fakes.numpy_backend import Numpy

MODEL = {"model_type": "bert", **SIZES, "max_position_embeddings": 32}
STEP, UPDATES, STEPS = 10, 9, 12
AVERAGES = {"m": "exp_avg.pt", "v": "exp_avg_sq.pt"}


def section(rows: Path, init: str, **changes: Any) -> dict[str, Any]:
    model = {"config": MODEL} | ({"init": init, "continue_training": True} if init else {}) | changes.pop("model", {})
    own = {"task": "classify", "data": [str(rows)], "model": model, "steps": STEPS, "batch": 2}
    return own | {"labelled": {"length": 16}} | changes


def build(rows: Path, init: Path | str, tokenizer: Path, run: Path | None = None, **changes: Any) -> Job:
    train = parse_train_config(section(rows, str(init) if init else "", **changes), "here")
    return build_job(train, "run", "torch", {}, tokenizer, run=run)


def write_trained(folder: Path, rows: Path, tokenizer: Path, *, flat: bool = False) -> dict[str, np.ndarray]:
    """Write the universal checkpoint of a training; return its tensors, averages as `m.NAME` and `v.NAME`."""
    job, random = build(rows, "", tokenizer), np.random.default_rng(0)
    path = folder.with_suffix(".safetensors")
    write_initial_weights(job.model, "classify", 3, path)
    state = weights(path)
    for name, array in list(state.items()):
        own = folder / f"global_step{STEP}" / "zero" / name
        own.mkdir(parents=True)
        state |= {f"{mark}.{name}": random.random(array.shape, np.float32) for mark in AVERAGES}
        files = {"fp32.pt": array} | {file: state[f"{mark}.{name}"] for mark, file in AVERAGES.items()}
        for file, values in files.items():
            write_pytorch(own / file, {"param": values.reshape(-1) if flat else values, "cat_dim": 0})
        if not flat:  # DeepSpeed writes a number or a tensor; for ZeRO 3 neither
            write_pytorch(own / "step.pt", UPDATES if name.endswith("bias") else np.float32([UPDATES]).reshape(()))
    (folder / "latest_universal").write_text(f"global_step{STEP}")
    return state


@pytest.fixture
def universal(tmp_path: Path, rows: Path, bert: Path) -> Path:
    write_trained(tmp_path / "universal", rows, bert)
    return tmp_path / "universal"


def weight_folder(universal: Path) -> Path:
    """Return the folder of one of the weights."""
    return next((universal / f"global_step{STEP}" / "zero").glob("*query.weight"))


def created(run: Path, job: Job, messages: list[str] | None = None) -> CheckpointReader:
    """Create a run as `jprep train` does, and return the state that it begins with."""
    say = [].append if messages is None else messages.append
    open_run(run, job, say)
    write_initial_weights(job.model, "classify", 0, run / INIT, run / job.train.model.init)
    ensure_given_state(run, job, say)
    folder = given_state(run, job)
    assert folder
    return CheckpointReader(folder)


@pytest.mark.parametrize("flat", [False, True])
def test_a_run_begins_with_the_state_of_the_checkpoint(flat: bool, tmp_path: Path, rows: Path, bert: Path) -> None:
    wanted, run = write_trained(tmp_path / "universal", rows, bert, flat=flat), tmp_path / "run"
    job = build(rows, tmp_path / "universal", bert, run)
    found = created(run, job)
    tensors = {**found.weights, **found.averages}
    assert tensors.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_array_equal(tensors[name], values)
    assert found.progress.updates == (STEP if flat else UPDATES)  # ZeRO 3 does not count them in the weights' folders
    described = describe_init(job, run)
    assert described.endswith("no tensor starts from the seed; the run continues that training after step 10")


def test_the_worker_begins_after_the_steps_that_are_done(
    tmp_path: Path, rows: Path, bert: Path, universal: Path
) -> None:
    run = tmp_path / "run"
    job = build(rows, universal, bert, run)
    created(run, job)
    weights = select_weights(run, job, "initial")
    assert weights.step == STEP and run / weights.path == given_state(run, job) and not weights.checkpoint
    session = Session(run)
    try:
        assert (session.start, session.resume) == (STEP, given_state(run, job))
        assert [step for step, _ in session.batches()] == list(range(STEP + 1, STEPS + 1))
    finally:
        session.close()


def test_a_damaged_state_is_written_again(tmp_path: Path, rows: Path, bert: Path, universal: Path) -> None:
    run, messages = tmp_path / "run", list[str]()
    job = build(rows, universal, bert, run)
    created(run, job)
    file = run / START / "step-00000010" / "optimizer.safetensors"
    before = file.read_bytes()
    file.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    created(run, job, messages)
    assert file.read_bytes() == before and any("is damaged" in one for one in messages)
    changed = file.stat().st_mtime_ns
    created(run, job)
    assert file.stat().st_mtime_ns == changed


@pytest.mark.parametrize("damage", ["flip", "delete"])
def test_a_worker_without_a_supervisor_refuses_a_damaged_state(
    damage: str, tmp_path: Path, rows: Path, bert: Path, universal: Path
) -> None:
    run = tmp_path / "run"
    created(run, build(rows, universal, bert, run))
    file = run / START / "step-00000010" / "optimizer.safetensors"
    data = file.read_bytes()
    file.unlink() if damage == "delete" else file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(InputError, match="the state that the run begins with is damaged") as error:
        Session(run)
    assert "jprep train" in error.value.fix


def test_an_extended_run_keeps_the_state_it_began_with(tmp_path: Path, rows: Path, bert: Path, universal: Path) -> None:
    run, plan = tmp_path / "run", Plan((), {}, 1, 2, 1, 0)
    host = Host("python", 1, 1 << 30)
    for steps in (STEPS, STEPS + 2, STEPS + 2):
        job = build(rows, universal, bert, run, steps=steps, schedule={"kind": "constant"})
        create_run(PreparedRun(Numpy(), job, run, plan, host), say=lambda text: None)
        assert [path.name for path in (run / START).iterdir()] == ["step-00000010"]
    assert read_job(run).earlier and read_job(run).steps == STEPS + 2


def test_a_restart_with_a_profile_keeps_the_run_if_it_would_not_compute_the_steps(
    tmp_path: Path, rows: Path, bert: Path, universal: Path
) -> None:
    run = tmp_path / "run"
    job = build(rows, universal, bert, run)
    created(run, job)
    prepared = PreparedRun(Numpy(), job, run, Plan((), {}, 1, 2, 1, 0), Host("python", 1, 1 << 30))
    with pytest.raises(ConfigError, match="resumes after step 10"):
        delete_earlier_run(prepared, ProfileSteps(3, 5))
    assert (run / START).exists()


def test_the_duration_is_that_of_the_steps_that_are_left(rows: Path, bert: Path, universal: Path) -> None:
    whole, left = build(rows, "", bert), build(rows, universal, bert)
    assert left.steps_before == STEP and whole.steps_before == 0
    assert duration._flops(left) == pytest.approx(duration._flops(whole) * (STEPS - STEP) / STEPS)


def test_a_restart_deletes_the_state(tmp_path: Path, rows: Path, bert: Path, universal: Path) -> None:
    run = tmp_path / "run"
    created(run, build(rows, universal, bert, run))
    delete_run(run)
    assert not (run / START).exists()


def test_the_averages_are_part_of_the_job(tmp_path: Path, rows: Path, bert: Path, universal: Path) -> None:
    job = build(rows, universal, bert)
    assert job.made_from["training"]["step"] == STEP
    assert build(rows, shutil.copytree(universal, tmp_path / "moved"), bert).fingerprint == job.fingerprint
    weights_only = build(rows, universal, bert, model={"continue_training": False})
    assert weights_only.fingerprint != job.fingerprint
    write_pytorch(weight_folder(universal) / "exp_avg.pt", {"param": np.ones((16, 16), np.float32)})
    assert build(rows, universal, bert).fingerprint != job.fingerprint
    open_run(tmp_path / "run", job)
    with pytest.raises(MismatchError, match="continue_training"):
        open_run(tmp_path / "run", weights_only)


def refused(rows: Path, init: Path | str, tokenizer: Path, **changes: Any) -> JprepError:
    with pytest.raises(JprepError) as error:
        build(rows, init, tokenizer, **changes)
    return error.value


def test_what_cannot_be_continued_is_refused(tmp_path: Path, rows: Path, bert: Path, universal: Path) -> None:
    only = {"model": {"continue_training": True}}
    assert "needs a universal checkpoint" in refused(rows, "", bert, **only).what
    assert "only the training of a universal checkpoint" in refused(rows, bert, bert, model={"config": {}}).what
    shutil.copy(bert / "model.safetensors", universal)
    assert "without a model.safetensors" in refused(rows, universal, bert).fix
    (universal / "model.safetensors").unlink()
    found = refused(rows, universal, bert, steps=STEP)
    assert found.what == "the training to continue has done 10 steps, and this run would end after 10"
    assert "AdamW's" in refused(rows, universal, bert, optimizer={"kind": "muon"}).what
    for key, value in (("model", {"vocabulary": "transfer"}), ("rtd", {"generator_init": str(bert)})):
        train = parse_train_config(section(rows, str(universal), **{key: value}), "here")
        with pytest.raises(ConfigError) as error:
            read_given_state(train, build(rows, universal, bert).model, universal)
        assert error.value.where == f"train.{key}.{next(iter(value))}"
    shutil.rmtree(universal / f"global_step{STEP}" / "zero" / "classifier.weight")
    shutil.rmtree(universal / f"global_step{STEP}" / "zero" / "classifier.bias")
    found = refused(rows, universal, bert)
    assert "'classifier.bias', which would start from the seed" in found.what and "continue_training" in found.fix


def test_damaged_states_are_named(rows: Path, bert: Path, universal: Path) -> None:
    folder = weight_folder(universal)
    write_pytorch(folder / "step.pt", UPDATES - 1)
    assert "different numbers of updates: 8 to 9" in refused(rows, universal, bert).what
    write_pytorch(folder / "step.pt", {"step": Path("x")})
    assert "may run code" in refused(rows, universal, bert).what
    write_pytorch(folder / "step.pt", UPDATES)
    write_pytorch(folder / "exp_avg.pt", {"param": np.ones(3, np.float32)})
    found = refused(rows, universal, bert)
    assert isinstance(found, InputError) and "has the shape 3; the weight has 16 × 16" in found.what
    (folder / "exp_avg.pt").unlink()
    found = refused(rows, universal, bert)
    assert isinstance(found, ConfigError) and "there is no exp_avg.pt" in found.what and found.where == str(folder)


@pytest.mark.parametrize("count", [float("nan"), float("inf"), -1, 2.5, 1e30])
def test_impossible_numbers_of_updates_are_refused(count: float, rows: Path, bert: Path, universal: Path) -> None:
    file = weight_folder(universal) / "step.pt"
    write_pytorch(file, count)
    found = refused(rows, universal, bert)
    assert isinstance(found, InputError) and "is not a number of updates" in found.what and found.where == str(file)


def test_a_link_to_a_checkpoint_has_its_own_name(tmp_path: Path, rows: Path, bert: Path, universal: Path) -> None:
    (tmp_path / "global_step11").symlink_to((universal / f"global_step{STEP}").rename(universal / "blob"))
    assert build(rows, tmp_path / "global_step11", bert).made_from["training"]["step"] == STEP + 1


def test_the_step_is_in_the_name_of_the_folder_or_in_its_files(rows: Path, bert: Path, universal: Path) -> None:
    tag = (universal / f"global_step{STEP}").rename(universal / "trained")
    assert build(rows, tag, bert).made_from["training"]["step"] == UPDATES
    for file in tag.rglob("step.pt"):
        file.unlink()
    assert "global_stepN" in refused(rows, tag, bert).fix
    tag = tag.rename(universal / f"global_step{STEP}_universal")
    assert build(rows, tag, bert).made_from["training"]["step"] == STEP
