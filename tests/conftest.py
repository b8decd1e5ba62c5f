"""Fixtures shared by several test directories: the command, the sample, a corpus built from it, and real data."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from jprep import samples
from jprep.engine.output_kinds import USAGE
from tests.command_server import CommandServer

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("JPREP_SHARED", ROOT.parent / "shared"))
COMMAND = str(Path(sys.executable).with_name("jprep"))

# No deadlines, because machines are slow now and then. CI tries the same examples each time, and fewer.
SLOW = [HealthCheck.too_slow]
settings.register_profile("desk", deadline=None, suppress_health_check=SLOW)
settings.register_profile("ci", deadline=None, suppress_health_check=SLOW, derandomize=True, max_examples=50)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

PATIENCE = 600.0
"""Seconds that a test waits for what takes one or two: on a slow or busy machine, late is not wrong."""

# A shell starts what runs in the background with SIGINT ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPEATED = {
    "test_a_bomb_is_stopped_in_bounded_memory": 3,
    "test_a_killed_run_resumes_with_the_same_result": 3,
    "test_a_line_of_50_mb": 3,
    "test_changed_while_the_build_runs": 2,
    "test_equals_the_normalizer_on_the_probe_text": 3,
    "test_every_combination_loads_without_a_warning": 4,
    "test_garbage_in_unfinished_work_is_made_again": 2,
    "test_killed_and_resumed_with_more_workers": 3,
    "test_killed_at_random_moments": 3,
    "test_one_process_dies": 2,
    "test_resumed_work_with_flipped_bits_has_the_same_output": 2,
    "test_shards_do_not_change_documents": 2,
    "test_text_after_a_converted_character_is_kept": 2,
}
"""Test → n: the daily tests have the first of n parameters, and then every n-th."""

Run = Callable[..., subprocess.CompletedProcess[str]]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a parameter of bytes or of long text by its argument: every worker must collect the same, readable names."""
    return argname if isinstance(val, bytes) or (isinstance(val, str) and len(val) > 100) else None


@pytest.hookimpl(tryfirst=True)  # before tests marked `soak` are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave parameters of tests in `REPEATED` to `make soak`.

    With `--dist loadgroup`, the tests of a file run in one process, which makes once what they share.
    """
    seen = Counter[tuple[object, str]]()
    for item in items:
        name = item.name.partition("[")[0]
        seen[item.parent, name] += 1
        if name in REPEATED and seen[item.parent, name] % REPEATED[name] != 1:
            item.add_marker("soak")
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def environment(**variables: str) -> dict[str, str]:
    """This process's environment without an armed failpoint, with `jprep` on PATH, and with some variables more."""
    path = os.pathsep.join([str(Path(COMMAND).parent), os.environ.get("PATH", os.defpath)])
    return {name: value for name, value in os.environ.items() if name != "JPREP_FAILPOINT"} | {"PATH": path} | variables


def is_usage(path: Path) -> bool:
    """Whether a file records what an output or its tasks took, which no two runs share."""
    return path.parts[-2:] == Path(USAGE).parts or (path.parent.name == "usage" and path.suffix == ".jsonl")


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below a folder, without the records of what it took."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not is_usage(path))
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="session")
def command_server() -> Iterator[CommandServer]:
    """Runs commands as processes that need not import anything."""
    with contextlib.closing(CommandServer()) as server:
        yield server


@pytest.fixture(scope="session")
def jprep(command_server: CommandServer) -> Run:
    """Runs the installed command to its end: `jprep("corpus", "stats", folder, code=0, stdin=b"", env={}, cwd=...)`."""

    def run(*arguments: object, code: int = 0, stdin: bytes = b"", **options: Any) -> subprocess.CompletedProcess[str]:
        env, command = environment(**options.pop("env", {})), [COMMAND, *map(str, arguments)]
        raw = command_server.run(command, input=stdin, env=env, **options)
        done = subprocess.CompletedProcess(command, raw.returncode, raw.stdout.decode(), raw.stderr.decode())
        assert done.returncode == code, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sample's inputs and its recipe; tests do not write there."""
    return samples.write_sample(tmp_path_factory.mktemp("sample")).parent


@pytest.fixture(scope="session")
def corpus(sample: Path, tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> Path:
    """A finished corpus of the sample; tests do not write there."""
    folder = tmp_path_factory.mktemp("corpus") / "corpus"
    jprep("corpus", "build", "recipe.toml", "-o", folder, "--workers", 1, cwd=sample)
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data that lies beside a checkout, or where JPREP_SHARED says."""
    if not (SHARED / "data").is_dir():
        pytest.skip(f"no real data: {SHARED / 'data'} is not there (JPREP_SHARED overrides)")
    return SHARED / "data"


class Distribution:
    """A distribution that is not installed, only on the path: a module, and an entry point that names it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}

    def add(self, name: str, source: str, value: str = "") -> None:
        """Add a plugin: the module's name, its source, and what the entry point names if it is not the module."""
        about = self.folder / f"{name}-1.0.dist-info"
        about.mkdir(parents=True)
        about.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        about.joinpath("entry_points.txt").write_text(f"[jprep]\n{name} = {value or name}\n")
        self.folder.joinpath(f"{name}.py").write_text(source, encoding="utf-8")


@pytest.fixture
def distribution(tmp_path: Path) -> Distribution:
    """A place for plugins that only processes started with its `env` see."""
    return Distribution(tmp_path / "distributions")
