"""Builds a corpus: stage after stage, each resumed where it was left, and at the end the manifest."""

from __future__ import annotations

from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jprep.corpus.dedup.exact import ExactDedup
from jprep.corpus.dedup.hashes import HASHES
from jprep.corpus.documents import DocumentsStage, deduplicates, licences, shards_of, task_prefix
from jprep.corpus.inputs import Input, find_inputs
from jprep.corpus.recipe import Recipe
from jprep.corpus.store import (
    DOCUMENTS,
    FORMAT,
    MANIFEST,
    REJECTS,
    TOTAL,
    Manifest,
    damage_of,
    metadata,
    read_manifest,
    write_manifest,
)
from jprep.corpus.words import WordsStage, describe_segmenter
from jprep.engine.fingerprint import fingerprint, plain
from jprep.engine.run import Executor, Progress, add_up, outputs_of, refuse_other, run_stage
from jprep.engine.stage import Output, Receipt, Stage
from jprep.errors import ConfigError, MismatchError
from jprep.io.atomic import remove_contents, remove_leftovers, remove_tree
from jprep.io.lock import locked
from jprep.testing.failpoints import failpoint

STATE = ".state"
"""The folder inside a corpus that holds work under way; all but its lock is gone once the corpus is whole."""

_LOCK = "LOCK"
_NAMED = 3  # input files that a signature names


def build(recipe: Recipe, folder: Path, executor: Executor, progress: Progress, *, restart: bool = False) -> Manifest:
    """Build a corpus, or bring one that was begun to its end, or see that it is whole.

    Args:
        recipe: what to build.
        folder: where; new, empty, or holding this very corpus.
        executor: where the work runs.
        progress: is told of it.
        restart: throw away what the folder holds of other work.

    Raises:
        MismatchError: the folder holds other work; the message names what differs.
        JprepError: see its kinds; what was committed stays, and the same call goes on.
    """
    _check(recipe, folder)
    with locked(folder / STATE / _LOCK):
        return _Build(recipe, folder, executor, progress).run(restart=restart)


def foresee(recipe: Recipe, cache: Path) -> dict[str, Any]:
    """What the manifest's `made_from` will be, known before anything is built.

    Args:
        recipe: what would be built.
        cache: a file that remembers the inputs' hashes.

    Raises:
        ConfigError: an input is not there, or a step is not.
    """
    inputs = [find_inputs(source, cache) for source in recipe.corpus.sources]
    with closing(DocumentsStage(recipe.corpus, inputs, "", recipe.name)) as reading:
        return _made_from(recipe, reading)


def _made_from(recipe: Recipe, reading: DocumentsStage) -> dict[str, Any]:
    made_from: dict[str, Any] = {"documents": plain(reading.fields())}
    if deduplicates(recipe.corpus):
        made_from["words"] = plain({"segmenter": describe_segmenter(recipe.corpus.segmenter)})
    return made_from


def _in_format(made_from: dict[str, Any], form: int) -> dict[str, Any]:
    """What `made_from` is for a finished corpus of an earlier format, with the same rows in files of other bytes."""
    if form == FORMAT:
        return made_from
    documents = {key: value for key, value in made_from["documents"].items() if key != "about"}
    return made_from | {"documents": documents | {"format": form}}


def _check(recipe: Recipe, folder: Path) -> None:
    if not recipe.corpus.sources:
        raise ConfigError("there is nothing to read", where=recipe.name, fix="give the recipe a [[corpus.sources]]")
    if folder.exists() and not folder.is_dir():
        raise ConfigError("the output must be a folder", where=str(folder), fix="give another -o")
    held = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if held and not held & {STATE, MANIFEST}:
        fix = "give a new folder, or an empty one"
        raise ConfigError("the output folder holds files that are no corpus", where=str(folder), fix=fix)


