"""A run loaded from its directory: state, metrics, checkpoints, and what Jupyter displays."""

from __future__ import annotations

from pathlib import Path

import pytest

import jprep
from jprep.errors import ConfigError
from jprep.io.lock import hold_lock, is_locked
from jprep.pipeline.output_paths import paths_in
from jprep.pipeline.run_result import RunResult
from jprep.train.exporting import export
from jprep.train.run.directory import LOCK
from jprep.train.run.events import record_event
from tests.fakes.html_fragment import Fragment
from tests.fakes.small_run import small_run
from tests.fakes.trained_run import trained_run

HOSTILE = "<script>alert(1)</script>\x1b\u202e"


def test_a_run_without_events_has_not_started(tmp_path: Path) -> None:
    run = jprep.load_run(small_run(tmp_path))
    assert run.state == ("not started", 0, 60, "")
    assert run.losses().to_pylist() == [] and run.losses().column_names == ["step", "loss"]
    assert run.checkpoints == [] and run.export is None
    text = Fragment(run._repr_html_()).text
    assert "nothing was logged yet" in text and "there are none" in text


def test_there_is_no_run_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no run here"):
        jprep.load_run(tmp_path)


def test_the_runs_of_folds_are_named(tmp_path: Path) -> None:
    fold = tmp_path / "fold-0"
    small_run(tmp_path).rename(fold)
    with pytest.raises(ConfigError, match="there are runs of 1 folds") as caught:
        jprep.load_run(tmp_path)
    assert str(fold) in caught.value.fix and jprep.load_run(fold).job.name == "small"


def test_the_runs_of_a_recipe_are_named(tmp_path: Path) -> None:
    run = tmp_path / "work/small/runs/torch"
    run.parent.mkdir(parents=True)
    small_run(tmp_path).rename(run)
    for folder in (run.parent, run.parents[1], run.parents[2]):
        with pytest.raises(ConfigError, match="there is no run here") as caught:
            jprep.load_run(folder)
        assert caught.value.fix == f"give {run}"


def test_metrics_are_tables_by_step(tmp_path: Path) -> None:
    folder = small_run(tmp_path)
    record_event(folder, "start", 0)
    for step, loss in ((5, 3.0), (10, None), (15, 1.0)):
        record_event(folder, "log", step, {"loss": loss, "lr": 0.5})
    record_event(folder, "validation", 10, {"loss": 2.5, "accuracy": 0.25})
    record_event(folder, "start", 10)
    record_event(folder, "log", 15, {"loss": 2.0, "norm": 1.5})
    run = jprep.load_run(folder)
    assert run.losses().to_pydict() == {
        "step": [5, 10, 15], "loss": [3.0, None, 2.0], "lr": [0.5, 0.5, None], "norm": [None, None, 1.5],
    }  # fmt: skip
    assert run.validation().to_pylist() == [{"step": 10, "loss": 2.5, "accuracy": 0.25}]
    assert run.curves == {"training": ([5, 15], [3.0, 2.0]), "validation": ([10], [2.5])}


def test_the_state_follows_events_and_lock(tmp_path: Path) -> None:
    folder = small_run(tmp_path)
    run = jprep.load_run(folder)
    record_event(folder, "start", 0)
    record_event(folder, "log", 5, {"loss": 3.0})
    assert run.state[:3] == ("interrupted", 5, 60)
    with hold_lock(folder / LOCK):
        assert run.state.condition == "running"
    record_event(folder, "end", 5, {"code": 1}, HOSTILE)
    assert run.state == ("failed", 5, 60, HOSTILE)
    assert "<script>alert(1)</script>\\x1b\\u202e" in Fragment(run._repr_html_()).text
    record_event(folder, "start", 5)
    record_event(folder, "end", 60, {"code": 0})
    assert run.state == ("finished", 60, 60, "")
    assert repr(run) == f"<Run 'small' in {str(folder)!r}: clm on numpy, finished, step 60 of 60>"


def test_looking_for_a_lock_creates_nothing(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "LOCK")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.backends
def test_a_trained_run_shows_checkpoints_export_and_curve(tmp_path: Path) -> None:
    run = jprep.load_run(trained_run(tmp_path))
    assert [checkpoint.step for checkpoint in run.checkpoints] == [5, 10]
    assert run.export is None
    export(run.folder)
    assert run.export == run.folder / "export"
    fragment = Fragment(run._repr_html_())
    assert fragment.tags.count("polyline") == 2
    for part in ("taskmlm", "modelroberta", "validation loss3.7500 at step 10", "step-00000010", str(run.export)):
        assert part in fragment.text


def test_a_hostile_name_is_shown_as_text(tmp_path: Path) -> None:
    run = jprep.load_run(small_run(tmp_path, name=HOSTILE))
    assert "<script>alert(1)</script>\\x1b\\u202e" in Fragment(run._repr_html_()).text
    assert "\x1b" not in repr(run)


def test_the_result_of_a_recipe_shows_its_outputs() -> None:
    paths = paths_in(Path("work") / HOSTILE)
    result = RunResult(["corpus", "tokenizer", "train"], paths, [paths.runs / "torch"], [], 130)
    text = Fragment(result._repr_html_()).text
    assert "<script>" in text and "jprep.Corpus(…)" in text and "jprep.load_run(…)" in text
    assert "exit code 130" in text and "dataset" not in text
