"""Describe how two sets of fingerprint fields differ: which input, option, step or library changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jprep.engine.fingerprint import abbreviate

_GROUPS = ("documents", "words", "config", "about")
"""First keys that only group others, and that users do not know."""

_MEMBERS = ("sources", "filters", "normalizers", "parts")
"""Keys of lists whose members have names: sources, steps, parts of a mixture."""

_ABSENT: Any = object()
"""Stands for a key that one side does not have; shown as null."""

_MADE = {"material": "the corpus", "corpus": "the corpus", "tokenizer": "the tokenizer", "dataset": "the dataset"}
"""Keys of outputs of earlier commands, of which only hashes are known."""


def describe_mismatch(ours: Any, theirs: Any) -> list[str]:
    """Return a phrase for each difference, without repetitions.

    Args:
        ours: fields of what is requested now.
        theirs: fields of the existing output.
    """
    return list(dict.fromkeys(_differences(ours, theirs, ())))


def _differences(ours: Any, theirs: Any, path: tuple[str, ...]) -> Iterator[str]:
    if ours == theirs:
        return
    if path and path[-1] in _MADE and not _is_step(ours) and _is_hashed(ours, theirs):
        yield f"{_MADE[path[-1]]} is a different one, or has changed"
    elif path and path[-1] == "files" and _named(ours) and _named(theirs):
        yield from list(_files(_by_name(ours), _by_name(theirs), path)) or [_whole(ours, theirs, path)]
    elif path and path[-1] in _MEMBERS and _named(ours) and _named(theirs):
        yield from list(_members(_by_name(ours), _by_name(theirs), path)) or [_whole(ours, theirs, path)]
    elif _is_step(ours) and _is_step(theirs):
        yield from list(_step(ours, theirs, path)) or [_whole(ours, theirs, path)]
    elif isinstance(ours, dict) and isinstance(theirs, dict):
        yield from _fields(ours, theirs, path)
    elif path[-1:] == ("fingerprint",):
        yield "it was made from something else"
    else:
        yield _whole(ours, theirs, path)


def _fields(ours: dict[str, Any], theirs: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    keys = ours.keys() | theirs.keys()
    if "format" in ours and "format" in theirs and ours["format"] != theirs["format"]:
        yield f"this jprep writes format {ours['format']}, and found format {theirs['format']}"
        keys -= {"format", "about"}  # earlier formats have no `about`
    for key in sorted(keys):
        yield from _differences(ours.get(key, _ABSENT), theirs.get(key, _ABSENT), (*path, key))


def _whole(ours: Any, theirs: Any, path: tuple[str, ...]) -> str:
    while path[1:] and path[0] in _GROUPS:
        path = path[1:]
    key = ".".join(path) or "it"
    was, now = (abbreviate(None if each is _ABSENT else each) for each in (theirs, ours))
    return f"{key}: was {was}, is {now}"


def _files(ours: dict[str, Any], theirs: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Describe differences of input files, compared by name."""
    source = f" of the source {path[-2]}" if len(path) > 1 and path[-2] not in (*_GROUPS, "sources") else ""
    for name in (each for each in ours if each not in theirs):
        yield f"the input file {name}{source} is new"
    for name in (each for each in theirs if each not in ours):
        yield f"the input file {name}{source} is missing"
    for name in (each for each in ours if each in theirs and ours[each] != theirs[each]):
        sizes = [each.get("size", 0) for each in (theirs[name], ours[name])]
        how = f": it had {sizes[0]:,} bytes, and has {sizes[1]:,}" if sizes[0] != sizes[1] else ""
        yield f"the input file {name}{source} has changed{how}"
    if list(ours) != list(theirs) and ours.keys() == theirs.keys():
        yield f"the input files{source} are in a different order"


def _members(ours: dict[str, Any], theirs: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Describe differences of sources or steps, compared by name and order."""
    if list(ours) != list(theirs):
        yield f"{path[-1]}: was {', '.join(theirs) or 'none'}, is {', '.join(ours) or 'none'}"
        return
    for name, each in ours.items():
        yield from _differences(each, theirs[name], (*path, name))


def _step(ours: dict[str, Any], theirs: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Describe differences of a reader, normalizer, splitter, filter or segmenter."""
    kind = next((part for part in reversed(path) if part != ours["name"]), "step").removesuffix("s")
    if ours["name"] != theirs["name"]:
        yield f"{kind}: was {theirs['name']}, is {ours['name']}"
        return
    source = path[path.index("sources") + 1 :][:1] if "sources" in path else ()
    step = f"the {kind} {ours['name']}" + "".join(f" of the source {name}" for name in source)
    if ours["version"] != theirs["version"]:
        yield f"{step} works differently in this jprep (version {ours['version']}, was {theirs['version']})"
        return  # its provenance changes with its version
    for difference in _differences(ours.get("config"), theirs.get("config"), ()):
        yield f"{step}: {difference}"
    now, then = (dict(each.get("provenance") or {}) for each in (ours, theirs))
    if now.pop("source_file", "") != then.pop("source_file", ""):
        yield f"the file that defines {step} has changed"
    for difference in _differences(now, then, ()):
        yield f"provenance of {step}: {difference}"


def _is_step(value: Any) -> bool:
    return isinstance(value, dict) and {"name", "version"} <= value.keys() and isinstance(value["name"], str)


def _is_hashed(ours: Any, theirs: Any) -> bool:
    """Return whether two values are hashes, or dictionaries of hashes."""
    return all(
        isinstance(each, str) or (isinstance(each, dict) and each.keys() <= {"corpus", "files", "fingerprint"})
        for each in (ours, theirs)
    )


def _named(value: Any) -> bool:
    """Return whether a value is a list of dictionaries with different names."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return False
    names = {each["name"] for each in value if isinstance(each.get("name"), str)}
    return len(names) == len(value)


def _by_name(value: list[dict[str, Any]]) -> dict[str, Any]:
    return {each["name"]: each for each in value}
