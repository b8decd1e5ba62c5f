"""Compare the extractor with MediaWiki's parser tests.

They are GPL and not part of this repository: set `JPREP_MEDIAWIKI` to the root of a MediaWiki release or checkout.
docs/wikitext.md says which of them are compared, and why the rest differs.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import pytest

from jprep.corpus.readers.wikitext import Extractor, ExtractorConfig
from tests.golden.mediawiki.cases import FILES, Case, read_suite
from tests.golden.mediawiki.templates import Expander, UnknownTemplateError
from tests.golden.mediawiki.visible import as_extracted, visible

ROOT = os.environ.get("JPREP_MEDIAWIKI", "")
DOCS = Path(__file__).parents[2] / "docs" / "wikitext.md"
LEAST = 0.95
LISTED_FOR = "69a081db"
"""Prefix of the SHA-256 of the `parserTests.txt` (MediaWiki 1.39.17) whose differences docs/wikitext.md lists."""


def compare(root: Path) -> tuple[list[str], int]:
    """Return the positions of the tests that differ, and the number of compared tests."""
    extractor = Extractor(ExtractorConfig(tables=True, code=True))
    articles: dict[str, str] = {}
    different: list[str] = []
    compared = 0
    for file in FILES:
        suite = read_suite(root / file)
        articles |= suite.articles
        for case in suite.cases:
            try:
                source = Expander(articles).expand(case.wikitext)
            except UnknownTemplateError:
                continue
            compared += 1
            if not same(extractor, case, source):
                different.append(f"{case.file}:{case.line}")
    return different, compared


def same(extractor: Extractor, case: Case, source: str) -> bool:
    """Return whether the extractor shows the same text as a browser."""
    return as_extracted(extractor.extract(source, case.title)) == as_extracted(visible(case.html))


def listed() -> set[str]:
    """Return the positions listed in docs/wikitext.md."""
    found = set()
    for name, lines in re.findall(r"(\w+\.txt):((?:\d+, )*\d+)", DOCS.read_text(encoding="utf-8")):
        found |= {f"{name}:{line}" for line in lines.split(", ")}
    return found


@pytest.mark.soak
@pytest.mark.skipif(not ROOT, reason="JPREP_MEDIAWIKI does not name a MediaWiki release")
def test_parser_tests_are_equal() -> None:
    different, compared = compare(Path(ROOT))
    assert 1 - len(different) / compared >= LEAST, "\n".join(different)
    digest = hashlib.sha256((Path(ROOT) / FILES[0]).read_bytes()).hexdigest()
    if digest.startswith(LISTED_FOR):
        assert set(different) == listed()
