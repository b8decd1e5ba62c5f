"""Answer the items of tasks by a model's likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jprep.compare.models.scoring import Client, score_windows
from jprep.compare.models.windows import Window
from jprep.compare.tasks.judging import TaskRows, judge, task_rows
from jprep.compare.tasks.task_files import Task
from jprep.dataset.preprocessing.document_encoder import end_of_document_id
from jprep.tokenizer.tokenizer import Tokenizer


class EncodedTask(NamedTuple):
    """A task as an arm's pipeline sees it.

    Attributes:
        task: the task.
        rows: the rows of its items.
    """

    task: Task
    rows: TaskRows


def encode_tasks(tasks: Sequence[Task], tokenizer: Tokenizer, length: int) -> list[EncodedTask]:
    """Encode the items of tasks.

    Args:
        tasks: the tasks.
        tokenizer: the arm's tokenizer.
        length: tokens of a row, at most the model's positions.
    """
    before = end_of_document_id(tokenizer)
    return [EncodedTask(task, task_rows(task.items, tokenizer, before, length)) for task in tasks]


def answer_tasks(client: Client, tasks: Sequence[EncodedTask]) -> dict[str, list[float]]:
    """Return the score of each item, by the task's name.

    Raises:
        JprepError: the model cannot score the rows.
    """
    found: dict[str, list[float]] = {}
    for task, made in tasks:
        likelihoods = score_windows(client, [Window(row.ids, row.start) for row in made.rows])
        found[task.name] = [round(float(score), 6) for score in judge(task, task.items, made, likelihoods)]
    return found
