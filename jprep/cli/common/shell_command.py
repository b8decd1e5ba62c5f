"""Format commands so that they run as printed, whatever the shell's PATH is."""

from __future__ import annotations

import functools
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from jprep.io.escaping import one_line

_PIP = re.compile(r"(?<![\w./'\"-])pip(?= install )")


@functools.cache
def program_name() -> str:
    """Return how a shell calls this program: `jprep` if it is on PATH, else its path, quoted."""
    called = sys.argv[0]
    if Path(called).name == "__main__.py":
        return f"{shell_quote(sys.executable)} -m jprep"
    found = shutil.which("jprep")
    if "/" not in called or (found and Path(found).resolve() == Path(called).resolve()):
        return "jprep"
    return shell_quote(called)


def shell_quote(word: object) -> str:
    """Return a word quoted for the shell; as bash's `$'…'` where terminal escaping would change it."""
    text = str(word)
    if one_line(text) == text:
        return shlex.quote(text)
    return "$'" + one_line(text.replace("\\", "\\\\").replace("'", "\\'")) + "'"


def shell_command(*words: object) -> str:
    """Return a command of this program, its arguments quoted."""
    return " ".join([program_name(), *map(shell_quote, words)])


def current_command(*, without: Sequence[str] = (), flags: Sequence[str] = ()) -> str:
    """Return the command line of this process, without some options and their values, and without some flags."""
    return shell_command(*current_words(without=without, flags=flags))


def current_words(*, without: Sequence[str] = (), flags: Sequence[str] = ()) -> list[str]:
    """Return the arguments of this process, without some options and their values, and without some flags."""
    words = [word for word in sys.argv[1:] if word not in flags]
    for option in without:
        while option in words:
            index = words.index(option)
            del words[index : index + 2]
        words = [word for word in words if not word.startswith(f"{option}=")]
    return words


def command_for_other(path: Path) -> Callable[[Path], str]:
    """Return a function that returns the command line of this process with another path in place of `path`."""
    return lambda other: shell_command(*(other if Path(word) == path else word for word in current_words()))


def make_runnable(text: str) -> str:
    """Return a message with `jprep COMMAND` and `pip install` replaced by commands that run as printed."""
    return _PIP.sub(lambda _: _pip(), _own_commands().sub(lambda _: program_name(), text))


@functools.cache
def _own_commands() -> re.Pattern[str]:
    """Return the pattern of this program's name before the name of one of its commands."""
    from jprep.cli.main import cli  # which imports this module

    return re.compile(rf"(?<![\w./'\"-])(?<!-m )jprep(?= (?:{'|'.join(cli.commands)})\b)")


@functools.cache
def _pip() -> str:
    """Return how to call this environment's pip; the one on PATH may belong to another environment."""
    found = shutil.which("pip")
    if found and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    return f"{shlex.quote(sys.executable)} -m pip"
