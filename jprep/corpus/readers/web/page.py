"""Extract title, main text, address and licence from the HTML of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from types import ModuleType
from typing import Any

import msgspec

from jprep.corpus.readers.web.corrections import keep_lists, keep_names_and_dates, keep_notes, mark_lone_characters
from jprep.libraries import import_library

MAX_DEPTH = 512
"""Elements that may be nested in each other, as in browsers. The time of extractors grows with the square of it."""

_DEEPER = ">".join(["*"] * (MAX_DEPTH + 1))
_MAX_COPIES = 1_000_000
_MAX_UNCLOSED = 50
_NAMES = "b|big|code|em|font|i|s|small|strike|strong|tt|u"
_FORMAT = re.compile(rf"<(?:{_NAMES})(?=[\s/>])[^>]*>", re.IGNORECASE)
_FORMAT_END = re.compile(rf"</(?:{_NAMES})(?=[\s/>])", re.IGNORECASE)

_WIDE = re.compile("[\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff01-\uff9f]")
_BREAK = re.compile(r"\n[ \t\r\n\f]*+")  # the white space of HTML; U+3000 is a character of the text
_RAW_NAMES = ("pre", "textarea", "script", "style", "listing", "xmp", "plaintext")
_RAW = re.compile(rf"<({'|'.join(_RAW_NAMES)})(?=[\s/>])", re.IGNORECASE)
_RAW_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _RAW_NAMES}
# A line of preformatted text begins after the tag of its element, a line break or `<br>`; more tags may follow.
_INDENTATION = re.compile(r"((?:\A[^>]*+>|\n|<br\b[^<>]*+>)(?:<(?!br\b)[^<>]*+>)*+)([ \t]++)|<[^<>]*+>", re.IGNORECASE)
_MARKS = "\u2800\u2801"  # Braille: stand for spaces and tabs, which extractors remove
_BRAILLE = re.compile("&#(?:x0*+280[01]|0*+1024[01])", re.IGNORECASE)
_MARKED, _UNMARKED = str.maketrans(" \t", _MARKS), str.maketrans(_MARKS, " \t")
_CONTROL_REFERENCE = re.compile(
    r"&#(?:0*+(?:[0-8]|1[124-9]|2\d|3[01])(?!\d)|x0*+(?:[0-8bcef]|1[0-9a-f])(?![0-9a-f]));?", re.IGNORECASE
)
_ADDRESS = re.compile(r"https?://[^\s\x00-\x1f\x7f]{1,2000}", re.IGNORECASE)
_RUBY = ("rt", "rp", "rtc")


class Page(msgspec.Struct):
    """What was extracted from a page.

    Attributes:
        text: the main text, one paragraph per line.
        title: the title.
        url: the canonical address that the page names, or "".
        licence: the address of the licence that the page names, or "".
        ruby: readings of characters that were left out.
        joined: line breaks between Japanese characters that were removed.
        fault: "", "too_deep", or, if the extractor failed, "not_extracted".
    """

    text: str = ""
    title: str = ""
    url: str = ""
    licence: str = ""
    ruby: int = 0
    joined: int = 0
    fault: str = ""


def import_web(name: str) -> ModuleType:
    """Import a library of the extra `web`.

    Raises:
        MachineError: it cannot be imported.
    """
    module: ModuleType = import_library(name, f"web pages need {name.partition('.')[0]}", "'jprep[web]'")
    return module


def library_versions(extractor: str, *more: str) -> dict[str, str]:
    """Return the versions of the libraries that the text depends on: those of an extractor, and more.

    Raises:
        MachineError: one of them cannot be imported.
    """
    names = ["resiliparse", *more] + (["trafilatura", "lxml"] if extractor == "trafilatura" else [])
    for name in names:
        import_web(name)
    return {name: version(name) for name in names}


def extract_page(html: str, extractor: str = "resiliparse") -> Page:
    """Extract the main text of a page.

    Args:
        html: the page.
        extractor: `resiliparse` or `trafilatura`.

    Raises:
        MachineError: a library is missing.
    """
    if _multiplies(html):
        return Page(fault="too_deep")
    html, joined = join_lines(html)
    indented = mark_indentation(html)
    is_marked, html = indented != html, indented
    companion = ""
    if extractor == "resiliparse":
        html, companion = mark_lone_characters(keep_names_and_dates(html))
    tree = import_web("resiliparse.parse.html").HTMLTree.parse(html)
    if html.count("<") > MAX_DEPTH and tree.document.query_selector(_DEEPER) is not None:
        return Page(fault="too_deep")
    if extractor == "resiliparse":
        keep_notes(tree)
        keep_lists(tree)
    text = _EXTRACTORS[extractor](html, tree).replace(companion, "")
    lines = [line for line in map(_stripped, text.split("\n")) if line]
    if is_marked:
        lines = [line for marked in lines if not (line := marked.translate(_UNMARKED)).isspace()]
    return Page(
        text="\n".join(lines),
        title=" ".join((tree.title or "").replace(companion, "").split()),
        url=_address(tree, 'link[rel~="canonical"]'),
        licence=_address(tree, '[rel~="license"]'),
        ruby=len(tree.document.query_selector_all("rt")) if "<rt" in html or "<RT" in html else 0,
        joined=joined,
    )


def join_lines(html: str) -> tuple[str, int]:
    """Remove line breaks between Japanese characters, which are not spaces there, as CSS has it. Return their number.

    A browser shows the line break in 「長い道を歩いて\\nいた人」 as nothing; extractors make a space of it.
    """
    parts, joined, at = list[str](), 0, 0
    for begin, end in _running_text(html):
        for found in _BREAK.finditer(html, begin, end):
            left, right = found.span()
            while left > begin and html[left - 1] in " \t\r\f":
                left -= 1
            if begin < left and right < end and _WIDE.match(html, left - 1) and _WIDE.match(html, right):
                parts.append(html[at:left])
                at, joined = right, joined + 1
    parts.append(html[at:])
    return "".join(parts), joined


def mark_indentation(html: str) -> str:
    """Mark the white space at the beginning of the lines of preformatted text, as in code.

    A page that has these characters of Braille is returned as it is: they could not be told from marks.
    """
    if any(mark in html for mark in _MARKS) or _BRAILLE.search(html):
        return html
    parts, at = list[str](), 0
    for name, begin, end in _raw_text(html):
        if name == "pre":
            marked = _INDENTATION.sub(_marked, html[begin:end])
            parts += html[at:begin], marked
            at = end
    return "".join([*parts, html[at:]])


def _marked(found: re.Match[str]) -> str:
    return found[1] + found[2].translate(_MARKED) if found[2] else found[0]


def _running_text(html: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the stretches in which white space is not as it stands."""
    at = 0
    for _, begin, end in _raw_text(html):
        yield at, begin
        at = end
    yield at, len(html)


