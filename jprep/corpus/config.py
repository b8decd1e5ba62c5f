"""A recipe: everything that a corpus depends on, in one TOML file. `docs/recipes.md` documents every key."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from jprep.errors import ConfigError
from jprep.io.safe_names import check_name
from jprep.plugins import plugins, references

T = TypeVar("T")
StepRef = str | dict[str, Any]
"""A step in a recipe: its name, or a table `{ use = NAME, option = value, … }`."""

RECIPE_DIRECTORY = "{recipe}/"
"""What a path in a recipe's file begins with that is relative to the file's folder."""


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a recipe: unknown keys are errors."""


class RemoteFile(_Section, frozen=True):
    """A file that `jprep corpus fetch` downloads.

    Attributes:
        url: where it lies.
        checksums: the mirror's checksum file, where there is one.
        sha256: its hash, where it is known beforehand.
        name: the name to give it; by default the URL's last part.
    """

    url: str
    checksums: str = ""
    sha256: str = ""
    name: str = ""


class Source(_Section, frozen=True):
    """Where documents come from.

    Attributes:
        name: goes into each document's `source` and `id`.
        paths: local paths, globs or URIs; `-` is standard input.
        reader: the reader and its options.
        licence: the text's licence, for the corpus's manifest.
        homepage: where to read about the source.
        files: what to download.
        filters: filters for this source, instead of the corpus's.
        shards: read so many shards from the source's beginning, small ones of 1 MiB together counted as one, and leave
            the rest; 0 reads all.
    """

    name: str
    paths: list[str]
    reader: StepRef
    licence: str = ""
    homepage: str = ""
    files: list[RemoteFile] = []
    filters: list[StepRef] | None = None
    shards: Annotated[int, msgspec.Meta(ge=0)] = 0


class DedupConfig(_Section, frozen=True):
    """Exact deduplication across the corpus; the first occurrence stays.

    Attributes:
        documents: drop documents whose whole text occurred before.
        lines: drop paragraphs that occurred before.
        line_min_chars: shorter paragraphs may repeat.
    """

    documents: bool = True
    lines: bool = False
    line_min_chars: int = 20


class CorpusConfig(_Section, frozen=True):
    """The `[corpus]` section: what is done to the documents, in the order of the fields.

    Attributes:
        sources: where documents come from.
        normalizers: applied in order.
        splitter: finds sentences.
        filters: a document passes them in order; the first that rejects it is counted.
        dedup: exact deduplication.
        segmenter: finds words.
    """

    sources: list[Source] = []
    normalizers: list[StepRef] = msgspec.field(default_factory=lambda: [{"use": "neologdn", "tilde": "ignore"}])
    splitter: StepRef = "rules"
    filters: list[StepRef] = []
    dedup: DedupConfig = DedupConfig()
    segmenter: StepRef = "jumandic"

    def filters_of(self, source: Source) -> list[StepRef]:
        """The filters that a source's documents pass: its own, or else the corpus's."""
        return self.filters if source.filters is None else source.filters


class Recipe(_Section, frozen=True):
    """A whole recipe.

    Attributes:
        name: names the folder of what is made; see `jprep.io.safe_names`.
        corpus: what is built; a recipe for a tokenizer alone has none.
        tokenizer: what is trained on it; `jprep.tokenizer.config` checks it.
        dataset: how the two are packed; `jprep.dataset.manifest` checks it.
        train: what is trained, and how; `jprep.train.job.config` checks it.
        description: one line for readers.
    """

    name: str
    corpus: CorpusConfig = CorpusConfig()
    tokenizer: dict[str, Any] = {}
    dataset: dict[str, Any] = {}
    train: dict[str, Any] = {}
    description: str = ""


def load_recipe(path: Path, overrides: Iterable[str] = ()) -> Recipe:
    """Read a recipe file.

    Args:
        path: a TOML file.
        overrides: `a.b=value` settings that replace what the file says; list elements by number.

    Raises:
        ConfigError: not TOML, an unknown key, a value of the wrong type, two sources of one name.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        fix = "check the path; `jprep recipes` lists the recipes that come with jprep"
        raise ConfigError("there is no such recipe", where=str(path), fix=fix) from error
    except IsADirectoryError as error:
        raise ConfigError("expected a recipe file, got a directory", where=str(path), fix=_inside(path)) from error
    except OSError as error:
        raise ConfigError(f"cannot read the recipe: {error.strerror}", where=str(path), fix="check the path") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        fix = "docs/recipes.md has an example of each part"
        raise ConfigError(f"cannot read the recipe: {error}", where=str(path), fix=fix) from error
    return decode_recipe(_placed(raw, path.parent), overrides, where=str(path))


def _inside(folder: Path) -> str:
    """Return what to give instead of a directory."""
    if found := sorted(folder.glob("*.toml")):
        return f"give a recipe in it, e.g. {shlex.quote(str(found[0]))}"
    if (folder / "job.json").exists():
        return f"to resume a run, give its recipe again; `jprep export {shlex.quote(str(folder))}` exports its model"
    return "`jprep recipes` lists the recipes that come with jprep"


def _placed(raw: Any, folder: Path) -> Any:
    """Plain data, with the paths of files that lie beside the recipe."""
    if isinstance(raw, dict):
        return {key: _placed(value, folder) for key, value in raw.items()}
    if isinstance(raw, list):
        return [_placed(value, folder) for value in raw]
    beside = isinstance(raw, str) and raw.startswith(RECIPE_DIRECTORY)
    return (folder / raw.removeprefix(RECIPE_DIRECTORY)).as_posix() if beside else raw


def decode_recipe(raw: dict[str, Any], overrides: Iterable[str] = (), *, where: str = "the recipe") -> Recipe:
    """Check a recipe that is already a dictionary; see `load_recipe`."""
    recipe = parse_config(apply_overrides(raw, overrides), Recipe, where=where)
    if [path for source in recipe.corpus.sources for path in source.paths].count("-") > 1:
        raise ConfigError("standard input is named twice", where=where, fix="it can be read only once")
    check_name(recipe.name, what="a recipe (key `name`)", where=where, fix='it names a folder: e.g. name = "jawiki"')
    names = [source.name for source in recipe.corpus.sources]
    for number, name in enumerate(names):
        what, fix = f"a source (key `corpus.sources.{number}.name`)", "letters, digits, - _ . only"
        check_name(name, what=what, where=where, fix=fix)
        if names.count(name) > 1:
            raise ConfigError(f"two sources are called {name!r}", where=where, fix="give each its own name")
        if not re.fullmatch(r"[\w.-]+", name):
            raise ConfigError(f"{what} cannot be called {name!r}", where=where, fix=fix)
    return recipe


def apply_overrides(raw: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Apply `a.b=value` settings to plain data, in place.

    Raises:
        ConfigError: a setting has no `=`, or its place is not there.
    """
    for override in overrides:
        _override(raw, override)
    return raw


