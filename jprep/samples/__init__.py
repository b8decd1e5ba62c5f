"""A small encyclopedia and a small web crawl to try and test jprep with.

All text was written for jprep; towns, people and books are fictional. A page is a file in `pages/`: a header of
`key: value` lines (`title`, `id`, and optionally `ns`, `redirect`, `user` or `ip`, `comment`, `minor`), a line `---`,
and its wikitext. `write_dump` writes the pages as a Wikimedia dump; `write_sample` adds the crawl and a recipe.
"""

from __future__ import annotations

import bz2
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from xml.sax.saxutils import escape

import msgspec

from jprep.errors import ConfigError
from jprep.io.atomic import write_atomic

DUMP = "sample-pages-articles-multistream.xml.bz2"
INDEX = "sample-pages-articles-multistream-index.txt.bz2"
CRAWL = "cc100.txt"
RECIPE = "recipe.toml"

PAGES_PER_STREAM = 8
"""Wikimedia has 100 pages per stream; the sample of 32 pages has several streams."""

NAMESPACES = {
    -2: "メディア", -1: "特別", 0: "", 1: "ノート", 2: "利用者", 3: "利用者‐会話",
    4: "Wikipedia", 5: "Wikipedia‐ノート", 6: "ファイル", 7: "ファイル‐ノート", 8: "MediaWiki", 9: "MediaWiki‐ノート",
    10: "Template", 11: "Template‐ノート", 12: "Help", 13: "Help‐ノート", 14: "Category", 15: "Category‐ノート",
    100: "Portal", 101: "Portal‐ノート", 102: "プロジェクト", 103: "プロジェクト‐ノート",
    828: "モジュール", 829: "モジュール‐ノート",
}  # fmt: skip
"""The namespaces of the Japanese Wikipedia."""


class SamplePage(msgspec.Struct, frozen=True):
    """A page; `redirect` is the title of the target, or "" for an article."""

    title: str
    id: int
    text: str
    ns: int = 0
    redirect: str = ""
    user: str = ""
    ip: str = ""
    comment: str = ""
    minor: bool = False


def pages() -> Iterator[SamplePage]:
    """Yield the pages in the order of their ids."""
    sources = (each for each in files(__name__).joinpath("pages").iterdir() if each.name.endswith(".wiki"))
    for source in sorted(sources, key=lambda each: each.name):
        head, _, text = source.read_text(encoding="utf-8").partition("\n---\n")
        values = dict(line.split(": ", 1) for line in head.splitlines())
        minor = values.pop("minor", "") == "yes"
        yield msgspec.convert({**values, "minor": minor, "text": text.rstrip()}, SamplePage, strict=False)


def dump_bytes() -> bytes:
    """Return the dump that `write_dump` writes."""
    return _dump()[DUMP]


def crawl_bytes() -> bytes:
    """Return the crawl, in the format of CC-100."""
    return files(__name__).joinpath(CRAWL).read_bytes()


def write_dump(folder: Path) -> Path:
    """Write the pages as a multistream dump with its index, deterministically; return the dump's path.

    The dump is a stream with the header, streams of eight pages each, and a stream with the footer. A line of the index
    is `offset:id:title`, where offset is the first byte of the page's stream.

    Raises:
        ConfigError: the directory has a different file of one of these names.
        MachineError: it cannot be written.
    """
    _write(folder, _dump())
    return folder / DUMP


def write_sample(folder: Path) -> Path:
    """Write the dump with its index, the crawl, and a recipe that reads both; return the recipe's path.

    Raises:
        ConfigError: the directory has a different file of one of these names.
        MachineError: it cannot be written.
    """
    _write(folder, {RECIPE: files(__name__).joinpath(RECIPE).read_bytes(), CRAWL: crawl_bytes()} | _dump())
    return folder / RECIPE


def _dump() -> dict[str, bytes]:
    """Return the dump's files by name."""
    streams, index = bytearray(_stream(_header())), []
    for group in _groups(list(pages())):
        index += [f"{len(streams)}:{page.id}:{_escape(page.title)}\n" for page in group]
        streams += _stream("".join(_page_xml(page) for page in group))
    streams += _stream("</mediawiki>\n")
    return {DUMP: bytes(streams), INDEX: _stream("".join(index))}


