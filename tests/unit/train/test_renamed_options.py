"""Backend options that were renamed are accepted under their old names."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from jprep.engine.checksummed_json import encode_checksummed
from jprep.errors import ConfigError
from jprep.train.job import renamed
from jprep.train.job.config import parse_train_config
from jprep.train.job.renamed import parse_options
from jprep.train.optimization.schedule import ScheduleConfig
from jprep.train.run.directory import read_job
from tests.fakes.small_run import small_run


class New(msgspec.Struct, forbid_unknown_fields=True):
    micro_batch: int = 0
    gradient_checkpointing: bool = False


class Old(msgspec.Struct, forbid_unknown_fields=True):
    rows: int = 0


class FakeBackend:
    name: ClassVar[str] = "fake"
    Options: ClassVar[type[Any]] = New


class ForeignBackend:
    name: ClassVar[str] = "foreign"
    Options: ClassVar[type[Any]] = Old


@pytest.fixture(autouse=True)
def forget_warnings() -> None:
    renamed._warn.cache_clear()


def test_an_old_name_is_accepted_with_one_warning_that_names_the_new_one(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert parse_options(FakeBackend(), {"rows": 4, "recompute": True}) == New(4, True)
    assert [record.getMessage() for record in caplog.records] == [
        "train.backend.fake.rows was renamed to micro_batch; the old name works in this release only",
        "train.backend.fake.recompute was renamed to gradient_checkpointing; the old name works in this release only",
    ]


def test_the_old_and_the_new_name_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="rows is the old name of micro_batch"):
        parse_options(FakeBackend(), {"rows": 4, "micro_batch": 4})


def test_a_backend_with_an_option_of_the_old_name_keeps_it(caplog: pytest.LogCaptureFixture) -> None:
    assert parse_options(ForeignBackend(), {"rows": 4}) == Old(4)
    assert not caplog.records


@pytest.mark.parametrize(("backend", "names"), [("torch", ["micro_batch", "device"]), ("other", ["rows", "device"])])
def test_a_stored_job_is_read_with_the_current_names(backend: str, names: list[str], tmp_path: Path) -> None:
    run = small_run(tmp_path)
    old = msgspec.structs.replace(read_job(run), backend=backend, options={"rows": 4, "device": "cpu"})
    (run / "job.json").write_bytes(encode_checksummed(old, indent=1))
    job = read_job(run)
    assert list(job.options) == names and job.fingerprint == old.fingerprint


def test_the_total_of_a_schedule_has_a_former_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = parse_train_config({"steps": 20, "schedule": {"steps": 50}}, "here")
    assert found == parse_train_config({"steps": 20, "schedule": {"total": 50}}, "here")
    assert "train.schedule.steps was renamed to train.schedule.total" in caplog.text
    with pytest.raises(ConfigError, match="given twice"):
        parse_train_config({"steps": 20, "schedule": {"steps": 50, "total": 50}}, "here")


def test_a_stored_job_with_the_former_name_is_read(tmp_path: Path) -> None:
    run = small_run(tmp_path, schedule=ScheduleConfig(total=90))
    job = read_job(run)
    former = msgspec.structs.replace(job.train, schedule=ScheduleConfig(steps=90))
    (run / "job.json").write_bytes(encode_checksummed(msgspec.structs.replace(job, train=former)))
    assert read_job(run) == job and job.train.schedule.total == 90
