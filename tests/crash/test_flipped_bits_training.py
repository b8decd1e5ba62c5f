"""One flipped bit in a file of a run or of an export, then a resume or a use: an error or the right result, never a
wrong one. Workers train in this process, so that hundreds of trials take no longer than some minutes.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from jprep.errors import JprepError
from jprep.io import retry
from jprep.tokenizer import load_tokenizer
from jprep.train.exporting import export, weights
from jprep.train.exporting.manifest import read_export, verify_export
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, parse_train_config
from jprep.train.launcher.launch import _initial
from jprep.train.run.checkpoints import Checkpoint
from jprep.train.run.directory import checkpoints_of, open_run, read_job, read_plan, write_plan
from jprep.train.run.events import metric_curve, read_events
from jprep.train.run.resume import checkpoint_to_resume
from jprep.train.worker.session import Session
from tests.conftest import digests
from tests.fakes.small_run import plan_of
from tests.fakes.trained_run import model_of, trained_run

STEPS = 20
FLOATS = np.dtype("<f4")


def job_of(folder: Path, run: Path) -> Job:
    section = {
        "task": "mlm", "batch": 8, "length": 32, "steps": STEPS, "log_every": 1, "model": model_of("roberta"),
        "checkpoint": {"every_steps": 5, "keep_last": 2, "keep_best": 1},
        "validation": {"every_steps": 4, "batches": 1},
    }  # fmt: skip
    config = parse_train_config(section, "here")
    return build_job(config, "small", "torch", {}, folder / "tokenizer", folder / "dataset", run=run)


def train(run: Path, until: int = STEPS) -> None:
    """Train in this process: the weights are those of the beginning plus a sum over all batches."""
    _initial(run, read_job(run), lambda text: None)
    session = Session(run)
    source = session.resume or run
    data = bytearray((source / ("model.safetensors" if session.resume else "init.safetensors")).read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    numbers = np.frombuffer(data, FLOATS, offset=start).copy()
    for step, batch in session.batches():
        numbers += np.float32(1e-6 * float(batch.input_ids.mean()))
        loss, due = float(np.abs(numbers).mean()), session.due(step)
        if due.log:
            session.log(step, loss=loss)
        if due.validate:
            session.validated(step, loss + 1)
        if due.checkpoint:
            with session.checkpoint(step) as folder:
                folder.joinpath("model.safetensors").write_bytes(data[:start] + numbers.tobytes())
        if step == until:
            break
    if until == STEPS:
        session.finish()
    session.close()


def begin(folder: Path, run: Path) -> None:
    open_run(run, job_of(folder, run), lambda text: None)
    write_plan(run, plan_of(run))


def figures(run: Path) -> dict[str, dict[int, float]]:
    events = read_events(run)
    kinds: dict[str, Any] = {"log": "log", "validation": "validation"}
    return {name: dict(zip(*metric_curve(events, kind), strict=True)) for name, kind in kinds.items()}


class Straight:
    """A run that nothing has happened to: half done, and finished with its export."""

    def __init__(self, folder: Path) -> None:
        trained_run(folder)  # for its tokenizer and its dataset
        shutil.rmtree(folder / "run")
        self.folder, self.half, self.done = folder, folder / "half", folder / "done"
        for run, until in ((self.half, 12), (self.done, STEPS)):
            begin(folder, run)
            train(run, until)
        self.exported = digests(export(self.done))
        self.job = msgspec.structs.asdict(read_job(self.done))
        self.figures = figures(self.done)
        self.last = self.end(self.done).commit.files

    def end(self, run: Path) -> Checkpoint:
        found = checkpoint_to_resume(run, checkpoints_of(run, read_job(run)))
        assert found and found.step == STEPS
        return found

    def wrong(self, run: Path) -> str:
        """What of a finished run is not as it is in this one; points of a curve may be missing."""
        if self.end(run).commit.files != self.last:
            return "the weights"
        if msgspec.structs.asdict(read_job(run)) != self.job:
            return "the job"
        for name, points in figures(run).items():
            if points.items() - self.figures[name].items():
                return f"the figures of {name}"
        return ""


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Any:
    def work(name: Any, run: Path, checkpoint: Path, folder: Path) -> None:
        shutil.copyfile(checkpoint / "model.safetensors", folder / "model.safetensors")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(weights, "_run_worker", work)
        patched.setattr(retry, "PAUSES", ())
        yield Straight(tmp_path_factory.mktemp("flips"))


def flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def resume(straight: Straight, run: Path) -> str:
    """Go on to the end with the same command."""
    begin(straight.folder, run)
    train(run)
    return straight.wrong(run)


def use_export(straight: Straight, run: Path) -> str:
    """What `jprep infer` reads before its worker does."""
    verify_export(run / "export", read_export(run / "export"))
    load_tokenizer(run / "export")
    own = (".md", ".svg")
    found = {name: digest for name, digest in digests(run / "export").items() if not name.endswith(own)}
    return "" if found == {name: one for name, one in straight.exported.items() if not name.endswith(own)} else "used"


def export_again(straight: Straight, run: Path) -> str:
    found = digests(export(run, run / "new"))
    for name in ("README.md", "loss.svg", "export.json"):  # figures that are left, and these files' hashes
        del found[name]
    return "" if found.items() <= straight.exported.items() else "the export"


def start_from_export(straight: Straight, run: Path) -> str:
    """Train from the exported weights."""
    section = {"task": "mlm", "batch": 8, "length": 32, "steps": 1,
               "model": {**model_of("roberta"), "init": str(run / "export" / "model.safetensors")}}  # fmt: skip
    config = parse_train_config(section, "here")
    made = build_job(config, "next", "torch", {}, straight.folder / "tokenizer", straight.folder / "dataset")
    return "" if made.made_from["init"] == straight.exported["model.safetensors"] else "the first weights"


def join(straight: Straight, run: Path) -> str:
    """Read `plan.json` as another machine does."""
    return "" if read_plan(run) == read_plan(straight.done) else "the plan"


def files(run: Path) -> list[str]:
    passing = ("LOCK", "heartbeat", "ranks/", ".lock")
    names = sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())
    return [name for name in names if not name.startswith(passing) and (run / name).stat().st_size]


def uses(name: str, *, finished: bool) -> list[Callable[[Straight, Path], str]]:
    """What reads a file of a run."""
    if name.startswith("export/"):
        return [use_export, start_from_export]
    if name == "plan.json":
        return [resume, join]
    return [resume, export_again] if finished else [resume]


def trials(straight: Straight, each: int, seed: int) -> dict[str, Counter[str]]:
    """Flip a bit `each` times in every file of both runs, each followed by every use; what came of them, by file."""
    chance, found = random.Random(seed), dict[str, Counter[str]]()
    for run in (straight.half, straight.done):
        for name in files(run):
            for use in uses(name, finished=run == straight.done) * each:
                copy = straight.folder / "trial"
                shutil.copytree(run, copy)
                flip(copy / name, chance)
                outcome = result(straight, copy, use)
                found.setdefault(f"{run.name}/{name}: {use.__name__}", Counter())[outcome] += 1
                shutil.rmtree(copy)
    return found


def result(straight: Straight, run: Path, use: Callable[[Straight, Path], str]) -> str:
    try:
        wrong = use(straight, run)
    except JprepError as error:
        return f"refused: {error.what[:60]}"
    return f"WRONG: {wrong}" if wrong else "right"


def assert_none_wrong(found: dict[str, Counter[str]]) -> None:
    total = sum((Counter(outcome.partition(":")[0] for outcome in one.elements()) for one in found.values()), Counter())
    print(f"\n{sum(total.values())} flips in {len(found)} cases: {dict(total)}")
    assert not {name: one for name, one in found.items() if any(outcome.startswith("WRONG") for outcome in one)}


def test_one_flip_in_every_file(straight: Straight) -> None:
    found = trials(straight, 1, 1)
    assert_none_wrong(found)
    assert {name.partition("/")[0] for name in found} == {"half", "done"}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 5))
def test_many_flips_in_every_file(seed: int, straight: Straight) -> None:
    assert_none_wrong(trials(straight, 6, seed))
