"""Builds a corpus: stage after stage, each resumed where it was left, and at the end the manifest."""

from __future__ import annotations

from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.config import Recipe
from jprep.corpus.dedup.exact import ExactDedup
from jprep.corpus.dedup.hashes import HASHES
from jprep.corpus.dedup.ids import FindRepeatedIds, IdHashes, RepeatedIds, repeated_ids
from jprep.corpus.inputs import Input, find_inputs
from jprep.corpus.stages.read import ReadStage, deduplicates, licences, shards_of, source_number, task_prefix
from jprep.corpus.store import (
    DOCUMENTS,
    DOCUMENTS_SUFFIX,
    FORMAT,
    REJECTS,
    REJECTS_SUFFIX,
    TOTAL,
    Manifest,
    metadata,
    read_manifest,
    write_manifest,
)
from jprep.corpus.words import WordsStage, describe_segmenter
from jprep.engine.fingerprint import fingerprint, plain
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import CORPUS, HASH_CACHE, STATE
from jprep.engine.runner import Executor, ProgressReporter, list_outputs, refuse_mismatch, run_stage, sum_counts
from jprep.engine.stage import Output, Receipt, Stage
from jprep.errors import ConfigError, MismatchError
from jprep.io.failpoints import failpoint
from jprep.io.verified_files import verify_file

_SHARD = "[0-9][0-9][0-9][0-9]-*-[0-9][0-9][0-9][0-9][0-9][0-9]"
_FILES = (
    f"{DOCUMENTS}/{_SHARD}{DOCUMENTS_SUFFIX}",
    f"{REJECTS}/[a-z]*-{_SHARD}{REJECTS_SUFFIX}",
    f"{REJECTS}/[a-z]*-{_SHARD}{DOCUMENTS_SUFFIX}",  # of format 1
)
_NAMED = 3  # input files that a signature names


def build(
    recipe: Recipe, folder: Path, executor: Executor, progress: ProgressReporter, *, restart: bool = False
) -> Manifest:
    """Build a corpus, or bring one that was begun to its end, or see that it is whole.

    Args:
        recipe: what to build.
        folder: where; new, empty, or holding this very corpus.
        executor: where the work runs.
        progress: is told of it.
        restart: throw away another corpus that the folder holds.

    Raises:
        ConfigError: the folder holds something else than a corpus; the message names it.
        MismatchError: the folder holds another corpus; the message names what differs.
        JprepError: see its kinds; what was committed stays, and the same call goes on.
    """
    if not recipe.corpus.sources:
        raise ConfigError("there is nothing to read", where=recipe.name, fix="give the recipe a [[corpus.sources]]")
    out = output_directory(folder)
    with out.claim():
        return _Build(recipe, out, executor, progress).run(restart=restart)


def output_directory(folder: Path) -> OutputDirectory:
    """Return the directory of a corpus, which knows the names of its files."""
    return OutputDirectory(folder, CORPUS, files=_FILES)


def expected_made_from(recipe: Recipe, cache: Path) -> dict[str, Any]:
    """What the manifest's `made_from` will be, known before anything is built.

    Args:
        recipe: what would be built.
        cache: a file that remembers the inputs' hashes.

    Raises:
        ConfigError: an input is not there, or a step is not.
    """
    inputs = [find_inputs(source, cache) for source in recipe.corpus.sources]
    with closing(ReadStage(recipe.corpus, inputs, "", recipe.name)) as reading:
        return _made_from(recipe, reading)


def _made_from(recipe: Recipe, reading: ReadStage) -> dict[str, Any]:
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


