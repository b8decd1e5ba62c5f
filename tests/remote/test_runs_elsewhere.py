"""What a run writes to buckets while it trains: its mirror on Google Cloud Storage, TensorBoard's events on S3."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jprep.io.remote import join_url, list_objects, read_bytes
from jprep.train.run.events import metric_curve, read_events
from jprep.train.trackers.tensorboard import TENSORBOARD
from jprep.train.uploads.mirrored_run import MirroredRun
from tests.conftest import Distribution, Run
from tests.fakes.numpy_backend import offer
from tests.fakes.small_run import weights
from tests.fakes.small_work import small_work
from tests.remote.conftest import Store

pytestmark = pytest.mark.backends

RUN = Path("work/small/runs/numpy")


@pytest.fixture
def environment(tmp_path: Path, distribution: Distribution) -> dict[str, str]:
    """Write a recipe into the folder of the test, and give the environment in which it is trained."""
    small_work(tmp_path)
    return offer(distribution)


def train(jprep: Run, folder: Path, env: dict[str, str], *settings: str) -> str:
    sets = [part for one in settings for part in ("--set", one)]
    return jprep("train", "small.toml", "--backend", "numpy", *sets, cwd=folder, env=env).stderr


@pytest.mark.soak
def test_a_run_continues_from_its_mirror_on_google_cloud_storage(
    tmp_path: Path, environment: dict[str, str], gcs_store: Store, jprep: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcs_store.use(monkeypatch)
    env, url = environment | gcs_store.env, join_url(gcs_store.url, "runs", "first")
    mirror = f"train.checkpoint.mirror={url}"
    schedule = "train.schedule.steps=40"
    train(jprep, tmp_path, env, mirror, schedule, "train.steps=20")
    assert list(MirroredRun(url).committed())[-1] == 20
    shutil.rmtree(tmp_path / RUN)
    said = train(jprep, tmp_path, env, mirror, schedule, "train.steps=40")
    assert f"resuming the run from {url}" in said
    continued = read_events(tmp_path / RUN)
    assert [event.step for event in continued if event.kind == "start"] == [0, 20]
    assert list(MirroredRun(url).committed())[-1] == 40
    ended = weights(tmp_path / RUN, 40)
    shutil.rmtree(tmp_path / RUN)
    train(jprep, tmp_path, env, schedule, "train.steps=40")
    assert weights(tmp_path / RUN, 40) == ended
    assert metric_curve(read_events(tmp_path / RUN)) == metric_curve(continued)


def test_tensorboard_reads_the_events_of_a_run_from_a_bucket(
    tmp_path: Path, environment: dict[str, str], s3_store: Store, jprep: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_store.use(monkeypatch)
    env, url = environment | s3_store.env, join_url(s3_store.url, "logs")
    tracker = 'train.trackers=[{use = "tensorboard", project = "p", log_dir = "%s"}]'
    train(jprep, tmp_path, env, tracker % url)
    [name] = list_objects(url)
    assert name.startswith("p/small/events.out.tfevents.")
    data = read_bytes(join_url(url, name))
    assert data == (tmp_path / RUN / TENSORBOARD).read_bytes() and b"train/loss" in data
    command = ["train", "small.toml", "--backend", "numpy", "--name", "b", "--set", tracker % "s3://jprep-none/logs"]
    refused = jprep(*command, cwd=tmp_path, env=env, code=2).stderr
    assert "there is no bucket s3://jprep-none" in refused and not (tmp_path / RUN.parent / "b").exists()
