"""Two ranks as processes, started by a launcher that is started by the supervisor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from jprep.dataset.sampling.sampler import Sampler, SamplerConfig, open_split_data
from jprep.errors import MachineError
from jprep.train.job.config import CheckpointConfig, ValidationConfig
from jprep.train.launcher.supervisor import supervise
from jprep.train.run.events import read_events
from jprep.train.run.ranks import RankLock, clear_ranks, live_ranks, signal_ranks
from tests.conftest import environment
from tests.fakes.small_run import BATCH, LENGTH, SPECIAL, await_true, plan_of, small_run, supervisor_command, weights

LAUNCHER = Path(__file__).parents[2] / "fakes" / "two_ranks.py"
STEPS = 20
PARTS = {"weights.npy", "momentum.npy", "part-1.npy"}


def ready(folder: Path) -> Path:
    (folder / "trace").mkdir(parents=True)
    return small_run(
        folder, steps=STEPS, log_every=2, max_restarts=2, checkpoint=CheckpointConfig(every_steps=5, keep_last=9),
        validation=ValidationConfig(every_steps=10, batches=2),
    )  # fmt: skip


def train(run: Path, said: list[str] | None = None, **env: str) -> int:
    say = print if said is None else said.append
    return supervise(run, plan_of(run, LAUNCHER, TRACE=str(run.parent / "trace"), **env), say=say, backoff=0.01)


def seen(run: Path, rank: int) -> dict[int, dict[str, object]]:
    """Return what a rank recorded at each step, the last time it was computed."""
    lines = (run.parent / "trace" / f"rank-{rank}").read_text().splitlines()
    return {entry["step"]: entry for entry in map(json.loads, lines)}


def assert_whole(run: Path) -> None:
    for folder in (run / "checkpoints").iterdir():
        assert folder.name.startswith("step-")
        assert json.loads((folder / "COMMIT.json").read_bytes())["files"].keys() == PARTS


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run of two ranks."""
    run = ready(tmp_path_factory.mktemp("uninterrupted"))
    assert train(run) == 0
    return run


def start(started: list[subprocess.Popen[bytes]], run: Path, **env: str) -> subprocess.Popen[bytes]:
    command = supervisor_command(run, LAUNCHER, TRACE=str(run.parent / "trace"), **env)
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, process_group=0)
    started.append(process)
    return process


def saved(run: Path) -> bool:
    return any(event.kind == "checkpoint" for event in read_events(run))


def test_both_ranks_share_the_global_batch_and_the_decisions(uninterrupted: Path) -> None:
    first, second = seen(uninterrupted, 0), seen(uninterrupted, 1)
    dataset = open_split_data(uninterrupted.parent / "dataset", "train")
    sampler = Sampler(dataset, SamplerConfig(batch=BATCH, length=LENGTH), SPECIAL)
    assert list(first) == list(second) == list(range(1, STEPS + 1))
    for step in first:
        assert [*first[step]["indices"], *second[step]["indices"]] == sampler.batch(step - 1).indices.tolist()
        assert first[step]["due"] == second[step]["due"]


def test_a_checkpoint_has_the_parts_of_both_ranks(uninterrupted: Path) -> None:
    assert_whole(uninterrupted)
    assert sorted(path.name for path in (uninterrupted / "checkpoints").iterdir()) == [
        f"step-{n:08d}" for n in (5, 10, 15, 20)
    ]
    assert [event.kind for event in read_events(uninterrupted)].count("start") == 1  # only rank 0 writes events