def _write(folder: Path, contents: dict[str, bytes]) -> None:
    """Write files that do not exist yet; none is overwritten."""
    for name, content in contents.items():
        path = folder / name
        if path.is_symlink() or (path.exists() and (not path.is_file() or path.read_bytes() != content)):
            fix = "choose another directory, or move the file away"
            raise ConfigError("another file of this name would be overwritten", where=str(path), fix=fix)
    for name, content in contents.items():
        if not (folder / name).exists():
            write_atomic(folder / name, content)


def _groups(items: list[SamplePage]) -> Iterator[list[SamplePage]]:
    for start in range(0, len(items), PAGES_PER_STREAM):
        yield items[start : start + PAGES_PER_STREAM]


def _stream(text: str) -> bytes:
    return bz2.compress(text.encode())


def _escape(text: str) -> str:
    return escape(text, {'"': "&quot;"})


def _header() -> str:
    schema = "http://www.mediawiki.org/xml/export-0.11"
    space = '      <namespace key="{}" case="first-letter"'
    names = (space.format(key) + (f">{name}</namespace>\n" if name else " />\n") for key, name in NAMESPACES.items())
    return (
        f'<mediawiki xmlns="{schema}/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        f' xsi:schemaLocation="{schema}/ {schema}.xsd" version="0.11" xml:lang="ja">\n'
        "  <siteinfo>\n    <sitename>見本百科</sitename>\n    <dbname>samplewiki</dbname>\n"
        "    <base>https://example.org/wiki/%E3%83%A1%E3%82%A4%E3%83%B3%E3%83%9A%E3%83%BC%E3%82%B8</base>\n"
        "    <generator>jprep.samples</generator>\n    <case>first-letter</case>\n"
        f"    <namespaces>\n{''.join(names)}    </namespaces>\n  </siteinfo>\n"
    )


def _page_xml(page: SamplePage) -> str:
    lines = [f"<title>{_escape(page.title)}</title>", f"<ns>{page.ns}</ns>", f"<id>{page.id}</id>"]
    if page.redirect:
        lines.append(f'<redirect title="{_escape(page.redirect)}" />')
    head = "".join(f"    {line}\n" for line in lines)
    body = "".join(f"      {line}\n" for line in _revision(page))
    return f"  <page>\n{head}    <revision>\n{body}    </revision>\n  </page>\n"


def _revision(page: SamplePage) -> Iterator[str]:
    """Yield the lines of a revision; its number and time are derived from the page's id."""
    number, size, digest = 90_000_000 + 37 * page.id, len(page.text.encode()), _sha1_36(page.text)
    yield f"<id>{number}</id>"
    if page.id % 4:
        yield f"<parentid>{number - 20}</parentid>"
    yield f"<timestamp>2024-05-{1 + page.id % 28:02}T{page.id % 24:02}:{page.id % 60:02}:00Z</timestamp>"
    yield from ("<contributor>", *(f"  {line}" for line in _contributor(page)), "</contributor>")
    if page.minor:
        yield "<minor />"
    if page.comment:
        yield f"<comment>{_escape(page.comment)}</comment>"
    yield from (f"<origin>{number}</origin>", "<model>wikitext</model>", "<format>text/x-wiki</format>")
    rest = f' xml:space="preserve">{_escape(page.text)}</text>' if page.text else " />"
    yield f'<text bytes="{size}" sha1="{digest}"{rest}'
    yield f"<sha1>{digest}</sha1>"


def _contributor(page: SamplePage) -> list[str]:
    return [f"<ip>{page.ip}</ip>"] if page.ip else [f"<username>{_escape(page.user)}</username>", f"<id>{page.id}</id>"]


def _sha1_36(text: str) -> str:
    """Return a SHA-1 as MediaWiki writes it: in base 36, with 31 digits."""
    number = int.from_bytes(hashlib.sha1(text.encode(), usedforsecurity=False).digest(), "big")
    digits = ""
    for _ in range(31):
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits
