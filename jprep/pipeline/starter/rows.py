"""Look at the rows of a starter recipe that fine-tunes a model: which columns they have, how many, and how long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from jprep.dataset.conversations.config import SftConfig, describe_counts
from jprep.dataset.conversations.reader import SUFFIXES as CHAT_SUFFIXES
from jprep.dataset.conversations.reader import read_conversations
from jprep.dataset.labelled.reader import LabelledConfig, LabelledRow, read_labelled_rows, read_records
from jprep.errors import ConfigError
from jprep.io.inputs.paths import expand_patterns, is_local
from jprep.pipeline.starter.encodings import encoding_option, find_encodings
from jprep.pipeline.starter.formats import files_in
from jprep.pipeline.starter.inputs import TEXT_FIELDS

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer

Item = TypeVar("Item")
LabelTask = Literal["classify", "regress"]
FineTuningTask = Literal[LabelTask, "sft"]

_TEXTS = (*TEXT_FIELDS, "review", "review_body", "comment", "レビュー", "感想")
_PAIRS = (("sentence1", "sentence2"), ("premise", "hypothesis"), ("text1", "text2"), ("text", "text_pair"))
_LABELS = ("label", "labels", "class", "category", "ラベル", "分類", "カテゴリ")
_SCORES = ("score", "target", "rating", "stars", "評価", "点数")
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

_CONVERSATION = 'one JSON object per line: {"messages": [{"role": "user", "content": "…"}, …]}; see docs/sft.md'
_FIRST = 100  # rows that show which columns there are
_SAMPLE = 2_000  # rows that are encoded to find their lengths
_ENCODING_HEAD = 1 << 20  # bytes


class RowSummary(NamedTuple):
    """What the rows of some files are.

    Attributes:
        paths: the files.
        columns: the keys of `[train.labelled]` or `[train.sft]` that name columns, and the encoding.
        rows: number of rows.
        sizes: tokens of each of some rows, by the model's tokenizer.
        labels: number of rows by label; of scores by score; none of conversations.
    """

    paths: tuple[str, ...]
    columns: dict[str, Any]
    rows: int
    sizes: npt.NDArray[np.int64]
    labels: Counter[str | float]

    def share_above(self, length: int) -> float:
        """Return the share of the rows that have more tokens."""
        return float((self.sizes > length).mean()) if len(self.sizes) else 0.0


def look_at_labelled(
    patterns: Sequence[str], task: LabelTask, tokenizer: Tokenizer, text: str = "", label: str = ""
) -> RowSummary:
    """Read labelled rows, all of them, and encode some.

    Args:
        patterns: files or patterns.
        task: the task.
        tokenizer: the model's.
        text: the column of the text; "" finds it, or two of a text pair.
        label: the column of the label or score; "" finds it.

    Raises:
        ConfigError: nothing matches, no column can be the text or the label, or there is one label only.
        InputError: a row that cannot be used.
    """
    paths = _files(patterns)
    encoding = _encoding(paths)
    names = _column_names(paths[0], LabelledConfig(**encoding))
    usual = (*_LABELS, *_SCORES) if task == "classify" else (*_SCORES, *_LABELS)
    columns = _text_columns(names, text, paths[0]) | {"label": _named(names, label, usual, "--label-field", paths[0])}
    if columns["label"] in (columns["text"], columns.get("pair")):
        what = f"the column {columns['label']!r} cannot be both text and label"
        raise ConfigError(what, where=paths[0], fix="give two columns: --text-field, --label-field")
    rows, labels, count = _labelled_rows(paths, columns | encoding, task)
    if task == "classify" and len(labels) < 2:
        what = f"all rows have the same label: {', '.join(map(str, labels))}"
        raise ConfigError(what, where=paths[0], fix="--label-field with another column, or files with more labels")
    sizes = _sizes(tokenizer, [row.text for row in rows], [row.pair for row in rows] if "pair" in columns else None)
    return RowSummary(tuple(paths), columns | encoding, count, sizes, labels)


def look_at_conversations(patterns: Sequence[str], tokenizer: Tokenizer, positions: int) -> RowSummary:
    """Read conversations, all of them, and encode some.

    Args:
        patterns: files or patterns.
        tokenizer: the model's.
        positions: the most tokens that the model takes.

    Raises:
        ConfigError: nothing matches, no columns can be a conversation, none has an answer that the model can take, or
            the tokenizer's chat template cannot be used.
        InputError: a row that is no conversation.
        MachineError: Jinja2 is not installed.
    """
    from jprep.dataset.conversations.encoding import ChatEncoder

    paths = _files(patterns)
    if other := next((path for path in paths if Path(path).suffix not in CHAT_SUFFIXES), ""):
        raise ConfigError("conversations are files .jsonl or .parquet", where=other, fix=_CONVERSATION)
    columns = _conversation_columns(_column_names(paths[0], LabelledConfig()), paths[0])
    encoder, found = ChatEncoder(tokenizer), SftConfig(**columns)
    sample, count = _spread(chain.from_iterable(read_conversations(Path(path), found) for path in paths))
    sizes = np.diff(encoder.encode(sample, 1 << 30).offsets)
    if (sizes > positions).all() and not len(fitting := encoder.encode(sample, positions)):
        what = f"no conversation has an answer that fits: {describe_counts(fitting.counts)}"
        fix = f"files with answers of the assistant; the model takes {positions:,} tokens"
        raise ConfigError(what, where=paths[0], fix=fix)
    return RowSummary(tuple(paths), columns, count, sizes, Counter())


def check_validation(patterns: Sequence[str], task: FineTuningTask, found: RowSummary) -> tuple[str, ...]:
    """Return the files with rows to validate on, after reading them with the columns of the rows to train on.

    Args:
        patterns: files or patterns.
        task: the task.
        found: the rows to train on.

    Raises:
        ConfigError: nothing matches, or a label that the rows to train on do not have.
        InputError: a row that cannot be used.
    """
    paths = _files(patterns)
    if task == "sft":
        for path in paths:
            for _ in read_conversations(Path(path), SftConfig(**found.columns)):
                pass
        return tuple(paths)
    labels = _labelled_rows(paths, found.columns, task)[1]
    if task == "classify" and (unknown := sorted(map(str, labels.keys() - found.labels.keys()))):
        what = f"no row to train on has the label {unknown[0]!r}"
        raise ConfigError(what, where="--validation", fix="use files with the same labels")
    return tuple(paths)


def _labelled_rows(
    paths: Sequence[str], columns: dict[str, Any], task: LabelTask
) -> tuple[list[LabelledRow], Counter[str | float], int]:
    """Read all rows; return some of them, the number of rows by label, and their number."""
    config, labels = msgspec.structs.replace(LabelledConfig(), **columns), Counter[str | float]()

    def counted(row: LabelledRow) -> LabelledRow:
        labels[row.label] += 1
        return row

    rows, count = _spread(counted(row) for path in paths for row in read_labelled_rows(Path(path), config, task))
    return rows, labels, count


def _spread(items: Iterable[Item]) -> tuple[list[Item], int]:
    """Return some items from the whole of an iterable, at equal distances, and the number of all."""
    kept, stride, count = list[Item](), 1, 0
    for count, item in enumerate(items, 1):
        if (count - 1) % stride:
            continue
        kept.append(item)
        if len(kept) == 2 * _SAMPLE:
            kept, stride = kept[::2], 2 * stride
    return kept, count


def _files(patterns: Sequence[str]) -> list[str]:
    found = expand_patterns([name for pattern in patterns for name in files_in(pattern)])
    if remote := next((path for path in found if not is_local(path)), ""):
        raise ConfigError("rows to fine-tune on are read from local files", where=remote, fix="download the file first")
    return found


def _encoding(paths: Sequence[str]) -> dict[str, Any]:
    """Return the option `encoding` of tables that are not in UTF-8."""
    tables = (path for path in paths if Path(path).suffix in (".csv", ".tsv"))
    return encoding_option(find_encodings((path, _head(path), _ENCODING_HEAD) for path in tables), "csv")


def _head(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(_ENCODING_HEAD)


def _column_names(path: str, config: LabelledConfig) -> list[str]:
    """Return the names of the columns of a file's first rows."""
    names = list(dict.fromkeys(name for _, row in islice(read_records(Path(path), config), _FIRST) for name in row))
    if not names:
        raise ConfigError("the file has no rows", where=path, fix="give another one")
    return names


