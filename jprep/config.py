"""Parse typed configuration from TOML data; an error names the key and suggests what to write instead."""

from __future__ import annotations

import difflib
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from jprep.errors import ConfigError
from jprep.toml_values import toml
from jprep.typed_json import convert

T = TypeVar("T")

_NAMED = ("executor", "of", "reader", "segmenter", "splitter")
"""Keys whose value may be a name in place of a table with it as `use`."""

_ALL_KEYS = "docs/recipes.md lists every key and its values"
_MAIN = ("kind", "preset", "use")
"""Keys of a table whose value may be meant where the table is expected."""

_PATH = r"(?:\.[A-Za-z_]\w*|\[\d+\])*\.[A-Za-z_]\w*|"
"""Where the key of a value is known, as msgspec spells it: `.corpus.sources[0].paths`, or "" for the whole."""

_WORDS = {
    "object": "a table",
    "array": "a list",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "date": "a date",
    "time": "a time",
    "datetime": "a date and time",
    "null": "nothing",
}
_TYPES = re.compile("`((?:{0})(?: [|] (?:{0}))*)`".format("|".join(_WORDS)))


class ConfigSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a recipe. Unknown keys are errors."""


def parse_config(raw: object, kind: type[T], *, where: str) -> T:
    """Convert plain data to a typed section.

    Args:
        raw: what TOML or JSON gives: dictionaries, lists, strings, numbers.
        kind: the section's type.
        where: the file and table, for the error.

    Raises:
        ConfigError: an unknown key or a value of the wrong type; the message names the key and suggests a fix.
    """
    try:
        return convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_plain(str(error)), where=where, fix=_fix(kind, str(error), raw, where)) from error


def apply_overrides(raw: dict[str, Any], overrides: Iterable[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Apply settings to plain data, in place.

    Args:
        raw: the data.
        overrides: `a.b=value` strings whose values are written as in TOML, or a mapping of `a.b` to values. Elements
            of lists are named by their numbers, from 0.

    Raises:
        ConfigError: a setting has no `=`, or the data has no such list element or table.
    """
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            _override(raw, key, value, f"{key}={value}")
        return raw
    for setting in overrides:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            fix = "e.g. --set corpus.segmenter=none"
            raise ConfigError(f"--set expects KEY=VALUE, got {setting!r}", fix=fix)
        _override(raw, key, parse_value(text), setting)
    return raw


def merge_tables(raw: Any, changes: Any) -> Any:
    """Return plain data with changes merged in: tables key by key, anything else replaced.

    A table of changes to a list has its elements' numbers as keys, from 0. A table with the key `use` is a whole step
    and replaces what is there.

    Raises:
        ConfigError: a list has no such element.
    """
    if not isinstance(changes, dict) or "use" in changes or not isinstance(raw, dict | list):
        return changes
    if isinstance(raw, dict):
        return raw | {key: merge_tables(raw.get(key), value) for key, value in changes.items()}
    merged = list(raw)
    for key, value in changes.items():
        merged[int(key)] = merge_tables(_element(raw, key, f"{key}={toml(value)}"), value)
    return merged


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return `did you mean X?` for a misspelt name, or the list of known names where none is similar."""
    choices = sorted(known)
    close = similar_name(name, choices)
    return f"did you mean {close!r}?" if close else f"available: {', '.join(choices) or 'none'}"


def similar_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most similar to a misspelt one; "" where none is similar."""
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1)), "")


def _plain(message: str) -> str:
    """Return an error message of msgspec's in the words of TOML, with the key that it is about."""
    if found := re.fullmatch(r"Invalid enum value (.*) - at `\$\.?([^`]*)`", message, re.DOTALL):
        return f"{found[1]} is not a valid value of `{found[2]}`"
    what, at, key = message.partition(" - at ")
    what = re.sub(r"^Object (contains )?", "", _TYPES.sub(_in_words, what)).replace("Expected ", "expected ", 1)
    return what + at + key.replace("`$.", "`")


def _in_words(types: re.Match[str]) -> str:
    return " or ".join(_WORDS[name] for name in types[1].split(" | ") if name != "null")


def _fix(kind: Any, message: str, raw: object, where: str) -> str:
    """Return what to write instead, for an error message of msgspec's."""
    found = re.search(r" - at `\$([^`]*)`", message)
    path = found[1] if found else ""
    if unknown := re.search(r"unknown field `([^`]*)`", message):
        section = next(_sections(_type_at(kind, path)))
        below = [_key(where, f"{path}.{each}") for each in _keys_below(section, unknown[1])]
        return f"did you mean {' or '.join(map(repr, below))}?" if below else suggest_name(unknown[1], _fields(section))
    if message.startswith("Invalid enum value"):
        return _describe_choices(_type_at(kind, path))
    if message.startswith("Expected `") and re.fullmatch(_PATH, path):
        return _correction(_type_at(kind, path), _value_at(raw, path), _key(where, path)) or _ALL_KEYS
    return _ALL_KEYS


