"""Convert the wikitext of a page to paragraphs of readable text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.blocks.paragraphs import ParagraphBuilder
from jprep.corpus.readers.wikitext.config import ExtractorConfig
from jprep.corpus.readers.wikitext.html.elements import ElementResolver
from jprep.corpus.readers.wikitext.html.entities import decode_entities
from jprep.corpus.readers.wikitext.incomplete import drop_incomplete
from jprep.corpus.readers.wikitext.inline.bold_italic import remove_bold_italic
from jprep.corpus.readers.wikitext.inline.external_links import replace_external_links, separate_closing_brackets
from jprep.corpus.readers.wikitext.inline.links import SIMPLE_LINKS, LinkResolver
from jprep.corpus.readers.wikitext.nesting import NestingResolver, has_nesting_signs
from jprep.corpus.readers.wikitext.placeholders import EQUALS, PIPE, escape_title, remove_placeholders
from jprep.corpus.readers.wikitext.punctuation import PunctuationRepair
from jprep.corpus.readers.wikitext.tabular.assembly import assemble_rows
from jprep.corpus.readers.wikitext.tabular.infoboxes import InfoboxRows
from jprep.corpus.readers.wikitext.tabular.rows import TableRows
from jprep.corpus.readers.wikitext.tabular.tabs import tabbed_rows
from jprep.corpus.readers.wikitext.templating.definitions import TemplateTable, load_template_table
from jprep.corpus.readers.wikitext.templating.expansion import TemplateExpander
from jprep.corpus.readers.wikitext.transclusion.expander import Transcluder
from jprep.corpus.readers.wikitext.transclusion.page_file import TemplatePages, load_template_pages
from jprep.corpus.readers.wikitext.transclusion.parser_functions.page_names import all_namespaces
from jprep.corpus.readers.wikitext.transclusion.resolution import Resolver

# Each pattern begins with literal characters, which `re` searches ten times faster than a lookbehind or a repetition.
_SWITCH = re.compile(
    r"__(?:(?:no|force)?toc|no(?:editsection|gallery|titleconvert|tc|contentconvert|cc|global|index)|index|start|end|"
    r"(?:no)?newsectionlink|hiddencat|expectunused(?:category|template)|expected_unconnected_page|staticredirect|disambig|"
    r"目次(?:強制|非表示)?|(?:節編集|カテゴリ|ギャラリー)非表示|新しい節リンク(?:非表示)?)__",
    re.I,
)
_RUN = re.compile(r"[\[\]{}|]{2,}")
_VARIANT = re.compile(r"-\{([^{}]*)\}-")
_REDIRECT = re.compile(r"\s*[#＃](?:redirect|転送|リダイレクト)\s*:?\s*\[\[[^\[\]\n]+\]\][^\n]*", re.I)


class Extractor:
    """Extracts the text of wiki pages.

    Args:
        config: what to keep.
        namespaces: namespace numbers of the wiki by lower-case name; None uses the Japanese and English names.

    Attributes:
        tally: counts of dropped, expanded and repaired mark-up, by dotted name. Clear it to reset the counts.

    Raises:
        ConfigError: a template table or the template pages of the config cannot be read or are invalid.
    """

    def __init__(self, config: ExtractorConfig, *, namespaces: Mapping[str, int] | None = None) -> None:
        self.tally: Tally = Tally()
        infoboxes = config.infoboxes == "rows"
        self._table = table = load_template_table(tuple(config.templates), infoboxes=infoboxes)
        languages = table.lookups["language"].keys() | table.lookups["wiki"].keys()
        links = LinkResolver(namespaces or {}, languages, config, self.tally)
        show_infobox = InfoboxRows(table.infobox, self.tally).show if infoboxes else None
        self._templates = TemplateExpander(table, self.tally, show_infobox)
        self._pages = load_template_pages(config.template_pages) if config.template_pages else None
        self._transcluder = self._make_transcluder(self._pages, namespaces or {}) if self._pages else None
        self._flat_link = SIMPLE_LINKS[config.links]
        self._elements = ElementResolver(config, self.tally)
        show_table = TableRows(self.tally).show if config.tables == "rows" else tabbed_rows if config.tables else None
        self._nesting = NestingResolver(links, self._templates, show_table, self.tally)
        self._paragraphs = ParagraphBuilder(config, self.tally)
        self._punctuation = PunctuationRepair(_labels(table), self.tally)

    def _make_transcluder(self, pages: TemplatePages, namespaces: Mapping[str, int]) -> Transcluder:
        known = all_namespaces(namespaces)
        return Transcluder(Resolver(self._table, pages, known), self._templates, known, self.tally)

    def extract(self, wikitext: str, title: str, timestamp: str = "") -> str:
        """Extract the text of one page.

        Args:
            wikitext: source of the page, with XML entities decoded.
            title: title of the page, which some templates show.
            timestamp: time of its revision as in a dump (`2024-01-31T12:00:00Z`), which is the current time of template
                pages; "" if it is unknown.

        Returns:
            One paragraph per line, stripped and without blank lines; "" for a page without text.
        """
        self._templates.title = escape_title(title)
        text = "\n" + remove_placeholders(wikitext)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        text = _REDIRECT.sub("", text, count=1) if _REDIRECT.match(text) else text
        if self._transcluder:
            text = self._transcluder.expand(text, title, timestamp)
        text = separate_closing_brackets("".join(self._flat_link.split(self._elements.resolve(text))))
        text = self._paragraphs.remove_line_markup(_resolve_inline(self._nesting.resolve(text)))
        text = text.replace(PIPE, "|").replace(EQUALS, "=")
        text = drop_incomplete(decode_entities(text), self.tally)
        text = _remove_nesting_signs(self._punctuation.repair(text))
        text = assemble_rows(text, self._elements.restore, self.tally)
        return "\n".join(self._paragraphs.build(self._elements.restore(text)))

    @property
    def disambiguation(self) -> frozenset[str]:
        """Names of the templates that mark disambiguation pages, from the template tables."""
        return frozenset(self._table.disambiguation)

    def provenance(self) -> dict[str, str]:
        """Return the SHA-256 of every template table, by file name, and of the template pages."""
        tables = {f"templates.{name}": digest for name, digest in self._table.hashes.items()}
        return tables | ({"template_pages": self._pages.sha256} if self._pages else {})


def _labels(table: TemplateTable) -> frozenset[str]:
    """Return the label words: those of the table and names of languages (英語, 英, 独語)."""
    short = table.lookups["short"].values()
    return frozenset(table.labels).union(table.lookups["language"].values(), short, (f"{name}語" for name in short))


def _resolve_inline(text: str) -> str:
    """Resolve mark-up that does not nest: bold and italic, external links, switches, language variants."""
    if "[" in text:
        text = replace_external_links(text)
    if "''" in text:
        text = remove_bold_italic(text)
    if "__" in text:
        text = _SWITCH.sub("", text)
    if "-{" in text:
        text = _VARIANT.sub(_variant, text)
    return text


def _variant(match: re.Match[str]) -> str:
    """Return the first variant of `-{zh-hans:…; zh-hant:…}-`, or the whole content if it has no variants."""
    first, semicolon, _ = match[1].partition(";")
    return first.partition(":")[2].strip() if semicolon and ":" in first else match[1]


def _remove_nesting_signs(text: str) -> str:
    """Remove brackets and braces that became adjacent when the mark-up around them was resolved."""
    return _RUN.sub(lambda run: "" if has_nesting_signs(run[0]) else run[0], text) if has_nesting_signs(text) else text
