"""`jprep view`: a real server, its address, its end, and its errors."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import COMMAND, PATIENCE, Run, environment


@contextlib.contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Start `jprep view` on a free port; it is killed at the end if it still runs."""
    command = [COMMAND, "view", *map(str, arguments), "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, env=environment(DISPLAY="", WAYLAND_DISPLAY=""), **pipes)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def started(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return str(json.loads(process.stdout.readline())["url"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serves_until_it_is_interrupted(corpus: Path, number: int) -> None:
    with running(corpus, "--json") as process:
        address = started(process)
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}?q=%E3%81%AE", timeout=PATIENCE) as page:
            assert page.status == 200 and "<mark>の</mark>" in page.read().decode()
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out, err) == (0, "", "")


def test_prints_its_address_and_refuses_other_hosts(corpus: Path) -> None:
    with running(corpus, "--no-open") as process:
        assert process.stdout
        address = process.stdout.readline().split()[-1]
        request = urllib.request.Request(address, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request, timeout=PATIENCE)


def test_a_port_in_use_is_an_error(corpus: Path, jprep: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = jprep("view", corpus, "--port", port, "--no-open", code=3)
    assert f"cannot use port {port}" in done.stderr and "--port 0" in done.stderr and "Traceback" not in done.stderr


def test_no_corpus_and_no_tokenizer_are_errors(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    assert "there is no finished corpus here" in jprep("view", tmp_path, "--port", 0, code=2).stderr
    missing = jprep("view", corpus, "--port", 0, "--tokenizer", tmp_path / "none", code=2).stderr
    assert "tokenizer" in missing and "Traceback" not in missing


def test_a_corpus_inside_of_the_directory_is_named(corpus: Path, tmp_path: Path, jprep: Run) -> None:
    shutil.copytree(corpus, tmp_path / "mine" / "corpus")
    said = jprep("view", "mine", "--port", 0, code=2, cwd=tmp_path).stderr
    assert "there is no finished corpus here" in said and "fix:   give mine/corpus\n" in said


def test_help_has_an_example(jprep: Run) -> None:
    assert "jprep view work/jawiki/corpus" in jprep("view", "--help").stdout


def test_inputs_can_be_those_of_a_recipe(corpus: Path, sample: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    dump, crawl = (sample / name for name in ("sample-pages-articles-multistream.xml.bz2", "cc100.txt"))
    recipe.write_text(f"""
        name = "sample"
        [[corpus.sources]]
        name = "sample"
        reader = "wikipedia"
        paths = ["{dump}", "{crawl}"]
    """)
    with running(corpus, "--json", "--inputs", recipe) as process:
        address = f"{started(process)}documents/0/0"
        with urllib.request.urlopen(address, timeout=PATIENCE) as page:
            assert "The record as it stands in the input" in page.read().decode()
