"""Find the captions of `<gallery>`."""

from __future__ import annotations

import re
from itertools import pairwise

_SIGN = re.compile(r"\[\[|\]\]|\{\{|\}\}|\|")
_DEPTHS = {"[[": 1, "{{": 1, "]]": -1, "}}": -1}
_OPTION = re.compile(r"(?:alt|代替文|link|リンク|class|クラス|lang|言語|page|ページ)\s*=", re.I)


def gallery_captions(inner: str) -> str:
    """Return the captions of a gallery, one per line, with their links and templates."""
    return "".join(f"\n{caption}" for caption in map(_caption, inner.split("\n")) if caption) + "\n"


def _caption(line: str) -> str:
    """Return the last part of a line that is no option, as MediaWiki does, or "" if it has only a file."""
    cuts: list[int] = []
    depth = 0
    for sign in _SIGN.finditer(line):
        depth = max(0, depth + _DEPTHS.get(sign[0], 0))
        if sign[0] == "|" and not depth:
            cuts.append(sign.start())
    parts = (line[start + 1 : end].strip() for start, end in pairwise([*cuts, len(line)]))
    shown = [part for part in parts if not _OPTION.match(part)]
    return shown[-1] if shown else ""
