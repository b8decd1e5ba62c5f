"""Read tasks from files: JSONL, CSV, TSV, Parquet, SQuAD's JSON, with a TOML file for tasks of one's own."""

from __future__ import annotations

import re
import string
import tomllib
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.compare.statistics.differences import Measure
from jprep.compare.tasks.forms import FORMS, TaskConfig, complete, recognise
from jprep.config import parse_config, suggest_name
from jprep.dataset.labelled.reader import LabelledConfig, Record, read_records
from jprep.errors import ConfigError, InputError

_SEPARATOR = re.compile(r"\s*\[SEP\]\s*")  # JSQuAD's, between the title and the paragraph
_SUFFIXES = (".jsonl", ".csv", ".tsv", ".parquet", ".json")
_ENCODING = "save the file as UTF-8, or give a TOML file with `encoding`"


class TaskItem(NamedTuple):
    """An item of a task.

    Attributes:
        id: the file's name and the line, row or question.
        prompt: the text before the answer.
        choices: possible continuations; if there is nothing to choose, the first right answer.
        right: the index of the right choice.
        answers: all right answers.
        compared: texts of the item that are looked for in the training texts.
    """

    id: str
    prompt: str
    choices: tuple[str, ...]
    right: int
    answers: tuple[str, ...]
    compared: tuple[str, ...]


class Task(NamedTuple):
    """A task.

    Attributes:
        name: its name.
        config: how it was read.
        items: its items, each once.
        repeated: number of items that were left out because an earlier one has the same prompt and answers.
    """

    name: str
    config: TaskConfig
    items: list[TaskItem]
    repeated: int

    @property
    def measure(self) -> Measure:
        """What is measured."""
        return FORMS[self.config.form].measure

    @property
    def chance(self) -> float:
        """The score of guessing; 0 if there is nothing to choose."""
        return 0.0 if self.config.form == "qa" else sum(1 / len(item.choices) for item in self.items) / len(self.items)


def load_task(path: Path) -> Task:
    """Read a task: a TOML file that describes it, or a file with the fields of a task of JGLUE's.

    Raises:
        ConfigError: a file does not exist, or a key of the TOML file is wrong.
        InputError: an item is malformed; the error names the file, the line and the field.
    """
    config, data = (_described(path), None) if path.suffix == ".toml" else (None, path)
    data = data or path.parent / config.file  # type: ignore[union-attr]
    records = _records(data, config.encoding if config else "utf-8")
    first = next(records, None)
    if first is None:
        raise InputError("the file has no items", where=str(data), fix="give a file with at least two items")
    config = config or _recognised(first, data)
    chosen = chain([first], records)
    reader = _ItemReader(config, data)
    read = [reader.item(*record) for record in (islice(chosen, config.limit) if config.limit else chosen)]
    unique = dict[TaskItem, TaskItem]()
    for item in read:
        unique.setdefault(item._replace(id=""), item)
    items = list(unique.values())
    if len(items) < 2:
        raise InputError(f"the task has only {len(items)} item", where=str(data), fix="give at least two")
    return Task(config.name or path.stem, config, items, len(read) - len(items))


def files_of_task(path: Path) -> list[Path]:
    """Return the files that a task is read from: a TOML file and the file that it names, or a file of items.

    Raises:
        ConfigError: a key of the TOML file is wrong.
    """
    return [path, path.parent / _described(path).file] if path.suffix == ".toml" else [path]


def _described(path: Path) -> TaskConfig:
    try:
        with path.open("rb") as file:
            raw = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read the file: {error.strerror}", where=str(path), fix="check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"invalid TOML: {error}", where=str(path), fix="correct the line that is named") from error
    config = complete(parse_config(raw, TaskConfig, where=str(path)))
    if config.limit < 0 or (config.form == "multiple-choice" and len(config.choices) < 2):
        raise ConfigError("`limit` must be at least 0 and `choices` at least two fields", where=str(path))
    if config.form in ("nli", "sentiment") and len(set(config.labels.values())) < 2:
        raise ConfigError("`labels` must have two different words", where=str(path), fix='[labels]\n"1" = "はい"')
    _prompt_fields(config, path)
    return config


def _prompt_fields(config: TaskConfig, path: Path) -> list[str]:
    """Return the names of the fields in the prompt.

    Raises:
        ConfigError: its braces do not match, or ask for more than a field's text.
    """
    try:
        parts = list(string.Formatter().parse(config.prompt))
    except ValueError as error:
        raise ConfigError(f"malformed `prompt`: {error}", where=str(path), fix="write {field}; {{ for {") from error
    for _, name, form, conversion in parts:
        if name is not None and (form or conversion or not name or set(name) & set(".[]")):
            what = f"malformed `prompt`: {{{name}}} must be the name of a field"
            raise ConfigError(what, where=str(path), fix='e.g. prompt = "質問：{question}\\n答え："')
    return [name for _, name, _, _ in parts if name]


def _recognised(first: Record, path: Path) -> TaskConfig:
    location, record = first
    form = recognise(record)
    if form is None:
        fix = "describe the task in a TOML file (docs/compare-tasks.md): form, file, prompt, choices or labels"
        raise InputError(f"no task has these fields: {', '.join(map(repr, record))[:200]}", where=location, fix=fix)
    return complete(TaskConfig(form=form, file=path.name))