def parse_config(raw: object, kind: type[T], *, where: str) -> T:
    """Turn plain data into a typed section.

    Raises:
        ConfigError: naming the failing key, and the nearest one or the values that there are.
    """
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error).replace("`$.", "`"), where=where, fix=_fix(kind, str(error))) from error


def _fix(kind: Any, said: str) -> str:
    """What may be said instead, after an error in msgspec's words."""
    found = re.search(r" - at `\$([^`]*)`", said)
    place = found[1] if found else ""
    if unknown := re.search(r"unknown field `([^`]*)`", said):
        return references.suggest_name(unknown[1], next(_sections(_hint(kind, place))).__struct_fields__)
    if said.startswith("Invalid enum value"):
        return f"there are: {', '.join(map(str, _choices(_hint(kind, place))))}"
    return "docs/recipes.md has every key with its values"


def _hint(kind: Any, place: str) -> Any:
    """The type of what a place, as msgspec spells it, leads to."""
    for name in re.findall(r"[A-Za-z_]\w*", place):
        kind = get_type_hints(next(_sections(kind)))[name]
    return kind


def _choices(hint: Any) -> Iterator[Any]:
    """The values that a type's literals have."""
    for part in get_args(hint):
        yield from [part] if get_origin(hint) is Literal else _choices(part)


def _sections(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """The sections that a type is made of."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for part in get_args(hint):
        yield from _sections(part)


def _override(raw: dict[str, Any], setting: str) -> None:
    path, equals, value = setting.partition("=")
    if not equals or not path:
        raise ConfigError(f"--set wants KEY=VALUE, not {setting!r}", fix="e.g. --set corpus.segmenter=none")
    *parents, last = path.split(".")
    here: Any = raw
    for key in parents:
        here = here.setdefault(key, {}) if isinstance(here, dict) else _element(here, key, setting)
    if isinstance(here, list):
        _element(here, last, setting)
        here[int(last)] = _value(value)
    elif isinstance(here, dict):
        here[last] = _value(value)
    else:
        place = ".".join(parents)
        fix = f"--set '{place}={{use=\"{here}\", {last}={_toml(value)}}}'"
        raise ConfigError(f"--set {setting}: {place} is a plain value", fix=fix if isinstance(here, str) else "")


def _toml(value: str) -> str:
    """A value as a TOML table wants it."""
    return f'"{value}"' if _value(value) == value else value


def _element(here: Any, key: str, setting: str) -> Any:
    try:
        return here[int(key)]
    except (TypeError, ValueError, IndexError) as error:
        raise ConfigError(f"--set {setting}: there is no {key!r}", fix="list elements go by number, from 0") from error


def _value(text: str) -> Any:
    """A TOML value; what is none is a string, so that `--set corpus.segmenter=none` needs no quotes."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def step_name(ref: StepRef) -> str:
    """The name that a reference gives."""
    if isinstance(ref, str):
        return ref
    if not isinstance(ref.get("use"), str):
        raise ConfigError("a step's table needs `use`", where=repr(ref), fix='{ use = "NAME", … }')
    return str(ref["use"])


def make_step(kind: str, ref: StepRef) -> Any:
    """Construct the step that a reference names, its options checked.

    Raises:
        ConfigError: no such step, or an option that it does not have.
        MachineError: what the step needs is not installed.
    """
    name = step_name(ref)
    cls = plugins().get(kind, name)
    options = {} if isinstance(ref, str) else {key: value for key, value in ref.items() if key != "use"}
    return cls(parse_config(options, cls.Config, where=f"{kind} {name!r}"))


FILTERS_FOR_WEB: tuple[StepRef, ...] = ("length", "japanese", "symbols", "urls", "repeated_lines")
"""What our own recipe does to text from the web."""

_OWN_LICENCES = {"wikipedia": "CC BY-SA 4.0", "cc100": "Common Crawl terms of use"}


def default_recipe(inputs: Mapping[str, Sequence[str]], segmenter: str = "jumandic") -> Recipe:
    """The recipe of `jprep corpus build` without a recipe.

    Args:
        inputs: paths by reader name (`wikipedia`, `cc100`, `text`, `jsonl`, `parquet`).
        segmenter: the segmenter's name.
    """
    sources = [
        Source(
            name=reader,
            paths=list(paths),
            reader=reader,
            licence=_OWN_LICENCES.get(reader, ""),
            filters=list(FILTERS_FOR_WEB) if reader == "cc100" else None,
        )
        for reader, paths in inputs.items()
        if paths
    ]
    return Recipe(name="corpus", corpus=CorpusConfig(sources=sources, segmenter=segmenter))
