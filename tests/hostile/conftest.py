"""Hostile and damaged inputs, and the promises that hold for each run on one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import msgspec
import pytest

from jprep.corpus.store import Manifest, read_manifest
from tests.benchmarks.measure import Run, run
from tests.command_server import CommandServer
from tests.conftest import COMMAND, environment

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="ja">
  <siteinfo>
    <base>https://example.org/wiki/Main</base>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="10" case="first-letter">Template</namespace>
    </namespaces>
  </siteinfo>
"""
PAGE = """  <page>
    <title>{title}</title>
    <ns>{namespace}</ns>
    <id>{number}</id>
    <revision>
      <id>{number}</id>
      <timestamp>2024-01-01T00:00:00Z</timestamp>
      <model>wikitext</model>
      <text xml:space="preserve">{text}</text>
    </revision>
  </page>
"""


def page(number: int, text: str, title: str = "", namespace: object = 0) -> str:
    """One page's XML."""
    return PAGE.format(title=escape(title or f"項目{number}"), namespace=namespace, number=number, text=escape(text))


def article(number: int, lines: int = 20) -> str:
    """A page's text, unlike any other page's."""
    line = "'''第{}項'''の{}行目は[[町]]の{}番地を語る。"
    return "\n\n".join(line.format(number, i, number * 7919 + i * 31) for i in range(lines))


def dump(texts: Iterable[str]) -> bytes:
    """A whole export of some pages."""
    pages = "".join(page(number, text) for number, text in enumerate(texts, 1))
    return f"{HEAD}{pages}</mediawiki>\n".encode()


Command = Callable[[Sequence[str]], Run]


class Attempt:
    """One build, ended: what it said, and what it left.

    Args:
        folder: the corpus's.
        ended: how the command ended.
        command: runs another command.
    """

    def __init__(self, folder: Path, ended: Run, command: Command = run) -> None:
        self.folder, self.run, self._command = folder, ended, command

    @property
    def manifest(self) -> Manifest:
        return read_manifest(self.folder)

    def documents(self) -> list[dict[str, Any]]:
        """All documents, as the command exports them."""
        out = self._command([COMMAND, "corpus", "export", str(self.folder), "--format", "jsonl"]).out
        return [msgspec.json.decode(line) for line in out.split("\n") if line]

    def texts(self) -> list[str]:
        return [document["text"] for document in self.documents()]

    def receipts(self) -> list[Any]:
        """What is committed of the first stage."""
        found = sorted(self.folder.glob(".state/documents/receipts/*.json"))
        return [msgspec.json.decode(path.read_bytes()) for path in found]

    def assert_committed_stands(self, least: int) -> None:
        """At least so many tasks are committed, and all their files are there."""
        receipts = self.receipts()
        assert len(receipts) >= least
        for output in (output for receipt in receipts for output in receipt["outputs"]):
            assert (self.folder / output["path"]).exists()


def assert_in_order(said: Attempt, code: int, says: Iterable[str], *, stands: bool = False) -> None:
    """What holds after each run, whatever happened; `stands`: an earlier run had finished the corpus."""
    ended = said.run
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    if said.folder.is_dir():
        assert not list(said.folder.rglob("*.tmp-*"))
        assert (said.folder / "corpus.json").exists() == (code == 0 or stands)
    if code:
        assert ended.err.startswith("jprep: ")
        assert "where: " in ended.err
        assert "fix: " in ended.err
    for part in says:
        assert part in ended.err


Build = Callable[..., Attempt]


@pytest.fixture
def build(tmp_path: Path, command_server: CommandServer) -> Build:
    """Builds a corpus without words; `build("--text", path, code=4, says=["byte 3"], more=["--restart"])`.

    `measured` fills in the memory and the time that it took.
    """

    def plain(command: Sequence[str]) -> Run:
        done = command_server.run(command, env=environment())
        out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        return Run(done.returncode, out, err, 0.0, {})

    def attempt(
        option: str,
        path: Path,
        *,
        code: int = 0,
        says: Iterable[str] = (),
        more: Iterable[str] = (),
        workers: int = 1,
        folder: Path | None = None,
        stands: bool = False,
        measured: bool = False,
    ) -> Attempt:
        out = folder or tmp_path / "corpus"
        command = [COMMAND, "corpus", "build", option, str(path), "--segmenter", "none", "-o", str(out)]
        command += ["--workers", str(workers), *more]
        done = Attempt(out, run(command, env=environment()) if measured else plain(command), plain)
        assert_in_order(done, code, says, stands=stands)
        return done

    return attempt


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str, bytes], Path]:
    """Writes an input."""

    def write(name: str, data: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


Put = Callable[[str, bytes], Path]


def reader(name: str, **options: object) -> list[str]:
    """The command's options that set a reader's."""
    pairs = "".join(f", {key} = {msgspec.json.encode(value).decode()}" for key, value in options.items())
    return ["--set", f'corpus.sources.0.reader={{use = "{name}"{pairs}}}']


ROOM = "512m"
"""Of a file system of its own."""

Resize = Callable[[str], None]


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Path, Resize]]:
    """A file system of its own, and what changes its size."""
    if sys.platform != "linux":
        pytest.skip("tmpfs is Linux's")
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        mount("-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"may not mount a tmpfs here: {getattr(error, 'stderr', error)!r}")
    yield folder, lambda size: mount("-o", f"remount,size={size}", str(folder))
    subprocess.run(["umount", "-l", str(folder)], check=True)
