"""The data and cases of the suite, without a backend: the golden curves are valid only while they do not change."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jprep.dataset.indexed.split import IndexedSplit
from jprep.dataset.manifest import SENTENCE_START, TRAIN, VALIDATION, WORD_START
from jprep.dataset.sampling.sampler import open_split_data
from jprep.testing.backend_suite import BackendSuite
from jprep.testing.backend_suite.cases import CASES, STEPS, case_of, golden_curve
from jprep.testing.backend_suite.data import write_suite_dataset, write_suite_rows, write_suite_tokenizer
from jprep.tokenizer import load_tokenizer
from jprep.train.job.build import build_job
from jprep.train.job.config import parse_train_config

SETS = ("gpt", "roberta", "bert")


def digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


@pytest.mark.parametrize(
    "special, expected", [("gpt", "09a4ca834f0bd2c7"), ("roberta", "39cb540f07a5609b"), ("bert", "26cb168420d2f5bb")]
)
def test_the_texts_never_change(tmp_path: Path, special: str, expected: str):
    folder = write_suite_dataset(tmp_path / "dataset", special)
    assert digest(*(folder / f"{split}.bin" for split in (TRAIN, VALIDATION))) == expected


@pytest.mark.parametrize("task, expected", [("classify", "387689b4c75af9f6"), ("regress", "e28ad182915f2e77")])
def test_the_labelled_rows_never_change(tmp_path: Path, task: str, expected: str):
    found = write_suite_rows(tmp_path / "rows", task)
    assert digest(*map(Path, found["data"] + found["validation_data"])) == expected


@pytest.mark.parametrize("special", SETS)
def test_a_token_is_a_byte(tmp_path: Path, special: str):
    tokenizer = load_tokenizer(write_suite_tokenizer(tmp_path / "tokenizer", special))
    split = IndexedSplit(write_suite_dataset(tmp_path / "dataset", special) / TRAIN, "uint16")
    *text, end = split[0].tolist()
    assert end == (tokenizer.id_of("[SEP]") if special == "bert" else tokenizer.eos)
    assert tokenizer.encode(tokenizer.decode(text)) == text
    assert open_split_data(tmp_path / "dataset", TRAIN).separators.newline == tokenizer.newline_id


def test_sentences_begin_where_the_marks_say(tmp_path: Path):
    tokenizer = load_tokenizer(write_suite_tokenizer(tmp_path / "tokenizer", "roberta"))
    split = IndexedSplit(write_suite_dataset(tmp_path / "dataset", "roberta") / TRAIN, "uint16")
    stop, marks = split.bounds(0)[1], split.marks(*split.bounds(0))
    starts = [*(marks & SENTENCE_START).nonzero()[0], stop - 1]
    sentences = [tokenizer.decode(split.tokens[a:b]).rstrip("\n") for a, b in pairwise(starts)]
    assert len(sentences) > 1 and all(sentence.endswith("。") for sentence in sentences)
    assert (marks & WORD_START).astype(bool).sum() > len(sentences)


@pytest.mark.parametrize("name", CASES)
def test_a_case_makes_a_job_with_a_curve_of_its_length(tmp_path: Path, name: str):
    chosen = case_of(name)
    tokenizer = write_suite_tokenizer(tmp_path / "tokenizer", chosen.special)
    own = chosen.section["task"] in ("classify", "regress", "sft")
    rows = write_suite_rows(tmp_path / "rows", chosen.section["task"]) if own else {}
    dataset = None if own else write_suite_dataset(tmp_path / "dataset", chosen.special)
    job = build_job(parse_train_config(chosen.section | rows, name), name, "any", {}, tokenizer, dataset)
    curve = golden_curve(name)
    assert job.steps == len(curve.train) == STEPS
    assert list(curve.validation) == [STEPS // 2, STEPS]
    assert np.isfinite([*curve.train, *curve.validation.values()]).all()


Curve = dict[int, float]
CURVE_TESTS = ("test_the_loss_falls", "test_the_curve_is_the_golden_one", "test_the_validation_loss_is_the_golden_one")


def bench(change: Callable[[Curve], Curve]) -> Any:
    """Return a runner whose runs have modified golden curves."""

    def losses(name: str, kind: str = "log") -> Curve:
        curve = golden_curve(name)
        return change(dict(enumerate(curve.train, 1)) if kind == "log" else dict(curve.validation))

    return SimpleNamespace(trained=lambda name: SimpleNamespace(losses=lambda kind="log": losses(name, kind)))


def red(suite: type[BackendSuite], change: Callable[[Curve], Curve]) -> list[str]:
    """Return the names of the tests of curves that fail."""
    found = []
    for name in CURVE_TESTS:
        try:
            getattr(suite(), name)(bench(change), suite.cases[0])
        except AssertionError:
            found.append(name)
    return found


class Mine(BackendSuite):
    backend = "mine"
    cases = ("gpt2-clm",)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda curve: curve, ()),
        (lambda curve: {}, CURVE_TESTS),
        (lambda curve: dict(list(curve.items())[1:]), CURVE_TESTS),
        (lambda curve: dict.fromkeys(curve, float("nan")), CURVE_TESTS),
        (lambda curve: dict.fromkeys(curve, 5.0), CURVE_TESTS),
        (lambda curve: {step: loss * 1.001 for step, loss in curve.items()}, CURVE_TESTS[1:]),
    ],
)
def test_wrong_curves_fail(change: Callable[[Curve], Curve], expected: tuple[str, ...]) -> None:
    assert red(Mine, change) == list(expected)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [({"backend": ""}, "names no backend"), ({"cases": ()}, "has no `cases`"), ({"cases": ("gpt3",)}, "gpt3")],
)
def test_a_suite_without_a_backend_or_cases_fails(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        type("Empty", (Mine,), attributes)().test_names_its_backend_and_known_cases()
