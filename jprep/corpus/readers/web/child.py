"""Extract pages in a child process, see `jprep.corpus.readers.child_process`. Run as a module, this is its program.

`page` recognizes the kinds of markup that are known to take extractors hours or gigabytes; the child is for the others.
"""

from __future__ import annotations

import functools
import sys

import msgspec

from jprep.corpus.readers.child_process import ChildProcess, serve
from jprep.corpus.readers.web.page import Page, extract_page

PAGE_SECONDS = 30
"""CPU time for one page. A page of a megabyte takes a tenth of a second."""


class PageExtractor:
    """Extracts pages in a child process.

    Args:
        extractor: see `extract_page`.
        seconds: CPU time for one page.
    """

    def __init__(self, extractor: str, seconds: int = PAGE_SECONDS) -> None:
        self.child = ChildProcess(__name__, [extractor, str(seconds)], "extracts pages")

    def extract(self, html: str) -> Page:
        """Return the page, see `extract_page`; with the fault `not_extracted` if the child dies of it.

        Raises:
            MachineError: the child does not start.
        """
        if not html:
            return Page()
        answer = self.child.ask(html.encode("utf-8", "replace"))
        return msgspec.msgpack.decode(answer, type=Page) if answer else Page(fault="not_extracted")

    def close(self) -> None:
        """End the child. The next page gets a new one."""
        self.child.close()


@functools.cache
def shared_extractor(extractor: str) -> PageExtractor:
    """Return the one extractor of this process: all its sources share a child."""
    return PageExtractor(extractor)


def _extracted(html: str, extractor: str) -> Page:
    try:
        return extract_page(html, extractor)
    except MemoryError:  # earlier pages may have taken the memory: the child ends, and a new one is asked
        raise
    except Exception:  # extractors raise anything for broken markup
        return Page(fault="not_extracted")


def main(extractor: str, seconds: str) -> None:
    """Answer pages."""
    serve(
        lambda: extract_page("<p>", extractor),
        lambda page: msgspec.msgpack.encode(_extracted(page.decode(), extractor)),
        int(seconds),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
