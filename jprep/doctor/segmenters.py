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

_SENTENCE = "すもももももももものうち"
_SECONDS = 60.0
_SHOWN = 40  # maximum length of a version, which may be a file's hash


def check_segmenters() -> list[Finding]:
    """Return the findings of all segmenters. Only a failure of the default segmenter is an error."""
    default = step_name(CorpusConfig().segmenter)
    names = sorted(plugins().names("segmenter"), key=lambda name: (name != default, name))
    return [
        finding
        for name in names
        for finding in run_with_limit(partial(_try, name, "error" if name == default else "note"), name, _SECONDS)
    ]


def _try(name: str, level: Any) -> list[Finding]:
    if not plugins().get("segmenter", name).marks:
        return []
    try:
        segmenter = make_step("segmenter", name)
        try:
            words, made_of = segmenter.segment([_SENTENCE])[0].split(WORD), segmenter.provenance()
        finally:
            segmenter.close()
    except JprepError as error:
        return [Finding(f"{name}: {error.what}", level, error.fix)]
    if len(words) < 2:
        return [Finding(f"{name}: found no words in {_SENTENCE}", level, "run it by hand to see its errors")]
    about = ", ".join(f"{what} {which}" for what, which in made_of.items() if len(which) <= _SHOWN)
    return [Finding(f"{name}: {'|'.join(words)} ({about})")]


def usable_segmenter() -> str:
    """Return the first segmenter that works on this machine, the default one if it does, or `none`."""
    default = step_name(CorpusConfig().segmenter)
    names = sorted(plugins().names("segmenter"), key=lambda name: (name != default, name))
    for name in names:
        found = run_with_limit(partial(_try, name, "error"), name, _SECONDS)
        if found and all(finding.level != "error" for finding in found):
            return name
    return "none"
