"""`--help` of every command has an example, and each example is a command line that jprep accepts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from jprep.cli.main import cli


def leaves(command: click.Command, name: str = "jprep") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for child_name, child in command.commands.items():
            yield from leaves(child, f"{name} {child_name}")
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield name, command


ALL = dict(leaves(cli))


def examples(command: click.Command) -> list[str]:
    """Return the command lines of the paragraph `Example:`."""
    found = re.search(r"^\s*Example:\n((?:.+(?:\n|$))+)", (command.help or "").replace("\b", ""), re.MULTILINE)
    return [line.strip() for line in found[1].splitlines()] if found else []


def own_words(line: str) -> list[str]:
    """Return the words of the part of a line that calls jprep: without pipes, redirections and comments."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>();")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words = list(lexer)
    own = words[words.index("jprep") :]
    return own[: next((n for n, word in enumerate(own) if set(word) <= set("|<>();")), None)]


def parse(words: list[str]) -> str:
    """Parse a command line without running it; return the name of its command."""
    command, name, rest = cli, "jprep", words[1:]
    context = click.Context(cli, info_name="jprep")
    while isinstance(command, click.Group) and rest:
        found, child, rest = command.resolve_command(context, rest)
        assert found and child
        command, name = child, f"{name} {found}"
        context = click.Context(command, info_name=found, parent=context)
    values, _, _ = command.make_parser(context).parse_args(list(rest))
    for param in command.params:
        given = values.get(param.name)
        if isinstance(param.type, click.Choice | click.types.IntParamType) and given not in (None, click.core.UNSET):
            param.type_cast_value(context, given)
        assert not param.required or given not in (None, click.core.UNSET, ()), f"{name} needs {param.name}"
    return name


@pytest.mark.parametrize("name", ALL)
def test_each_command_has_an_example_that_parses(name: str) -> None:
    lines = examples(ALL[name])
    assert lines, f"{name}: add a paragraph `Example:` to its help"
    calls = [line for line in lines if "jprep " in line]
    assert calls, lines
    parsed = [parse(own_words(line)) for line in calls]
    assert any(each == name or each.startswith(f"{name} ") for each in parsed), (name, parsed)


def test_wrong_examples_are_found() -> None:
    for wrong in ("jprep run", "jprep run x.toml --scale huge", "jprep run x.toml --no-such-option", "jprep nothing"):
        with pytest.raises((click.UsageError, AssertionError)):
            parse(wrong.split())


@pytest.mark.parametrize("name", ALL)
def test_every_command_logs_and_has_levels(name: str) -> None:
    options = {option for param in ALL[name].params for option in param.opts}
    assert {"--quiet", "--verbose", "--log-file"} <= options
