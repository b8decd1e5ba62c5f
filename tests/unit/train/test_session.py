"""The session of a worker."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from jprep.dataset.sampling.sampler import Batch, Sampler, SamplerConfig, open_split_data
from jprep.errors import ConfigError, InputError, JprepError, MachineError
from jprep.io.lock import hold_lock
from jprep.train.job.config import CheckpointConfig, ValidationConfig
from jprep.train.optimization.schedule import learning_rate
from jprep.train.run.attempt import announce_attempt
from jprep.train.run.directory import checkpoints_of
from jprep.train.run.events import read_events
from jprep.train.run.ranks import RankLock
from jprep.train.worker.session import DueActions, Session, run_worker
from tests.conftest import PATIENCE, environment
from tests.fakes.small_run import BATCH, LENGTH, SPECIAL, all_ranks, in_thread, small_run


def sampler(run: Path, split: str = "train") -> Sampler:
    config = SamplerConfig(batch=BATCH, length=LENGTH, split=split)
    return Sampler(open_split_data(run.parent / "dataset", split), config, SPECIAL)


def save(session: Session, step: int, loss: float | None = None) -> None:
    with session.checkpoint(step, loss) as folder:
        folder.joinpath("weights").write_text(str(step))


def finish(session: Session) -> None:
    """Train to the end, doing what is due."""
    for step, _ in session.batches():
        if session.due(step).checkpoint:
            save(session, step)
    session.finish()


def test_steps_and_their_batches(tmp_path: Path) -> None:
    run = small_run(tmp_path, steps=6)
    session = Session(run)
    seen = list(session.batches())
    assert [step for step, _ in seen] == [1, 2, 3, 4, 5, 6]
    for step, batch in seen:
        assert (batch.input_ids == sampler(run).batch(step - 1).input_ids).all()
    assert [step for step, _ in session.batches(from_step=4)] == [5, 6]
    session.close()


def test_the_first_step_has_the_first_learning_rate_of_the_schedule(tmp_path: Path) -> None:
    session = Session(small_run(tmp_path, steps=6))
    config = session.job.train
    rates = [learning_rate(updates, 6, config.optimizer.lr, config.schedule) for updates in range(6)]
    assert [session.learning_rate(step) for step in range(1, 7)] == rates and len(set(rates)) > 1
    session.close()


def test_ranks_share_a_batch(tmp_path: Path) -> None:
    run = small_run(tmp_path, steps=2)
    with all_ranks(run, 2) as sessions:
        both = [next(session.batches())[1].input_ids for session in sessions]
    assert (np.concatenate(both) == sampler(run).batch(0).input_ids).all()
    with pytest.raises(ConfigError, match="cannot be divided"):
        Session(run, 0, 3)


def test_validation_is_each_sample_once(tmp_path: Path) -> None:
    run = small_run(tmp_path, validation=ValidationConfig(every_steps=5))
    indices: list[int] = []
    with all_ranks(run, 2) as sessions:
        for batch in itertools.chain.from_iterable(session.validation() for session in sessions):
            assert isinstance(batch, Batch) and not batch.epochs.any()
            indices += batch.indices.tolist()
    assert sorted(indices) == list(range(sampler(run, "validation").samples))


def test_a_session_resumes_from_the_last_checkpoint(tmp_path: Path) -> None:
    run = small_run(tmp_path, steps=30)
    session = Session(run)
    assert (session.start, session.resume) == (0, None)
    save(session, 20)
    session.close()
    session = Session(run)
    assert session.start == 20 and session.resume and (session.resume / "weights").read_text() == "20"
    finish(session)
    assert [event.kind for event in read_events(run)] == ["start", "checkpoint", "start", "checkpoint", "end"]


def test_log_validation_and_save_are_due_as_configured(tmp_path: Path) -> None:
    run = small_run(
        tmp_path, steps=25, log_every=4, checkpoint=CheckpointConfig(every_steps=10),
        validation=ValidationConfig(every_steps=6),
    )  # fmt: skip
    session = Session(run)
    due = {step: session.due(step) for step, _ in session.batches()}
    assert [step for step in due if due[step].checkpoint] == [10, 20, 25]
    assert [step for step in due if due[step].validate] == [6, 12, 18, 24, 25]
    assert [step for step in due if due[step].log] == [4, 6, 8, 10, 12, 16, 18, 20, 24, 25]
    session.close()


def test_by_minutes(tmp_path: Path) -> None:
    run = small_run(tmp_path, checkpoint=CheckpointConfig(every_steps=0, every_minutes=1e-9))
    session = Session(run)
    assert session.due(1).checkpoint
    session.close()


def test_a_signal_requests_a_stop_and_the_handler_is_restored(tmp_path: Path) -> None:
    run, before = small_run(tmp_path), signal.getsignal(signal.SIGTERM)
    session, seen = Session(run), []
    for step, _ in session.batches():
        if step == 7:
            os.kill(os.getpid(), signal.SIGTERM)
        due = session.due(step)
        seen.append(step)
        if due.checkpoint:
            save(session, step)
    assert seen == [1, 2, 3, 4, 5, 6, 7] and session.stopping
    session.finish()
    assert [event.kind for event in read_events(run)] == ["start", "checkpoint", "signal"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_ranks_agree_on_when_to_stop(tmp_path: Path) -> None:
    run, due_of_rank = small_run(tmp_path, log_every=2), {}

    def go(session: Session) -> list[DueActions]:
        return [session.due(step) for step, _ in session.batches()]

    def follow() -> None:  # in a thread, where no signal is handled
        with contextlib.closing(Session(run, 1, 2)) as other:
            due_of_rank[1] = go(other)

    thread = in_thread(follow)
    first = Session(run, 0, 2)
    os.kill(os.getpid(), signal.SIGTERM)
    due_of_rank[0] = go(first)
    thread.join(PATIENCE)
    assert (
        due_of_rank[0]
        == due_of_rank[1]
        == [DueActions(False, False, False, False), DueActions(True, False, True, True)]
    )
    first.close()


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite(loss: float, tmp_path: Path) -> None:
    session = Session(small_run(tmp_path))
    save(session, 10, 2.0)
    with pytest.raises(InputError, match="at step 12; the newest checkpoint is step-00000010"):
        session.log(12, loss=loss)
    with pytest.raises(InputError):
        save(session, 12, loss)
    session.log(13, loss=1.0, norm=float("inf"))  # a norm may be, under fp16
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == ["step-00000010"]
    session.close()


def test_the_loss_of_validation_is_the_checkpoint_s(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    session = Session(run)
    session.validated(10, 1.25, perplexity=3.5)
    save(session, 10)
    save(session, 11)
    found = [b'"loss": 1.25' in path.read_bytes() for path in sorted(run.glob("checkpoints/*/COMMIT.json"))]
    assert found == [True, False]
    session.close()


def test_ending_early_is_an_error(tmp_path: Path) -> None:
    session = Session(small_run(tmp_path))
    with pytest.raises(JprepError, match="ended after 0 of 60"):
        session.finish()
    session.close()


def test_one_trainer_at_a_time(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    session = Session(run)
    code = "import sys; from pathlib import Path; from jprep.train.worker.session import run_worker\n"
    code += "sys.exit(run_worker(print, Path(sys.argv[1])))"
    done = subprocess.run([sys.executable, "-c", code, str(run)], env=environment(), capture_output=True, text=True)
    assert done.returncode == 3 and "another jprep is running here" in done.stderr
    assert [event.kind for event in read_events(run)] == ["start"]
    session.close()


def test_a_worker_whose_supervisor_is_dead_exits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPREP_ATTEMPT", "gone-0")
    run = small_run(tmp_path)
    with pytest.raises(MachineError, match="supervisor is dead"):
        Session(run)


def test_a_late_worker_does_not_end_the_next_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its supervisor was killed while it imported its framework, and the same command was run again."""
    run = small_run(tmp_path)
    with hold_lock(run / "LOCK"):
        announce_attempt(run, "next-0")
        monkeypatch.setenv("JPREP_ATTEMPT", "gone-0")
        assert run_worker(print, run) == 3
        assert read_events(run) == []
        monkeypatch.setenv("JPREP_ATTEMPT", "next-0")
        (run / "job.json").unlink()
        assert run_worker(print, run) == 2
        assert [event.kind for event in read_events(run)] == ["end"]


