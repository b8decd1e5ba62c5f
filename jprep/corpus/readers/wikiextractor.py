"""The outside program wikiextractor, for those who want its output. It is AGPL: called, and never imported."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache

import msgspec

from jprep.corpus.document import Document, Reject
from jprep.errors import InputError, MachineError

_PROGRAM = "wikiextractor"


class _Line(msgspec.Struct):
    """A line of its `--json` output."""

    id: str
    url: str = ""
    title: str = ""
    text: str = ""


def articles(path: str, namespaces: list[int], source: str) -> Iterator[Document | Reject]:
    """Run the program on a local dump and read what it prints.

    It drops redirects itself, and does not say how many.

    Raises:
        MachineError: the program is not installed.
        InputError: it failed; with the last line that it wrote.
    """
    numbers = ",".join(map(str, namespaces))
    command = [_program(), path, "--json", "-o", "-", "-q", "--no-templates", "--html-safe", "", "-ns", numbers]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL)
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                yield _document(msgspec.json.decode(line, type=_Line), source)
        if process.returncode:
            errors.seek(0)
            last = (errors.read().strip().splitlines() or ["it said nothing"])[-1]
            fix = "use jprep's own extractor"
            raise InputError(f"wikiextractor ended with code {process.returncode}: {last}", where=path, fix=fix)


def _document(line: _Line, source: str) -> Document | Reject:
    identity, text = f"{source}:{line.id}", "\n".join(part for part in line.text.split("\n") if part.strip())
    if not text:
        return Reject(identity, line.title, "reader.wikipedia", "empty")
    return Document(identity, source, line.title, line.url, text, meta={"page": line.id})


@cache
def program_version() -> str:
    """What the program says of itself."""
    answer = subprocess.run([_program(), "--version"], capture_output=True, text=True, check=False)
    return (answer.stdout or answer.stderr).strip()


def _program() -> str:
    if found := shutil.which(_PROGRAM):
        return found
    fix = "pip install wikiextractor==3.1.0 in an environment of its own, or use extractor = 'jprep'"
    raise MachineError("the program wikiextractor is not on PATH", where='extractor = "wikiextractor"', fix=fix)
