"""Run the external program wikiextractor. It is licensed under the AGPL and therefore never imported."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import msgspec

from jprep.corpus.document import Document, Reject
from jprep.corpus.step import Shard
from jprep.errors import ConfigError, InputError, MachineError
from jprep.io.inputs.paths import is_local, size_of
from jprep.typed_json import decode_json

_PROGRAM = "wikiextractor"

_ARTICLE = re.compile(r'<doc id="(\d+)" url="([^"]*)" title="(.*)">')


class _ExtractedArticle(msgspec.Struct):
    """An article as wikiextractor writes it; with `--json`, a line of its output."""

    id: str
    url: str = ""
    title: str = ""
    text: str = ""


def shard(path: str) -> Shard:
    """Return a shard for a whole file.

    Raises:
        ConfigError: the input is not a local file.
    """
    if not is_local(path) or size_of(path) is None:
        raise ConfigError("wikiextractor reads local files only", where=path, fix="fetch the dump first")
    return Shard(path, 0, weight=size_of(path) or 0)


def articles(path: str, namespaces: list[int], source: str) -> Iterator[tuple[Document | Reject, str]]:
    """Run the program on a local dump and yield its articles, each with the text that the program wrote.

    The program drops redirects without counting them.

    Args:
        path: path of the dump.
        namespaces: numbers of the namespaces to read.
        source: name of the source.

    Raises:
        MachineError: the program is not installed.
        InputError: the program failed; the error contains the last line of its standard error.
    """
    numbers = ",".join(map(str, namespaces))
    options = ["-o", "-", "-q", "--no-templates", "-ns", numbers]
    options += ["--json", "--html-safe", ""] if _writes_json() else []
    command = [_program(), str(Path(path).absolute()), *options]  # absolute: a path may begin with a dash
    env = os.environ | {"PYTHONUTF8": "1"}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, env=env)
        with process:
            assert process.stdout is not None
            lines = (_decoded(line, path) for line in process.stdout)
            for article in lines if _writes_json() else _marked_articles(process.stdout):
                yield _document(article, source), article.text
        if process.returncode:
            errors.seek(0)
            last = (errors.read().strip().splitlines() or ["no error message"])[-1]
            fix = "use jprep's own extractor, or version 3.1.0; 3.0.4 needs Python 3.10 or older"
            raise InputError(f"wikiextractor exited with code {process.returncode}: {last}", where=path, fix=fix)


def _decoded(line: bytes, path: str) -> _ExtractedArticle:
    try:
        return decode_json(line, _ExtractedArticle)
    except msgspec.DecodeError as error:
        what = f"the output of wikiextractor is not JSON: {line[:80]!r}"
        raise InputError(what, where=path, fix="use jprep's own extractor") from error


def _marked_articles(lines: Iterable[bytes]) -> Iterator[_ExtractedArticle]:
    """Yield the articles of a version without `--json`: a start tag, the title, a blank line, HTML text, an end tag."""
    found, text = _ExtractedArticle(""), list[str]()
    for line in (line.decode("utf-8", "replace").rstrip("\n") for line in lines):
        if begun := _ARTICLE.fullmatch(line):
            found, text = _ExtractedArticle(*begun.groups()), []
        elif line == "</doc>":
            found.text = html.unescape("\n".join(text[2:]))
            yield found
        else:
            text.append(line)


def _document(line: _ExtractedArticle, source: str) -> Document | Reject:
    identity, text = f"{source}:{line.id}", "\n".join(part for part in line.text.split("\n") if part.strip())
    if not text:
        return Reject(identity, line.title, "reader.wikipedia", "empty")
    return Document(identity, source, line.title, line.url, text, meta={"page": line.id})


@cache
def program_version() -> str:
    """Return the version line of the program."""
    answer = subprocess.run([_program(), "--version"], capture_output=True, text=True, check=False)
    return (answer.stdout or answer.stderr).strip()


@cache
def _writes_json() -> bool:
    """Return whether the program has the option `--json`, which 3.0.4 lacks."""
    answer = subprocess.run([_program(), "--help"], capture_output=True, text=True, check=False)
    return "--json" in answer.stdout or answer.returncode != 0


def _program() -> str:
    if found := shutil.which(_PROGRAM):
        return found
    fix = "run `pip install wikiextractor==3.1.0` in a separate environment, or set extractor = 'jprep'"
    raise MachineError("the program wikiextractor is not on PATH", where='extractor = "wikiextractor"', fix=fix)
