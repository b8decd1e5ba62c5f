"""A run is killed, its directory deleted, and it resumes from its mirror on an S3 server that fails now and then."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from jprep.io.remote import join_url, list_objects, read_bytes, write_bytes
from jprep.train.run.events import metric_curve, read_events
from jprep.train.uploads.mirrored_run import MirroredRun
from tests.conftest import COMMAND, PATIENCE, Distribution, Run, environment
from tests.fakes.numpy_backend import offer
from tests.fakes.small_run import await_true, weights
from tests.fakes.small_work import small_work
from tests.remote.conftest import Store

pytestmark = pytest.mark.backends

STEPS = 60
TRAIN = ["train", "small.toml", "--backend", "numpy", "--set", f"train.steps={STEPS}"]
RUN = Path("work/small/runs/numpy")


@pytest.fixture
def recipe(tmp_path: Path, distribution: Distribution, s3_store: Store) -> tuple[Path, dict[str, str]]:
    """Give the folder of a recipe, and the environment in which it is trained."""
    small_work(tmp_path)
    return tmp_path, offer(distribution) | s3_store.env


def test_a_killed_run_resumes_from_its_mirror_without_its_directory(
    recipe: tuple[Path, dict[str, str]], s3_store: Store, jprep: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_store.use(monkeypatch)
    folder, env = recipe
    jprep(*TRAIN, "-o", "undisturbed", cwd=folder, env=env)
    url = join_url(s3_store.url, "runs", "killed")
    mirrored = [*TRAIN, "--set", f"train.checkpoint.mirror={url}"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(
        [COMMAND, *mirrored], cwd=folder, env=environment(**env, PAUSE="0.2"), process_group=0, **pipes
    )
    await_true(lambda: len(MirroredRun(url).committed()) == 2 or process.poll() is not None, PATIENCE)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    await_true(lambda: not _workers(folder), PATIENCE)
    shutil.rmtree(folder / RUN)
    newest = max(MirroredRun(url).committed())
    damaged = join_url(url, "checkpoints", f"step-{newest:08d}", "momentum.npy")
    data = bytearray(read_bytes(damaged) or b"")
    data[-1] ^= 1
    write_bytes(bytes(data), damaged)

    said = jprep(*mirrored, cwd=folder, env=env).stderr

    assert "waiting 25 s to see if it still does" in said and f"resuming the run from {url}" in said
    assert f"step-{newest:08d} of the mirror is damaged and was not used" in said and "momentum.npy" in said
    events, expected = read_events(folder / RUN), read_events(folder / "undisturbed")
    assert weights(folder / RUN, STEPS) == weights(folder / "undisturbed", STEPS)
    for kind in ("log", "validation"):
        assert metric_curve(events, kind) == metric_curve(expected, kind)  # type: ignore[arg-type]
    assert [event.step for event in events if event.kind == "start"] == [0, newest - 10]
    assert list(MirroredRun(url).committed()) == [STEPS - 10, STEPS]
    assert not [name for name in list_objects(url) if name.endswith((".jprep-upload.json", "OWNER.json"))]
    assert s3_store.faults.failed > 5


def _workers(folder: Path) -> list[Path]:
    """Return the processes that still train a run in a folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = place.joinpath("cmdline").read_bytes()
        except OSError:
            continue
        if str(folder / RUN).encode() in words:
            found.append(place)
    return found


def test_a_wrong_bucket_and_refused_rights_are_errors_before_any_work(
    recipe: tuple[Path, dict[str, str]], jprep: Run
) -> None:
    folder, env = recipe
    wrong = [*TRAIN, "--set", "train.checkpoint.mirror=s3://jprep-none/run"]
    said = jprep(*wrong, cwd=folder, env=env, code=2).stderr
    assert "train.checkpoint.mirror: there is no bucket s3://jprep-none" in said
    env = {name: value for name, value in env.items() if "ACCESS_KEY" not in name}
    unset = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": str(folder)}
    said = jprep(*wrong, cwd=folder, env=env | unset, code=3).stderr
    assert "there are no valid credentials for s3://" in said and "AWS_PROFILE" in said
    assert not (folder / RUN).exists()
