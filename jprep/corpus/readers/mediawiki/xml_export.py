"""Read MediaWiki's XML export format, versions 0.3 to 0.11: the head, and the pages of any part of a dump.

The format is described at https://www.mediawiki.org/wiki/Help:Export#Export_format. Since text is escaped, `<page>` is
always the element, so a part of a dump can be parsed from its first `<page>` on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from xml.parsers import expat

import msgspec

from jprep.errors import InputError, Setting, TruncatedError
from jprep.io.inputs.limits import DOWNLOAD_AGAIN, MIB

PAGE_TAG = b"<page>"
_REVISION = b"<revision>"
_ROOT = b"<mediawiki>"
_HEAD_LIMIT = MIB
_TAG_LIMIT = MIB  # bytes of one tag or comment, which expat keeps in memory and parses again with each chunk
_DEPTH_LIMIT = 100  # nested elements; MediaWiki's exports have five


class Page(msgspec.Struct):
    """One page with its newest revision in the export.

    Attributes:
        title: title of the page.
        id: page number.
        namespace: number of the namespace, or None if the export does not contain it.
        redirect: target of the redirect, or None.
        revision: number of the revision.
        timestamp: time of the revision.
        model: content model, `wikitext` for articles.
        text: wikitext of the page, or None if the revision was deleted.
    """

    title: str = ""
    id: str = ""
    namespace: int | None = None
    redirect: str | None = None
    revision: str = ""
    timestamp: str = ""
    model: str = "wikitext"
    text: str | None = None


class SiteInfo(msgspec.Struct, frozen=True):
    """The head of an export.

    Attributes:
        version: version of the format, e.g. `0.11`.
        base: URL of the main page.
        namespaces: namespace numbers by local name.
    """

    version: str
    base: str
    namespaces: dict[str, int]

    @property
    def prefixes(self) -> dict[str, int]:
        """Namespace numbers by the prefix of a title, in lower case."""
        return {name.lower(): number for name, number in self.namespaces.items() if name}


def read_site_info(chunks: Iterator[bytes], path: str) -> tuple[SiteInfo, bytes]:
    """Read an export up to its first page.

    Returns:
        The head of the export, and all bytes read.

    Raises:
        InputError: not a MediaWiki export, or an export that defines entities.
    """
    data = b""
    for chunk in chunks:
        data += chunk
        if PAGE_TAG in data or len(data) > _HEAD_LIMIT:
            break
    if not data:
        raise InputError("the file is empty", where=path, fix=DOWNLOAD_AGAIN)
    head = data.partition(PAGE_TAG)[0]
    if b"<mediawiki" not in head and PAGE_TAG not in data:
        fix = "give a pages-articles or pages-meta-history dump, or a file from Special:Export"
        raise InputError("this is not a MediaWiki export", where=path, fix=fix)
    return _parse_head(head, path), data


def _parse_head(head: bytes, path: str) -> SiteInfo:
    names: dict[str, int] = {}
    found = {"version": "", "base": ""}
    text: list[str] = []
    keys: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        text.clear()
        if name == "mediawiki":
            found["version"] = attributes.get("version", "")
        elif name == "namespace":
            keys.append(attributes.get("key", "0"))

    def end(name: str) -> None:
        if name == "base":
            found["base"] = "".join(text)
        elif name == "namespace":
            names["".join(text)] = _number(keys.pop(), path)

    parser = _parser(path)
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text.append
    try:
        parser.Parse(head, False)
    except expat.ExpatError as error:
        raise _malformed(expat.ErrorString(error.code), path, 0) from error
    return SiteInfo(found["version"], found["base"], names)


class PageParser:
    """Parses a part of an export, fed in chunks, the first of which begins at a `<page>`.

    Args:
        path: path of the export, for errors.
        max_bytes: maximum size of a revision.
    """

    def __init__(self, path: str, max_bytes: int) -> None:
        self._path, self._max_bytes = path, max_bytes
        self._fed = self._size = 0
        self._done: list[Page] = []
        self._page, self._revision = Page(), Page()
        self._text: list[str] | None = None
        self._open: list[str] = []
        self._parser = _parser(path)
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._start, self._end
        self.feed(_ROOT)

    @property
    def inside_page(self) -> bool:
        """Whether the parser is inside a page."""
        return len(self._open) > 1

    @property
    def title(self) -> str:
        """Title of the last page that began."""
        return self._page.title

    def feed(self, data: bytes) -> list[Page]:
        """Parse some bytes, and return the pages completed by them.

        Raises:
            InputError: malformed XML, invalid UTF-8, an unknown entity, or a tag or page that is too large.
        """
        try:
            self._parser.Parse(data, False)
        except expat.ExpatError as error:
            raise self._malformed(expat.ErrorString(error.code), self._parser.ErrorByteIndex) from error
        self._fed += len(data)
        if self._fed - self._parser.CurrentByteIndex > _TAG_LIMIT:
            raise self._malformed(f"a tag or comment is larger than {_TAG_LIMIT // MIB} MiB", self._fed)
        self._size = self._size + len(data) if self._text is not None else 0
        if self._size > self._max_bytes:
            raise _too_large(self._max_bytes, self._path)
        done, self._done = self._done, []
        return done

    def _malformed(self, what: str, at: int) -> InputError:
        return _malformed(what, self._path, at - len(_ROOT))

    def close(self) -> None:
        """Release expat's parser, which uses megabytes and forms a reference cycle with this object."""
        del self._parser

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._open.append(name)
        if len(self._open) > _DEPTH_LIMIT:
            raise self._malformed(f"elements are nested {len(self._open)} deep", self._parser.CurrentByteIndex)
        if name == "page":
            self._page = Page()
        elif name == "revision":
            self._revision = Page()
        elif name == "redirect":
            self._page.redirect = attributes.get("title", "")
        elif name in _FIELDS and self._open[-2] in _PARENTS and not (name == "text" and "deleted" in attributes):
            self._text, self._size = [], 0
            self._parser.CharacterDataHandler = self._text.append

    def _end(self, name: str) -> None:
        self._open.pop()
        if self._text is not None:
            if name == "ns":
                self._page.namespace = _number("".join(self._text), self._path)
            elif name in _FIELDS:
                owner = self._page if self._open[-1] == "page" else self._revision
                setattr(owner, _FIELDS[name], "".join(self._text))
            self._text = None
            self._parser.CharacterDataHandler = None
        elif name == "revision":
            self._take_newer()
        elif name == "page":
            self._done.append(self._page)

    def _take_newer(self) -> None:
        """Keep the newer of two revisions. Most exports are ordered from old to new, but not all."""
        page, revision = self._page, self._revision
        if revision.timestamp >= page.timestamp:
            page.revision, page.timestamp = revision.id, revision.timestamp
            page.model, page.text = revision.model, revision.text


