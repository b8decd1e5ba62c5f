"""The run directory and its events."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import ConfigError, MachineError, MismatchError
from jprep.io.lock import hold_lock
from jprep.train.job.config import CheckpointConfig
from jprep.train.run.data_lock import check_data
from jprep.train.run.directory import ENVIRONMENT, checkpoints_of, open_run, read_job, write_environment
from jprep.train.run.events import EVENTS, Event, EventReader, metric_curve, read_events, record_event
from tests.fakes.small_dataset import SPLITS, lay_out, some
from tests.fakes.small_dataset import tokenizer as small_tokenizer
from tests.fakes.small_run import job_of, small_run


def test_a_run_directory_is_created_and_opened_again(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    job = read_job(run)
    assert job == job_of(tmp_path / "dataset", run)
    files = json.loads((run / "data.lock.json").read_bytes())["files"]
    assert files["dataset/train.bin"]["bytes"] == (tmp_path / "dataset" / "train.bin").stat().st_size
    assert len(files["dataset/dataset.json"]["sha256"]) == 64
    open_run(run, job)


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"seed": 2}, "train.seed"), ({"steps": 70}, "steps"), ({"model": {"model_type": "gpt2"}}, "model.model_type")],
)
def test_another_job_is_refused(changes: dict[str, object], field: str, tmp_path: Path) -> None:
    small_run(tmp_path)
    with pytest.raises(MismatchError, match=field):
        small_run(tmp_path, **changes)


def test_events_of_another_run_in_the_place_of_a_deleted_one_are_read(tmp_path: Path) -> None:
    reader = EventReader(tmp_path)
    for step in range(3):
        record_event(tmp_path, "log", step, {"loss": 1.0})
    assert len(reader.new()) == 3
    (tmp_path / EVENTS).unlink()
    assert reader.new() == []
    record_event(tmp_path, "start", 0)
    assert [event.kind for event in reader.new()] == ["start"]


def test_unfingerprinted_keys_may_change(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    small_run(tmp_path, log_every=7, checkpoint=CheckpointConfig(keep_last=9), max_restarts=1)
    small_run(tmp_path, log_every=7, options={"rows": 4})
    assert read_job(run).options == {"rows": 4}
    assert read_job(run).train.log_every == 7


def test_a_result_option_must_not_change(tmp_path: Path) -> None:
    small_run(tmp_path, options={"rows": 4, "drop": 0.1}, computed={"drop": 0.1})
    small_run(tmp_path, options={"rows": 2, "drop": 0.1}, computed={"drop": 0.1})
    with pytest.raises(MismatchError, match=r"options.drop: was 0.1, is 0.2"):
        small_run(tmp_path, options={"drop": 0.2}, computed={"drop": 0.2})
    with pytest.raises(MismatchError, match=r"options.drop: was 0.1, is null"):
        small_run(tmp_path, backend="another")


def test_a_run_may_resume_on_another_backend(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    said: list[str] = []
    job = read_job(run)
    open_run(run, msgspec.structs.replace(job, backend="another"), said.append)
    assert read_job(run).backend == "another"
    assert said == [f"this run began on the backend {job.backend} and resumes on another"]


def test_a_changed_dataset_is_refused(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    lay_out(tmp_path / "dataset", SPLITS | {"validation": some(9, 9)}, fingerprint="1" * 32)
    with pytest.raises(MismatchError, match="the dataset is a different one"):
        check_data(run, read_job(run))


def test_a_changed_tokenizer_is_refused(tmp_path: Path) -> None:
    place = small_tokenizer(tmp_path / "tokenizer")
    run = small_run(tmp_path, tokenizer="../tokenizer")
    small_tokenizer(place, fingerprint="others")
    with pytest.raises(MismatchError, match="the tokenizer is a different one"):
        small_run(tmp_path, tokenizer="../tokenizer")
    assert read_job(run).tokenizer == "../tokenizer"


def test_changed_labelled_rows_are_refused_and_moved_ones_are_not(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}")
    run = small_run(tmp_path, data=["../rows.jsonl"])
    moved = rows.rename(tmp_path / "moved.jsonl")
    small_run(tmp_path, data=["../moved.jsonl"])
    moved.write_text("{ }")
    with pytest.raises(MismatchError, match=r"moved\.jsonl is not what the run began with"):
        check_data(run, read_job(run))


def test_a_missing_run_and_a_run_of_another_format(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run"):
        read_job(tmp_path)
    run = small_run(tmp_path)
    old = msgspec.structs.replace(read_job(run), format=0)
    (run / "job.json").write_bytes(msgspec.json.encode(old))
    with pytest.raises(MismatchError, match="format 0"):
        read_job(run)


def test_a_damaged_job_is_written_again_if_a_checkpoint_proves_it(tmp_path: Path) -> None:
    run, said = small_run(tmp_path), list[str]()
    job, path = read_job(run), run / "job.json"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"batch": 8', b'"batch": 9'))
    with pytest.raises(ConfigError, match=r"job\.json is damaged: its checksum"):
        open_run(run, job, said.append)
    with checkpoints_of(run, job).saving(10) as folder:
        folder.joinpath("weights").touch()
    with pytest.raises(ConfigError, match="damaged"):
        open_run(run, msgspec.structs.replace(job, fingerprint="0" * 32), said.append)
    open_run(run, job, said.append)
    assert path.read_bytes() == whole and "job.json is damaged and is written again" in said[0]


def test_a_locked_run_is_not_opened(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    with hold_lock(run / "LOCK"), pytest.raises(MachineError, match="another jprep"):
        small_run(tmp_path)


@given(cut=st.integers(1, 40))
def test_a_truncated_line_is_skipped(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    run = tmp_path_factory.mktemp("torn")
    record_event(run, "log", 1, {"loss": 2.0})
    record_event(run, "log", 2, {"loss": 1.5})
    path = run / EVENTS
    path.write_bytes(path.read_bytes()[:-cut])
    record_event(run, "log", 3, {"loss": 1.0})
    assert [event.step for event in read_events(run)] in ([1, 3], [1, 2, 3])
    assert read_events(run)[-1].figures == {"loss": 1.0}


def test_events_are_followed(tmp_path: Path) -> None:
    follower = EventReader(tmp_path)
    assert follower.new() == []
    record_event(tmp_path, "start", 0)
    with (tmp_path / EVENTS).open("ab") as file:
        file.write(b'{"time":1,"step":5,')
    assert [event.kind for event in follower.new()] == ["start"]
    with (tmp_path / EVENTS).open("ab") as file:
        file.write(b'"kind":"log","figures":{"norm":null}}\n')
    assert follower.new() == [Event(1, 5, "log", {"norm": None})]


def test_a_curve_has_the_last_value_of_a_repeated_step() -> None:
    def log(step: int, loss: float) -> Event:
        return Event(0, step, "log", {"loss": loss})

    events = [Event(0, 0, "start"), log(5, 3), log(10, 2), log(15, 9), Event(0, 10, "start"), log(15, 1), log(15, 0.5)]
    assert metric_curve(events) == ([5, 10, 15], [3, 2, 0.5])
    assert metric_curve(events[:5]) == ([5, 10], [3, 2])


def test_a_run_resumes_with_another_padding_of_the_vocabulary(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    job = read_job(run)
    model = msgspec.structs.replace(job.train.model, pad_vocab=128)
    open_run(run, msgspec.structs.replace(job, train=msgspec.structs.replace(job.train, model=model)))
    assert read_job(run).train.model.pad_vocab == 128


@pytest.mark.parametrize("name", ["single.egg-info", "single.egg-info/PKG-INFO", "single-1.2.dist-info/METADATA"])
def test_the_environment_names_every_kind_of_distribution(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path := tmp_path / "site" / name).parent.mkdir(parents=True)
    path.write_text("Metadata-Version: 1.0\nName: Single\nVersion: 1.2\n\nName: text\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    write_environment(tmp_path)
    assert json.loads((tmp_path / ENVIRONMENT).read_bytes())["packages"]["single"] == "1.2"