def _raw_text(html: str) -> Iterator[tuple[str, int, int]]:
    """Yield name, begin and end of the elements in which white space is as it stands."""
    at = 0
    while raw := _RAW.search(html, at):
        name = raw[1].lower()
        end = _RAW_ENDS[name].search(html, raw.end())
        at = end.end() if end else len(html)
        yield name, raw.start(), at


def _multiplies(html: str) -> bool:
    """Return whether unclosed formatting would make the parser copy elements into each block, up to a million."""
    begun = _FORMAT.findall(html)
    if len(begun) <= _MAX_UNCLOSED or len(begun) - len(_FORMAT_END.findall(html)) <= _MAX_UNCLOSED:
        return False
    return len(set(begun)) * html.count("<") > _MAX_COPIES


def _resiliparse(html: str, tree: Any) -> str:
    extract = import_web("resiliparse.extract.html2text").extract_plain_text
    return str(
        extract(
            tree, main_content=True, preserve_formatting=True, list_bullets=False, alt_texts=False, skip_elements=_RUBY
        )
    )


def _trafilatura(html: str, tree: Any) -> str:
    # XML has no control characters: with one of them, nothing would be extracted.
    parsed = import_web("trafilatura.utils").load_html(_CONTROL_REFERENCE.sub("", html))
    if parsed is None:
        return ""
    import_web("lxml.etree").strip_elements(parsed, *_RUBY, with_tail=False)
    return import_web("trafilatura").extract(parsed, include_comments=False, deduplicate=False) or ""


_EXTRACTORS = {"resiliparse": _resiliparse, "trafilatura": _trafilatura}


def _stripped(line: str) -> str:
    return line.strip(" \t\r\f\v")


def _address(tree: Any, selector: str) -> str:
    """Return the first link's address, if it is a complete one of the web."""
    found = tree.document.query_selector(selector)
    address = str(found.getattr("href") or "").strip() if found is not None else ""
    return address if _ADDRESS.fullmatch(address) else ""