def test_a_second_worker_of_a_rank_exits_and_the_run_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run(tmp_path)
    monkeypatch.setattr("jprep.train.run.ranks._LOCK_TIMEOUT", 0.1)
    with hold_lock(run / "LOCK"), contextlib.closing(RankLock(run, 1)):
        announce_attempt(run, "here-0")
        monkeypatch.setenv("JPREP_ATTEMPT", "here-0")
        assert run_worker(print, run, 1, 2) == 1
    assert read_events(run) == []


def test_a_missing_validation_split_is_reported_at_the_start(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    (run.parent / "dataset" / "validation.bin").unlink()
    assert run_worker(print, run) == 2


def test_a_worker_s_error_is_the_run_s_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = small_run(tmp_path)

    def fail(session: Session) -> None:
        raise ConfigError("no such layer")

    assert run_worker(fail, run) == 2
    assert "jprep: no such layer" in capsys.readouterr().err
    assert read_events(run)[-1].figures == {"code": 2} and read_events(run)[-1].note == "no such layer"


def test_a_log_that_cannot_be_written_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run(tmp_path)

    def fail(session: Session) -> None:
        raise ConfigError("no such layer")

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr("sys.stderr", Full())
        assert run_worker(fail, run) == 2
    assert read_events(run)[-1].note == "no such layer"


def test_the_session_imports_no_heavy_library() -> None:
    code = "import sys, jprep.train.worker.session\n"
    code += "print({'pyarrow', 'tokenizers', 'sentencepiece', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.stdout == "set()\n"


def test_prefetched_batches_are_the_same(tmp_path: Path) -> None:
    session, made = Session(small_run(tmp_path, steps=6)), []
    seen = []
    for step, ids in session.batches_ahead(lambda batch: made.append(1) or batch.input_ids):
        assert session.step == step
        seen.append(ids)
    assert len(made) == len(seen) == 6
    for (_, batch), ids in zip(session.batches(), seen, strict=True):
        assert (batch.input_ids == ids).all()
    session.close()


def test_prefetched_batches_end_when_the_run_is_stopped(tmp_path: Path) -> None:
    session = Session(small_run(tmp_path, steps=30))
    for step, _ in session.batches_ahead(lambda batch: batch):
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
            assert session.due(step).stop
    assert session.step == 3
    session.finish()


def test_an_error_of_prefetching_is_raised_when_its_item_is_due(tmp_path: Path) -> None:
    def refuse(batch: Batch) -> None:
        raise InputError("a damaged batch")

    session = Session(small_run(tmp_path))
    with pytest.raises(InputError, match="damaged"):
        next(session.batches_ahead(refuse))
    session.close()


def test_training_continues_during_a_save(tmp_path: Path) -> None:
    run, may_end = small_run(tmp_path, steps=4), threading.Event()
    session = Session(run)

    def fill(folder: Path) -> None:
        assert may_end.wait(600)
        folder.joinpath("weights").write_text("1")

    for step, _ in session.batches():
        session.due(step)
        session.log(step, loss=float(step))
        if step == 1:
            session.validated(step, 3.5)
            session.save(step, fill)
            assert not list(run.joinpath("checkpoints").glob("step-*"))
    may_end.set()
    session.finish()
    [saved] = checkpoints_of(run, session.job).committed()
    assert (saved.step, saved.commit.loss) == (1, 3.5)
    kinds = [event.kind for event in read_events(run)]
    assert kinds.index("checkpoint") > max(place for place, kind in enumerate(kinds) if kind == "log")
    assert kinds[-1] == "end"


@pytest.mark.parametrize("way", ["due", "save", "finish"])
def test_an_error_of_saving_in_a_thread_is_raised_later(way: str, tmp_path: Path) -> None:
    run, filled = small_run(tmp_path, steps=2), threading.Event()
    session = Session(run)

    def full(folder: Path) -> None:
        filled.set()
        raise OSError(errno.ENOSPC, "No space left on device")

    for step, _ in session.batches():
        if step == 1:
            session.save(step, full)
    assert filled.wait(600)
    with pytest.raises(MachineError):
        while way == "due":
            session.due(1)
        if way == "save":
            session.save(2, lambda folder: None)
        session.finish()
    session.close()
    assert not list(run.joinpath("checkpoints").iterdir())


def test_a_non_finite_loss_waits_for_the_checkpoint_being_saved(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    session = Session(run)
    session.save(7, lambda folder: time.sleep(0.2) or folder.joinpath("weights").write_text("7"))
    with pytest.raises(InputError, match="step-00000007"):
        session.log(8, loss=float("nan"))
    session.close()
