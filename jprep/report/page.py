"""Render the sections of a report as one HTML page of bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jprep.html.page import environment
from jprep.report.inputs import ReportInput
from jprep.report.section import Section

MAX_BYTES = 5_000_000
"""The size of a page, in bytes of UTF-8."""

_RESERVE = 200_000  # bytes for the overview and the notes about sections that are left out
_MAX_LISTED = 300  # sections and unfinished outputs that the overview lists
GENERATOR = '<meta name="generator" content="jprep report">'
"""What marks a file as a report of jprep."""


def render(sections: Sequence[Section], unfinished: Sequence[ReportInput], limit: int) -> str:
    """Return the page.

    Args:
        sections: its sections; those that do not fit are replaced by a sentence.
        unfinished: outputs that are not finished, for the overview.
        limit: size of the page in bytes.
    """
    shown, room = list[dict[str, Any]](), limit - _RESERVE
    for number, section in enumerate(sections, 1):
        anchor = f"{section.kind}-{number}"
        body = _body(section, anchor)
        fits = len(body.encode()) <= room
        room -= len(body.encode()) if fits else 0
        shown.append({"section": section, "anchor": anchor, "body": body if fits else ""})
    listed = {"sections": shown[:_MAX_LISTED], "unfinished": unfinished[:_MAX_LISTED]}
    more = max(0, len(shown) - _MAX_LISTED) + max(0, len(unfinished) - _MAX_LISTED)
    page: str = environment("jprep.report").get_template("report.html").render(**listed, more=more, generator=GENERATOR)
    return page


def _body(section: Section, anchor: str) -> Any:
    from markupsafe import Markup

    template = environment("jprep.report").get_template(section.template)
    return Markup(template.render(**section.values, anchor=anchor, notes=section.notes))
