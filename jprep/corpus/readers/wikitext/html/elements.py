"""Resolve everything in angle brackets: comments, literals, references, other elements, HTML tags."""

from __future__ import annotations

import re

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.blocks.line_starts import mark_line_starts
from jprep.corpus.readers.wikitext.config import ExtractorConfig
from jprep.corpus.readers.wikitext.html.entities import decode_entities
from jprep.corpus.readers.wikitext.html.galleries import gallery_captions
from jprep.corpus.readers.wikitext.html.invisible import remove_invisible
from jprep.corpus.readers.wikitext.html.tags import remove_tags
from jprep.corpus.readers.wikitext.placeholders import BREAK, DROPPED, EMPTY, FIRST_LITERALS, GONE, LITERAL
from jprep.corpus.readers.wikitext.tabular.cells import mark_cells

_LITERAL = ("nowiki", "pre")
_CODE = ("syntaxhighlight", "source")
_MATH = ("math", "chem", "ce")
_GRAPHIC = ("score", "timeline", "imagemap", "hiero", "graph", "mapframe", "maplink", "templatedata", "templatestyles")
_OTHERS = ("gallery", "poem", "references", "rp", "indicator", "inputbox", "categorytree", "includeonly")
_WHOLE = (*_LITERAL, *_CODE, *_MATH, *_GRAPHIC, *_OTHERS)
_RAW = re.compile(rf"<(?:(!--)|({'|'.join(_WHOLE)})(?=[\s/>])([^>]{{0,300}})>)", re.I)
_REF = re.compile(r"<()(ref)(?=[\s/>])([^<>]*)>", re.I)
_FLAT_REF = re.compile(r"<[rR][eE][fF](?=[\s/>])(?:[^<>]*/>|[^<>]*>[^<]*</[rR][eE][fF]\s*>)")
_CLOSERS = {name: re.compile(rf"</{name}\s*>", re.I) for name in (*_WHOLE, "ref")} | {"!--": re.compile("-->")}
_BROKEN = re.compile(r"<[rR][eE][fF](?![a-zA-Z])[^<>\n]*>?|</[rR][eE][fF][^<>\n]*>?|<!--[^\n]*|-->")
# Tables written with the template for `|`.
_PIPED_TABLE = re.compile(r"\{\{\{!\}\}|\{\{!\}\}\}(?!\})")
_INCLUSION = re.compile(r"</?(?:noinclude|onlyinclude)\s*>", re.I)
_CODE_TAGS = ("<code", "<kbd", "<samp")
_CODE_TEXT = re.compile(r"(<(code|kbd|samp)(?=[\s>])[^<>]*>)([^<]*)(?=</\2\s*>)")
_ADJACENT_BRACKET = re.compile(r"\](?=\])")
_NOWIKI = re.compile(r"<nowiki>(.*?)</nowiki>", re.S)
_WITHOUT_GONE = str.maketrans("", "", GONE)
_LITERALS = re.compile(f"{LITERAL}([0-9]+){LITERAL}")