_FIELDS = {"title": "title", "id": "id", "ns": "namespace", "timestamp": "timestamp", "model": "model", "text": "text"}
_PARENTS = ("page", "revision")


def parse_pages(chunks: Iterator[tuple[bytes, bool]], path: str, max_bytes: int) -> Iterator[Page]:
    """Yield the pages that begin in a part of an export.

    Args:
        chunks: the bytes of the part, each with True, followed by the rest of the file, each with False, since the last
            page may end there.
        path: path of the export, for errors.
        max_bytes: maximum size of a page.

    Raises:
        InputError: malformed XML, or a page larger than `max_bytes`.
        TruncatedError: the file ends inside the last page.
    """
    parser = PageParser(path, max_bytes)
    with contextlib.closing(parser):
        for chunk in _from_first_to_last(chunks):
            yield from parser.feed(chunk)
        if parser.inside_page:
            where = f"{path}, in the page {parser.title!r}"
            raise TruncatedError("the file ends in the middle of a page", where=where, fix=DOWNLOAD_AGAIN)


def _from_first_to_last(chunks: Iterator[tuple[bytes, bool]]) -> Iterator[bytes]:
    """Yield the bytes from the first `<page>` of the part to the first one after it."""
    held, begun, was_inside = b"", False, True
    for chunk, inside in chunks:
        data = held + chunk
        if inside and not begun:
            begun = PAGE_TAG in data
            data = data[data.find(PAGE_TAG) :] if begun else data
        if not inside:
            if was_inside and held and len(data) < len(PAGE_TAG):
                held = data  # too few bytes to decide whether a tag crosses the border
                continue
            # A tag that crosses the border began inside: its page is the last one of the part.
            crosses_border = was_inside and bool(held) and data.startswith(PAGE_TAG)
            begun, was_inside = begun or crosses_border, False
            next_page = data.find(PAGE_TAG, int(crosses_border))
            if next_page >= 0 or not begun:
                yield from [data[:next_page]] * begun
                return
        whole = len(data) - _partial_tag(data)
        held = data[whole:]
        if begun:
            yield data[:whole]
    yield from [held] * begun


