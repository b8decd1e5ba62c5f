"""Look at the rows of a starter recipe that fine-tunes a model: which columns they have, how many, and how long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
import numpy as np

from jprep.dataset.conversations.config import SftConfig
from jprep.dataset.labelled.reader import LabelledConfig, LabelledRow, read_labelled_rows, read_records
from jprep.errors import ConfigError
from jprep.io.inputs.paths import expand_patterns, is_local
from jprep.pipeline.starter.encodings import UTF8, encoding_of, encoding_option
from jprep.pipeline.starter.formats import files_in
from jprep.pipeline.starter.inputs import TEXT_FIELDS

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer

FineTuningTask = Literal["classify", "regress", "sft"]

_PAIRS = (("sentence1", "sentence2"), ("premise", "hypothesis"), ("text1", "text2"), ("text", "text_pair"))
_LABELS = (
    "label",
    "labels",
    "class",
    "category",
    "target",
    "score",
    "rating",
    "ラベル",
    "分類",
    "カテゴリ",
    "評価",
    "点数",
)
_MESSAGES = ("messages", "conversations", "conversation")
_PROMPTS = (
    {"prompt": "instruction", "context": "input", "answer": "output"},
    {"prompt": "instruction", "context": "context", "answer": "response"},
    {"prompt": "instruction", "answer": "output"},
    {"prompt": "instruction", "answer": "response"},
    {"prompt": "prompt", "answer": "response"},
    {"prompt": "prompt", "answer": "completion"},
    {"prompt": "question", "answer": "answer"},
    {"prompt": "質問", "answer": "回答"},
)
"""Columns of a text and its answer in published data, by the keys of `[train.sft]`."""

_SAMPLE = 2_000  # rows that are encoded to find their lengths
_MOST = 0.99  # share of these rows that are not truncated
_ENCODING_HEAD = 1 << 20  # bytes


class RowSummary(NamedTuple):
    """What the rows are.

    Attributes:
        paths: the files.
        columns: the keys of `[train.labelled]` or `[train.sft]` that name columns.
        rows: number of rows.
        tokens: tokens of a long row, of the model's tokenizer.
        mean: tokens of a row, about.
        labels: number of rows by label; empty for scores and conversations.
    """

    paths: tuple[str, ...]
    columns: dict[str, Any]
    rows: int
    tokens: int
    mean: float
    labels: dict[str, int] = {}


def look_at_labelled(
    patterns: Sequence[str], task: Literal["classify", "regress"], tokenizer: Tokenizer, text: str = "", label: str = ""
) -> RowSummary:
    """Read labelled rows, all of them, and encode the first ones.

    Args:
        patterns: files or patterns.
        task: the task.
        tokenizer: the model's.
        text: the column of the text; "" finds it, or two of a text pair.
        label: the column of the label or score; "" finds it.

    Raises:
        ConfigError: nothing matches, or no column can be the text or the label.
        InputError: a row that cannot be used.
    """
    paths = _files(patterns)
    config = LabelledConfig(**_encoding(paths))
    names = _columns(paths[0], config)
    columns = _text_columns(names, text, paths[0]) | {"label": _named(names, label, _LABELS, "--label-field", paths[0])}
    config = msgspec.structs.replace(config, **columns)
    rows, labels = list[LabelledRow](), Counter[str]()
    for row in chain.from_iterable(read_labelled_rows(Path(path), config, task) for path in paths):
        labels[str(row.label)] += 1
        rows += [row] if len(rows) < _SAMPLE else []
    sizes = _sizes(tokenizer, [row.text for row in rows], [row.pair for row in rows] if config.pair else None)
    encoding = {"encoding": config.encoding} if config.encoding != UTF8 else {}
    of_each = dict(labels) if task == "classify" else {}
    return RowSummary(tuple(paths), columns | encoding, labels.total(), *_typical(sizes), of_each)


def look_at_conversations(patterns: Sequence[str], tokenizer: Tokenizer, positions: int) -> RowSummary:
    """Read conversations, all of them, and encode the first ones.

    Args:
        patterns: files or patterns.
        tokenizer: the model's.
        positions: the most tokens that the model takes.

    Raises:
        ConfigError: nothing matches, no columns can be a conversation, or the tokenizer's chat template cannot be used.
        InputError: a row that is no conversation.
        MachineError: Jinja2 is not installed.
    """
    from jprep.dataset.conversations.encoding import ChatEncoder
    from jprep.dataset.conversations.reader import read_conversations

    paths = _files(patterns)
    columns = _conversation_columns(_columns(paths[0], LabelledConfig()), paths[0])
    found = chain.from_iterable(read_conversations(Path(path), SftConfig(**columns)) for path in paths)
    sample = list(islice(found, _SAMPLE))
    rows = len(sample) + sum(1 for _ in found)
    sizes = np.diff(ChatEncoder(tokenizer).encode(sample, positions).offsets)
    return RowSummary(tuple(paths), columns, rows, *_typical(sizes))


def _files(patterns: Sequence[str]) -> list[str]:
    found = expand_patterns([name for pattern in patterns for name in files_in(pattern)])
    if remote := next((path for path in found if not is_local(path)), ""):
        raise ConfigError("rows to fine-tune on are read from local files", where=remote, fix="download the file first")
    return found


def _encoding(paths: Sequence[str]) -> dict[str, Any]:
    """Return the option `encoding` of the first file if it is a table that is not in UTF-8."""
    path = Path(paths[0])
    if path.suffix not in (".csv", ".tsv"):
        return {}
    with path.open("rb") as file:
        head = file.read(_ENCODING_HEAD)
    found = encoding_of(head, complete=len(head) < _ENCODING_HEAD)
    return encoding_option({found: str(path)}, path.suffix[1:])


def _columns(path: str, config: LabelledConfig) -> list[str]:
    """Return the names of the columns of a file's first row."""
    for _, record in read_records(Path(path), config):
        return list(record)
    raise ConfigError("the file has no rows", where=path, fix="give another one")


