"""The section builders by kind of input. They are imported when they are needed."""

from __future__ import annotations

import importlib

from jprep.report.inputs import InputKind
from jprep.report.section import SectionBuilder

BUILDERS: dict[InputKind, str] = {
    "corpus": "jprep.report.corpus.section:build",
}
"""`module:function` of each kind's `SectionBuilder`, in the order of the sections."""


def section_builder(kind: InputKind) -> SectionBuilder:
    """Return the builder of a kind's sections."""
    module, _, name = BUILDERS[kind].partition(":")
    builder: SectionBuilder = getattr(importlib.import_module(module), name)
    return builder
