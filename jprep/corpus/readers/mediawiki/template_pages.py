"""Collect the pages of the template namespace of dumps, for the option `template_pages` of the extractor."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from jprep.corpus.document import Tally
from jprep.corpus.readers.mediawiki.articles import redirect_target
from jprep.corpus.readers.mediawiki.xml_export import (
    PAGE_TAG,
    Page,
    SiteInfo,
    parse_pages,
    read_site_info,
    split_at_pages,
)
from jprep.corpus.readers.wikitext.templating.definitions import canonical_name
from jprep.corpus.readers.wikitext.transclusion.inclusion import transcluded_part
from jprep.corpus.readers.wikitext.transclusion.limits import MAX_SIZE
from jprep.corpus.readers.wikitext.transclusion.page_file import TemplatePage, write_template_pages
from jprep.engine.output_paths import check_new_file
from jprep.errors import ConfigError, InputError
from jprep.io.hashing import cached_sha256
from jprep.io.inputs.limits import MIB
from jprep.io.inputs.streams import open_input

_TEMPLATE = 10
_PAGE_END = b"</page>"
_NAMESPACE_TAG = b"<ns>%d</ns>" % _TEMPLATE
_FIRST_WITH_TAG = (0, 5)
"""The first version of the export format that has the number of a page's namespace."""

_MAX_PAGE = 256 * MIB
_SMALLER = "leave the page out of the dump"
_STANDARD = ("template", "テンプレート")


def collect_templates(dumps: Sequence[Path], output: Path, *, force: bool, report: Callable[[str], None]) -> Tally:
    """Write the template pages of dumps to one file. Of two pages with one name, the newer one is kept.

    Args:
        dumps: MediaWiki exports, compressed or not.
        output: the file to write.
        force: whether it may replace an existing one.
        report: receives the number of pages from time to time.

    Returns:
        The number of `pages`, `redirects` and pages that are `too_large` to be expanded.

    Raises:
        ConfigError: the output exists or cannot be a file, or an input is not a regular file: inputs are hashed first.
        InputError: an input is not an export, is damaged, or has no template.
    """
    check_new_file(output, force=force)
    tally = Tally()
    inputs = [{"file": dump.name, "sha256": _hash(dump)} for dump in dumps]
    pages = itertools.chain.from_iterable(_templates(str(dump), tally, report) for dump in dumps)
    write_template_pages(output, _refuse_none(pages, dumps), {"inputs": msgspec.json.encode(inputs).decode()})
    return tally


def _hash(dump: Path) -> str:
    if not dump.is_file():
        raise ConfigError("expected a file, got a pipe or device", where=str(dump), fix="write it to a file first")
    return cached_sha256(dump)


def _refuse_none(pages: Iterator[TemplatePage], dumps: Sequence[Path]) -> Iterator[TemplatePage]:
    first = next(pages, None)
    if first is None:
        where, fix = ", ".join(map(str, dumps)), "use a dump with templates: pages-articles, or pages-meta-current"
        raise InputError("there is no page of the template namespace", where=where, fix=fix)
    yield first
    yield from pages


def _templates(path: str, tally: Tally, report: Callable[[str], None]) -> Iterator[TemplatePage]:
    with open_input(path) as file:
        chunks = iter(lambda: file.read1(MIB), b"")
        head, begun = read_site_info(chunks, path)
        names = {name for name, number in head.prefixes.items() if number == _TEMPLATE}.union(_STANDARD)
        for piece in split_at_pages(itertools.chain([begun], chunks), MIB, _MAX_PAGE, path, _SMALLER):
            wanted = _wanted(piece, head)
            for page in parse_pages(iter([(wanted, True)]), path, _MAX_PAGE) if wanted else ():
                if found := _template(page, names, tally):
                    yield found
            report(f"{tally['pages']:,} templates and {tally['redirects']:,} redirects")


def _wanted(piece: bytes, head: SiteInfo) -> bytes:
    """Return the pages of a piece that can be templates; parsing only these takes a tenth of the time.

    A page without an end is kept, so that its parser reports a truncated file.
    """
    if not _has_namespaces(head.version):
        return piece
    pages = piece.split(PAGE_TAG)[1:]
    return b"".join(PAGE_TAG + page for page in pages if _NAMESPACE_TAG in page or _PAGE_END not in page)


def _has_namespaces(version: str) -> bool:
    """Return whether the pages of an export of this version (0.10) have the number of their namespace."""
    major, _, minor = version.partition(".")
    return major.isdecimal() and minor.isdecimal() and (int(major), int(minor)) >= _FIRST_WITH_TAG


def _template(page: Page, namespaces: set[str], tally: Tally) -> TemplatePage | None:
    """Return a page as it is stored, or None if it is not a template that can be expanded."""
    prefix, _, title = page.title.partition(":")
    if page.namespace not in (None, _TEMPLATE) or prefix.lower() not in namespaces or page.model != "wikitext":
        return None
    target = redirect_target(page)
    if target:
        tally["redirects"] += 1
        return TemplatePage(canonical_name(title), _stored_target(target, namespaces), "", page.timestamp)
    text = page.text or ""
    if len(text) > MAX_SIZE:
        tally["too_large"] += 1
        return None
    tally["pages"] += 1
    return TemplatePage(canonical_name(title), "", transcluded_part(text), page.timestamp)


def _stored_target(target: str, namespaces: set[str]) -> str:
    """Return the name of the template that a title means, or `:` and the title of a page of another namespace."""
    title = re.split(r"[#|]", target, maxsplit=1)[0].strip().removeprefix(":")
    prefix, _, name = title.partition(":")
    return canonical_name(name) if prefix.strip().lower() in namespaces else f":{title}"