def _text_columns(names: Sequence[str], text: str, path: str) -> dict[str, str]:
    pair = next((pair for pair in _PAIRS if set(pair) <= set(names)), None)
    if pair and not text:
        return dict(zip(("text", "pair"), pair, strict=True))
    return {"text": _named(names, text, TEXT_FIELDS, "--text-field", path)}


def _named(names: Sequence[str], wanted: str, usual: Sequence[str], option: str, path: str) -> str:
    """Return a column: the wanted one, or the first that has a usual name."""
    if found := next((name for name in ([wanted] if wanted else usual) if name in names), ""):
        return found
    what = f"there is no column {wanted!r}" if wanted else f"there is no column called {', '.join(usual)}"
    raise ConfigError(what, where=path, fix=f"{option} with one of {', '.join(map(repr, names[:20]))}")


def _conversation_columns(names: Sequence[str], path: str) -> dict[str, str]:
    if found := next((name for name in _MESSAGES if name in names), ""):
        return {"messages": found} if found != SftConfig().messages else {}
    if pair := next((columns for columns in _PROMPTS if set(columns.values()) <= set(names)), None):
        return dict(pair) | ({"system": "system"} if "system" in names else {})
    what = f"no columns for a conversation in {', '.join(map(repr, names[:20]))}"
    fix = "one JSON object per line, with messages, or with instruction and output; docs/sft.md lists the forms"
    raise ConfigError(what, where=path, fix=fix)


def _sizes(tokenizer: Tokenizer, texts: list[str], pairs: list[str] | None) -> Any:
    """Return the number of tokens of each row."""
    from jprep.dataset.sampling.special_ids import special_ids

    special = special_ids(tokenizer)
    sizes = np.diff(tokenizer.encode_batch(texts)[1])
    if pairs is None:
        return sizes + special.around
    return sizes + np.diff(tokenizer.encode_batch(pairs)[1]) + special.around_pair


def _typical(sizes: Any) -> tuple[int, float]:
    """Return the tokens of a long row, and of a row on average."""
    return (int(np.quantile(sizes, _MOST)), float(sizes.mean())) if len(sizes) else (1, 1.0)
