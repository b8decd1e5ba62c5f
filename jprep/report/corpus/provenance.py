"""Where a corpus comes from: sources, files, licences, and the steps and libraries that made it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from jprep.corpus.store import Manifest

_FILES = 40  # files listed for each source
_SOURCES = 40
_OPTIONS = 400  # characters of the options of a step


class SourceEntry(NamedTuple):
    """A source of a corpus.

    Attributes:
        name: its name.
        licence: its licence, or "".
        homepage: its web page, or "".
        files: name, size in bytes (None for a pipe) and SHA-256 of its files.
        more: number of files that are not listed.
    """

    name: str
    licence: str
    homepage: str
    files: list[tuple[str, int | None, str]]
    more: int


class StepEntry(NamedTuple):
    """A step that made a corpus.

    Attributes:
        kind: e.g. `filter`.
        name: its name.
        version: its version.
        options: its options as JSON.
        libraries: versions and hashes of what it depends on.
    """

    kind: str
    name: str
    version: int
    options: str
    libraries: str


def sources(manifest: Manifest) -> list[SourceEntry]:
    """Return the sources with their files, as many as a page can list."""
    return [_source(each) for each in manifest.sources[:_SOURCES]]


def _source(entry: Mapping[str, Any]) -> SourceEntry:
    files = entry.get("files", [])
    listed = [(file["name"], file["size"] if file["sha256"] else None, file["sha256"]) for file in files[:_FILES]]
    return SourceEntry(
        entry["name"], entry.get("licence", ""), entry.get("homepage", ""), listed, len(files) - len(listed)
    )


def steps(manifest: Manifest) -> list[StepEntry]:
    """Return the steps in their order, each once."""
    read = manifest.made_from["documents"]
    found = [("reader", source["reader"]) for source in read["sources"]]
    found += [("normalizer", step) for step in read["normalizers"]]
    found += [("normalizer", step) for source in read["sources"] for step in source.get("normalizers", ())]
    found.append(("splitter", read["splitter"]))
    found += [("filter", step) for source in read["sources"] for step in source["filters"]]
    found += _signals(read)
    found.append(("segmenter", manifest.made_from.get("words", read)["segmenter"]))
    for filtered in manifest.made_from.get("filtered", ()):
        found += [("filter", step) for source in filtered["sources"] for step in source["filters"]]
        found += _signals(filtered)
    return list(dict.fromkeys(_step(kind, step) for kind, step in found))


def _signals(made_from: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    kinds = {"signal": "signals", "signal of lines": "line_signals"}
    return [(kind, step) for kind, key in kinds.items() for step in made_from.get(key, ())]


def _step(kind: str, step: Mapping[str, Any]) -> StepEntry:
    options = json.dumps(step.get("config", {}), ensure_ascii=False)
    options = options if len(options) <= _OPTIONS else f"{options[:_OPTIONS]}…"
    libraries = ", ".join(f"{name} {value}" for name, value in sorted(step.get("provenance", {}).items()))
    return StepEntry(kind, step["name"], step["version"], options, libraries[:_OPTIONS])


def libraries(manifest: Manifest) -> list[tuple[str, str]]:
    """Return name and version of jprep and of the libraries whose output is in the corpus."""
    versions: dict[str, str] = manifest.made_from["documents"].get("libraries", {})
    return [("jprep", manifest.jprep), *sorted(versions.items())]
