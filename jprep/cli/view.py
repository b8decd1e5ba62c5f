"""`jprep view`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from jprep.cli.common.options import AS_JSON
from jprep.cli.common.output import echo, echo_json, note
from jprep.cli.common.remote_output import FINISHED_OUTPUT

_PORT = 8765


@click.command()
@click.argument("corpus", type=FINISHED_OUTPUT)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True, help="Port; 0 chooses a free one."
)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option(
    "--tokenizer", type=click.Path(path_type=Path), metavar="DIR|NAME",
    help="Tokenizer of the tokens to show: a directory, or a name on the Hub. Default: `tokenizer` beside the corpus.",
)  # fmt: skip
@click.option(
    "--inputs", multiple=True, metavar="PATH",
    help="Recipe, file, pattern or directory of the corpus's inputs, to show originals. "
    "Always searched: `inputs` beside the corpus, `downloads`, and the files of the current directory.",
)  # fmt: skip
@AS_JSON
def view(
    corpus: Path, port: int, no_open: bool, tokenizer: Path | None, inputs: tuple[str, ...], as_json: bool
) -> None:
    """Search and read a corpus in the browser.

    Starts a web server that only this machine can reach. Nothing is uploaded. Interrupt it to end it.

    \b
    Example:
      jprep view work/jawiki/corpus
    """
    from jprep.pipeline.recipe import input_places
    from jprep.view.server import Viewer, import_uvicorn, listen, serve
    from jprep.view.tokens import TokenizerView, find_tokenizer, open_tokenizer

    import_uvicorn()
    beside = find_tokenizer(corpus) if tokenizer is None else None
    shown = open_tokenizer(tokenizer) if tokenizer else (TokenizerView(beside) if beside else None)
    viewer = Viewer(corpus, shown, tuple(input_places(inputs)))
    listener = listen(port)

    def ready(address: str) -> None:
        if as_json:
            echo_json({"url": address, "corpus": str(corpus)})
        else:
            echo(f"{corpus} is shown at  {address}")
            note("interrupt with Ctrl-C to end")
        sys.stdout.flush()
        if not (no_open or as_json):
            _open_browser(address)

    serve(viewer, listener, ready)


def _open_browser(address: str) -> None:
    """Open a page in a graphical browser, if there is one; a text browser would take over the terminal."""
    import webbrowser

    graphical = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if graphical:
        webbrowser.open(address)
