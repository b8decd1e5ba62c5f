"""The kinds of output directories, and how each is recognized, finished or not."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from jprep.io.atomic import final_name
from jprep.io.shared.lease import LEASE_SUFFIX
from jprep.io.shared.network_files import is_silly_rename
from jprep.io.shared.workers import WORKERS

STATE = ".state"
"""The folder of unfinished work in an output directory; a finished output has a lock, its usage and an index there."""

USAGE = f"{STATE}/usage.json"
"""What an output took (`jprep.engine.usage`); it does not show which kind of output is made."""

DEFAULT_LOCK = f"{STATE}/LOCK"
"""The lock file of most kinds of outputs."""

INDEX = f"{STATE}/documents.index"
"""The index of a finished corpus (`jprep.corpus.interactive.lookup`)."""

HASH_CACHE = f"{STATE}/inputs.json"
"""The cache of input hashes; it does not show which kind of output is made."""


_LEASE = re.compile(rf"{re.escape(LEASE_SUFFIX)}(-[0-9a-f]+)?$")
"""What the name of a lease adds to that of its lock."""


class OutputKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of output.

    Attributes:
        name: its name in messages, and in the lock file of a directory that was claimed for it.
        manifest: the file that describes the output; written last where the kind is `sealed`.
        sealed: whether a directory with a manifest is finished.
        field: a field of the manifest that distinguishes it from another kind's manifest of the same name.
        lock: the lock file, relative to the directory; "" for a kind that is not locked.
        made_from_file: the file in `STATE` that says what unfinished work is made from; "" where stages' manifests do.
        marked: whether the lock file holds the kind's name.
        container: whether it is the parent of several outputs, beside which the user may have files.
        contains: names of kinds whose manifests exist in such a directory, too.
        unfinished: patterns of files that only unfinished work of this kind has; they identify directories of earlier
            versions, whose lock files are empty.
    """

    name: str
    manifest: str = ""
    sealed: bool = True
    field: str = ""
    lock: str = DEFAULT_LOCK
    made_from_file: str = ""
    marked: bool = True
    container: bool = False
    contains: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()


CORPUS = OutputKind(
    name="corpus",
    manifest="corpus.json",
    unfinished=(f"{STATE}/documents/*", f"{STATE}/dedup/*", f"{STATE}/words/*", f"{STATE}/inputs/*"),
)
CORPUS_EXPORT = OutputKind(
    name="corpus export",
    manifest="export.json",
    field="lines_per_file",
    made_from_file="exporting.json",
    unfinished=(f"{STATE}/exporting.json", f"{STATE}/lines/*"),
)
TOKENIZER = OutputKind(
    name="tokenizer", manifest="card.json", made_from_file="training.json", unfinished=(f"{STATE}/training.json",)
)
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
COMPARISON = OutputKind(
    name="comparison", manifest="compare.json", made_from_file="comparing.json", unfinished=(f"{STATE}/comparing.json",)
)
QUALITY_MODEL = OutputKind(
    name="quality model", manifest="quality.json", made_from_file="training.json", unfinished=(f"{STATE}/texts/*",)
)
QUALITY_LABELS = OutputKind(
    name="set of labels", manifest="labels.json", made_from_file="judging.json", unfinished=(f"{STATE}/judging.json",)
)

KINDS = (
    CORPUS,
    CORPUS_EXPORT,
    TOKENIZER,
    DATASET,
    DATASET_EXPORT,
    TOKENIZER_EXPORT,
    MODEL_EXPORT,
    RUN,
    FOLDS,
    RECIPE,
    DOWNLOADS,
    COMPARISON,
    QUALITY_MODEL,
    QUALITY_LABELS,
)


class FoundOutput(msgspec.Struct, frozen=True):
    """An output in a directory.

    Attributes:
        kind: its kind.
        evidence: the file that shows it, relative to the directory.
        finished: whether that file is the manifest, which is written last.
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
    """Return the outputs in a directory; several only where an earlier version mixed them."""
    found = [each for kind in KINDS if (each := _find(path, kind))]
    inner = {name for each in found for name in each.kind.contains}
    return [each for each in found if each.kind.name not in inner]


def _find(path: Path, kind: OutputKind) -> FoundOutput | None:
    if kind.manifest and (path / kind.manifest).is_file() and _has_field(path / kind.manifest, kind.field):
        return FoundOutput(kind, kind.manifest, kind.sealed)
    evidence = _evidence(path, kind)
    return FoundOutput(kind, evidence, False) if evidence else None


def _evidence(path: Path, kind: OutputKind) -> str:
    """Return the file that shows unfinished work of a kind in a directory, or ""."""
    if is_unused(path):
        return ""
    marker = _read_marker(path / kind.lock) if kind.lock and kind.marked else ""
    if marker in (each.name for each in KINDS):  # a damaged one is ignored
        return kind.lock if marker == kind.name else ""
    found = (each for pattern in kind.unfinished for each in path.glob(pattern))
    names = (each.relative_to(path).as_posix() for each in found if not _is_foreign_lock(each, path / kind.lock))
    return next(names, "")


def _is_foreign_lock(path: Path, lock: Path) -> bool:
    """Return whether a lock file belongs to another program: those of jprep are empty or hold the name of a kind."""
    return path == lock and path.stat().st_size > 0


def _read_marker(lock: Path) -> str:
    """Return the name of the kind in a lock file, or ""."""
    try:
        return lock.read_text(encoding="utf-8", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def is_unused(path: Path) -> bool:
    """Return whether a directory has no outputs: only locks, live workers, hashes of inputs and temporary files."""
    spare = {kind.lock for kind in KINDS if kind.lock} | {HASH_CACHE, USAGE, STATE, f"{STATE}/{WORKERS}"}
    held = [each.name for each in path.iterdir()] if path.is_dir() else []
    state = [each.name for each in (path / STATE).iterdir()] if (path / STATE).is_dir() else []
    names = held + [f"{STATE}/{name}" for name in state if not final_name(name)]
    return spare.issuperset(_LEASE.sub("", name) for name in names if not is_silly_rename(Path(name).name))


def _has_field(manifest: Path, field: str) -> bool:
    if not field:
        return True
    try:
        content = msgspec.json.decode(manifest.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return isinstance(content, dict) and field in content