def _records(path: Path, encoding: str) -> Iterator[Record]:
    if path.suffix not in _SUFFIXES:
        fix = f"supported: {', '.join(_SUFFIXES)}, and .toml for a task of your own"
        raise ConfigError(f"unknown format of a task: {path.suffix or path.name!r}", where=str(path), fix=fix)
    if path.suffix == ".json":
        yield from _squad(path)
        return
    try:
        yield from read_records(path, LabelledConfig(encoding=encoding))  # type: ignore[arg-type]
    except InputError as error:
        if error.setting is None:
            raise
        raise error.replace(fix=_ENCODING) from error


def _squad(path: Path) -> Iterator[Record]:
    """Yield the questions of a file in SQuAD's JSON, or the records of a JSON list."""
    try:
        found = msgspec.json.decode(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except OSError as error:
        raise ConfigError(f"cannot read the file: {error.strerror}", where=str(path), fix="check the path") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"invalid JSON: {error}", where=str(path), fix="one record per line is .jsonl") from error
    if isinstance(found, list):
        yield from _numbered(found, f"{path}, record")
        return
    for place, article in _numbered(_field(found, "data", str(path)), f"{path}, article"):
        for inner, paragraph in _numbered(_field(article, "paragraphs", place), f"{place}, paragraph"):
            for last, question in _numbered(_field(paragraph, "qas", inner), f"{inner}, question"):
                yield last, {"context": _field(paragraph, "context", inner), **question}


def _numbered(values: Any, place: str) -> Iterator[Record]:
    if not isinstance(values, list):
        raise InputError(f"expected a list, got {values!r:.60}", where=place, fix="give SQuAD's JSON, or .jsonl")
    for number, value in enumerate(values):
        if not isinstance(value, dict):
            raise InputError(f"expected an object, got {value!r:.60}", where=f"{place} {number}", fix="correct it")
        yield f"{place} {number}", value


def _field(record: Any, name: str, location: str) -> Any:
    if not isinstance(record, Mapping) or name not in record:
        names = [str(key) for key in record] if isinstance(record, Mapping) else []
        raise InputError(f"missing field {name!r}", where=location, fix=suggest_name(name, names))
    return record[name]


class _ItemReader:
    """Makes items of records."""

    def __init__(self, config: TaskConfig, path: Path) -> None:
        self._config = config
        self._names = _prompt_fields(config, path)
        self._path = path

    def item(self, location: str, record: Mapping[str, Any]) -> TaskItem:
        """Return the item of a record.

        Raises:
            InputError: a field is missing, empty or of another kind.
        """
        config = self._config
        fields = {name: _SEPARATOR.sub("\n", _text(record, name, location)) for name in self._names}
        choices, right = self._choices(record, location)
        answers = choices if config.form == "qa" else choices[right : right + 1]
        choices = choices[:1] if config.form == "qa" else choices
        compared = tuple(_text(record, name, location) for name in config.compared)
        identity = location.removeprefix(f"{self._path}, ")
        return TaskItem(
            f"{self._path.name}, {identity}", config.prompt.format(**fields), choices, right, answers, compared
        )

    def _choices(self, record: Mapping[str, Any], location: str) -> tuple[tuple[str, ...], int]:
        """Return the choices, or all right answers, and the index of the right one."""
        config = self._config
        if config.form == "qa":
            return _gold_answers(_field(record, config.answers, location), config.answers, location), 0
        label = _field(record, config.label, location)
        if config.form == "multiple-choice":
            choices = tuple(_text(record, name, location) for name in config.choices)
            return choices, _number(label, len(choices), config.label, location)
        return tuple(config.labels.values()), self._label(label, location)

    def _label(self, label: Any, location: str) -> int:
        names = list(self._config.labels)
        if isinstance(label, str) and label in names:
            return names.index(label)
        try:
            return _number(label, len(names), self._config.label, location)
        except InputError as error:
            known = ", ".join(map(repr, names))
            fix = f"available: {known}, or their numbers from 0; others go into [labels] of a TOML file"
            raise InputError(
                f"field {self._config.label!r}: no label {label!r:.60}", where=location, fix=fix
            ) from error


def _text(record: Mapping[str, Any], name: str, location: str) -> str:
    value = _field(record, name, location)
    if isinstance(value, bool | float) or not isinstance(value, str | int) or not str(value).strip():
        what = "is empty" if isinstance(value, str) else f"must be text, got {value!r:.60}"
        raise InputError(f"field {name!r} {what}", where=location, fix="correct or remove the item")
    return str(value)


def _number(value: Any, count: int, name: str, location: str) -> int:
    plain = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not (plain.isascii() and plain.isdecimal() and len(plain) < 4 and int(plain) < count):
        what = f"field {name!r} must be the number of a choice, 0 to {count - 1}, got {value!r:.60}"
        raise InputError(what, where=location, fix="correct or remove the item")
    return int(plain)


def _gold_answers(value: Any, name: str, location: str) -> tuple[str, ...]:
    """Return the answers of SQuAD's list of objects, of a mapping of lists as in `datasets`, or of plain texts."""
    if isinstance(value, Mapping):
        value = value.get("text")
    found = [part.get("text") if isinstance(part, Mapping) else part for part in _listed(value)]
    answers = tuple(dict.fromkeys(part for part in found if isinstance(part, str) and part.strip()))
    if not answers or len(found) != sum(isinstance(part, str) for part in found):
        what = f"field {name!r} must hold at least one answer's text, got {value!r:.60}"
        raise InputError(what, where=location, fix='e.g. "answers": [{"text": "東京"}]')
    return answers


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
