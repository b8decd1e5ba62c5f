"""The options of the wikitext extractor."""

from __future__ import annotations

from typing import Literal

from jprep.corpus.step import StepConfig


class ExtractorConfig(StepConfig, frozen=True):
    """What is kept of a page.

    Attributes:
        headings: `keep` makes each heading of a section that holds text a paragraph of its own, `drop` leaves all out.
        lists: whether the items of lists (`*`, `#`, `;`) are kept, one a paragraph. Indented lines (`:`) always are.
        tables: whether the rows of tables are kept, one a paragraph, cells separated by tabs.
        captions: whether the captions of pictures and galleries are kept, one a paragraph.
        links: what a link shows: its `label`, which a reader reads, or its `target`, the linked article's full title
            (`[[貞観 (日本)|貞観]]13年` becomes 貞観 (日本)13年).
        math: whether formulas are kept, as the TeX that the page holds; a reader sees them typeset.
        code: whether blocks of program code are kept; code inside a sentence always is.
        drop_sections: titles of sections that are left out with everything under them, e.g. `["脚注", "外部リンク"]`.
        templates: paths of further tables of templates (TOML), which extend and override the built-in ones.
    """

    headings: Literal["keep", "drop"] = "keep"
    lists: bool = True
    tables: bool = False
    captions: bool = False
    links: Literal["label", "target"] = "label"
    math: bool = False
    code: bool = False
    drop_sections: list[str] = []
    templates: list[str] = []
