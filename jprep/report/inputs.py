"""Recognize what a path holds: an output that a report has a section for, or a directory of several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from jprep.engine.output_kinds import FoundOutput, find_outputs
from jprep.errors import ConfigError
from jprep.io.os_errors import translate_read_errors

InputKind = Literal["corpus", "tokenizer", "dataset", "run", "folds", "comparison"]

_KINDS: dict[str, InputKind] = {
    "corpus": "corpus",
    "tokenizer": "tokenizer",
    "dataset": "dataset",
    "training run": "run",
    "set of runs for all folds": "folds",
    "comparison": "comparison",
}
"""What a report shows, by the name of the engine's kind of output."""

_COMMANDS: dict[InputKind, str] = {
    "corpus": "jprep corpus build",
    "tokenizer": "jprep tokenizer train",
    "dataset": "jprep dataset pack",
    "run": "jprep train",
    "folds": "jprep train",
    "comparison": "jprep compare",
}
_FIRST = ("corpus", "tokenizer", "dataset", "runs")
"""The names in a work directory in the order of the steps; others follow by name."""
_DEPTH = 4  # WORK/RECIPE/runs/RUN
_MAX_FOLDERS = 2000  # directories looked into; more is not a work directory


class ReportInput(msgspec.Struct, frozen=True):
    """An output to report on.

    Attributes:
        kind: what it is.
        path: its directory.
        unfinished: the command that finishes it, or "".
    """

    kind: InputKind
    path: Path
    unfinished: str = ""

    @property
    def label(self) -> str:
        """The path as the user gave it, for headings."""
        return self.path.as_posix()


def find_inputs(paths: Iterable[Path]) -> list[ReportInput]:
    """Return the outputs that some paths hold, in the order of the paths and, below each, of the steps.

    An output that is given several times is returned once. An unfinished one is an error where its own path is given;
    in a work directory it is returned as unfinished.

    Raises:
        ConfigError: a path does not exist, holds nothing to report on, or holds an unfinished output.
        MachineError: a directory cannot be read.
    """
    found: dict[tuple[InputKind, Path], ReportInput] = {}
    for each in (each for path in paths for each in _find(path)):
        found.setdefault((each.kind, each.path.resolve()), each)
    return list(found.values())


def _find(path: Path) -> list[ReportInput]:
    with translate_read_errors(str(path)):
        if not path.exists():
            raise ConfigError("there is no such directory", where=str(path), fix="check the path")
        folder = path if path.is_dir() else path.parent
        if own := _recognized(folder):
            _refuse_unfinished(own)
            return own
        found = list(_inside(folder, _DEPTH, [0])) if path.is_dir() else []
    if not found:
        fix = "give the directory of a corpus, a tokenizer, a dataset, a run or a comparison, or one of `jprep run`"
        raise ConfigError("there is nothing to report on here", where=str(path), fix=fix)
    return found


def _recognized(folder: Path) -> list[ReportInput]:
    return [_input(folder, each) for each in find_outputs(folder) if each.kind.name in _KINDS]


def _input(folder: Path, found: FoundOutput) -> ReportInput:
    kind = _KINDS[found.kind.name]
    done = found.evidence == found.kind.manifest
    return ReportInput(kind, folder, "" if done else f"{_COMMANDS[kind]} … -o {folder.as_posix()}")


def _refuse_unfinished(inputs: list[ReportInput]) -> None:
    for each in inputs:
        if each.unfinished:
            fix = f"finish it with the command that started it: `{_COMMANDS[each.kind]}` or `jprep run`"
            raise ConfigError(f"this {each.kind} is not finished", where=str(each.path), fix=fix)


def _inside(folder: Path, depth: int, looked: list[int]) -> Iterator[ReportInput]:
    """Yield the outputs below a directory; `looked` counts the directories."""
    for child in sorted(filter(_is_folder, folder.iterdir()), key=_order):
        looked[0] += 1
        if looked[0] > _MAX_FOLDERS:
            fix = "give the directories to report on"
            raise ConfigError("there are too many directories here", where=str(folder), fix=fix)
        if own := _recognized(child):
            yield from own
        elif depth > 1:
            yield from _inside(child, depth - 1, looked)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not path.name.startswith(".")


def _order(path: Path) -> tuple[int, str]:
    return (_FIRST.index(path.name) if path.name in _FIRST else len(_FIRST), path.name)
