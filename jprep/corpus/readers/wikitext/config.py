"""Options of the wikitext extractor."""

from __future__ import annotations

from typing import Literal

import msgspec

from jprep.corpus.step import StepConfig


class ExtractorConfig(StepConfig, frozen=True):
    """What to keep of a page.

    Attributes:
        headings: `keep` makes a paragraph of each heading whose section contains text; `drop` removes all headings.
        lists: keep list items (`*`, `#`, `;`), one per paragraph. Indented lines (`:`) are always kept.
        tables: keep the rows of tables, one per paragraph: true separates cells by tabs; `rows` puts the headers before
            the values (`川：鴨川、長さ：31`) and drops layout tables.
        infoboxes: `rows` keeps the parameters of infoboxes whose values are text, one per paragraph (`首都：東京`);
            `drop`, the default, drops them.
        captions: keep the captions of pictures and galleries, one per paragraph.
        links: text of a link: its `label`, as displayed, or its `target`, the full title of the linked article
            (`[[貞観 (日本)|貞観]]13年` becomes 貞観 (日本)13年).
        math: keep formulas as TeX source.
        code: keep blocks of program code. Code inside a sentence is always kept.
        drop_sections: titles of sections to remove with their subsections, e.g. `["脚注", "外部リンク"]`.
        templates: paths of further template tables (TOML), which extend and override the built-in ones.
        template_pages: path of a file of template pages, made by `jprep corpus templates`. Templates that the tables do
            not have are expanded from it. By default there is none.
    """

    headings: Literal["keep", "drop"] = "keep"
    lists: bool = True
    tables: bool | Literal["rows"] = False
    infoboxes: Literal["drop", "rows"] | msgspec.UnsetType = msgspec.UNSET
    captions: bool = False
    links: Literal["label", "target"] = "label"
    math: bool = False
    code: bool = False
    drop_sections: list[str] = []
    templates: list[str] = []
    template_pages: str | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Leave out `infoboxes = "drop"`, so that fingerprints are those from before the option existed."""
        if self.infoboxes == "drop":
            msgspec.structs.force_setattr(self, "infoboxes", msgspec.UNSET)
