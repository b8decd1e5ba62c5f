"""Build a corpus: run its stages, resume interrupted ones, and write the manifest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.config import CorpusConfig, CorpusRecipe
from jprep.corpus.decontamination.findings import (
    FINDINGS,
    TEST_ITEMS,
    ItemCounts,
    read_occurrences,
    write_found_items,
)
from jprep.corpus.dedup.exact import ExactDedup
from jprep.corpus.dedup.hashes import BAND_KEYS, HASHES, RANKS
from jprep.corpus.dedup.near.clusters import NearClusters
from jprep.corpus.dedup.near.pairs import NearPairs
from jprep.corpus.dedup.repeated_ids import FindRepeatedIds, HashIds, RepeatedIds, repeated_ids
from jprep.corpus.input_files import InputFile, find_inputs
from jprep.corpus.made_from import in_format, made_from
from jprep.corpus.stages.inputs import CutInputs, InputsStage
from jprep.corpus.stages.read import ReadStage, source_index
from jprep.corpus.stages.read_plan import ReadPlan, licences, needs_dedup, shard_limit
from jprep.corpus.stages.segment import ClusterFile, RecipeSignals, SegmentStage
from jprep.corpus.stages.sources import check_sources, task_id_prefix
from jprep.corpus.store import (
    DOCUMENTS,
    DOCUMENTS_SUFFIX,
    FORMAT,
    REJECTS,
    REJECTS_SUFFIX,
    TOTALS_PREFIX,
    Manifest,
    read_manifest,
    schema_metadata,
)
from jprep.engine.consumed import OutputChecks
from jprep.engine.fingerprint import fingerprint
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import CORPUS, HASH_CACHE, STATE
from jprep.engine.runner import Executor, ProgressReporter, list_outputs, sum_counts
from jprep.engine.stage import Output, Receipt, Stage
from jprep.errors import ConfigError, MismatchError
from jprep.io.failpoints import failpoint

_SHARD = "[0-9][0-9][0-9][0-9]-*-[0-9][0-9][0-9][0-9][0-9][0-9]"
_FILES = (
    f"{DOCUMENTS}/{_SHARD}{DOCUMENTS_SUFFIX}",
    f"{REJECTS}/[a-z]*-{_SHARD}{REJECTS_SUFFIX}",
    f"{REJECTS}/[a-z]*-{_SHARD}{DOCUMENTS_SUFFIX}",  # of format 1
    f"{TEST_ITEMS}/*.jsonl",
)
_SIGNATURE_FILES = 3  # input files named in a signature
_HANGUL_SHARE = 0.1  # of the removed spaces: Japanese text has some Korean names
_log = logging.getLogger(__name__)


FindInputs = Callable[..., list[InputFile]]
"""Finds the files of a source, see `find_inputs`."""


def build(
    recipe: CorpusRecipe,
    folder: Path,
    executor: Executor,
    progress: ProgressReporter,
    *,
    restart: bool = False,
    find: FindInputs = find_inputs,
) -> Manifest:
    """Build a corpus, resume an interrupted build, or verify a finished corpus.

    Args:
        recipe: what to build.
        folder: output directory; new, empty, or with a corpus of the same recipe and inputs.
        executor: where the tasks run.
        progress: progress callbacks.
        restart: delete a corpus that the folder holds and build again.
        find: finds the files of each source; another function can leave out their hashes, to build from a sample.

    Returns:
        The manifest of the finished corpus.

    Raises:
        ConfigError: the folder holds something other than a corpus, or the recipe has no sources.
        MismatchError: the folder holds a different corpus; the error names the difference.
        JprepError: a task failed. Finished tasks are kept; call again to resume.
    """
    if not recipe.corpus.sources:
        raise ConfigError("the recipe has no sources", where=recipe.name, fix="add a [[corpus.sources]] table")
    out = corpus_directory(folder)
    with out.claim():
        return _Build(recipe, out, executor, progress, find).run(restart=restart)


def corpus_directory(folder: Path) -> OutputDirectory:
    """Return the output directory of a corpus, with the patterns of its files."""
    return OutputDirectory(folder, CORPUS, files=_FILES)


def stage_names(config: CorpusConfig) -> list[str]:
    """Return the names of the stages that a build may run; which ones it needs is known when it runs."""
    near = [NearPairs.name, NearClusters.name] if config.dedup.near else []
    dedup = [*near, ExactDedup.name, SegmentStage.name] if needs_dedup(config) else []
    return [InputsStage.name, ReadStage.name, *dedup, HashIds.name, FindRepeatedIds.name]


class _Build:
    """One call of `build`. The output directory is locked."""

    def __init__(
        self,
        recipe: CorpusRecipe,
        out: OutputDirectory,
        executor: Executor,
        progress: ProgressReporter,
        find: FindInputs,
    ) -> None:
        self._recipe, self._out, self._folder, self._find = recipe, out, out.path, find
        self._executor, self._progress = executor, progress
        self._needs_dedup = needs_dedup(recipe.corpus)
        self._inputs: list[list[InputFile]] = []
        self._made_from: dict[str, Any] = {}
        self._own_ids: set[int] = set()

    def run(self, *, restart: bool) -> Manifest:
        """Build the corpus. Check recipe and inputs before deleting anything."""
        try:
            return self._run(restart)
        finally:
            if self._out.finished:
                self._out.clean()

    def _run(self, restart: bool) -> Manifest:
        self._out.refuse_foreign_files()
        check_sources(self._recipe.corpus.sources)
        corpus, cache = self._recipe.corpus, self._folder / HASH_CACHE
        self._inputs = [self._find(source, cache, fresh=restart) for source in corpus.sources]
        tests = [find_inputs(each, cache, fresh=restart) for each in corpus.decontaminate]
        with closing(ReadPlan(corpus, self._inputs, self._recipe.name, tests)) as plan:
            self._made_from = made_from(self._recipe, plan)
            self._own_ids = plan.sources_with_own_ids()
            if restart:
                self._out.restart()
            return self._verify_finished() if self._out.finished else self._run_stages(plan)

    def _run_stages(self, plan: ReadPlan) -> Manifest:
        metadata = schema_metadata(self._recipe.name, fingerprint(self._made_from), licences(self._recipe.corpus))
        receipts = [self._read(plan, metadata)]
        if self._needs_dedup:
            receipts.append(self._deduplicate(receipts[0], metadata))
        repeated = self._repeated_ids(_in_folder(DOCUMENTS, receipts[-1]))
        return self._seal(receipts, repeated, *self._write_found_items(plan, receipts[0]))

    def _write_found_items(self, plan: ReadPlan, read: list[Receipt]) -> tuple[list[ItemCounts], list[Output]]:
        """Write the lists of items of test sets; return what was found, and the files."""
        if (decontaminator := plan.decontaminator) is None:
            return [], []
        found = read_occurrences(self._folder, _in_folder(FINDINGS, read))
        counts, files = list[ItemCounts](), list[Output]()
        for number, config in enumerate(self._recipe.corpus.decontaminate):
            rows = decontaminator.found_items(number, found)
            counts.append(decontaminator.counts(number, found, rows))
            files += write_found_items(self._folder, config.name, rows)
        return counts, files

    def _verify_finished(self) -> Manifest:
        """Return the existing manifest if it matches the recipe, the inputs and the files."""
        manifest = read_manifest(self._folder)
        if any(file.is_pipe for files in self._inputs for file in files):
            fix = "choose another -o, or build again with --restart"
            what, options = "cannot compare a finished corpus with a pipe", ("-o", "--restart")
            raise MismatchError(what, where=str(self._folder), fix=fix, options=options)
        expected = in_format(self._made_from, manifest.format)
        self._out.verify(expected, manifest.made_from, manifest.files, "build the corpus again with --restart")
        return manifest

    def _stage(self, stage: Stage) -> list[Receipt]:
        return self._out.run_stage(stage, self._executor, self._progress)

    def _read(self, plan: ReadPlan, metadata: dict[str, str]) -> list[Receipt]:
        """Read the documents. Inputs that have to be read as a whole to cut them are cut first."""
        cutting = InputsStage(self._recipe.corpus, self._inputs, plan.fields)
        with closing(cutting):
            cut = self._stage(cutting) if cutting.is_needed() else []
        folder = f"{STATE}/documents/" if self._needs_dedup else ""
        return self._stage(ReadStage(plan, metadata, self._folder, folder, CutInputs(self._folder, cut)))

    def _deduplicate(self, read: list[Receipt], metadata: dict[str, str]) -> list[Receipt]:
        read_from = fingerprint(self._made_from["documents"])
        hashes = self._hash_files(read, HASHES)
        dedup = self._recipe.corpus.dedup
        frequent = dedup.sentences or dedup.paragraphs
        near = self._near_clusters(read, read_from)
        clusters = near.file if near and dedup.exact_needs_near else None
        exact = ExactDedup(hashes, f"{STATE}/dedup/", read_from, frequent, clusters)
        deduplicated = self._stage(exact)
        drops = list_outputs(deduplicated)
        self._verify(drops)
        self._out.consume([output for output in hashes if output], exact, deduplicated)
        made_from = {"documents": read_from} | self._made_from["words"]
        corpus, documents = self._recipe.corpus, self._made_from["documents"]
        described = [*documents.get("signals", []), *documents.get("line_signals", [])]
        signals = RecipeSignals(corpus.signals, corpus.line_signals, described)
        return self._stage(
            SegmentStage(
                read,
                drops,
                self._recipe.corpus.segmenter,
                made_from,
                metadata,
                near,
                signals,
                sentences=dedup.sentences is not None,
            )
        )

    def _hash_files(self, read: list[Receipt], folder: str) -> list[Output | None]:
        """Return the verified files of hashes, one for each receipt of the read stage."""
        hashes = [next(iter(_in_folder(folder, [receipt])), None) for receipt in read]
        self._verify(output for output in hashes if output)
        return hashes

    def _near_clusters(self, read: list[Receipt], read_from: str) -> ClusterFile | None:
        """Return the clusters of near-duplicates; None if the recipe does not look for them."""
        if (config := self._recipe.corpus.dedup.near) is None:
            return None
        folder = f"{STATE}/near/"
        keys = self._hash_files(read, BAND_KEYS)
        paired = self._stage(pairing := NearPairs(keys, folder, read_from))
        pairs = list_outputs(paired)
        self._verify(pairs)
        self._out.consume([output for output in keys if output], pairing, paired)
        rows = [sum(output.rows for output in _in_folder(DOCUMENTS, [receipt])) for receipt in read]
        ranks = [output for output in self._hash_files(read, RANKS) if output] if config.keep != "first" else []
        joined = self._stage(joining := NearClusters(pairs, rows, ranks, config, folder))
        [clusters] = list_outputs(joined)
        self._verify([clusters])
        for consumed in (pairs, ranks):
            self._out.consume(consumed, joining, joined)
        return ClusterFile(clusters, config.drop)

    def _verify(self, outputs: Iterable[Output]) -> None:
        """Verify intermediate files, except those that are no longer needed."""
        OutputChecks().verify(self._folder, outputs)

    def _repeated_ids(self, parts: list[Output]) -> dict[int, RepeatedIds]:
        """Return repeated ids by the index of the source, for the sources whose ids come from the input."""
        parts = [part for part in parts if source_index(part) in self._own_ids]
        if not parts:
            return {}
        folder = f"{STATE}/{HashIds.name}/"
        hashes = list_outputs(self._stage(HashIds([(source_index(part), part) for part in parts], folder)))
        self._verify(hashes)
        return repeated_ids(self._folder, parts, self._stage(FindRepeatedIds(hashes, folder)))

    def _seal(
        self,
        stages: list[list[Receipt]],
        repeated: dict[int, RepeatedIds],
        test_sets: list[ItemCounts],
        test_items: list[Output],
    ) -> Manifest:
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
            totals={
                name[len(TOTALS_PREFIX) :]: count for name, count in last.items() if name.startswith(TOTALS_PREFIX)
            },
            counts={name: count for name, count in counts.items() if not name.startswith(TOTALS_PREFIX)},
            rejects=sum_counts([receipt.rejects for receipt in receipts]),
            parts=_in_folder(DOCUMENTS, stages[-1]),
            reject_parts=_in_folder(REJECTS, receipts),
            test_sets=test_sets,
            test_items=test_items,
        )
        # Files of interrupted runs are deleted: users read the corpus with patterns such as `*.parquet`.
        self._out.seal(manifest, keep={file.path for file in manifest.files})
        _warn_of_hangul(counts)
        self._warn_of_scores(manifest)
        return manifest

    def _warn_of_scores(self, manifest: Manifest) -> None:
        """Warn if no document has the number by which one of near-duplicates is to stay."""
        dropped = sum(number for reason, number in manifest.rejects.items() if reason.startswith("dedup."))
        compared, near = manifest.totals.get("documents", 0) + dropped, self._recipe.corpus.dedup.near
        if near and compared and manifest.counts.get("dedup.near.without_score") == compared:
            what = "no document has the signal or field of meta %r (key corpus.dedup.near.score)"
            _log.warning(f"{what}: the first of each group was kept", near.score)

    def _sources(self, read: list[Receipt], repeated: dict[int, RepeatedIds]) -> list[dict[str, Any]]:
        """Return the sources with their files. A pipe has no hash; it is described by a hash of its shards' hashes."""
        sources = []
        for index, (source, files) in enumerate(zip(self._recipe.corpus.sources, self._inputs, strict=True)):
            digests = [receipt.digest for receipt in read if receipt.task.startswith(task_id_prefix(index, source))]
            piped = {"shards": fingerprint({"digests": digests})}
            commits = [{"commit": file.commit} if file.commit else {} for file in files]
            entries = [
                file.public() | commit | (piped if file.is_pipe else {})
                for file, commit in zip(files, commits, strict=True)
            ]
            about = {"name": source.name, "licence": source.licence, "homepage": source.homepage}
            shared = {"repeated_ids": msgspec.to_builtins(repeated[index])} if index in repeated else {}
            sources.append(about | {"files": entries} | shard_limit(source) | shared)
        return sources


