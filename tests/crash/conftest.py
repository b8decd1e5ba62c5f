"""Work to disturb: several sources, so several tasks in each stage, with duplicates between them."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jprep import samples
from tests.command_server import CommandServer
from tests.conftest import COMMAND, PATIENCE, Distribution, digests, environment

NOTES = 4
PAUSES = """
import os, signal, time
from pathlib import Path
from jprep.corpus.step import Normalizer
from jprep.io import failpoints
from jprep.plugins import hookimpl

class Pausing(Normalizer):
    name = "pausing"
    version = 1

    def apply(self, text):
        time.sleep(float(os.environ.get("PAUSE", "0")))
        while "HOLD" in os.environ and any(Path(os.environ["HOLD"]).glob("*.json")) and not released():
            time.sleep(0.01)
        return text

def released():
    return Path(os.environ["RELEASE"]).exists()

def die_once():
    try:
        os.close(os.open(os.environ["DIED"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)

if "DIED" in os.environ:
    failpoints._ACTIONS["die"] = die_once

@hookimpl
def jprep_normalizers():
    return {"pausing": "pausing:Pausing"}
"""
"""A normalizer as slow as a variable says: how long the work takes is no part of what it is.

Variables: PAUSE is the seconds that a text takes. HOLD is a folder of receipts: once it has one, texts wait until the
file RELEASE exists. DIED is a file that the first process creates which dies at a failpoint; others then do not.
"""


class Work:
    """A recipe whose build can be started, disturbed and started again."""

    def __init__(self, folder: Path, recipe: Path, env: dict[str, str], server: CommandServer) -> None:
        self.folder, self._recipe, self._env, self._server = folder, recipe, env, server
        self._started: list[subprocess.Popen[str]] = []
        self._released = folder.with_name(f"{folder.name}-released")

    def command(self, workers: int = 1, *more: object) -> list[str]:
        """The command's arguments."""
        return [
            "corpus",
            "build",
            str(self._recipe),
            "-o",
            str(self.folder),
            "--workers",
            str(workers),
            *map(str, more),
        ]

    def start(self, workers: int = 1, **env: str) -> subprocess.Popen[str]:
        """Start a build in a process group of its own."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [COMMAND, *self.command(workers)]
        self._started.append(subprocess.Popen(command, env=environment(**self._env, **env), process_group=0, **pipes))
        return self._started[-1]

    def start_and_hold(self, workers: int = 1) -> subprocess.Popen[str]:
        """Start a build whose tasks do not end, once one of them is committed, before `release`; wait for that one."""
        process = self.start(workers, HOLD=str(self._receipts("documents")), RELEASE=str(self._released))
        await_true(lambda: bool(self.receipts()))
        return process

    def release(self) -> None:
        """Let a build go on that is held."""
        self._released.touch()

    def disturb(self, failpoint: str, workers: int = 1, **env: str) -> tuple[int, str]:
        """Run with an armed failpoint to the end, whatever it is: the exit status, and what was said."""
        done = self._end(self.command(workers), JPREP_FAILPOINT=failpoint, **env)
        return done.returncode, done.stderr.decode()

    def finish(self, workers: int = 1, *more: object, code: int = 0) -> str:
        """Run uninterrupted to the end; return what was printed on standard error."""
        done = self._end(self.command(workers, *more))
        assert done.returncode == code, f"it ended with {done.returncode}:\n{done.stderr.decode()}"
        return done.stderr.decode()

    def _end(self, arguments: list[str], **env: str) -> subprocess.CompletedProcess[bytes]:
        return self._server.run([COMMAND, *arguments], env=environment(**self._env, **env), group=True)

    def receipts(self, stage: str = "documents") -> list[str]:
        """The tasks that are committed."""
        return sorted(path.name for path in self._receipts(stage).glob("*.json"))

    def _receipts(self, stage: str) -> Path:
        return self.folder / ".state" / stage / "receipts"

    def close(self) -> None:
        """End what still runs."""
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def await_true(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.01)


def children(process: int) -> list[int]:
    """The processes that a process started, and that have not ended."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rpartition(") ")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == process and state != "Z":
            found.append(int(status.parent.name))
    return found


def _recipe(inputs: Path) -> str:
    notes = "".join(
        f'[[corpus.sources]]\nname = "notes{n}"\nreader = "text"\npaths = ["{inputs}/notes{n}.txt"]\n'
        for n in range(NOTES)
    )
    return f"""
name = "disturbed"
[[corpus.sources]]
name = "wiki"
reader = "wikipedia"
paths = ["{inputs}/{samples.DUMP}"]
[[corpus.sources]]
name = "web"
reader = "cc100"
paths = ["{inputs}/{samples.CRAWL}"]
{notes}
[[corpus.sources]]
name = "packed"
reader = {{ use = "text", documents = "line", shard_mb = 0.001 }}
paths = ["{inputs}/packed.txt.gz"]
[corpus]
normalizers = ["neologdn", "pausing"]
filters = [{{ use = "length", min_chars = 10 }}]
dedup = {{ lines = true, near = {{ keep = "longest" }} }}
segmenter = "jumandic" # which starts faster than the default
"""


@pytest.fixture(scope="session")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe, with its inputs beside it."""
    folder = tmp_path_factory.mktemp("work")
    samples.write_sample(folder)
    for n in range(NOTES):
        own = f"{n}番目の覚え書きである。ここにだけある文がこの後に続いている。\n"
        folder.joinpath(f"notes{n}.txt").write_text(
            own + "どの覚え書きにも同じこの行があって、初めのものだけが残る。\n"
        )
    lines = "".join(f"圧縮された{n}行目で、どの行とも違う文である。\n" for n in range(60))  # five shards, four cached
    folder.joinpath("packed.txt.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    folder.joinpath("disturbed.toml").write_text(_recipe(folder), encoding="utf-8")
    return folder / "disturbed.toml"


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables that let a process find the plugin."""
    distribution = Distribution(tmp_path_factory.mktemp("plugins"))
    distribution.add("pausing", PAUSES)
    return distribution.env


@pytest.fixture
def work(recipe: Path, plugins: dict[str, str], tmp_path: Path, command_server: CommandServer) -> Iterator[Work]:
    """The work, not yet begun."""
    work = Work(tmp_path / "corpus", recipe, plugins, command_server)
    yield work
    work.close()


@pytest.fixture(scope="session")
def uninterrupted(
    recipe: Path, plugins: dict[str, str], tmp_path_factory: pytest.TempPathFactory, command_server: CommandServer
) -> dict[str, str]:
    """What comes out when nobody disturbs the work: every file's hash."""
    work = Work(tmp_path_factory.mktemp("uninterrupted") / "corpus", recipe, plugins, command_server)
    work.finish()
    return digests(work.folder)