class _Build:
    """One run of `build`, under the folder's lock."""

    def __init__(self, recipe: Recipe, folder: Path, executor: Executor, progress: Progress) -> None:
        self._recipe, self._folder, self._state = recipe, folder, folder / STATE
        self._executor, self._progress = executor, progress
        self._barrier = deduplicates(recipe.corpus)
        self._inputs: list[list[Input]] = []
        self._made_from: dict[str, Any] = {}

    def run(self, *, restart: bool) -> Manifest:
        """Build; what can be found wrong beforehand is, before anything old is thrown away."""
        try:
            return self._run(restart)
        finally:
            if (self._folder / MANIFEST).exists():
                self._forget()

    def _run(self, restart: bool) -> Manifest:
        remove_leftovers(self._folder)
        corpus = self._recipe.corpus
        self._inputs = [find_inputs(source, self._state / "inputs.json") for source in corpus.sources]
        folder = f"{STATE}/documents/" if self._barrier else ""
        with closing(DocumentsStage(corpus, self._inputs, folder, self._recipe.name)) as reading:
            self._made_from = _made_from(self._recipe, reading)
            reading.about = metadata(self._recipe.name, fingerprint(self._made_from), licences(corpus))
            if restart:
                self._forget(MANIFEST, DOCUMENTS, REJECTS)
            return self._finished() if (self._folder / MANIFEST).exists() else self._build(reading)

    def _build(self, reading: DocumentsStage) -> Manifest:
        receipts = [self._stage(reading)]
        if self._barrier:
            receipts.append(self._deduplicate(receipts[0], reading.about))
        return self._seal(receipts)

    def _finished(self) -> Manifest:
        """The manifest that stands, if it says just what this recipe and these inputs would, and its files stand."""
        manifest = read_manifest(self._folder)
        if any(file.is_pipe for files in self._inputs for file in files):
            fix = "give another -o, or --restart to build it again"
            raise MismatchError("a finished corpus cannot be held against a pipe", where=str(self._folder), fix=fix)
        refuse_other(_in_format(self._made_from, manifest.format), manifest.made_from, self._folder)
        for file in manifest.files:
            if damage := damage_of(self._folder, file):
                fix = "--restart builds the corpus again"
                raise MismatchError(f"a file of this corpus {damage}", where=str(self._folder / file.path), fix=fix)
        return manifest

    def _stage(self, stage: Stage) -> list[Receipt]:
        return run_stage(stage, self._folder, self._state / stage.name, self._executor, self._progress)

    def _deduplicate(self, read: list[Receipt], about: dict[str, str]) -> list[Receipt]:
        read_from = fingerprint(self._made_from["documents"])
        hashes = [next(iter(_in_folder(HASHES, [receipt])), None) for receipt in read]
        found = self._stage(ExactDedup(hashes, f"{STATE}/dedup/", read_from))
        made_from = {"documents": read_from} | self._made_from["words"]
        return self._stage(WordsStage(read, outputs_of(found), self._recipe.corpus.segmenter, made_from, about))

    def _seal(self, stages: list[list[Receipt]]) -> Manifest:
        failpoint("corpus.sealing")
        receipts = [receipt for stage in stages for receipt in stage]
        counts = add_up([receipt.counts for receipt in receipts])
        last = add_up([receipt.counts for receipt in stages[-1]])
        mark = fingerprint(self._made_from)
        manifest = Manifest(
            jprep=version("jprep"),
            format=FORMAT,
            name=self._recipe.name,
            signature=_signature(self._recipe.name, self._made_from, mark),
            fingerprint=mark,
            made_from=self._made_from,
            sources=self._sources(stages[0]),
            totals={name[len(TOTAL) :]: count for name, count in last.items() if name.startswith(TOTAL)},
            counts={name: count for name, count in counts.items() if not name.startswith(TOTAL)},
            rejects=add_up([receipt.rejects for receipt in receipts]),
            parts=_in_folder(DOCUMENTS, stages[-1]),
            reject_parts=_in_folder(REJECTS, receipts),
        )
        self._tidy(manifest)
        write_manifest(self._folder, manifest)
        return manifest

    def _tidy(self, manifest: Manifest) -> None:
        """Delete what an earlier, interrupted run left among the corpus's own files: people read whole folders."""
        remove_leftovers(self._folder)
        ours = {file.path for file in manifest.files}
        for folder in (DOCUMENTS, REJECTS):
            for path in (self._folder / folder).glob("*"):
                if f"{folder}/{path.name}" not in ours:
                    path.unlink()

    def _sources(self, read: list[Receipt]) -> list[dict[str, Any]]:
        """Each source with its files; a pipe, which cannot be hashed beforehand, by the hash of its shards' hashes."""
        sources = []
        for index, (source, files) in enumerate(zip(self._recipe.corpus.sources, self._inputs, strict=True)):
            digests = [receipt.digest for receipt in read if receipt.task.startswith(task_prefix(index, source))]
            piped = {"shards": fingerprint({"digests": digests})}
            entries = [file.public() | (piped if file.is_pipe else {}) for file in files]
            about = {"name": source.name, "licence": source.licence, "homepage": source.homepage}
            sources.append(about | {"files": entries} | shards_of(source))
        return sources

    def _forget(self, *names: str) -> None:
        """Delete work under way, all but the lock that is held; and what else is named."""
        for path in (self._folder / name for name in names):
            remove_tree(path) if path.is_dir() else path.unlink(missing_ok=True)
        remove_contents(self._state, _LOCK)


def _in_folder(folder: str, receipts: list[Receipt]) -> list[Output]:
    return [output for output in outputs_of(receipts) if output.folder == folder]


def _signature(name: str, made_from: dict[str, Any], mark: str) -> str:
    """One line that says what a corpus is: to be cited beside figures."""
    read = made_from["documents"]
    files = [f"{file['name']}@{file['sha256'][:8] or 'pipe'}" for source in read["sources"] for file in source["files"]]
    inputs = ",".join(files[:_NAMED]) + (f",+{len(files) - _NAMED}" if len(files) > _NAMED else "")
    steps = [*read["normalizers"], read["splitter"], made_from.get("words", read)["segmenter"]]
    words = [f"{step['name']}.{step['version']}" for step in steps]
    return "|".join([f"jprep:{version('jprep')}", f"corpus:{name}", inputs, *words, f"id:{mark[:12]}"])
