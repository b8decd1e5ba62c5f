"""Read MediaWiki's parser test files (`tests/parser/*.txt`) and select the cases that apply to an extractor.

A file holds articles (`!! article`, title, `!! text`, source, `!! endarticle`) and tests (`!! test`, name,
`!! options`, `!! wikitext`, one or more `!! html…` sections, `!! end`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FILES = (
    "tests/parser/parserTests.txt",
    "tests/parser/legacyMediaParserTests.txt",
    "tests/parser/extraParserTests.txt",
    "tests/parser/pfeqParserTests.txt",
    "extensions/Poem/tests/parser/parserTests.txt",
)
"""Test files of a release that apply to every wiki. `mediaParserTests.txt` repeats the second one."""

# The first of these sections that a test has is its expected output. Parsoid's is taken where the test has no other.
_EXPECTED = ("html/php+tidy", "html+tidy", "html/php", "html/*", "html", "html/parsoid")
# Options under which the output is no rendered page, or depends on the settings or the language of a site.
_OTHER_OUTPUT = re.compile(
    r"\b(?:pst|msg|comment|disabled|section|replace|preload|cat|ill|local|showtitle|showflags|showindicators|"
    r"showtocdata|showmedia|lastsavedrevision|language|variant|subpage|styletag|wg[A-Z]\w+|nodjvu|djvu|max\w+)\b"
)
_RENDERED = re.compile(r"wt2html")
# Tags that only MediaWiki's test runner or an extension knows.
_FOREIGN_TAGS = re.compile(
    r"<(?:tag|statictag|asidetag|pwraptest|spantag|sealtag|translate|tvar|langconvert|rawhtml|html|hiero|"
    r"indicator|dummy|tåg|sillytag|aside|ext|fooextension|style-?tag|embeddedtag|v|meta|link)\b",
    re.I,
)
_VARIANT = re.compile(r"-\{")
_EXTERNAL_IMAGE = re.compile(r'<img src="https?://(?!example\.com/images)')
_TITLE = re.compile(r"\btitle=\[\[(?:User:)?([^\]]*)\]\]")


@dataclass
class Case:
    """One test: its position, its source and the HTML rendered by MediaWiki."""

    file: str
    line: int
    title: str
    wikitext: str
    html: str


@dataclass
class Suite:
    """The cases of a file that render wikitext, and its articles by title."""

    cases: list[Case] = field(default_factory=list)
    articles: dict[str, str] = field(default_factory=dict)


def read_suite(path: Path) -> Suite:
    """Read a test file."""
    suite = Suite()
    for line, sections in _blocks(path):
        if "article" in sections:
            suite.articles[sections["article"].strip().replace("_", " ")] = sections.get("text", "")
        elif "test" in sections and (case := _case(path.name, line, sections)):
            suite.cases.append(case)
    return suite


def _blocks(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each test and article: the line number of its head, and its sections by name."""
    sections: dict[str, list[str]] | None = None
    start, current = 0, ""
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
        head = re.match(r"!!\s*(\S+)\s*$", line)
        if head is None:
            if sections is not None:
                sections[current].append(line)
        elif (name := head[1].lower()).startswith("end"):
            if sections is not None:
                yield start, {key: "\n".join(lines) for key, lines in sections.items()}
            sections = None
        else:
            if name in ("test", "article"):
                sections, start = {}, number
            if sections is not None:
                sections[name] = []
                current = name


def _case(file: str, line: int, sections: dict[str, str]) -> Case | None:
    source = sections.get("wikitext", sections.get("input"))
    expected = next((name for name in _EXPECTED if name in sections), None)
    options = sections.get("options", "")
    if source is None or expected is None or "config" in sections or _OTHER_OUTPUT.search(options):
        return None
    by_parsoid = expected == "html/parsoid"
    if by_parsoid and not _RENDERED.search(options) and "parsoid" in options:
        return None
    html = sections[expected]
    if _FOREIGN_TAGS.search(source) or _VARIANT.search(source) or _EXTERNAL_IMAGE.search(html):
        return None
    title = _TITLE.search(options)
    return Case(file, line, title[1] if title else "Parser test", source, html)
