"""The kinds of directories that jprep writes, and how each is recognised, finished or not."""

from __future__ import annotations

from pathlib import Path

import msgspec

from jprep.io.atomic import final_name

STATE = ".state"
"""The folder in an output directory that holds unfinished work; only the lock is left once the output is finished."""

HASH_CACHE = f"{STATE}/inputs.json"
"""Remembers hashes of inputs; it says nothing about what kind of output is made of them."""


class OutputKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of output.

    Attributes:
        name: what it is called in messages, and in the lock file of a directory that was claimed for it.
        manifest: the file that says what the directory holds; written last where the kind is `sealed`.
        sealed: whether a directory with a manifest is finished.
        field: a field of the manifest that tells it from another kind's manifest of the same name.
        lock: the lock file, relative to the directory; "" for a kind that is not locked.
        marked: whether the lock file holds the kind's name.
        container: whether it is a folder of several outputs, beside which files of the user's may lie.
        contains: names of kinds whose manifests lie in such a directory, too.
        unfinished: patterns of files that only unfinished work of this kind has; directories of earlier versions,
            whose lock files are empty, are recognised by them.
    """

    name: str
    manifest: str = ""
    sealed: bool = True
    field: str = ""
    lock: str = f"{STATE}/LOCK"
    marked: bool = True
    container: bool = False
    contains: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()


CORPUS = OutputKind(
    name="corpus",
    manifest="corpus.json",
    unfinished=(f"{STATE}/documents/*", f"{STATE}/dedup/*", f"{STATE}/words/*"),
)
TOKENIZER = OutputKind(name="tokenizer", manifest="card.json", unfinished=(f"{STATE}/training.json",))
DATASET = OutputKind(name="dataset", manifest="dataset.json", unfinished=(f"{STATE}/encoding/*", f"{STATE}/joining/*"))
DATASET_EXPORT = OutputKind(
    name="dataset export", manifest="export.json", field="form", lock=".lock", unfinished=(".lock",)
)
TOKENIZER_EXPORT = OutputKind(name="tokenizer export", lock=".export-lock")
MODEL_EXPORT = OutputKind(
    name="model export", manifest="export.json", field="task", lock="", contains=(TOKENIZER.name,)
)
RUN = OutputKind(
    name="training run",
    manifest="job.json",
    sealed=False,
    lock="LOCK",
    marked=False,  # the supervisor writes the name of its attempt into the lock file
    unfinished=("data.lock.json", "lists/*.samples"),
)
FOLDS = OutputKind(name="set of runs for all folds", manifest="folds.json", lock="", unfinished=("fold-*/job.json",))
RECIPE = OutputKind(
    name="folder of a recipe's outputs",
    lock="",
    container=True,
    unfinished=(
        "inputs/recipe.toml*",
        f"corpus/{STATE}",
        f"tokenizer/{STATE}",
        f"dataset/{STATE}",
        "runs/*/job.json",
        "runs/*/fold-*/job.json",
    ),
)
DOWNLOADS = OutputKind(
    name="folder of downloads", manifest="fetched.json", lock="fetch.lock", marked=False, container=True
)

KINDS = (
    CORPUS,
    TOKENIZER,
    DATASET,
    DATASET_EXPORT,
    TOKENIZER_EXPORT,
    MODEL_EXPORT,
    RUN,
    FOLDS,
    RECIPE,
    DOWNLOADS,
)


class FoundOutput(msgspec.Struct, frozen=True):
    """An output that a directory holds.

    Attributes:
        kind: its kind.
        evidence: the file that shows it, relative to the directory.
        finished: whether that file is the manifest, which is there at the end only.
    """

    kind: OutputKind
    evidence: str
    finished: bool

    def __str__(self) -> str:
        """Name it, e.g. `an unfinished tokenizer (.state/training.json)`."""
        plain = self.kind.container or (self.evidence == self.kind.manifest and not self.kind.sealed)
        state = "a" if plain else "a finished" if self.finished else "an unfinished"
        return f"{state} {self.kind.name} ({self.evidence})"


def find_outputs(path: Path) -> list[FoundOutput]:
    """Return the outputs that a directory holds; more than one only where an earlier version mixed them."""
    found = [each for kind in KINDS if (each := _find(path, kind))]
    inner = {name for each in found for name in each.kind.contains}
    return [each for each in found if each.kind.name not in inner]


def _find(path: Path, kind: OutputKind) -> FoundOutput | None:
    if kind.manifest and (path / kind.manifest).is_file() and _has_field(path / kind.manifest, kind.field):
        return FoundOutput(kind, kind.manifest, kind.sealed)
    evidence = _evidence(path, kind)
    return FoundOutput(kind, evidence, False) if evidence else None


def _evidence(path: Path, kind: OutputKind) -> str:
    """Return what shows that unfinished work of a kind is in a directory, or ""."""
    if is_unused(path):
        return ""
    marker = _read_marker(path / kind.lock) if kind.lock and kind.marked else ""
    if marker in (each.name for each in KINDS):  # a damaged one says nothing
        return kind.lock if marker == kind.name else ""
    found = (each for pattern in kind.unfinished for each in path.glob(pattern))
    names = (each.relative_to(path).as_posix() for each in found if not _is_foreign_lock(each, path / kind.lock))
    return next(names, "")


def _is_foreign_lock(path: Path, lock: Path) -> bool:
    """Return whether a file is called like a lock file, and is another program's: jprep's are empty or hold a kind."""
    return path == lock and path.stat().st_size > 0


def _read_marker(lock: Path) -> str:
    """Return the name of the kind that a lock file holds; "" where there is none."""
    try:
        return lock.read_text(encoding="utf-8", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def is_unused(path: Path) -> bool:
    """Return whether a directory holds nothing that was made: only lock files, hashes of inputs, temporary files."""
    spare = {kind.lock for kind in KINDS if kind.lock} | {HASH_CACHE, STATE}
    held = [each.name for each in path.iterdir()] if path.is_dir() else []
    state = [each.name for each in (path / STATE).iterdir()] if (path / STATE).is_dir() else []
    return spare.issuperset(held + [f"{STATE}/{name}" for name in state if not final_name(name)])


def _has_field(manifest: Path, field: str) -> bool:
    if not field:
        return True
    try:
        content = msgspec.json.decode(manifest.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return isinstance(content, dict) and field in content
