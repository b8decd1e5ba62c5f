"""Extract PDFs in a child process, see `jprep.corpus.readers.child_process`. Run as a module, this is its program."""

from __future__ import annotations

import functools
import sys

import msgspec

from jprep.corpus.readers.child_process import ChildProcess, serve
from jprep.corpus.readers.pdf.extraction import PdfLimits, PdfText, extract_pdf

FILE_SECONDS = 600
"""CPU time for one file. A book of 300 pages takes two seconds."""


class PdfExtractor:
    """Extracts PDFs in a child process.

    Args:
        limits: what is accepted.
        seconds: CPU time for one file.
    """

    def __init__(self, limits: PdfLimits, seconds: int = FILE_SECONDS) -> None:
        arguments = [msgspec.json.encode(limits).decode(), str(seconds)]
        self.child = ChildProcess(__name__, arguments, "extracts PDFs")

    def extract(self, data: bytes) -> PdfText:
        """Return the text of a file, see `extract_pdf`; with the fault `not_extracted` if the child dies of it.

        Raises:
            MachineError: the child does not start.
        """
        if not data:
            return PdfText(fault="damaged")
        answer = self.child.ask(data)
        return msgspec.msgpack.decode(answer, type=PdfText) if answer else PdfText(fault="not_extracted")

    def close(self) -> None:
        """End the child. The next file gets a new one."""
        self.child.close()


@functools.cache
def shared_extractor(limits: PdfLimits) -> PdfExtractor:
    """Return the one extractor of this process for these limits: its sources share a child."""
    return PdfExtractor(limits)


def _extracted(data: bytes, limits: PdfLimits) -> PdfText:
    try:
        return extract_pdf(data, limits)
    except MemoryError:  # earlier files may have taken the memory: the child ends, and a new one is asked
        raise
    except Exception:  # PDFium's errors for pages that it cannot open, and what damaged places lead to
        return PdfText(fault="damaged")


def main(limits: str, seconds: str) -> None:
    """Answer PDFs."""
    accepted = msgspec.json.decode(limits, type=PdfLimits)
    serve(
        lambda: extract_pdf(b"%PDF-", accepted),
        lambda data: msgspec.msgpack.encode(_extracted(data, accepted)),
        int(seconds),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
