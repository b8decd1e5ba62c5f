"""The command `jprep`."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from typing import Any

import click

from jprep.cli.backends import backends
from jprep.cli.corpus import corpus
from jprep.cli.dataset import dataset
from jprep.cli.doctor import doctor
from jprep.cli.export import export
from jprep.cli.infer import infer
from jprep.cli.plugins import list_plugins
from jprep.cli.quickstart import quickstart
from jprep.cli.run import run
from jprep.cli.text import text
from jprep.cli.tokenizer import tokenizer
from jprep.cli.train import train
from jprep.errors import JprepError


class _Group(click.Group):
    """Takes a broken pipe for an end; click itself would take it for a failure."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return _nobody_reads()


def _nobody_reads() -> int:
    """`jprep … | head`: let what is still buffered go nowhere; the exit code for it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="jprep")
def cli() -> None:
    """Japanese text, from raw dumps to a trained model."""


_DATA, _MODELS = (corpus, tokenizer, dataset, text), (train, export, infer, backends)

for command in (run, *_DATA, *_MODELS, list_plugins, quickstart, doctor):
    cli.add_command(command)


def _speak_utf8() -> None:
    """A corpus goes out as UTF-8 whatever the locale says; a message is never lost for want of a character."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")


def main() -> None:
    """Run the command line; end with DESIGN's exit codes.

    0 done, 1 failed, 2 usage or config, 3 environment, 4 input worse than its budget, 130 interrupted.
    """
    _speak_utf8()
    try:
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except JprepError as error:
        code = error.exit_code
        with contextlib.suppress(OSError):  # what was to hear it may be a file on a full disk
            click.echo(f"jprep: {error}", err=True)
    except BrokenPipeError:
        code = _nobody_reads()
    except KeyboardInterrupt:
        code = 130
    except Exception:
        click.echo(traceback.format_exc(), err=True)
        click.echo("jprep: this is a fault in jprep; please report it with the lines above", err=True)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