class ElementResolver:
    """Resolves angle brackets, one page at a time: call `resolve` first, and `restore` at the end.

    Args:
        config: what to keep.
        tally: receives the counts of elements.
    """

    def __init__(self, config: ExtractorConfig, tally: Tally) -> None:
        self._config, self._tally = config, tally
        self._literals = list(FIRST_LITERALS)

    def resolve(self, text: str) -> str:
        """Drop comments, references and other elements, replace literals by placeholders, remove tags."""
        self._literals = list(FIRST_LITERALS)
        if "{{!}}" in text:
            text = _PIPED_TABLE.sub(lambda sign: "{|" if sign[0][2] == "{" else "|}", text)
        if "<" in text:
            text = self._resolve_elements(text)
            text, hidden = remove_invisible(text)
            if hidden:
                self._tally["elements.hidden"] += hidden
            if any(map(text.__contains__, _CODE_TAGS)):
                text = _CODE_TEXT.sub(_protect_brackets, text)
        text = mark_line_starts(text)
        if self._config.tables:
            text = mark_cells(text)
        if "<" in text:
            text = remove_tags(text, self._config.tables)
        return _BROKEN.sub(DROPPED, text) if "<" in text or "-->" in text else text

    def _resolve_elements(self, text: str) -> str:
        """Drop elements with their contents, or replace them by literals."""
        text = self._replace_elements(text, _RAW)
        if "nclude" in text:
            text = _INCLUSION.sub("", text)
        pieces = _FLAT_REF.split(text)
        if len(pieces) > 1:
            self._tally["refs"] += len(pieces) - 1
            text = DROPPED.join(pieces)
        return self._replace_elements(text, _REF)

    def restore(self, text: str) -> str:
        """Replace placeholders by their literals."""
        if LITERAL not in text:
            return text
        return _LITERALS.sub(lambda match: self._literals[int(match[1])], text)

    def _replace_elements(self, text: str, opener: re.Pattern[str]) -> str:
        """Replace each element found by `opener`, in order. A missing closing tag is searched only once per kind."""
        out: list[str] = []
        unclosed: set[str] = set()
        done = 0
        while match := opener.search(text, done):
            out.append(text[done : match.start()])
            name = "!--" if match[1] else match[2].lower()
            shown, done = self._element(text, match, name, unclosed)
            out.append(shown)
        out.append(text[done:])
        return "".join(out)

    def _element(self, text: str, match: re.Match[str], name: str, unclosed: set[str]) -> tuple[str, int]:
        """Return the text to show for an element, and the offset after it."""
        if not match[1] and match[3].endswith("/"):
            self._tally[_counter(name)] += 1
            return (self._literal("") if name == "nowiki" else DROPPED), match.end()
        closer = None if name in unclosed else _CLOSERS[name].search(text, match.end())
        if closer is None:
            unclosed.add(name)
            self._tally[f"unclosed.{_counter(name)}"] += 1
            return DROPPED, _end_of_unclosed(name, text, match.end())
        self._tally[_counter(name)] += 1
        return self._shown(name, match[3] or "", text[match.end() : closer.start()]), closer.end()

    def _shown(self, name: str, attributes: str, inner: str) -> str:
        inline_code = name in _CODE and "inline" in attributes
        if name in _LITERAL or inline_code or (name in _CODE and self._config.code):
            inner = _remove_nowiki(inner) if name == "pre" else inner
            return self._literal(inner) if name == "nowiki" or inline_code else f"\n{self._literal(inner)}\n"
        if name == "poem":
            return "\n\n" + self._replace_elements(inner.strip("\n"), _RAW).replace("\n", f"{BREAK}\n") + "\n\n"
        if name in _MATH and self._config.math:
            return self._literal(" ".join(inner.split()))
        if name == "gallery" and self._config.captions:
            return gallery_captions(self._replace_elements(inner, _RAW))
        return DROPPED if name not in ("!--", "rp", "includeonly") else ""

    def _literal(self, inner: str) -> str:
        self._literals.append(decode_entities(inner.translate(_WITHOUT_GONE)))
        return f"{LITERAL}{len(self._literals) - 1}{LITERAL}"


def _protect_brackets(code: re.Match[str]) -> str:
    """Return an element of code in which a `]]` that ends no link is text: `a[b[0]]`."""
    tag, text = code[1], code[3]
    return code[0] if "[[" in text else tag + _ADJACENT_BRACKET.sub(f"]{EMPTY}", text)


def _counter(name: str) -> str:
    return {"!--": "comments", "ref": "refs"}.get(name, f"elements.{name}")


def _end_of_unclosed(name: str, text: str, at: int) -> int:
    """Return where the text continues: after the page for an open comment, after the line for an open reference."""
    if name == "!--":
        return len(text)
    end = text.find("\n", at) if name == "ref" else at
    return len(text) if end < 0 else end


def _remove_nowiki(inner: str) -> str:
    """Return the content of `<pre>`: pairs of `<nowiki>` tags in it are removed, single tags are kept."""
    closed, closer, rest = inner.rpartition("</nowiki>")  # after the last closing tag, a search would be quadratic
    return _NOWIKI.sub(r"\1", closed + closer) + rest
