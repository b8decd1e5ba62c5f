"""Remove HTML tags, or convert them to wikitext."""

from __future__ import annotations

import re

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


def remove_tags(text: str, *, mark_cells: bool) -> str:
    """Remove HTML tags: those of blocks end paragraphs, those of tables become wikitext, `<ruby>` gets brackets.

    Args:
        text: a page whose references and literals are resolved.
        mark_cells: mark table cells as having no attributes, for tables that are kept.
    """
    shown = _SHOWN_MARKED if mark_cells else _SHOWN
    pieces = _TAG.split(text)
    if len(pieces) > 1:
        pieces[1::2] = [shown.get(tag.lower(), "") for tag in pieces[1::2]]
        return "".join(pieces)
    return text
