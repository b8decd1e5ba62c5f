"""Every command that jprep prints works as printed, in a new shell with another PATH and environment."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from jprep import samples
from jprep.cli.common import shell_command
from tests.conftest import COMMAND

NUMBER = 12


class Shell:
    """A shell in a folder, with nothing in its environment but what any login has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
        self.env |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}

    def run(self, line: str) -> str:
        """Run a line; return what it prints on standard output."""
        command = ["/bin/bash", "-c", line]
        done = subprocess.run(command, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True)
        assert done.returncode == 0, (line, done.stdout.decode(), done.stderr.decode())
        return done.stdout.decode()

    def follow(self, line: str) -> list[str]:
        """Run a line, then each command that is printed as the next one, and theirs; return them all."""
        ran, waiting = list[str](), [line]
        while waiting:
            assert len(ran) < NUMBER
            ran.append(waiting.pop(0))
            waiting += [each for each in printed(self.run(ran[-1])) if each not in (*ran, *waiting)]
        return ran


def printed(output: str) -> list[str]:
    """The commands that an output ends with."""
    _, found, rest = output.rpartition("\nnext:\n")
    return [line.strip() for line in rest.splitlines()] if found else []


def kinds(lines: list[str]) -> list[str]:
    return [" ".join(re.findall(r"[a-z]+", line.removeprefix(COMMAND))[:2]) for line in lines]


@pytest.mark.backends
def test_from_a_recipe_to_the_plan_of_its_training(tmp_path: Path) -> None:
    samples.write_sample(tmp_path)
    ran = Shell(tmp_path).follow(f"{COMMAND} corpus build recipe.toml --work out --set tokenizer.vocab_size=1500")
    assert kinds(ran) == ["corpus build", "tokenizer train", "dataset pack", "train recipe"]
    assert all(line.startswith(f"{COMMAND} ") for line in ran)


def test_from_files_to_a_dataset_in_a_folder_with_a_quoted_name(tmp_path: Path) -> None:
    samples.write_sample(tmp_path)
    output = shlex.quote("my 'own' folder/corpus")
    ran = Shell(tmp_path).follow(f"{COMMAND} corpus build --wikipedia {samples.DUMP} --segmenter none -o {output}")
    assert kinds(ran)[:2] == ["corpus build", "tokenizer train"]


def test_quickstart(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.env["JPREP_BACKENDS"] = str(tmp_path)
    shown = shell.run(f"{COMMAND} quickstart")
    assert f"{COMMAND} backends install torch" in shown
    assert kinds(printed(shown)) == ["corpus stats", "corpus why", "recipes"]
    for line in printed(shown):
        shell.run(line)


@pytest.mark.backends
@pytest.mark.soak
@pytest.mark.skipif("JPREP_TORCH" not in os.environ, reason="no environment of the backend torch")
def test_quickstart_finds_the_backend_without_variables(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    lines = printed(shell.run(f"{COMMAND} quickstart"))
    assert kinds(lines)[0] == "infer work"
    for line in lines:
        shell.run(line)
    assert len(shell.run(f"{COMMAND} quickstart").splitlines()) < 60


@pytest.mark.parametrize(
    "words",
    ["corpus stats nowhere", "train nowhere.toml", "infer nowhere a", "export nowhere", "doctor --backend nowhere"],
)
def test_commands_in_errors_are_called_as_this_one_was(words: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    done = subprocess.run([COMMAND, *words.split()], cwd=tmp_path, env=shell.env, capture_output=True)
    said = done.stderr.decode()
    assert done.returncode == 2 and not re.search(r"`jprep ", said)
    for found in re.findall(rf"{re.escape(COMMAND)} [a-z]+(?: [a-z]+\b)?", said):
        shell.run(f"{found} --help")


def test_only_commands_are_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_command.sys, "argv", ["./my bin/jprep"])
    shell_command.program_name.cache_clear()
    try:
        assert shell_command.make_runnable("`jprep train X` resumes") == "`'./my bin/jprep' train X` resumes"
        for text in ("jprep reads it", "another jprep is at work", "install jprep 2", "/a/jprep train"):
            assert shell_command.make_runnable(text) == text
    finally:
        monkeypatch.undo()
        shell_command.program_name.cache_clear()


def test_a_command_is_printed_without_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_command.sys, "argv", ["jprep", "train", "a b.toml", "--resume", "7", "--resume=8", "-q"])
    assert shell_command.current_command(without=["--resume"]) == "jprep train 'a b.toml' -q"
