"""Read conversations from JSONL or Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jprep.config import suggest_name
from jprep.dataset.conversations.config import SftConfig
from jprep.dataset.labelled.reader import LabelledConfig, read_records, refuse_directory
from jprep.errors import ConfigError, InputError

ASSISTANT = "assistant"
ROLES = ("system", "user", ASSISTANT)
SUFFIXES = (".jsonl", ".parquet")
"""Suffixes of the files that are read."""

_OTHER_ROLES = {"human": "user", "gpt": ASSISTANT}
"""Roles of messages with `from` and `value`, as ShareGPT has them."""
_PAIR, _OPTIONAL = ("system", "prompt", "context", "answer"), ("system", "context")

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


def read_conversations(path: Path, config: SftConfig) -> Iterator[Conversation]:
    """Read the conversations of a file, `.jsonl` or `.parquet`.

    Args:
        path: the file.
        config: names the columns. Other columns, and other keys of messages, are ignored.

    Raises:
        ConfigError: the file does not exist, or has another suffix.
        InputError: an unreadable line, a missing column, or messages that are none.
    """
    refuse_directory(path, SUFFIXES)
    if path.suffix not in SUFFIXES:
        fix = 'one JSON object per line: {"messages": [{"role": "user", "content": "…"}, …]}'
        raise ConfigError("conversations are files .jsonl or .parquet", where=str(path), fix=fix)
    read = _pair if config.prompt else _messages
    columns = config.columns()
    unseen, last = set(columns.values()), None
    for location, record in read_records(path, LabelledConfig(), [*columns.values()]):
        yield Conversation(read(record, columns, location), location)
        unseen, last = unseen - record.keys(), record
    for key, column in columns.items():
        if last and column in unseen:  # an optional one: each row must have the others
            _value(last, key, column, str(path))


def _pair(record: Mapping[str, Any], columns: Mapping[str, str], location: str) -> list[Message]:
    """Return the messages of a row with a text and its answer."""
    system, prompt, context, answer = (_text(record, key, columns, location) for key in _PAIR)
    prompt = "\n\n".join(part for part in (prompt, context) if part.strip())
    messages = [{"role": "system", "content": system}] if system.strip() else []
    return [*messages, {"role": "user", "content": prompt}, {"role": ASSISTANT, "content": answer}]


def _text(record: Mapping[str, Any], key: str, columns: Mapping[str, str], location: str) -> str:
    """Return a text of a row, by the key that names its column; "" if it is optional and the row has none."""
    column = columns.get(key, "")
    if key in _OPTIONAL and (not column or record.get(column) is None):
        return ""
    found = _value(record, key, column, location)
    if not isinstance(found, str):
        fix = f"name a column of text as train.sft.{key}"
        raise InputError(f"column {column!r} must be text, got {found!r:.80}", where=location, fix=fix)
    return found


def _value(record: Mapping[str, Any], key: str, column: str, location: str) -> Any:
    if column not in record:
        fix = f"{suggest_name(column, record)}; train.sft.{key} names the column"
        raise InputError(f"missing column {column!r}", where=location, fix=fix)
    return record[column]


def _messages(record: Mapping[str, Any], columns: Mapping[str, str], location: str) -> list[Message]:
    column = columns["messages"]
    found = _value(record, "messages", column, location)
    if not isinstance(found, list) or not found:
        fix = 'a list such as [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]'
        raise InputError(f"column {column!r} must be a list of messages, got {found!r:.80}", where=location, fix=fix)
    return [_message(each, number, location) for number, each in enumerate(found, 1)]


def _message(found: Any, number: int, location: str) -> Message:
    what, fix = "", f"roles are {', '.join(ROLES)}; content is text"
    if isinstance(found, dict) and {"from", "value"} <= found.keys() and found.get("role") is None:
        found = {"role": _OTHER_ROLES.get(str(found["from"]), found["from"]), "content": found["value"]}
    if not isinstance(found, dict) or not {"role", "content"} <= found.keys():
        what = f"message {number} must have role and content, got {found!r:.80}"
    elif found["role"] not in ROLES:
        what = f"message {number} has the role {found['role']!r:.40}"
        fix = suggest_name(str(found["role"]), (*ROLES, *_OTHER_ROLES))
    elif not isinstance(found["content"], str):
        what = f"the content of message {number} must be text, got {found['content']!r:.80}"
    if what:
        raise InputError(what, where=location, fix=fix)
    return {"role": found["role"], "content": found["content"]}
