"""Ask a model for the likelihood of answers, and judge them.

An answer's log-likelihood given its prompt is that of the tokens of prompt + answer minus that of the tokens of the
prompt. Both count from the first token in which they differ. Where the tokenizer does not join characters across the
boundary, these are exactly the tokens of the answer. Where it does (a token may hold the prompt's last and the answer's
first character), no token of the whole is left out or counted twice, and no choice gains by how it happens to be cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from jprep.compare.tasks.task_files import Task, TaskItem

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.integer[Any]]


class TokenizerLike(Protocol):
    """The part of a tokenizer that is needed; `jprep.load_tokenizer` returns one."""

    def encode_batch(self, texts: Sequence[str]) -> Any:
        """Return the ids of all texts, concatenated, and the offset of each text."""


class Row(NamedTuple):
    """A row of tokens for a model.

    Attributes:
        ids: the tokens.
        start: the first index whose log-likelihood counts, at least 1.
    """

    ids: list[int]
    start: int


class TaskRows(NamedTuple):
    """The rows whose log-likelihoods answer a task's items.

    Attributes:
        rows: the rows, of all items.
        whole: for each item, the rows of its choices with the prompt.
        shared: for each item, the row of the prompt's part of these rows; None if they have none.
        shortened: number of items of which a row lost its beginning because the model's context is too short.
    """

    rows: list[Row]
    whole: list[range]
    shared: list[int | None]
    shortened: int


def task_rows(items: Sequence[TaskItem], tokenizer: TokenizerLike, before: int, length: int) -> TaskRows:
    """Return the rows to score for some items.

    Args:
        items: the items.
        tokenizer: the model's tokenizer.
        before: id before each row, such as the end of a document.
        length: maximum tokens of a row; the beginning of a longer one is left out.
    """
    texts = [text for item in items for text in (item.prompt, *(item.prompt + choice for choice in item.choices))]
    encoded, made, shortened = _encode(tokenizer, texts), TaskRows([], [], [], 0), 0
    for item in items:
        prompt, *wholes = (next(encoded) for _ in range(1 + len(item.choices)))
        begin = max(0, min(min(_common(prompt, whole), len(whole) - 1) for whole in wholes))
        first = len(made.rows)
        made.rows.extend(_row(before, whole, begin, length) for whole in wholes)
        made.whole.append(range(first, len(made.rows)))
        made.shared.append(len(made.rows) if begin < len(prompt) else None)
        if begin < len(prompt):
            made.rows.append(_row(before, prompt, begin, length))
        shortened += max(map(len, wholes)) + 1 > length
    return made._replace(shortened=shortened)


def judge(task: Task, items: Sequence[TaskItem], made: TaskRows, likelihoods: Sequence[float]) -> Floats:
    """Return the score of each item, (items).

    Multiple choice: 1 if the right choice has the highest log-likelihood per character (tokens differ between
    tokenizers, characters do not). Labels: 1 if the right label's word has the highest log-likelihood. Answers: the
    bits of the first answer, to be divided by its characters. Of equally likely choices, the score is shared.

    Args:
        task: the task.
        items: the items of `task_rows`.
        made: the rows.
        likelihoods: natural logarithms, of the rows.
    """
    scores = np.zeros(len(items))
    for number, item in enumerate(items):
        shared = made.shared[number]
        common = likelihoods[shared] if shared is not None else 0.0
        found = np.array([likelihoods[row] - common for row in made.whole[number]])
        if task.config.form == "qa":
            scores[number] = -found[0] / log(2)
            continue
        if task.config.form == "multiple-choice":
            found = found / [len(choice) for choice in item.choices]
        best = found == found.max()
        scores[number] = best[item.right] / best.sum()
    return scores


def weights(task: Task, items: Sequence[TaskItem]) -> Floats:
    """Return the weight of each item, (items): the characters of the answer, or 1 for each if there is a choice."""
    return np.array([len(item.choices[0]) if task.config.form == "qa" else 1.0 for item in items])


def _encode(tokenizer: TokenizerLike, texts: Sequence[str]) -> Iterator[Ids]:
    ids, offsets = tokenizer.encode_batch(texts)
    return (ids[start:end] for start, end in pairwise(offsets.tolist()))


def _common(one: Ids, other: Ids) -> int:
    """Return the length of the longest common beginning."""
    length = min(len(one), len(other))
    different = np.flatnonzero(one[:length] != other[:length])
    return int(different[0]) if len(different) else length


def _row(before: int, ids: Ids, begin: int, length: int) -> Row:
    cut = max(0, len(ids) + 1 - length)
    row = ids[cut - 1 :].tolist() if cut else [before, *ids.tolist()]
    if len(row) == 1:  # the normalizer deletes all characters of the text
        row.append(before)
    return Row(row, max(1, begin + 1 - cut))