def _text_columns(names: Sequence[str], text: str, path: str) -> dict[str, str]:
    pair = next((pair for pair in _PAIRS if set(pair) <= set(names)), None)
    if pair and not text:
        return dict(zip(("text", "pair"), pair, strict=True))
    return {"text": _named(names, text, _TEXTS, "--text-field", path)}


def _named(names: Sequence[str], wanted: str, usual: Sequence[str], option: str, path: str) -> str:
    """Return a column: the wanted one, or the first that has a usual name, in lower or upper case."""
    if wanted in names:
        return wanted
    lower = {name.lower(): name for name in reversed(names)}
    if found := next((lower[name] for name in usual if name in lower), "") if not wanted else "":
        return found
    what = f"there is no column {wanted!r}" if wanted else f"there is no column called {', '.join(usual)}"
    raise ConfigError(what, where=path, fix=f"{option} with one of {', '.join(map(repr, names[:20]))}")


def _conversation_columns(names: Sequence[str], path: str) -> dict[str, str]:
    if found := next((name for name in _MESSAGES if name in names), ""):
        return {"messages": found} if found != SftConfig().messages else {}
    if pair := next((columns for columns in _PROMPTS if set(columns.values()) <= set(names)), None):
        return dict(pair) | ({"system": "system"} if "system" in names else {})
    what = f"no columns for a conversation in {', '.join(map(repr, names[:20]))}"
    raise ConfigError(what, where=path, fix=_CONVERSATION)


def _sizes(tokenizer: Tokenizer, texts: list[str], pairs: list[str] | None) -> npt.NDArray[np.int64]:
    """Return the number of tokens of each row."""
    from jprep.dataset.sampling.special_ids import special_ids

    special = special_ids(tokenizer)
    sizes: npt.NDArray[np.int64] = np.diff(tokenizer.encode_batch(texts)[1])
    if pairs is None:
        return sizes + special.around
    return sizes + np.diff(tokenizer.encode_batch(pairs)[1]) + special.around_pair
