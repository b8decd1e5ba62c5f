"""Read conversations from JSONL or Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jprep.config import suggest_name
from jprep.dataset.labelled.reader import LabelledConfig, read_records, refuse_directory
from jprep.errors import ConfigError, InputError

ASSISTANT = "assistant"
ROLES = ("system", "user", ASSISTANT)
_SUFFIXES = (".jsonl", ".parquet")

Message = dict[str, str]
"""A message: its `role` and its `content`."""


class Conversation(NamedTuple):
    """A conversation.

    Attributes:
        messages: its messages, at least one.
        location: file and line, for error messages.
    """

    messages: list[Message]
    location: str


def read_conversations(path: Path, column: str) -> Iterator[Conversation]:
    """Read the conversations of a file, `.jsonl` or `.parquet`.

    Args:
        path: the file.
        column: the column of the messages. Other columns, and other keys of messages, are ignored.

    Raises:
        ConfigError: the file does not exist, or has another suffix.
        InputError: an unreadable line, a missing column, or messages that are none.
    """
    refuse_directory(path, _SUFFIXES)
    if path.suffix not in _SUFFIXES:
        fix = 'one JSON object per line: {"messages": [{"role": "user", "content": "…"}, …]}'
        raise ConfigError("conversations are files .jsonl or .parquet", where=str(path), fix=fix)
    for location, record in read_records(path, LabelledConfig(), [column]):
        yield Conversation(_messages(record, column, location), location)


def _messages(record: Mapping[str, Any], column: str, location: str) -> list[Message]:
    if column not in record:
        fix = f"{suggest_name(column, record)}; train.sft.messages names the column"
        raise InputError(f"missing column {column!r}", where=location, fix=fix)
    found = record[column]
    if not isinstance(found, list) or not found:
        fix = 'a list such as [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]'
        raise InputError(f"column {column!r} must be a list of messages, got {found!r:.80}", where=location, fix=fix)
    return [_message(each, number, location) for number, each in enumerate(found, 1)]


def _message(found: Any, number: int, location: str) -> Message:
    what, fix = "", f"roles are {', '.join(ROLES)}; content is text"
    if not isinstance(found, dict) or not {"role", "content"} <= found.keys():
        what = f"message {number} must have role and content, got {found!r:.80}"
    elif found["role"] not in ROLES:
        what = f"message {number} has the role {found['role']!r:.40}"
        fix = suggest_name(str(found["role"]), ROLES)
    elif not isinstance(found["content"], str):
        what = f"the content of message {number} must be text, got {found['content']!r:.80}"
    if what:
        raise InputError(what, where=location, fix=fix)
    return {"role": found["role"], "content": found["content"]}