class _Build:
    """One run of `build`, under the folder's lock."""

    def __init__(self, recipe: Recipe, out: OutputDirectory, executor: Executor, progress: ProgressReporter) -> None:
        self._recipe, self._out, self._folder = recipe, out, out.path
        self._executor, self._progress = executor, progress
        self._barrier = deduplicates(recipe.corpus)
        self._inputs: list[list[Input]] = []
        self._made_from: dict[str, Any] = {}
        self._own_ids: set[int] = set()

    def run(self, *, restart: bool) -> Manifest:
        """Build; what can be found wrong beforehand is, before anything old is thrown away."""
        try:
            return self._run(restart)
        finally:
            if self._out.finished:
                self._out.remove_state()

    def _run(self, restart: bool) -> Manifest:
        self._out.refuse_foreign_files()
        self._out.remove_leftovers()
        corpus, cache = self._recipe.corpus, self._folder / HASH_CACHE
        self._inputs = [find_inputs(source, cache, fresh=restart) for source in corpus.sources]
        folder = f"{STATE}/documents/" if self._barrier else ""
        with closing(ReadStage(corpus, self._inputs, folder, self._recipe.name)) as reading:
            self._made_from = _made_from(self._recipe, reading)
            self._own_ids = reading.sources_with_own_ids()
            reading.about = metadata(self._recipe.name, fingerprint(self._made_from), licences(corpus))
            if restart:
                self._out.restart()
            return self._finished() if self._out.finished else self._build(reading)

    def _build(self, reading: ReadStage) -> Manifest:
        receipts = [self._stage(reading)]
        if self._barrier:
            receipts.append(self._deduplicate(receipts[0], reading.about))
        return self._seal(receipts, self._repeated_ids(_in_folder(DOCUMENTS, receipts[-1])))

    def _finished(self) -> Manifest:
        """The manifest that stands, if it says just what this recipe and these inputs would, and its files stand."""
        manifest = read_manifest(self._folder)
        if any(file.is_pipe for files in self._inputs for file in files):
            fix = "give another -o, or --restart to build it again"
            raise MismatchError("a finished corpus cannot be held against a pipe", where=str(self._folder), fix=fix)
        refuse_mismatch(_in_format(self._made_from, manifest.format), manifest.made_from, self._folder)
        for file in manifest.files:
            verify_file(self._folder / file.path, file.sha256, "--restart builds the corpus again")
        return manifest

    def _stage(self, stage: Stage) -> list[Receipt]:
        return run_stage(stage, self._folder, self._out.state / stage.name, self._executor, self._progress)

    def _deduplicate(self, read: list[Receipt], about: dict[str, str]) -> list[Receipt]:
        read_from = fingerprint(self._made_from["documents"])
        hashes = [next(iter(_in_folder(HASHES, [receipt])), None) for receipt in read]
        self._verify([output for output in hashes if output])
        drops = list_outputs(self._stage(ExactDedup(hashes, f"{STATE}/dedup/", read_from)))
        self._verify(drops)
        made_from = {"documents": read_from} | self._made_from["words"]
        return self._stage(WordsStage(read, drops, self._recipe.corpus.segmenter, made_from, about))

    def _verify(self, outputs: list[Output]) -> None:
        """See that files of work under way are what was written."""
        for output in outputs:
            verify_file(self._folder / output.path, output.sha256)

    def _repeated_ids(self, parts: list[Output]) -> dict[int, RepeatedIds]:
        """Ids that are not unique, by the number of the source, where they come from the input."""
        parts = [part for part in parts if source_number(part) in self._own_ids]
        if not parts:
            return {}
        folder = f"{STATE}/{IdHashes.name}/"
        hashes = list_outputs(self._stage(IdHashes([(source_number(part), part) for part in parts], folder)))
        self._verify(hashes)
        return repeated_ids(self._folder, parts, self._stage(FindRepeatedIds(hashes, folder)))

    def _seal(self, stages: list[list[Receipt]], repeated: dict[int, RepeatedIds]) -> Manifest:
        failpoint("corpus.sealing")
        receipts = [receipt for stage in stages for receipt in stage]
        counts = sum_counts([receipt.counts for receipt in receipts])
        last = sum_counts([receipt.counts for receipt in stages[-1]])
        mark = fingerprint(self._made_from)
        manifest = Manifest(
            jprep=version("jprep"),
            format=FORMAT,
            name=self._recipe.name,
            signature=_signature(self._recipe.name, self._made_from, mark),
            fingerprint=mark,
            made_from=self._made_from,
            sources=self._sources(stages[0], repeated),
            totals={name[len(TOTAL) :]: count for name, count in last.items() if name.startswith(TOTAL)},
            counts={name: count for name, count in counts.items() if not name.startswith(TOTAL)},
            rejects=sum_counts([receipt.rejects for receipt in receipts]),
            parts=_in_folder(DOCUMENTS, stages[-1]),
            reject_parts=_in_folder(REJECTS, receipts),
        )
        self._tidy(manifest)
        write_manifest(self._folder, manifest)
        return manifest

    def _tidy(self, manifest: Manifest) -> None:
        """Delete what an earlier, interrupted run left among the corpus's own files: people read whole folders."""
        self._out.remove_leftovers()
        self._out.remove_files(keep={file.path for file in manifest.files})

    def _sources(self, read: list[Receipt], repeated: dict[int, RepeatedIds]) -> list[dict[str, Any]]:
        """Each source with its files; a pipe, which cannot be hashed beforehand, by the hash of its shards' hashes."""
        sources = []
        for index, (source, files) in enumerate(zip(self._recipe.corpus.sources, self._inputs, strict=True)):
            digests = [receipt.digest for receipt in read if receipt.task.startswith(task_prefix(index, source))]
            piped = {"shards": fingerprint({"digests": digests})}
            entries = [file.public() | (piped if file.is_pipe else {}) for file in files]
            about = {"name": source.name, "licence": source.licence, "homepage": source.homepage}
            shared = {"repeated_ids": msgspec.to_builtins(repeated[index])} if index in repeated else {}
            sources.append(about | {"files": entries} | shards_of(source) | shared)
        return sources


def _in_folder(folder: str, receipts: list[Receipt]) -> list[Output]:
    return [output for output in list_outputs(receipts) if output.folder == folder]


def _signature(name: str, made_from: dict[str, Any], mark: str) -> str:
    """One line that says what a corpus is: to be cited beside figures."""
    read = made_from["documents"]
    files = [f"{file['name']}@{file['sha256'][:8] or 'pipe'}" for source in read["sources"] for file in source["files"]]
    inputs = ",".join(files[:_NAMED]) + (f",+{len(files) - _NAMED}" if len(files) > _NAMED else "")
    steps = [*read["normalizers"], read["splitter"], made_from.get("words", read)["segmenter"]]
    words = [f"{step['name']}.{step['version']}" for step in steps]
    return "|".join([f"jprep:{version('jprep')}", f"corpus:{name}", inputs, *words, f"id:{mark[:12]}"])
