"""Progress messages: lines at intervals without a terminal, none under --quiet, more under --verbose."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from pathlib import Path

import pytest

from jprep import samples
from jprep.cli.common import output, progress
from jprep.cli.common.output import Level
from jprep.cli.main import cli
from jprep.engine.stage import Receipt
from tests.conftest import COMMAND, Run, environment


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def receipt(documents: int) -> Receipt:
    return Receipt("t", "", "", [], {"total.documents": documents}, {})


def test_a_line_says_how_far_the_build_is() -> None:
    clock = Clock()
    lines = progress.ProgressLines(clock)
    clock.now += 5
    assert lines.line() == "hashing the inputs; running for 0:00:05"
    lines.begin("reading", 100_000_000)
    clock.now += 10
    lines.advance(20_000_000, receipt(150), fresh=True)
    assert lines.line() == "reading 20%, 20 of 100 MB, 150 documents, 2.0 MB/s, 0:00:40 left; running for 0:00:15"
    lines.begin("segmenting", 0)
    clock.now += 60
    assert lines.line() == "segmenting; running for 0:01:15"


def test_resumed_work_counts_as_done_but_not_for_the_rate() -> None:
    clock = Clock()
    lines = progress.ProgressLines(clock)
    lines.begin("reading", 100_000_000)
    lines.advance(90_000_000, receipt(900), fresh=False)
    clock.now += 10
    assert lines.line() == "reading 90%, 90 of 100 MB, 900 documents; running for 0:00:10"
    lines.advance(5_000_000, receipt(50), fresh=True)
    assert "95%" in lines.line() and "0.5 MB/s, 0:00:10 left" in lines.line()


def test_lines_come_at_intervals_while_no_task_ends(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    """A task may take minutes: lines do not wait for one."""
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    with progress.show_progress() as watching:
        assert watching is not None
        watching.begin("reading", 10)
        deadline = time.monotonic() + 300
        while (said := capsys.readouterr().err).count("reading") < 1 and time.monotonic() < deadline:
            time.sleep(0.02)
    assert "reading 0%; running for" in said
    assert not [thread for thread in threading.enumerate() if thread.name == "jprep-progress"]


def test_an_installation_shows_its_progress(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    said = ""
    with progress.show_status("installing torch") as say:
        say("Downloading \x1b[1mtorch")
        deadline = time.monotonic() + 300
        while "Downloading" not in said and time.monotonic() < deadline:  # a line may be printed before it is said
            said = capsys.readouterr().err
            time.sleep(0.02)
    assert re.search(r"^installing torch, \d:\d\d:\d\d: Downloading \\x1b\[1mtorch$", said, re.MULTILINE)


@pytest.fixture
def level():
    yield output.set_level
    output.set_level(Level.NORMAL)


def test_quiet_prints_only_results_and_errors(level, capsys: pytest.CaptureFixture[str]) -> None:
    level(Level.QUIET)
    output.note("a note")
    output.next_steps("jprep this")
    output.echo("a result")
    output.error("an error")
    with progress.show_progress() as watching:
        assert watching is None
    said = capsys.readouterr()
    assert (said.out, said.err) == ("a result\n", "an error\n")


def test_verbose_shows_each_line_of_an_installer(level, capsys: pytest.CaptureFixture[str]) -> None:
    level(Level.VERBOSE)
    with progress.show_status("installing") as say:
        say("one")
        say("two")
    assert capsys.readouterr().err == "one\ntwo\n"


@pytest.mark.parametrize("place", ["before", "after"])
def test_every_command_takes_both(place: str, tmp_path: Path, jprep: Run) -> None:
    samples.write_sample(tmp_path)
    words = ["corpus", "build", "--cc100", "cc100.txt", "--segmenter", "none", "-o", f"c-{place}"]
    quiet = jprep(*(["-q", *words] if place == "before" else [*words, "--quiet"]), cwd=tmp_path)
    assert quiet.stderr == "" and "next:" not in quiet.stdout and "documents" in quiet.stdout
    wrong = ["corpus", "stats", "nowhere"]
    said = jprep(*(["-v", *wrong] if place == "before" else [*wrong, "--verbose"]), cwd=tmp_path, code=2).stderr
    assert "Traceback" in said and said.rstrip().splitlines()[-3].startswith("jprep: ")


def test_no_command_is_without_them() -> None:
    def every(command):
        yield command
        for child in getattr(command, "commands", {}).values():
            yield from every(child)

    for command in every(cli):
        assert {"quiet", "verbose"} <= {option.name for option in command.params}, command.name


def test_a_build_off_a_terminal_is_not_silent_for_long(tmp_path: Path) -> None:
    """The whole command, its interval shortened."""
    samples.write_sample(tmp_path)
    code = (
        "import sys\nfrom jprep.cli.common import progress\nprogress.INTERVAL = 0.05\nfrom jprep.cli.main import main\n"
    )
    words = [COMMAND, "corpus", "build", "recipe.toml", "-o", "c", "--workers", "1"]
    command = [str(Path(COMMAND).with_name("python")), "-c", f"{code}sys.argv = {words!r}\nmain()"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, check=True)
    assert re.search(r"^(reading|segmenting|looking).*running for \d", done.stderr.decode(), re.MULTILINE)


def test_a_download_shows_its_rate_and_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    from jprep.cli.corpus.download_progress import DownloadProgress

    clock = Clock()
    shown = DownloadProgress(clock)
    shown("ja\x1b[2J.xz", 20_000_000, 100_000_000)  # an earlier download has left this
    clock.now += 10
    shown("ja\x1b[2J.xz", 40_000_000, 100_000_000)
    assert capsys.readouterr().err == ""
    clock.now += 20
    shown("ja\x1b[2J.xz", 80_000_000, 100_000_000)
    shown("ja\x1b[2J.xz", 100_000_000, 100_000_000)
    assert capsys.readouterr().err.splitlines() == [
        r"ja\x1b[2J.xz  80 of 100 MB, 80%, 2.0 MB/s, 0:00:10 left",
        r"ja\x1b[2J.xz  100 of 100 MB, 100%, 2.7 MB/s",
    ]
    shown("unknown", 0, -1)
    clock.now += 40
    shown("unknown", 8_000_000, -1)
    assert capsys.readouterr().err == "unknown  8 MB, 0.2 MB/s\n"


def test_a_training_says_where_it_is_now_and_then(monkeypatch) -> None:
    from types import SimpleNamespace

    from jprep.cli.model import training_progress
    from jprep.train.run.events import Event

    clock, said = Clock(), []
    monkeypatch.setattr(training_progress.time, "monotonic", clock)
    train = SimpleNamespace(batch=2, length=8, packing="stream", data=[], stages=[], next_sentence=False)
    train.checkpoint = SimpleNamespace(best="macro_f1")
    show = training_progress._by_lines(SimpleNamespace(name="run", steps=100, train=train), said.append)
    for step in range(1, 60):
        clock.now += 1
        show([Event(kind="log", time=float(step), step=step, figures={"loss": 3.0})])
    show([])
    assert said == ["run: at step 30 of 100  loss 3.0000  16 tokens/s  0:01:10 left"]
    show([Event(kind="validation", time=60.0, step=60, figures={"loss": 2.0, "macro_f1": 0.75})])
    assert said[1].startswith(
        "run: validated at step 60 of 100  loss 3.0000  validation loss 2.0000  macro_f1 0.7500  "
    )