def test_two_ranks_give_the_weights_of_one(uninterrupted: Path, tmp_path: Path) -> None:
    alone = ready(tmp_path)
    assert supervise(alone, plan_of(alone)) == 0
    both, one = (np.load(run / "checkpoints" / "step-00000020" / "weights.npy") for run in (uninterrupted, alone))
    assert np.allclose(both, one, rtol=1e-12, atol=1e-15)
    losses = [[e.figures["loss"] for e in read_events(run) if e.kind == "validation"] for run in (uninterrupted, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12) and len(losses[0]) == 2


def test_on_sigterm_both_ranks_save(
    uninterrupted: Path, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    run = ready(tmp_path)
    process = start(started, run, PAUSE="0.3")
    await_true(lambda: saved(run))
    process.send_signal(signal.SIGTERM)
    assert process.wait(600) == 130
    last = read_events(run)[-1]
    assert last.kind == "signal" and last.step < STEPS
    assert (run / "checkpoints" / f"step-{last.step:08d}" / "part-1.npy").exists()
    assert max(seen(run, 0)) == max(seen(run, 1)) == last.step and live_ranks(run) == []
    assert train(run) == 0
    assert_whole(run)
    assert weights(run, STEPS) == weights(uninterrupted, STEPS)


@pytest.mark.parametrize("rank", [0, 1])
def test_after_a_killed_rank_all_are_restarted(
    rank: int, uninterrupted: Path, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    run = ready(tmp_path)
    process = start(started, run, PAUSE="0.2")
    await_true(lambda: saved(run) and len(live_ranks(run)) == 2)
    os.kill(live_ranks(run)[rank], signal.SIGKILL)
    assert process.wait(600) == 0
    assert [event.kind for event in read_events(run)].count("start") == 2
    assert_whole(run)
    assert weights(run, STEPS) == weights(uninterrupted, STEPS)


def test_ranks_left_by_a_dead_launcher_are_killed(
    uninterrupted: Path, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    run = ready(tmp_path)
    process = start(started, run, PAUSE="0.2")
    await_true(lambda: saved(run) and len(live_ranks(run)) == 2)
    before = live_ranks(run)
    os.kill(int(state(before[0])[1]), signal.SIGKILL)
    assert process.wait(600) == 0
    assert all(state(rank)[0] in ("", "Z") for rank in before)  # orphans may wait for init to take note
    assert weights(run, STEPS) == weights(uninterrupted, STEPS)


def state(process: int) -> list[str]:
    """Return the kernel's state letter of a process and its parent; "" if it does not exist."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:  # it ended before it was opened, or before it was read
        return ["", ""]


def test_ranks_exit_when_the_supervisor_is_killed(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    run = ready(tmp_path)
    process = start(started, run, PAUSE="0.5")
    await_true(lambda: len(live_ranks(run)) == 2)
    process.kill()
    process.wait()
    await_true(lambda: not live_ranks(run))


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_cannot_write_ends_the_run_and_keeps_checkpoints(
    rank: int, uninterrupted: Path, tmp_path: Path
) -> None:
    run, said = ready(tmp_path), []
    assert train(run, said, FULL_AT="15", BAD_RANK=str(rank), GRACE="0.3") == 3
    assert "the disk is full" in said[-1] and "start" in kinds(run) and "restart" not in kinds(run)
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["step-00000005", "step-00000010"]
    assert train(run) == 0
    assert weights(run, STEPS) == weights(uninterrupted, STEPS)


def kinds(run: Path) -> list[str]:
    return [event.kind for event in read_events(run)]


def test_a_rank_that_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    run, said = ready(tmp_path), []
    assert train(run, said, CRASH_AT="7", BAD_RANK="1") == 1
    assert kinds(run).count("restart") == 2 and "the worker died" in said[-1]
    assert live_ranks(run) == []
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["step-00000005"]


def test_a_rank_on_another_host_is_not_signalled_here(tmp_path: Path) -> None:
    run = ready(tmp_path)
    bystander = subprocess.Popen(["sleep", "3600"])
    with closing(RankLock(run, 0)):
        (run / "ranks" / "rank-00000").write_text(f"{bystander.pid} elsewhere\n")
        assert live_ranks(run) == [] and signal_ranks(run, signal.SIGKILL) == 0
        with pytest.raises(MachineError, match="do not exit") as error:
            clear_ranks(run, timeout=0, remote_timeout=0.1)
    assert "elsewhere" in str(error.value)
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()
    clear_ranks(run)
