"""Find the captions of `<gallery>`."""

from __future__ import annotations

import re
from itertools import pairwise

_SIGN = re.compile(r"\[\[|\]\]|\{\{|\}\}|\|")
_REF = re.compile(r"<ref(?=[\s/>])[^<>]*(?<!/)>", re.I)
_END_OF_REF = re.compile(r"</ref\s*>", re.I)
_TAG = re.compile(r"</?[a-z][^<>]*>", re.I)
_DEPTHS = {"[[": 1, "{{": 1, "]]": -1, "}}": -1}
_OPTION = re.compile(r"(?:alt|代替文|link|リンク|class|クラス|lang|言語|page|ページ)\s*=", re.I)


def gallery_captions(inner: str) -> str:
    """Return the captions of a gallery, one per line, with their links, templates and references.

    Args:
        inner: the content of the gallery, without comments and elements whose content is no wikitext.
    """
    captions = map(_caption, inner.split("\n"))
    return "".join(f"\n{caption}" for caption in captions if caption) + "\n"


def _caption(line: str) -> str:
    """Return the last part of a line that is no option, as MediaWiki does, or "" if it has only a file."""
    cuts: list[int] = []
    depth = 0
    for sign in _SIGN.finditer(_masked(line) if "<" in line else line):
        depth = max(0, depth + _DEPTHS.get(sign[0], 0))
        if sign[0] == "|" and not depth:
            cuts.append(sign.start())
    parts = (line[start + 1 : end].strip() for start, end in pairwise([*cuts, len(line)]))
    shown = [part for part in parts if not _OPTION.match(part)]
    return shown[-1] if shown else ""


def _masked(line: str) -> str:
    """Return a line of the same length with blanks for references and tags, whose `|` separate nothing."""
    out: list[str] = []
    done = 0
    while ref := _REF.search(line, done):
        if not (closer := _END_OF_REF.search(line, ref.end())):
            break
        out += line[done : ref.start()], " " * (closer.end() - ref.start())
        done = closer.end()
    return _TAG.sub(lambda tag: " " * len(tag[0]), "".join((*out, line[done:])))
