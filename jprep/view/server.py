"""The local web server: routes, security headers, errors as pages."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jprep.corpus.originals import Originals
from jprep.corpus.store import read_manifest
from jprep.errors import ConfigError, DamagedError, JprepError, MachineError
from jprep.html.page import environment, thousands
from jprep.libraries import import_library
from jprep.view.document_page import DocumentPage, NotFoundError
from jprep.view.files import CorpusFiles
from jprep.view.guard import Guard
from jprep.view.hit_list import HitList
from jprep.view.passage import highlighted
from jprep.view.query import Kind

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request
    from starlette.responses import Response

    from jprep.corpus.step import Threshold
    from jprep.view.tokens import TokenizerView

HOST = "127.0.0.1"
_GRACE = 2  # seconds for running requests after Ctrl-C


class Viewer:
    """The pages of a corpus.

    Args:
        folder: directory of a finished corpus.
        tokenizer: cuts texts into tokens; None shows no tokens.
        inputs: where the inputs of the corpus are: files, patterns, directories.

    Raises:
        ConfigError: the folder holds no finished corpus.
        MachineError: a library is not installed.
    """

    def __init__(self, folder: Path, tokenizer: TokenizerView | None = None, inputs: tuple[str, ...] = ()) -> None:
        manifest = read_manifest(folder)
        self._templates = _environment()
        self.files = CorpusFiles(folder, manifest)
        self._originals = Originals(folder, inputs)
        self._lists = HitList(self.files, manifest)
        self._documents = DocumentPage(self.files, manifest, tokenizer, self._originals)
        self._common = {"corpus": manifest.name, "folder": str(folder), "damage": self.files.damage}

    def render(self, template: str, context: Mapping[str, Any]) -> str:
        """Return a page."""
        return self._templates.get_template(template).render(self._common | dict(context))

    def list_page(self, kind: Kind, parameters: Mapping[str, str]) -> str:
        """Return the page that lists documents or rejects."""
        return self.render("list.html", self._lists.context(kind, parameters))

    def document_page(self, kind: Kind, part: int, row: int, parameters: Mapping[str, str]) -> str:
        """Return the page of a document or a reject."""
        make = self._documents.document if kind == "documents" else self._documents.reject
        return self.render("document.html", make(part, row, parameters))

    def error_page(self, what: str, where: str = "", fix: str = "") -> str:
        """Return a page that shows an error."""
        return self.render("error.html", {"what": what, "where": where, "fix": fix})

    def start(self) -> None:
        """Begin to compare the files of the corpus with their hashes."""
        threading.Thread(target=self.files.verify_all, name="verify", daemon=True).start()

    def close(self) -> None:
        """Release what the pages use; they cannot be used any more."""
        self.files.close()
        self._originals.close()


def application(viewer: Viewer) -> Guard:
    """Return the web application of a corpus."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import HTMLResponse, Response
    from starlette.routing import Route

    def page(make: Callable[[Request], str]) -> Callable[[Request], Response]:
        return lambda request: HTMLResponse(make(request))

    def lists(kind: Kind) -> Callable[[Request], Response]:
        return page(lambda request: viewer.list_page(kind, request.query_params))

    def documents(kind: Kind) -> Callable[[Request], Response]:
        def make(request: Request) -> str:
            part, row = (_index(request.path_params[name]) for name in ("part", "row"))
            return viewer.document_page(kind, part, row, request.query_params)

        return page(make)

    def style(request: Request) -> Response:
        return Response(style_sheet(), media_type="text/css", headers={"cache-control": "max-age=3600"})

    def failed(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return HTMLResponse(viewer.error_page(error.detail), error.status_code)
        if isinstance(error, JprepError):
            return HTMLResponse(viewer.error_page(error.what, error.where, error.fix), _status(error))
        return HTMLResponse(viewer.error_page("internal error", fix="the terminal shows what happened"), 500)

    routes = [
        Route("/", lists("documents")),
        Route("/rejects", lists("rejects")),
        Route("/documents/{part}/{row}", documents("documents")),
        Route("/rejects/{part}/{row}", documents("rejects")),
        Route("/style.css", style),
    ]
    handlers: dict[Any, Any] = {HTTPException: failed, JprepError: failed, Exception: failed}
    return Guard(Starlette(routes=routes, exception_handlers=handlers))


def _index(text: str) -> int:
    """Return a number of an address; -1, which nothing has, if it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def _environment() -> Environment:
    """Return the templates, with the filters that only they use."""
    made = environment("jprep.view", extra="view")
    made.filters |= {"plain_number": _plain_number, "limits": _limits, "highlighted": highlighted}
    return made


def _plain_number(value: float | None) -> str:
    """Return a number as a form field has it; nothing for None."""
    return "" if value is None else f"{value:.12g}"


def _limits(threshold: Threshold) -> str:
    """Return the values that a filter keeps."""
    ends = zip(("at least", "at most"), threshold, strict=True)
    return ", ".join(f"{word} {thousands(end)}" for word, end in ends if end is not None)


def style_sheet() -> str:
    """Return the style of all pages: the shared one and this package's."""
    shared = resources("jprep.html").joinpath("templates/style.css").read_text(encoding="utf-8")
    return shared + resources("jprep.view").joinpath("templates/view.css").read_text(encoding="utf-8")


def _status(error: JprepError) -> int:
    if isinstance(error, NotFoundError):
        return 404
    return 400 if isinstance(error, ConfigError) and not isinstance(error, DamagedError) else 500


def listen(port: int) -> socket.socket:
    """Return a socket that listens on this machine only.

    Args:
        port: the port; 0 chooses a free one.

    Raises:
        MachineError: the port is in use, or not allowed.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        fix = "use --port with another number, or --port 0 for any free one"
        raise MachineError(f"cannot use port {port}: {error.strerror}", fix=fix) from error
    return listener


def serve(viewer: Viewer, listener: socket.socket, ready: Callable[[str], None]) -> None:
    """Serve a corpus until SIGINT or SIGTERM.

    Args:
        viewer: the pages.
        listener: as returned by `listen`; it is closed at the end.
        ready: called with the address when requests are answered.

    Raises:
        MachineError: uvicorn or starlette is not installed.
    """
    uvicorn = import_uvicorn()

    class Server(uvicorn.Server):  # type: ignore[misc, name-defined]
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready(f"http://{HOST}:{listener.getsockname()[1]}/")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            viewer.files.stop()
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # requests that are cut off are not errors
            await super().shutdown(sockets)

    config = uvicorn.Config(
        application(viewer), log_level="warning", access_log=False, server_header=False, lifespan="off",
        timeout_graceful_shutdown=_GRACE, h11_max_incomplete_event_size=1 << 16,
    )  # fmt: skip
    viewer.start()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # uvicorn raises its signal again at the end
    try:
        Server(config).run(sockets=[listener])
    except KeyboardInterrupt:  # the usual end
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        viewer.close()
        listener.close()


def import_uvicorn() -> Any:
    """Return uvicorn.

    Raises:
        MachineError: it or starlette is not installed.
    """
    needs, install = "the local page needs Starlette and uvicorn", "'jprep[view]'"
    import_library("starlette", needs, install)
    return import_library("uvicorn", needs, install)
