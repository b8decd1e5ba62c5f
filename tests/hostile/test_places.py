"""Unreadable inputs and unwritable outputs are reported without any change."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from jprep import samples
from tests.benchmarks.measure import JPREP, Run
from tests.conftest import digests, environment
from tests.hostile.conftest import Attempt, Build, Put, assert_in_order

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
OPTIONS = ["--wikipedia", "--cc100", "--text", "--jsonl", "--parquet"]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return samples.write_dump(tmp_path / "inputs")


@pytest.fixture
def as_nobody(tmp_path: Path) -> list[str]:
    """What to put before a command so that it runs without root's rights; skipped where that is not possible."""
    command = NOBODY if os.geteuid() == 0 else []
    if command and not shutil.which(command[0]):
        pytest.skip("root may read and write everything, and there is no `setpriv` to become someone else")
    folder = tmp_path
    while folder != folder.parent:  # pytest keeps its folders to itself
        if folder.stat().st_uid == os.geteuid() and folder.name.startswith(("pytest-", "popen-", tmp_path.name)):
            folder.chmod(0o755)
        folder = folder.parent
    if subprocess.run([*command, JPREP, "--version"], capture_output=True).returncode:
        pytest.skip("another user cannot run this environment's programs")
    return command


def without_rights(as_nobody: list[str], option: str, path: Path, folder: Path, code: int, *says: str) -> Attempt:
    command = [*as_nobody, JPREP, "corpus", "build", option, str(path), "--segmenter", "none", "-o", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), stdin=subprocess.DEVNULL)
    attempt = Attempt(folder, Run(done.returncode, done.stdout, done.stderr, 0.0, {}))
    assert_in_order(attempt, code, says)
    return attempt


@pytest.mark.parametrize("option", OPTIONS)
def test_a_missing_input(option: str, build: Build, tmp_path: Path) -> None:
    build(option, tmp_path / "none.bz2", code=2, says=["no file matches", "none.bz2", "check the path"])


@pytest.mark.parametrize("option", OPTIONS)
def test_a_folder_as_input(option: str, build: Build, tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    build(option, tmp_path / "inputs", code=2, says=["folder", "inputs"])


@pytest.mark.parametrize("option", OPTIONS)
def test_an_input_without_rights(option: str, as_nobody: list[str], put: Put, tmp_path: Path) -> None:
    path = put("secret.txt", b"x")
    path.chmod(0)
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o777)
    without_rights(as_nobody, option, path, out, 3, "secret.txt", "ermission", "rights")


def test_an_output_without_rights(as_nobody: list[str], dump: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    without_rights(as_nobody, "--wikipedia", dump, closed / "corpus", 3, "no permission to write", "closed", "output")


def test_an_output_folder_that_may_only_be_read(as_nobody: list[str], dump: Path, tmp_path: Path) -> None:
    closed = tmp_path / "corpus"
    closed.mkdir(mode=0o555)
    without_rights(as_nobody, "--wikipedia", dump, closed, 3, "no permission to write", "corpus", "output")


@pytest.mark.parametrize("data", [b"", b"\n", b"\n\n\n\n", b" \r\n\r\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("option", ["--cc100", "--text", "--jsonl"])
def test_an_empty_text_makes_an_empty_corpus(option: str, data: bytes, build: Build, put: Put) -> None:
    if option == "--jsonl" and data.strip(b"\r\n") in (b" ", b"\xef\xbb\xbf"):
        pytest.skip("a line of JSON may not be blank")
    done = build(option, put("empty.txt", data))
    assert done.manifest.totals == {}
    assert done.manifest.parts == []
    assert done.texts() == []


@pytest.mark.parametrize("option", ["--wikipedia", "--parquet"])
def test_an_empty_file_is_not_a_dump(option: str, build: Build, put: Put) -> None:
    build(option, put("empty", b""), code=4, says=["empty"])


def test_a_corpus_of_which_nothing_stays(build: Build, put: Put, tmp_path: Path) -> None:
    path = put("short.txt", "短い\n\n".encode() * 50)
    done = build("--cc100", path)
    assert done.manifest.totals == {}
    assert sum(done.manifest.rejects.values()) == 50
    for command in (["stats"], ["verify"], ["export"], ["export", "--format", "jsonl"], ["stats", "--json"]):
        subprocess.run([JPREP, "corpus", command[0], done.folder, *command[1:]], check=True, capture_output=True)
    before = digests(done.folder)
    build("--cc100", path)
    assert digests(done.folder) == before


def test_an_output_that_is_a_file(build: Build, dump: Path, put: Put) -> None:
    file = put("notes.txt", b"mine")
    build("--wikipedia", dump, folder=file, code=2, says=["expected a directory, found a file", "notes.txt"])
    assert file.read_bytes() == b"mine"


def test_an_output_below_a_file(build: Build, dump: Path, put: Put) -> None:
    file = put("notes.txt", b"mine")
    build("--wikipedia", dump, folder=file / "corpus", code=3, says=["notes.txt"])
    assert file.read_bytes() == b"mine"


def test_an_output_that_holds_other_files(build: Build, dump: Path, tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    folder.joinpath("chapter.tex").write_text("mine")
    attempt = [JPREP, "corpus", "build", "--wikipedia", str(dump), "-o", str(folder)]
    for more in ([], ["--restart"]):
        done = subprocess.run([*attempt, *more], capture_output=True, text=True)
        assert done.returncode == 2
        assert "hold" in done.stderr
        assert [path.name for path in folder.iterdir()] == ["chapter.tex"]


def shards(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in digests(folder).items() if not name.startswith(".state/")}


def test_an_output_of_another_recipe(build: Build, dump: Path) -> None:
    before = shards(build("--wikipedia", dump).folder)
    more = ["--set", "corpus.splitter=none"]
    done = build("--wikipedia", dump, more=more, code=2, stands=True, says=["different work", "splitter", "--restart"])
    assert shards(done.folder) == before


def test_an_output_of_another_input(build: Build, dump: Path, put: Put) -> None:
    before = shards(build("--wikipedia", dump).folder)
    other = put(dump.name, dump.read_bytes() + bytes(4))
    done = build("--wikipedia", other, code=2, stands=True, says=["different work", "has changed", "--restart"])
    assert shards(done.folder) == before
