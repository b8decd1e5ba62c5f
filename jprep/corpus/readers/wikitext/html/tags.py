"""Remove HTML tags, or convert them to wikitext."""

from __future__ import annotations

import re
from typing import Literal

from jprep.corpus.readers.wikitext.placeholders import BREAK, LINKED

_INLINE = (
    "abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|nobr|q|rb|ruby|rtc|s|samp|small|span|"
    "strike|strong|sub|sup|time|tt|u|var|wbr|noinclude|includeonly|onlyinclude|references|section|poem|nowiki|langconvert"
)
_BLOCK = "blockquote|caption|center|dd|div|dl|dt|h[1-6]|hr|li|ol|p|pre|tbody|tfoot|thead|ul|gallery|math"
_TAG = re.compile(rf"<(/?(?:{_INLINE}|{_BLOCK}|br|rt|table|tr|td|th))(?=[\s/>])[^<>]*>", re.I)
BLOCK_TAG = re.compile(rf"</?(?:{_BLOCK})(?=[\s/>])[^<>]*>", re.I)
"""A tag that begins or ends a block."""

_BLOCKS = (*_BLOCK.replace("h[1-6]", "h1|h2|h3|h4|h5|h6").split("|"), "tr", "td", "th")
_SHOWN = dict.fromkeys([f"{slash}{name}" for slash in ("", "/") for name in _BLOCKS], "\n\n") | {
    "br": BREAK,
    "/br": BREAK,
    "rt": "（",
    "/rt": "）",
    # HTML tables are converted to wikitext tables.
    "table": "\n{|\n",
    "/table": "\n|}\n",
    "tr": "\n|-\n",
    "td": "\n|",
    "th": "\n!",
}
_SHOWN_MARKED = _SHOWN | {"td": f"\n|{LINKED}", "th": f"\n!{LINKED}"}

_TABLE_SIGNS = {"table": "{|", "caption": "|+", "td": "|", "th": "!"}
_TABLE_TAG = re.compile(r"<(table|caption|td|th)(\s[^<>]{0,500})?>", re.I)


def remove_tags(text: str, tables: bool | Literal["rows"]) -> str:
    """Remove HTML tags: those of blocks end paragraphs, those of tables become wikitext, `<ruby>` gets brackets.

    Args:
        text: a page whose references and literals are resolved.
        tables: whether tables are kept: true marks cells as having no attributes, `rows` keeps their attributes.
    """
    if tables == "rows":
        text = _TABLE_TAG.sub(_with_attributes, text)
    shown = _SHOWN_MARKED if tables else _SHOWN
    pieces = _TAG.split(text)
    if len(pieces) > 1:
        pieces[1::2] = [shown.get(tag.lower(), "") for tag in pieces[1::2]]
        return "".join(pieces)
    return text


def _with_attributes(tag: re.Match[str]) -> str:
    """Return the wikitext of a tag that begins a table, a caption or a cell."""
    sign = _TABLE_SIGNS[tag[1].lower()]
    attributes = " ".join((tag[2] or "").replace("|", " ").split())
    return f"\n{sign}{attributes}" + ("\n" if sign == "{|" else "|")
