"""Resolve links in double square brackets to the text that they show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.config import ExtractorConfig
from jprep.corpus.readers.wikitext.inline.bold_italic import remove_bold_italic
from jprep.corpus.readers.wikitext.inline.categories import without_category_prefix
from jprep.corpus.readers.wikitext.inline.external_links import replace_external_links
from jprep.corpus.readers.wikitext.placeholders import APOSTROPHE, DROPPED, PIPE, escape_title

SIMPLE_LINKS = {
    "label": re.compile(r"\[\[(?!//)(?:[^\[\]{}|<>:\n]*\|)?([^\[\]{}|<>:'%\n]+)\]\]"),
    "target": re.compile(r"\[\[(?!//)((?:[^\[\]{}|<>:#'%_\s]++ )*+[^\[\]{}|<>:#'%_\s]+)(?:\|[^\[\]{}|<>:\n]*)?\]\]"),
}
"""Patterns of links without nested mark-up, colon, apostrophe or percent sign, and of targets whose spaces are
normalized. Group 1 is the shown text."""

NAMESPACES: Mapping[str, int] = {
    **dict.fromkeys(("media", "メディア"), -2),
    **dict.fromkeys(("file", "ファイル", "image", "画像"), 6),
    **dict.fromkeys(("category", "カテゴリ"), 14),
}
"""Namespaces whose links are treated specially, by their names in Japanese and English wikis."""

_FILE, _CATEGORY = 6, 14
_INVISIBLE = {_FILE: "files", _CATEGORY: "categories"}
_OPTION = re.compile(
    r"\s*(?:thumb|thumbnail|サムネイル|frame|framed|フレーム|なし|frameless|フレームなし|border|境界|left|right|center|centre|none|左|右|中央|無し?|"
    r"upright|baseline|middle|sub|super|sup|text-top|text-bottom|top|bottom|(?:\d+|\d*x\d+)\s*(?:px|ピクセル)(?:px)?|"
    r"(?:thumb|thumbnail|frame|upright|alt|代替文|link|リンク|class|lang|page|ページ|start|end|thumbtime)\s*=.*|upright\s+[\d.]+)\s*\Z",
    re.I | re.S,
)
_FRAMED = re.compile(r"\|\s*(?:thumb|thumbnail|サムネイル|frame|framed|フレーム)\s*[|=]", re.I)
_REFUSED = re.compile(r"[<>\[\]{}|\ufffd]|%[0-9a-f]{2}", re.I)
"""Characters that no title contains. A link to such a page is shown as written."""

_QUALIFIER = re.compile(r"[（(、,]")


class LinkResolver:
    """Resolves links.

    Args:
        namespaces: namespace numbers of the wiki by lower-case name, in addition to the Japanese and English names.
        languages: prefixes of links to other languages, which are not displayed in the text.
        config: whether to keep captions of framed pictures, and what links show.
        tally: receives the counts of links that are not displayed.
    """

    def __init__(
        self, namespaces: Mapping[str, int], languages: Iterable[str], config: ExtractorConfig, tally: Tally
    ) -> None:
        self._namespaces = {**NAMESPACES, **namespaces}
        self._languages = frozenset(languages)
        self._captions, self._targets = config.captions, config.links == "target"
        self._tally = tally

    def resolve(self, content: str) -> str:
        """Return the text that `[[content]]` shows."""
        target, pipe, label = content.replace(PIPE, "|").partition("|")
        if "'" in label:
            label = remove_bold_italic(label).replace("'", APOSTROPHE)
        prefix, colon, name = target.partition(":")
        if (name if colon else target).startswith("//"):  # an external link inside literal brackets
            return f"[{replace_external_links(f'[{content}]')}]"
        prefix = prefix.strip().lower()
        if not prefix and colon:
            return self._page_link(target, name, label)
        if colon and (hidden := self._hidden_link(prefix, content)) is not None:
            return hidden
        if self._targets and target[:1] != "#":
            return escape_title(" ".join(_decoded(target).partition("#")[0].replace("_", " ").split()))
        if not pipe or "\n" in target:  # a target never spans lines: the `[[` was unclosed
            return _title(content.strip())
        return label or _short(target)

    def _page_link(self, target: str, name: str, label: str) -> str:
        """Return what `[[:ファイル:…]]` shows, a link to the page of a file or category."""
        prefix, _, title = name.partition(":")
        space = self._namespaces.get(prefix.strip().lower())
        if label:
            return without_category_prefix(label) if space == _CATEGORY else label
        return title if space in _INVISIBLE else target.lstrip(" :")

    def _hidden_link(self, prefix: str, content: str) -> str | None:
        """Return the text of a link to a file, category or language; None for other links."""
        space = self._namespaces.get(prefix)
        if space in _INVISIBLE:
            self._tally[_INVISIBLE[space]] += 1
            return self._caption(content) if space == _FILE and self._captions else DROPPED
        if prefix in self._languages:
            self._tally["interlanguage"] += 1
            return DROPPED
        return None

    def is_invisible(self, content: str) -> bool:
        """Return whether a link begins with the name of a namespace whose links are not displayed in the text."""
        return self._namespaces.get(content.partition(":")[0].strip().lower()) in _INVISIBLE

    def _caption(self, content: str) -> str:
        if not _FRAMED.search(content):
            return DROPPED
        shown = [part for part in content.replace(PIPE, "|").split("|")[1:] if not _OPTION.match(part)]
        return f"{DROPPED}\n{shown[-1].strip()}\n" if shown else DROPPED


def _title(target: str) -> str:
    """Return the target of a link as shown: percent-encoding decoded, apostrophes protected from bold and italic."""
    return escape_title(_decoded(target))


def _decoded(target: str) -> str:
    """Return a target without percent-encoding, unless no title could be so."""
    if "%" in target and not _REFUSED.search((decoded := unquote(target)).partition("#")[0]):
        return decoded
    return target


def _short(target: str) -> str:
    """Apply the pipe trick: `[[東京 (曖昧さ回避)|]]` shows 東京."""
    name = target.rpartition(":")[2].strip()
    return _QUALIFIER.split(name, maxsplit=1)[0].rstrip() or name
