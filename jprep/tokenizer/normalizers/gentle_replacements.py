"""The normalizer `gentle` as steps of a `tokenizer.json`."""

from __future__ import annotations

import re
from typing import Any

from jprep.config import parse_config
from jprep.corpus.normalizers.gentle import JOINED, REPLACED, SPACE_BETWEEN, GentleNormalizer
from jprep.tokenizer.normalizers.neologdn_replacements import MARK, replace, replace_all


def gentle(options: dict[str, Any]) -> list[dict[str, Any]]:
    """Return steps that replace forms, then join voicing marks, then remove spaces if the options say so.

    Kana are replaced by the voiced kana and `MARK`, and a later step removes `MARK` and the voicing mark: a single step
    for both would move the kana's offset to the voicing mark.
    """
    config = parse_config(options, GentleNormalizer.Config, where="tokenizer.normalizers")
    marks = "|".join(sorted({pair[1] for pair in JOINED}))
    return [
        *replace_all({re.escape(key): form for key, form in REPLACED.items()}),
        *_joined(),
        replace(f"{MARK}(?:{marks})", ""),
        *([replace(SPACE_BETWEEN, "")] if config.latin_spaces == "remove" else []),
    ]


def _joined() -> list[dict[str, Any]]:
    keys: dict[tuple[str, str], list[str]] = {}
    for pair, voiced in JOINED.items():
        keys.setdefault((pair[0], voiced), []).append(pair[1])
    return [replace(f"{kana}(?={'|'.join(marks)})", voiced + MARK) for (kana, voiced), marks in keys.items()]
