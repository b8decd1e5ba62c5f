"""Check segmenters: each one is loaded and segments a sentence."""

from __future__ import annotations

from functools import partial
from typing import Any

from jprep.corpus.config import CorpusConfig, make_step, step_name
from jprep.corpus.document import WORD
from jprep.doctor.time_limit import run_with_limit
from jprep.errors import JprepError
from jprep.plugins import plugins
from jprep.train.backend import Finding

_SENTENCE, _SPACED_SENTENCE = "東京タワーへ行く。", "東京 タワー へ 行く 。"
_FOR_SPACED_TEXT = "spaces"
_SECONDS, _COMPILING = 60.0, 300.0
_WITH_KERNEL = "pointwise"
_SHOWN = 40  # maximum length of a version, which may be a file's hash


def check_segmenters() -> list[Finding]:
    """Return the findings of all segmenters. Only a failure of the default segmenter is an error."""
    default = step_name(CorpusConfig().segmenter)
    names = sorted(plugins().names("segmenter"), key=lambda name: (name != default, name))
    return [
        finding
        for name in names
        for finding in [
            *run_with_limit(partial(_try, name, "error" if name == default else "note"), name, _SECONDS),
            *(run_with_limit(_try_compiled, name, _COMPILING) if name == _WITH_KERNEL else ()),
        ]
    ]


def _try_compiled() -> list[Finding]:
    """Return whether compiled code can find the words of `pointwise`; nothing where there is no model."""
    try:
        segmenter = make_step("segmenter", _WITH_KERNEL)
    except JprepError:
        return []
    try:
        segmenter.load_compiled()
    except JprepError as error:
        return [Finding(f"{_WITH_KERNEL}: finds words with numpy: {error.what}", "note", error.fix)]
    return [Finding(f"{_WITH_KERNEL}: compiled code finds the words of much text")]


def _try(name: str, level: Any) -> list[Finding]:
    if not plugins().get("segmenter", name).marks:
        return []
    sentence = _SPACED_SENTENCE if name == _FOR_SPACED_TEXT else _SENTENCE
    try:
        segmenter = make_step("segmenter", name)
        try:
            found, made_of = segmenter.segment([sentence])[0].split(WORD), segmenter.provenance()
        finally:
            segmenter.close()
    except JprepError as error:
        return [Finding(f"{name}: {error.what}", level, error.fix)]
    words = list(filter(str.strip, found))
    if len(words) < 2:
        return [Finding(f"{name}: found no words in {sentence}", level, "run it by hand to see its errors")]
    about = ", ".join(f"{what} {which}" for what, which in made_of.items() if len(which) <= _SHOWN)
    return [Finding(f"{name}: {'|'.join(words)}{f' ({about})' if about else ''}")]


def usable_segmenter() -> str:
    """Return the first segmenter that works on raw text here, the default one if it does, or `none`."""
    default = step_name(CorpusConfig().segmenter)
    raw = (name for name in plugins().names("segmenter") if name != _FOR_SPACED_TEXT)
    names = sorted(raw, key=lambda name: (name != default, name))
    for name in names:
        found = run_with_limit(partial(_try, name, "error"), name, _SECONDS)
        if found and all(finding.level != "error" for finding in found):
            return name
    return "none"
