"""Labels of links to the pages of categories."""

from __future__ import annotations

import re

_PREFIX = re.compile(r"\s*(?:category|カテゴリ)\s*[:：]\s*", re.I)


def without_category_prefix(label: str) -> str:
    """Return what a link shows without the name of the namespace: 日本 for `Category:日本`."""
    prefix = _PREFIX.match(label)
    return label[prefix.end() :] if prefix else label
