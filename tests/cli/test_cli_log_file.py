"""`--log-file`: messages and progress with times, escaped, appended; its failures are errors, and lose no work."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from jprep import samples
from jprep.cli.common import log_file, output, progress
from jprep.cli.common.log_file import LogFile
from jprep.cli.common.output import Level
from jprep.errors import ConfigError, MachineError
from jprep.train.run.log import on_stderr
from tests.conftest import Run

STAMPED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d  ")


@pytest.fixture
def log(tmp_path: Path):
    path = tmp_path / "log.txt"
    log_file.open_log_file(path)
    yield path
    log_file.close_log_file()
    output.set_level(Level.NORMAL)


def lines(path: Path) -> list[str]:
    """Return the lines of a log without their times, which each of them has."""
    found = path.read_text(encoding="utf-8").splitlines()
    assert all(STAMPED.match(line) for line in found), found
    return [STAMPED.sub("", line) for line in found]


def test_messages_of_all_kinds_are_logged_escaped(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output.note("a note\nof two lines")
    output.echo("a result \x1b[31m")
    output.error("an error \u202e")
    on_stderr("from a training")
    assert lines(log) == ["a note", "of two lines", r"a result \x1b[31m", r"an error \u202e", "from a training"]
    assert "from a training" in capsys.readouterr().err


def test_quiet_does_not_empty_the_log(log: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    output.set_level(Level.QUIET)
    output.note("a note")
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    with progress.show_progress() as watching:
        assert watching is not None
        watching.begin("reading", 10)
        while len(lines(log)) < 3:
            pass
    assert lines(log)[0] == "a note" and lines(log)[2].startswith(("reading 0%", "hashing"))
    assert capsys.readouterr().err == ""


def test_a_command_logs_its_line_its_end_and_appends(tmp_path: Path, jprep: Run) -> None:
    samples.write_sample(tmp_path)
    words = ("corpus", "build", "--cc100", "cc100.txt", "--segmenter", "none", "-o", "c", "--log-file", "log.txt")
    jprep(*words, cwd=tmp_path)
    jprep("--log-file", "log.txt", "corpus", "stats", "nowhere", "-q", cwd=tmp_path, code=2)
    found = lines(tmp_path / "log.txt")
    assert found[0] == f"$ jprep {' '.join(words)}" and "exit code 0" in found
    assert found[-1] == "exit code 2" and "jprep: there is no finished corpus here" in found
    assert any("documents" in line for line in found)


def test_an_argument_cannot_forge_a_line(tmp_path: Path, jprep: Run) -> None:
    jprep("corpus", "stats", "x\n2026 forged\x1b[2J", "--log-file", "log.txt", cwd=tmp_path, code=2)
    assert "\x1b" not in (tmp_path / "log.txt").read_text(encoding="utf-8")
    assert not [line for line in lines(tmp_path / "log.txt") if line.startswith("2026 forged")]


def test_json_and_content_stay_as_they_are(tmp_path: Path, jprep: Run) -> None:
    logged = jprep("recipes", "--json", "--log-file", tmp_path / "log.txt").stdout
    assert logged == jprep("recipes", "--json").stdout


@pytest.mark.parametrize(("place", "code"), [("missing/log.txt", 2), (".", 2), ("file/log.txt", 2)])
def test_a_place_that_cannot_be_opened_stops_the_command_first(
    place: str, code: int, tmp_path: Path, jprep: Run
) -> None:
    (tmp_path / "file").touch()
    said = jprep("init", "x.toml", "--log-file", place, cwd=tmp_path, code=code).stderr
    assert "cannot write the log file" in said and "give another --log-file" in said
    assert not (tmp_path / "x.toml").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_once_and_the_work_is_done(tmp_path: Path, jprep: Run) -> None:
    done = jprep("init", "x.toml", "--segmenter", "none", "--log-file", "/dev/full", cwd=tmp_path, code=3)
    assert done.stderr.count("the log ends here") == 1
    assert done.stderr.rstrip().endswith("fix:   give another --log-file, or none")
    assert (tmp_path / "x.toml").exists()


def test_a_command_that_fails_keeps_its_own_code(jprep: Run) -> None:
    if Path("/dev/full").exists():
        jprep("corpus", "stats", "nowhere", "--log-file", "/dev/full", code=2)


def test_unwritable_places_are_errors_of_their_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError):
        LogFile(tmp_path)
    monkeypatch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with pytest.raises(MachineError, match="permission denied"):
        LogFile(tmp_path / "log.txt")