def split_at_pages(chunks: Iterator[bytes], size: int, max_bytes: int, path: str, fix: str = "") -> Iterator[bytes]:
    """Split an export, read from its beginning, into chunks of about `size` bytes that begin at pages.

    A page larger than that (a long history) keeps only its last revision. Time is linear in the input.

    Args:
        chunks: the bytes of the export, from the first page on.
        size: approximate size of the chunks.
        max_bytes: maximum size of a page.
        path: path of the export, for errors.
        fix: what to do about a page that is too large; by default, to raise the reader's limit.

    Raises:
        InputError: a page is larger than `max_bytes`.
    """
    held = _PageBuffer()
    for chunk in chunks:
        held.add(chunk)
        if held.size < size:
            continue
        if piece := held.take_whole_pages():
            yield piece
        elif held.drop_older_revisions() > max_bytes:
            raise _too_large(max_bytes, path, fix)
    yield held.take_all()


class _PageBuffer:
    """Bytes of an export that were read but not returned yet. Tags are searched only in newly added bytes."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._last_page = -1
        self._first_revision = self._last_revision = -1

    @property
    def size(self) -> int:
        return len(self._data)

    def add(self, chunk: bytes) -> None:
        seen = len(self._data)
        self._data += chunk
        self._find_tags(seen)

    def _find_tags(self, seen: int) -> None:
        """Find the tags that end after the offset `seen`."""
        self._last_page = max(self._last_page, self._data.rfind(PAGE_TAG, max(0, seen - len(PAGE_TAG) + 1)))
        start = max(0, seen - len(_REVISION) + 1)
        if self._first_revision < 0:
            self._first_revision = self._data.find(_REVISION, start)
        self._last_revision = max(self._last_revision, self._data.rfind(_REVISION, start))

    def take_whole_pages(self) -> bytes:
        """Return the bytes before the last page that began; nothing if that is the only page."""
        if self._last_page <= 0:
            return b""
        piece = bytes(memoryview(self._data)[: self._last_page])
        del self._data[: self._last_page]
        self._last_page = self._first_revision = self._last_revision = -1
        self._find_tags(0)
        return piece

    def drop_older_revisions(self) -> int:
        """Delete the bytes from the first `<revision>` to the last one, and return the remaining size."""
        del self._data[self._first_revision : self._last_revision]
        self._last_revision = self._first_revision
        return len(self._data)

    def take_all(self) -> bytes:
        return bytes(self._data)


def _partial_tag(data: bytes) -> int:
    """Return how many bytes at the end could be the beginning of `<page>`."""
    return next((n for n in range(len(PAGE_TAG) - 1, 0, -1) if data.endswith(PAGE_TAG[:n])), 0)


def _too_large(max_bytes: int, path: str, fix: str = "") -> InputError:
    what = f"a page is larger than {max_bytes // MIB} MiB"
    if fix:
        return InputError(what, where=path, fix=fix)
    fix = "if the page is valid, raise the reader's `max_page_mb`"
    return InputError(what, where=path, fix=fix, setting=Setting("max_page_mb"))


def _parser(path: str) -> Any:
    parser = expat.ParserCreate("UTF-8")
    parser.buffer_text = True
    parser.buffer_size = 1 << 16
    if hasattr(parser, "SetReparseDeferralEnabled"):  # newer versions of expat delay incomplete tokens
        parser.SetReparseDeferralEnabled(False)

    def refuse(*_: object) -> None:
        fix = "MediaWiki does not write any: download the dump from a trusted mirror"
        raise InputError("the XML has a document type declaration, which can hold an entity bomb", where=path, fix=fix)

    parser.StartDoctypeDeclHandler = refuse
    return parser


def _number(text: str, path: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"invalid namespace number {text[:40]!r}", where=path, fix=DOWNLOAD_AGAIN) from error


def _malformed(what: str, path: str, offset: int) -> InputError:
    where = f"{path}, byte {offset:,} after the start of this shard"
    return InputError(f"malformed XML ({what})", where=where, fix=DOWNLOAD_AGAIN)
