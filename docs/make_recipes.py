"""Generate `docs/recipes.md` from the types of a recipe: `python docs/make_recipes.py`.

`docs/templates/recipes.md` is the page without its tables. A line `@keys SECTION` in it becomes the table of that
section's keys, `@steps KIND` the options of all built-in steps of a kind, `@backend NAME` those of a backend.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from jprep.corpus.readers.lines import LineConfig
from jprep.dataset.manifest import DatasetConfig
from jprep.pipeline.recipe import Recipe
from jprep.plugins import plugins
from jprep.tokenizer.config import TokenizerConfig
from jprep.train.job.config import TrainConfig

TEMPLATE = Path(__file__).parent / "templates" / "recipes.md"
PAGE = Path(__file__).with_name("recipes.md")
BACKENDS = Path(__file__).parents[1] / "backends"

SECTIONS = {"recipe": Recipe, "tokenizer": TokenizerConfig, "dataset": DatasetConfig, "train": TrainConfig}
"""Where the path of a section begins; any other path begins at the recipe."""

NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "none"}
DIRECTIVE = re.compile(r"^@(\w+) (\S+)$", re.MULTILINE)
LINKED = {"wikitext": "[options](wikitext.md#options)"}
"""Options that another page lists, by name."""


def render() -> str:
    """Return the page."""
    directives: dict[str, Callable[[str], str]] = {"keys": keys, "steps": steps, "backend": backend}
    return DIRECTIVE.sub(lambda found: directives[found[1]](found[2]), TEMPLATE.read_text(encoding="utf-8"))


def keys(path: str) -> str:
    """Return the table of a section, e.g. of `train.optimizer`."""
    first, *rest = path.split(".")
    section = SECTIONS.get(first) or _inner(Recipe, first)
    for name in rest:
        section = _inner(section, name)
    return table(section)


def _inner(section: type, name: str) -> type[msgspec.Struct]:
    """Return the type of a key that holds a table, or a list of tables."""
    return next(each for each in _parts(get_type_hints(section)[name]) if isinstance(each, type(msgspec.Struct)))


def _parts(hint: Any) -> Iterator[Any]:
    """Yield a type and those that it consists of."""
    yield hint
    for part in get_args(hint):
        yield from _parts(part)


def backend(name: str) -> str:
    """Return the table of a backend's options. Its package need not be installed."""
    module = name.replace("-", "_")
    sys.path.append(str(BACKENDS / module))
    return table(import_module(f"jprep_{module}.options").Options)


def steps(kind: str) -> str:
    """Return each built-in step of a kind with its purpose and its options."""
    return "\n\n".join(_steps(kind))


def _steps(kind: str) -> Iterator[str]:
    for name in plugins().names(kind):
        step = plugins().get(kind, name)
        if step.__module__.startswith("jprep."):
            summary = inspect.getdoc(step).partition("\n\n")[0].replace("\n", " ")
            options = table(step.Config) if step.Config.__struct_fields__ else "No options."
            yield f"#### {kind} `{name}`\n\n{summary}\n\n{options}"


def table(section: type[msgspec.Struct]) -> str:
    """Return a section's keys with their types, defaults and descriptions as a table."""
    # The reader `jsonl` takes over the limits of the readers of lines without their description.
    described = descriptions(LineConfig) | descriptions(section)
    hints = get_type_hints(section, include_extras=True)
    rows = []
    for field in msgspec.structs.fields(section):
        allowed = LINKED.get(field.name) or kind(hints[field.name])
        rows.append(f"| `{field.name}` | {allowed} | {default(field)} | {described.get(field.name, '')} |")
    return "\n".join(["| key | type | default | description |", "|---|---|---|---|", *rows])


def descriptions(section: type) -> dict[str, str]:
    """Return the description of each attribute, from the docstrings of a class and its bases; `a, b: text` has two."""
    described = {}
    for base in reversed(section.__mro__):
        listed = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        for names, text in re.findall(r"^    ([\w, ]+): (.*(?:\n {5,}.*)*)", listed, re.MULTILINE):
            described |= dict.fromkeys(names.split(", "), re.sub(r"\s+", " ", text).replace("|", "\\|"))
    return described


def kind(hint: Any) -> str:
    """Return a type as readers of TOML know it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return kind(arguments[0]) + _limits(arguments[1:])
    if origin is Literal:
        return ", ".join(f"`{_toml(value)}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return _union([each for each in arguments if each not in (type(None), msgspec.UnsetType)])
    if origin in (list, tuple):
        return f"list of {kind(arguments[0])}"
    return "table" if origin is dict or isinstance(hint, type(msgspec.Struct)) else NAMES[hint]


def _union(arguments: list[Any]) -> str:
    """Return the types of a union; a step is a name or a table."""
    origins = {get_origin(each) or each for each in arguments}
    return "step" if origins == {str, dict} else " or ".join(kind(each) for each in arguments)


def _limits(metadata: tuple[Any, ...]) -> str:
    """Return the limits of a number, e.g. ` ≥ 0, ≤ 1`."""
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    limits = [f"{sign} {getattr(meta, name)}" for meta in metadata for name, sign in signs.items()
              if getattr(meta, name, None) is not None]  # fmt: skip
    return f" {', '.join(limits)}" if limits else ""


def default(field: Any) -> str:
    """Return a key's default as TOML, or that it is required."""
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    elif field.default is not msgspec.NODEFAULT:
        value = field.default
    else:
        return "required"
    if value in (None, msgspec.UNSET) or isinstance(value, msgspec.Struct):
        return ""
    return f"`{_toml(value)}`".replace("|", "\\|")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"' if '"' not in value else f"'{value}'"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(each)}' for key, each in value.items())} }}" if value else "{}"
    return f"[{', '.join(map(_toml, value))}]" if isinstance(value, (list, tuple)) else str(value)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