def _key(where: str, path: str) -> str:
    """Return how a recipe writes the key at a path; a key of a list's element without what is above it."""
    sections = re.findall(r"(?:^|, )\[([\w.-]+)\]", where)
    return path.rpartition(".")[2] if "[" in path else ".".join([*sections, *path.split(".")[1:]])


def _value_at(raw: Any, path: str) -> Any:
    for name, number in re.findall(r"([A-Za-z_]\w*)|\[(\d+)\]", path):
        raw = raw[int(number)] if number else raw[name]
    return raw


def _correction(hint: Any, value: Any, key: str) -> str:
    """Return a line of TOML with a value that a key of this type takes, or what it takes; "" where neither is known."""
    if isinstance(value, dict) and _converts([value], hint):
        return f"[[{key}]]"
    for below, better in _candidates(hint, value):
        if _converts({below: better} if below else better, hint):
            return f"{'.'.join(filter(None, [key, below]))} = {toml(better)}"
    tables = [section for section in _sections(hint) if _converts({}, hint)]
    return f"the keys of this table are: {', '.join(sorted(_fields(tables[0])))}" if tables else ""


def _candidates(hint: Any, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what may be meant by a value of the wrong type: a key below, or "", and its value."""
    if isinstance(value, str):
        yield "", parse_value(value.lower() if value in ("True", "False") else value)
    if isinstance(value, float) and value.is_integer():
        yield "", int(value)
    yield "", str(value) if hint is str and isinstance(value, int | float) else [value]
    for section in _sections(hint):
        yield from ((name, value) for name in _MAIN if name in _fields(section))
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]+", value):
        yield value, {}


def _converts(value: object, hint: Any) -> bool:
    try:
        convert(value, hint)
    except msgspec.ValidationError:
        return False
    return True


def _fields(section: type[msgspec.Struct]) -> tuple[str, ...]:
    return section.__struct_fields__


def _keys_below(section: type[msgspec.Struct], name: str) -> Iterator[str]:
    """Yield the keys of a name in the tables below a section; not those in lists."""
    for field, hint in get_type_hints(section).items():
        for table in (part for part in (hint, *get_args(hint)) if get_origin(hint) not in (list, dict, tuple)):
            if isinstance(table, type) and issubclass(table, msgspec.Struct):
                below = [name] if name in _fields(table) else _keys_below(table, name)
                yield from (f"{field}.{each}" for each in below)


def _type_at(kind: Any, path: str) -> Any:
    """Return the type at a path such as `.train.model[...]`, as msgspec spells it."""
    for name in re.findall(r"[A-Za-z_]\w*", path):
        kind = get_type_hints(next(_sections(kind)))[name]
    return kind


def _choices(hint: Any) -> Iterator[Any]:
    """Yield the values of a type's literals."""
    for part in get_args(hint):
        yield from [part] if get_origin(hint) is Literal else _choices(part)


def _describe_choices(hint: Any) -> str:
    """Return what a key with literals may be; "", which often stands for the default, is not among them."""
    named = ", ".join(str(choice) for choice in _choices(hint) if choice != "")
    tables = any(get_origin(part) is dict and get_args(part)[1] is float for part in get_args(hint))
    return f"available: {named}" + (", or a table of numbers, e.g. { NAME = 1.5 }" if tables else "")


def _sections(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the sections that a type consists of."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for part in get_args(hint):
        yield from _sections(part)


def _override(raw: dict[str, Any], key: str, value: Any, setting: str) -> None:
    *parents, last = key.split(".")
    here: Any = raw
    for parent in parents:
        here = here.setdefault(parent, {}) if isinstance(here, dict) else _element(here, parent, setting)
    if isinstance(here, list):
        _element(here, last, setting)
        here[int(last)] = value
    elif isinstance(here, dict):
        here[last] = value
    else:
        is_named = parents[-1].isdigit() or parents[-1] in _NAMED
        path, table = ".".join(parents), toml(({"use": here} if is_named else {}) | {last: value})
        fix = f"--set {shlex.quote(f'{path}={table}')}" if isinstance(here, str) else ""
        raise ConfigError(f"--set {setting}: {path} is not a table", fix=fix)


def _element(here: Any, key: str, setting: str) -> Any:
    try:
        return here[int(key)]
    except (TypeError, ValueError, IndexError) as error:
        fix = "elements of a list are numbered from 0"
        raise ConfigError(f"--set {setting}: there is no {key!r}", fix=fix) from error


def parse_value(text: str) -> Any:
    """Return a TOML value; a text that is none is a string, so that `--set corpus.segmenter=none` needs no quotes."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text
