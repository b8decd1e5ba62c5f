"""The conformance suite for signals, on jprep's own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from jprep.corpus.builtin import jprep_signals
from jprep.corpus.config import make_step
from jprep.corpus.signals.sentences import SentenceSignals
from jprep.corpus.signals.urls import UrlSignals
from jprep.corpus.step import Signal
from jprep.errors import JprepError
from jprep.testing.conformance.signal import SignalSuite

WITH_OPTIONS = {"fasttext", "hosts", "judge", "kenlm", "perplexity", "published_words", "quality"}
"""Signals that need a model, a list or labels."""


class TestSentences(SignalSuite):
    step = SentenceSignals
    measured = {
        "一。\n二三。": {"mean_sentence": 2.5, "longest_sentence": 3, "ellipsis_share": 0},
        "まさか…\nそんな……。\nあれ...\nえ。": {"ellipsis_share": 0.75},
        "・・\n..\n…": {"ellipsis_share": 1 / 3},
        "「そうだ・・・」\nそうだ...)\nそうだ…！\nそうだ……！？\n。。\nえ？！」": {"ellipsis_share": 4 / 6},
        "": {"mean_sentence": math.nan, "longest_sentence": math.nan, "ellipsis_share": math.nan},
    }


class TestUrls(SignalSuite):
    step = UrlSignals
    measured = {"www.example.jp": {"url_share": 1.0}}


@pytest.mark.parametrize("name", sorted(jprep_signals().keys() - WITH_OPTIONS))
def test_signals_with_default_options(name: str) -> None:
    try:
        signal: Signal = make_step("signal", name)
    except JprepError as error:
        pytest.skip(error.what)
    suite: Any = SignalSuite()
    suite.step, suite.options = type(signal), {}
    for law in (
        suite.test_columns_are_identifiers_that_are_measured,
        suite.test_there_is_a_value_for_each_document,
        suite.test_a_document_is_measured_by_itself,
        suite.test_another_instance_measures_the_same,
        suite.test_has_no_memory,
        suite.test_does_not_change_documents,
    ):
        law()


def test_lists_of_hosts(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("bad.example\n")
    suite: Any = SignalSuite()
    suite.step = type(make_step("signal", {"use": "hosts", "lists": [str(tmp_path / "bad")]}))
    suite.options = {"lists": [str(tmp_path / "bad")]}
    suite.test_there_is_a_value_for_each_document()
    suite.test_a_document_is_measured_by_itself()
