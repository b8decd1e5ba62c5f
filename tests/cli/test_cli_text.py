"""`jprep text` as a pipe, `jprep plugins`, help, and the exit codes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import click
import pytest

from jprep import normalize, segment, split_sentences
from jprep.cli.main import cli
from tests.conftest import COMMAND, Distribution, Run, environment

LINES = "ﾊﾝｶｸの文。二つ目の文！\n\n  空白 で始まる。\n最後の行は改行で終わらない。「括弧。」と"


def test_normalize_keeps_lines(jprep: Run) -> None:
    out = jprep("text", "normalize", stdin=LINES.encode()).stdout
    assert out == normalize(LINES) and out.count("\n") == LINES.count("\n")
    assert jprep("text", "normalize", "--using", "nfkc", stdin="㍿\n".encode()).stdout == "株式会社\n"
    assert jprep("text", "normalize", "--set", "tilde=remove", stdin="10〜20\n".encode()).stdout == "1020\n"


def test_split_writes_a_sentence_a_line(jprep: Run) -> None:
    out = jprep("text", "split", stdin=LINES.encode()).stdout
    assert [line for line in out.split("\n") if line] == split_sentences(LINES)


def test_segment_keeps_lines(jprep: Run) -> None:
    out = jprep("text", "segment", "--separator", "|", stdin=LINES.encode()).stdout
    assert out.replace("|", "") == LINES
    assert "|".join(segment("二つ目の文！")) in out


@pytest.mark.parametrize("command", ["normalize", "split", "segment"])
class TestPipes:
    def test_nothing_gives_nothing(self, command: str, jprep: Run) -> None:
        assert jprep("text", command).stdout == ""

    def test_invalid_utf8_names_its_byte(self, command: str, jprep: Run) -> None:
        output = jprep("text", command, stdin="初めの行\n".encode() + b"ab\xff\n", code=4).stderr
        assert "this is not UTF-8" in output and "byte 15" in output and "Traceback" not in output

    def test_a_closed_pipe_is_not_an_error(self, command: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([COMMAND, "text", command], env=environment(), **pipes)
        process.stdout.close()
        try:
            process.stdin.write("短い文。\n".encode() * 20_000)
            process.stdin.close()
        except BrokenPipeError:
            pass
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(timeout=600) == 0

    def test_an_unknown_step_names_the_nearest(self, command: str, jprep: Run) -> None:
        assert "available: " in jprep("text", command, "--using", "zzzz", code=2).stderr


def test_an_unknown_option_names_the_nearest(jprep: Run) -> None:
    output = jprep("text", "normalize", "--set", "tild=remove", code=2).stderr
    assert "did you mean 'tilde'?" in output


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, command in group.commands.items():
        yield from commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]


@pytest.mark.parametrize("path", list(commands(cli)), ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...], jprep: Run) -> None:
    shown = jprep(*path, "--help").stdout
    assert shown.startswith(f"Usage: jprep {' '.join(path)}".rstrip())
    assert jprep(*path, "-h").stdout == shown
    command: click.Command = cli
    for name in path:
        command = command.commands[name]
    assert command.help


@pytest.mark.parametrize("arguments", [["corpse"], ["corpus", "bild"], ["--colour"]])
def test_wrong_commands(arguments: list[str], jprep: Run) -> None:
    assert "No such" in jprep(*arguments, code=2).stderr


def test_version(jprep: Run) -> None:
    from importlib.metadata import version

    assert version("jprep") in jprep("--version").stdout


def test_a_broken_plugin_is_listed_and_the_others_work(distribution: Distribution, jprep: Run) -> None:
    distribution.add("broken", "raise RuntimeError('boom')\n")
    listed = json.loads(jprep("plugins", "--json", env=distribution.env).stdout)
    found = {plugin["name"]: plugin for plugin in listed}
    assert found["broken"]["error"] == "RuntimeError: boom" and found["broken"]["steps"] == []
    assert "reader wikipedia" in found["builtin"]["steps"]
    assert "FAILED: RuntimeError: boom" in jprep("plugins", env=distribution.env).stdout
    assert jprep("text", "normalize", stdin=b"a\n", env=distribution.env).stdout == "a\n"
    assert (
        "plugin 'broken' failed to load" in jprep("text", "split", "--using", "no", code=2, env=distribution.env).stderr
    )