def _warn_of_hangul(counts: dict[str, int]) -> None:
    """Warn if many of the spaces that neologdn removed were between the words of Korean text."""
    lost, removed = (counts.get(f"normalizer.neologdn.spaces.{name}", 0) for name in ("between_hangul", "removed"))
    if lost >= max(1, _HANGUL_SHARE * removed):
        fix = 'normalizers = [{ use = "neologdn", hangul_spaces = "keep" }] keeps them, and [] changes nothing'
        _log.warning("neologdn removed %s spaces between Hangul, which separate Korean words: %s", f"{lost:,}", fix)


def _in_folder(folder: str, receipts: list[Receipt]) -> list[Output]:
    return [output for output in list_outputs(receipts) if output.folder == folder]


def _signature(name: str, made_from: dict[str, Any], mark: str) -> str:
    """Return one line that identifies a corpus, to cite beside results."""
    read = made_from["documents"]
    files = [f"{file['name']}@{file['sha256'][:8] or 'pipe'}" for source in read["sources"] for file in source["files"]]
    more = len(files) - _SIGNATURE_FILES
    inputs = ",".join(files[:_SIGNATURE_FILES]) + (f",+{more}" if more > 0 else "")
    steps = [*read["normalizers"], read["splitter"], made_from.get("words", read)["segmenter"]]
    words = [f"{step['name']}.{step['version']}" for step in steps]
    return "|".join([f"jprep:{version('jprep')}", f"corpus:{name}", inputs, *words, f"id:{mark[:12]}"])
