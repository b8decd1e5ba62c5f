"""The filter `hojichar`: a filter or a profile of HojiChar as a step."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from jprep.config import suggest_name
from jprep.corpus.document import KEEP, Document, Verdict
from jprep.corpus.step import Filter, StepConfig
from jprep.errors import ConfigError, MachineError
from jprep.libraries import import_library
from jprep.plugins.files import FileReference, run_file

_WHERE = "filter 'hojichar'"
_STATEFUL = "deduplication"
_LIBRARIES = {"fugashi": ("fugashi", "unidic", "unidic-lite"), "fasttext": ("fasttext",)}
_VARIABLE = "FILTER"
_EXAMPLE = (
    'e.g. { use = "hojichar", filter = "document_filters.DocumentLengthFilter", options = { min_doc_len = 100 } }'
)


class HojicharFilter(Filter):
    """Applies a filter of HojiChar, or all filters of a profile. What they reject is dropped, what they change counted.

    Reasons are the names of HojiChar's filters, such as `document_length_filter`.
    """

    name = "hojichar"
    version = 1
    local = frozenset({"profile"})

    class Config(StepConfig, frozen=True):
        """Options of the filter `hojichar`.

        Attributes:
            filter: module and class of a filter of HojiChar, e.g. `document_filters.DocumentLengthFilter`.
            options: arguments of the filter.
            profile: a profile of HojiChar instead: a Python file with a `Compose` object `FILTER`.
        """

        filter: str = ""
        options: dict[str, Any] = {}
        profile: str = ""

    @cached_property
    def _filters(self) -> list[tuple[str, Any]]:
        """The filters of HojiChar in order, each with its reason."""
        config = self.config
        if not config.filter and not config.profile:
            what = "neither `filter` nor `profile` is given; corpora do not record the path of a profile"
            raise ConfigError(what, where=_WHERE, fix=_EXAMPLE)
        if config.profile and (config.filter or config.options):
            raise ConfigError("give either `filter`, with its `options`, or `profile`", where=_WHERE, fix=_EXAMPLE)
        filters = _profile(config.profile) if config.profile else [_filter(config.filter, config.options)]
        return [(_reason(each), _checked(each)) for each in filters]

    def provenance(self) -> dict[str, str]:
        """Return the versions of libraries, and the hashes of the profile, its filters' state, and files in options."""
        found = {"hojichar": version("hojichar")} | _versions([each for _, each in self._filters])
        if self.config.profile:
            return found | {"profile": _sha256(self.config.profile), "profile.filters": self._state}
        named = {name: value for name, value in self.config.options.items() if isinstance(value, str)}
        return found | {f"options.{name}": _sha256(path) for name, path in named.items() if _is_file(path)}

    @cached_property
    def _state(self) -> str:
        """The hash of what the filters hold before they see a document."""
        state = repr([(type(each).__name__, _plain(vars(each))) for _, each in self._filters])
        return f"sha256:{hashlib.sha256(state.encode('utf-8', 'surrogatepass')).hexdigest()}"

    def judge(self, doc: Document) -> Verdict:
        """Drop a document if a filter rejects it; otherwise return what the filters made of its text."""
        from hojichar import Document as HojicharDocument

        seen = HojicharDocument(doc.text)
        for reason, step in self._filters:
            before = seen.text
            seen = step.apply(seen)
            if seen.is_rejected:
                return Verdict(keep=False, reason=reason)
            if seen.text != before:
                self.tally[f"{reason}.changed"] += 1
        return KEEP if seen.text == doc.text else Verdict(keep=True, reason="changed", text=seen.text)

    def close(self) -> None:
        """Close the filters."""
        self.__dict__.pop("_state", None)
        for _, step in self.__dict__.pop("_filters", ()):
            step.shutdown()


def _hojichar() -> Any:
    return import_library("hojichar", "the filter needs HojiChar", "'jprep[hojichar]'", _WHERE)


