"""The extractor: the source of a wiki page becomes the paragraphs that its reader reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.blocks.paragraphs import ParagraphBuilder
from jprep.corpus.readers.wikitext.config import ExtractorConfig
from jprep.corpus.readers.wikitext.html.elements import ElementResolver
from jprep.corpus.readers.wikitext.html.entities import decode_entities
from jprep.corpus.readers.wikitext.inline.bold_italic import remove_bold_italic
from jprep.corpus.readers.wikitext.inline.external_links import replace_external_links
from jprep.corpus.readers.wikitext.inline.links import SIMPLE_LINKS, LinkResolver
from jprep.corpus.readers.wikitext.nesting import NestingResolver, has_nesting_signs
from jprep.corpus.readers.wikitext.placeholders import EQUALS, PIPE, escape_title, remove_placeholders
from jprep.corpus.readers.wikitext.punctuation import PunctuationRepair
from jprep.corpus.readers.wikitext.templating.definitions import TemplateTable, load_template_table
from jprep.corpus.readers.wikitext.templating.expansion import TemplateExpander

# Every pattern begins with characters that `re` can search for: a look-behind or a repeat first is ten times as slow.
_SWITCH = re.compile(
    r"__(?:(?:no|force)?toc|no(?:editsection|gallery|titleconvert|tc|contentconvert|cc|global|index)|index|start|end|"
    r"(?:no)?newsectionlink|hiddencat|expectunused(?:category|template)|expected_unconnected_page|staticredirect|disambig|"
    r"目次(?:強制|非表示)?|(?:節編集|カテゴリ|ギャラリー)非表示|新しい節リンク(?:非表示)?)__",
    re.I,
)
_RUN = re.compile(r"[\[\]{}|]{2,}")
# In front of a category's name where a link shows it.
_CATEGORY = re.compile("(?:[Cc]ategory|カテゴリ)[:：]")
_VARIANT = re.compile(r"-\{([^{}]*)\}-")
_REDIRECT = re.compile(r"\s*[#＃](?:redirect|転送|リダイレクト)\s*:?\s*\[\[[^\[\]\n]+\]\][^\n]*", re.I)


class Extractor:
    """Extracts the text of wiki pages.

    Args:
        config: what is kept.
        namespaces: ids of the wiki's namespaces by lower-cased name; None: the Japanese and English names.

    Attributes:
        tally: counts of what was dropped, expanded and mended, by dotted name; to begin anew, clear it.

    Raises:
        ConfigError: a table of templates that the config names cannot be read or is wrong.
    """

    def __init__(self, config: ExtractorConfig, *, namespaces: Mapping[str, int] | None = None) -> None:
        self.tally: Tally = Tally()
        self._table = table = load_template_table(tuple(config.templates))
        languages = table.lookups["language"].keys() | table.lookups["wiki"].keys()
        links = LinkResolver(namespaces or {}, languages, config, self.tally)
        self._templates = TemplateExpander(table, self.tally)
        self._flat_link = SIMPLE_LINKS[config.links]
        self._elements = ElementResolver(config, self.tally)
        self._nesting = NestingResolver(links, self._templates, config.tables, self.tally)
        self._lines = ParagraphBuilder(config, self.tally)
        self._mender = PunctuationRepair(_labels(table), self.tally)

    def extract(self, wikitext: str, title: str) -> str:
        """The text of one page.

        Args:
            wikitext: the page's source, XML entities resolved.
            title: the page's title, which some templates show.

        Returns:
            One paragraph a line, without blank lines and white space at the edges; "" for a page without text.
        """
        self._templates.title = escape_title(title)
        text = "\n" + remove_placeholders(wikitext)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        text = _REDIRECT.sub("", text, count=1) if _REDIRECT.match(text) else text
        text = "".join(self._flat_link.split(self._elements.resolve(text)))
        text = self._lines.unmark(_without_inline(self._nesting.resolve(text)))
        text = text.replace(PIPE, "|").replace(EQUALS, "=")
        text = _without_signs(self._mender.mend(decode_entities(text)))
        return "\n".join(self._lines.paragraphs(self._elements.restore(text)))

    @property
    def disambiguation(self) -> frozenset[str]:
        """Names of the templates that mark disambiguation pages, from the tables."""
        return frozenset(self._table.disambiguation)

    def provenance(self) -> dict[str, str]:
        """The SHA-256 of every table of templates, by file name."""
        return {f"templates.{name}": digest for name, digest in self._table.hashes.items()}


def _labels(table: TemplateTable) -> frozenset[str]:
    """Words that announce a text: those of the table and the names of languages (英語, 英, 独語)."""
    short = table.lookups["short"].values()
    return frozenset(table.labels).union(table.lookups["language"].values(), short, (f"{name}語" for name in short))


def _without_inline(text: str) -> str:
    """Resolve what does not nest: bold and italic, external links, switches, language variants."""
    if "[" in text:
        text = replace_external_links(text)
    if "''" in text:
        text = remove_bold_italic(text)
    if "__" in text:
        text = _SWITCH.sub("", text)
    if "-{" in text:
        text = _VARIANT.sub(_variant, text)
    if "ategory" in text or "カテゴリ" in text:
        text = _CATEGORY.sub("", text)
    return text


def _variant(match: re.Match[str]) -> str:
    """The first variant of `-{zh-hans:…; zh-hant:…}-`, or all of it where it names none."""
    first, semicolon, _ = match[1].partition(";")
    return first.partition(":")[2].strip() if semicolon and ":" in first else match[1]


def _without_signs(text: str) -> str:
    """Take away signs of nesting that only came about when what was around them was resolved."""
    return _RUN.sub(lambda run: "" if has_nesting_signs(run[0]) else run[0], text) if has_nesting_signs(text) else text
