"""What every report of the tests has to fulfil."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

from jprep.report.build import build_report
from jprep.report.section import ReportOptions

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"
SHOWN = "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m\\u202e"


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("href", "src", "action"):
                self.targets.append(value or "")
            assert not name.startswith("on"), f"{tag} has {name}"


def page_of(paths: Sequence[Path], **options: object) -> str:
    """Return the page about some outputs, after checking what holds for every page."""
    page = build_report(paths, ReportOptions(**options)).html()  # type: ignore[arg-type]
    assert page == build_report(paths, ReportOptions(**options)).html()  # type: ignore[arg-type]
    found = _Elements()
    found.feed(page)
    assert "script" not in found.tags
    assert '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';' in page
    assert len(found.ids) == len(set(found.ids))
    assert all(target.startswith(("#", "data:")) for target in found.targets), found.targets
    assert {target[1:] for target in found.targets if target.startswith("#")} <= set(found.ids)
    assert not re.search("[\x00-\x08\x0b-\x1f\u200e\u200f\u202a-\u202e\u2066-\u2069]", page)
    assert len(page.encode()) < 5_000_000
    return page
