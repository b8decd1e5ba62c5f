"""The command `jprep`."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import traceback
from typing import Any

import click

from jprep.cli.cluster.status import status
from jprep.cli.cluster.work import work
from jprep.cli.common import output
from jprep.cli.common.log_file import log_failure, log_message
from jprep.cli.common.shell_command import current_command, make_runnable
from jprep.cli.common.verbosity import add_verbosity
from jprep.cli.completion import completion
from jprep.cli.corpus import corpus
from jprep.cli.dataset import dataset
from jprep.cli.environment.backends import backends
from jprep.cli.environment.doctor import doctor
from jprep.cli.environment.plugins import list_plugins
from jprep.cli.model.convert import convert
from jprep.cli.model.evaluate import evaluate
from jprep.cli.model.export import export
from jprep.cli.model.infer import infer
from jprep.cli.model.push import push
from jprep.cli.model.service import service
from jprep.cli.model.train import train
from jprep.cli.pipeline.compare import compare
from jprep.cli.pipeline.init import init
from jprep.cli.pipeline.plan import plan
from jprep.cli.pipeline.quickstart import quickstart
from jprep.cli.pipeline.recipes import recipes
from jprep.cli.pipeline.run import run
from jprep.cli.quality import quality
from jprep.cli.report import report
from jprep.cli.segmenter import segmenter
from jprep.cli.text import text
from jprep.cli.tokenizer import tokenizer
from jprep.cli.view import view
from jprep.errors import ConfigError, JprepError
from jprep.io.escaping import one_line
from jprep.io.os_errors import translate_os_error
from jprep.train.launcher.time_limit import TimeLimit, catch_time_limit, end_early


class _Group(click.Group):
    """A group that treats a broken pipe as the end of the output; click would treat it as a failure."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return _end_of_pipe()


def _end_of_pipe() -> int:
    """Discard buffered output after the reader has closed the pipe (`jprep … | head`); return the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="jprep")
def cli() -> None:
    """Turn raw Japanese text into a corpus, a tokenizer, a dataset and a trained model."""


def _keep_summaries(group: click.Group) -> None:
    """Let lists of commands have their first sentences in whole, which click cuts to one line."""
    for command in group.commands.values():
        command.short_help = command.get_short_help_str(limit=_LONGEST_SUMMARY)
        if isinstance(command, click.Group):
            _keep_summaries(command)


_LONGEST_SUMMARY = 1000  # characters
_MAX_ARGUMENT = 200  # characters of an argument that an error shows

_DATA = (corpus, quality, segmenter, tokenizer, dataset, text)

_MODELS = (train, service, evaluate, export, infer, convert, push, backends)

_PAGES, _MACHINE = (report, view, compare), (list_plugins, quickstart, doctor, completion)

for command in (run, plan, init, recipes, *_DATA, *_MODELS, *_PAGES, work, status, *_MACHINE):
    cli.add_command(command)
add_verbosity(cli)
_keep_summaries(cli)


def _set_encodings() -> None:
    """Write standard output as UTF-8 in any locale, and escape characters that standard error cannot encode."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")


def main() -> None:
    """Run the command line and exit with its code.

    0 done, 1 failed, 2 usage or config, 3 environment, 4 damaged input, 130 interrupted.
    """
    _set_encodings()
    logging.getLogger("jprep").addHandler(output.LogHandler())
    code = _end_log(_run())
    _discard_unwritable()
    sys.exit(code)


def _end_log(code: int) -> int:
    """Write the exit code to the log file; return it, or that of a log file that could not be written."""
    log_message(f"exit code {code}")
    failure = log_failure()
    return _report(_message(failure), failure.exit_code) if failure and not code else code


def _discard_unwritable() -> None:
    """Discard messages that cannot be written (a closed terminal, a full disk): Python would exit with code 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run() -> int:
    """Run the command line; return the exit code. Only bugs of jprep are reported with a traceback."""
    try:
        catch_time_limit()
        _refuse_undecoded(sys.argv[1:])
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        return _end_of_pipe()
    except (click.exceptions.Abort, KeyboardInterrupt):
        return 130
    except TimeLimit:
        return end_early()
    except click.ClickException as problem:
        return _report(_click_message(problem), problem.exit_code)
    except JprepError as problem:
        return _report(_message(problem), problem.exit_code)
    except OSError as problem:
        error = translate_os_error(problem)
        return _report(_message(error), error.exit_code)
    except UnicodeEncodeError as problem:
        return _report(_message(_undecoded(problem.object)), ConfigError.exit_code)
    except Exception:
        if not output.verbose():
            output.error(traceback.format_exc())
        return _report("jprep: internal error; please report it with the lines above", 1)


def _refuse_undecoded(arguments: list[str]) -> None:
    """Raise ConfigError for an argument that is not UTF-8: manifests, ids and other programs cannot store it."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise _undecoded(argument) from error


def _undecoded(text: str) -> ConfigError:
    fix = "give it in UTF-8; rename the file, or use a link with another name"
    return ConfigError("this file name or argument is not UTF-8", where=text[:_MAX_ARGUMENT], fix=fix)


_RESTARTABLE = {
    "jprep corpus build",
    "jprep corpus filter",
    "jprep tokenizer train",
    "jprep dataset pack",
    "jprep quality train",
    "jprep quality judge",
    "jprep compare",
}
"""Commands that are suggested with `--restart`. `train` is not: what it would delete may have taken days."""


def _message(problem: JprepError) -> str:
    """Return an error's text: what happened, where, and the fix. Only the first may have several lines."""
    where = f"\n  where: {one_line(problem.where)}" if problem.where else ""
    fix = f"\n  fix:   {problem.fix}" if problem.fix else ""
    if "--restart" in problem.options and _is_restartable(problem.command):
        fix += f"\n         to replace it:  {current_command()} --restart"
    return f"jprep: {problem.what}{where}{fix}"


def _is_restartable(command: str) -> bool:
    """Return whether a command, "" for the present one, is the present one and is suggested with `--restart`."""
    present = " ".join(["jprep", *sys.argv[1 : 2 if sys.argv[1:2] == ["compare"] else 3]])
    return present in _RESTARTABLE and command in ("", present)


def _click_message(problem: click.ClickException) -> str:
    """Return the message that click would print."""
    shown = io.StringIO()
    problem.show(shown)
    return shown.getvalue().rstrip("\n")


def _report(message: str, code: int) -> int:
    """Print an error, with its traceback under `--verbose`; return the exit code."""
    with contextlib.suppress(OSError):  # standard error may be a file on a full disk
        if output.verbose() and sys.exc_info()[0]:
            output.error(traceback.format_exc())
        output.error(make_runnable(message))
    return code