def _filter(name: str, options: dict[str, Any]) -> Any:
    module, _, cls = name.rpartition(".")
    known = dict(_known_filters())
    if name not in known:
        raise ConfigError(f"HojiChar has no filter {name!r}", where=_WHERE, fix=suggest_name(name, known))
    try:
        return known[name](**options)
    except ImportError as error:
        what, fix = f"HojiChar's {cls} cannot be used: {error}", "pip install 'hojichar[all]'"
        raise MachineError(what, where=_WHERE, fix=fix) from error
    except Exception as error:  # the arguments are checked by HojiChar's code, in many ways
        what = f"HojiChar's {cls} does not take these options: {error}"
        raise ConfigError(what, where=_WHERE, fix=f"correct `options` of {module}.{cls}") from error


def _known_filters() -> Iterator[tuple[str, type]]:
    """Yield the filters of HojiChar that judge one document at a time, by module and class."""
    base = _hojichar().Filter
    for module in ("document_filters", "language_identification", "tokenization"):
        try:
            found = importlib.import_module(f"hojichar.filters.{module}")
        except ImportError:  # it needs a library that is not installed
            continue
        for name, value in vars(found).items():
            own = inspect.isclass(value) and issubclass(value, base) and value.__module__ == found.__name__
            if own and not inspect.isabstract(value):
                yield f"{module}.{name}", value


def _profile(path: str) -> Sequence[Any]:
    hojichar = _hojichar()
    if not _is_file(path):
        fix = 'the path is relative to the current directory; beside the recipe: profile = "{recipe}/profile.py"'
        raise ConfigError("no such profile", where=path, fix=fix)
    found = getattr(run_file(FileReference(path, _VARIABLE)), _VARIABLE, None)
    if not isinstance(found, hojichar.Compose):
        fix = "FILTER = Compose([…]); YAML, FACTORY and asynchronous profiles are not supported"
        raise ConfigError(f"the profile has no Compose object {_VARIABLE}", where=path, fix=fix)
    filters: Sequence[Any] = found.filters
    if not filters:
        raise ConfigError("the profile has no filters", where=path, fix=f"{_VARIABLE} = Compose([…])")
    return filters


def _checked(step: Any) -> Any:
    """Return a filter whose result for a document depends on the document only."""
    kind = type(step)
    if step.p < 1:
        what = f"HojiChar's {kind.__name__} applies to a random share of documents (p = {step.p:g})"
        raise ConfigError(what, where=_WHERE, fix="set p = 1: the same corpus could not be built again")
    if any(_STATEFUL in base.__module__.split(".") for base in kind.__mro__):
        what = f"HojiChar's {kind.__name__} compares documents with earlier ones"
        raise ConfigError(what, where=_WHERE, fix="use [corpus.dedup], whose result does not depend on the workers")
    return step


def _reason(step: Any) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(step).__name__).lower().strip("_")


def _versions(filters: Sequence[Any]) -> dict[str, str]:
    """Return the versions of the libraries of which the filters hold an object."""
    used = {type(value).__module__.partition(".")[0] for each in filters for value in vars(each).values()}
    found = dict[str, str]()
    for name in (name for library in sorted(used & _LIBRARIES.keys()) for name in _LIBRARIES[library]):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _plain(value: Any) -> Any:
    """Return plain values in a form whose `repr` is the same in every process, and files by their hash.

    Other objects are left out, since how they print depends on the process.
    """
    if isinstance(value, str | Path) and _is_file(value):
        return _sha256(value)
    if isinstance(value, re.Pattern):
        return value.pattern, value.flags
    if isinstance(value, dict):
        public = {str(name): each for name, each in value.items() if not str(name).startswith("_")}
        return [(name, _plain(public[name])) for name in sorted(public)]
    if isinstance(value, set | frozenset):
        return sorted(repr(_plain(each)) for each in value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, str | bytes | int | float | None) else None


def _is_file(path: str | Path) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # too long for a path, or with a NUL
        return False


def _sha256(path: str | Path) -> str:
    with Path(path).open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
