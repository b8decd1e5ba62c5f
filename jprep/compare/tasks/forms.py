"""The forms of tasks: which fields a record has, the prompt, and the words of the labels. The defaults are JGLUE's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from jprep.compare.statistics.differences import ACCURACY, ANSWER_BITS, Measure
from jprep.config import ConfigSection

Form = Literal["multiple-choice", "nli", "sentiment", "qa"]


class TaskConfig(ConfigSection, frozen=True):
    """A task of one's own, as a TOML file. What is not given is as in JGLUE.

    Attributes:
        form: `multiple-choice` (JCommonsenseQA), `nli` (JNLI), `sentiment` (MARC-ja) or `qa` (JSQuAD); the other keys'
            defaults follow it.
        file: the items, relative to the TOML file: JSONL, CSV, TSV or Parquet; for `qa` also JSON as SQuAD's.
        name: name of the task; "" is the name of the TOML file.
        prompt: the text before the answer, with fields in braces; "" is the form's.
        choices: fields of the choices (`multiple-choice`).
        label: field of the number of the right choice, from 0, or of the label.
        labels: the word for each label, in the order of their numbers.
        answers: field of the answers (`qa`).
        compared: fields that are looked for in the training texts; none for the form's.
        encoding: encoding of CSV and TSV.
        limit: the most items to use, from the start of the file; 0 for all.
    """

    form: Form
    file: str
    name: str = ""
    prompt: str = ""
    choices: list[str] = []
    label: str = "label"
    labels: dict[str, str] = {}
    answers: str = "answers"
    compared: list[str] = []
    encoding: Literal["utf-8", "cp932", "shift_jis", "euc_jp"] = "utf-8"
    limit: int = 0


class FormDefaults(NamedTuple):
    """What a form's TOML file need not say.

    Attributes:
        prompt: the prompt.
        marks: fields by which a file without a TOML file is recognised.
        compared: fields that are looked for in the training texts.
        labels: the word for each label.
        measure: what is measured.
    """

    prompt: str
    marks: tuple[str, ...]
    compared: tuple[str, ...]
    labels: dict[str, str]
    measure: Measure


CHOICES = tuple(f"choice{number}" for number in range(5))

FORMS: dict[str, FormDefaults] = {
    "multiple-choice": FormDefaults("質問：{question}\n答え：", ("question", *CHOICES), ("question",), {}, ACCURACY),
    "nli": FormDefaults(
        "前提：{sentence1}\n仮説：{sentence2}\n関係：",
        ("sentence1", "sentence2"),
        ("sentence1", "sentence2"),
        {"entailment": "含意", "contradiction": "矛盾", "neutral": "中立"},
        ACCURACY,
    ),
    "sentiment": FormDefaults(
        "文章：{sentence}\n評価：", ("sentence",), ("sentence",), {"positive": "良い", "negative": "悪い"}, ACCURACY
    ),
    # The context is often Wikipedia's: its occurrence in a training text does not reveal the answer.
    "qa": FormDefaults(
        "文章：{context}\n質問：{question}\n答え：", ("context", "question", "answers"), ("question",), {}, ANSWER_BITS
    ),
}


def complete(config: TaskConfig) -> TaskConfig:
    """Return the config with the defaults of its form filled in."""
    defaults = FORMS[config.form]
    return msgspec.structs.replace(
        config,
        prompt=config.prompt or defaults.prompt,
        choices=config.choices or (list(CHOICES) if config.form == "multiple-choice" else []),
        labels=config.labels or defaults.labels,
        compared=config.compared or list(defaults.compared),
    )


def recognise(record: Mapping[str, Any]) -> Form | None:
    """Return the form of a record with the fields of one of JGLUE's tasks, or None."""
    form: Form
    for form in ("multiple-choice", "qa", "nli", "sentiment"):
        if all(name in record for name in FORMS[form].marks):
            return form
    return None
