"""Make a corpus of the documents of another one that pass other filters."""

from __future__ import annotations

import unicodedata
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.build import corpus_directory
from jprep.corpus.refilter.request import FilterRequest
from jprep.corpus.refilter.stage import RefilterStage
from jprep.corpus.store import DOCUMENTS, FORMAT, REJECTS, TOTALS_PREFIX, Manifest, read_manifest, schema_metadata
from jprep.engine.fingerprint import fingerprint, plain
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.runner import Executor, ProgressReporter, list_outputs, sum_counts
from jprep.engine.stage import Receipt
from jprep.errors import ConfigError
from jprep.io.failpoints import failpoint

_OTHER = "give another directory by -o"


def refilter(
    source: Path,
    request: FilterRequest,
    folder: Path,
    executor: Executor,
    progress: ProgressReporter,
    *,
    restart: bool = False,
) -> Manifest:
    """Filter a finished corpus into a new one, resume an interrupted run, or verify a finished one.

    Kept signals are used where the corpus has them; others are measured from the text. Segmentation, the rejects of the
    corpus and its counts stay. `made_from["filtered"]` of the new manifest names the corpus by its fingerprint.

    Args:
        source: directory of the corpus.
        request: what to filter by.
        folder: output directory; new, empty, or with the result of the same corpus and filters.
        executor: where the tasks run.
        progress: progress callbacks.
        restart: delete a corpus that the folder holds and filter again.

    Raises:
        ConfigError: there is no finished corpus, nothing to filter by, or a step cannot be made.
        MismatchError: the folder holds a different corpus; the error names the difference.
        JprepError: a task failed. Finished tasks are kept; call again to resume.
    """
    manifest = read_manifest(source)
    if source.resolve() == folder.resolve():
        raise ConfigError("a corpus cannot be filtered into its own directory", where=str(folder), fix=_OTHER)
    if not (request.filters or any(request.source_filters.values()) or request.signals or request.line_signals):
        raise ConfigError("nothing to filter by", where=str(source), fix="give filters, or signals to keep")
    out, before = corpus_directory(folder), manifest.made_from.get("filtered", [])
    with out.claim():
        out.refuse_foreign_files()
        label = f"{RefilterStage.name}{len(before) + 1 if before else ''}"
        try:
            with closing(RefilterStage(source.resolve(), manifest, request, label)) as stage:
                return _run(out, manifest, stage, executor, progress, restart=restart)
        finally:
            if out.finished:
                out.clean()


def _run(
    out: OutputDirectory,
    corpus: Manifest,
    stage: RefilterStage,
    executor: Executor,
    progress: ProgressReporter,
    *,
    restart: bool,
) -> Manifest:
    made_from = _made_from(corpus, stage)
    stage.made_from = {"filtered": fingerprint(made_from)}
    licences = {source["name"]: source.get("licence", "") for source in corpus.sources}
    stage.metadata = schema_metadata(corpus.name, fingerprint(made_from), licences)
    if restart:
        out.restart()
    if out.finished:
        found = read_manifest(out.path)
        out.verify(made_from, found.made_from, found.files, "filter the corpus again with --restart")
        return found
    receipts = out.run_stage(stage, executor, progress)
    failpoint("corpus.sealing")
    made = _manifest(corpus, made_from, receipts, stage.steps.labels())
    out.seal(made, keep={file.path for file in made.files})
    return made


def _made_from(corpus: Manifest, stage: RefilterStage) -> dict[str, Any]:
    """Return what the new corpus is made from: what the corpus was made from, and how it is filtered."""
    libraries = {"pyarrow": version("pyarrow"), "unicode": unicodedata.unidata_version}
    filtered = {"corpus": corpus.fingerprint, "format": FORMAT, "libraries": libraries} | stage.steps.describe()
    return corpus.made_from | {"filtered": [*corpus.made_from.get("filtered", []), plain(filtered)]}


def _manifest(corpus: Manifest, made_from: dict[str, Any], receipts: list[Receipt], labels: list[str]) -> Manifest:
    counts = sum_counts([receipt.counts for receipt in receipts])
    own = {name: count for name, count in counts.items() if not name.startswith(TOTALS_PREFIX)}
    totals = {name.removeprefix(TOTALS_PREFIX): count for name, count in counts.items() if name not in own}
    mark, outputs = fingerprint(made_from), list_outputs(receipts)
    cited = corpus.signature.rpartition("|id:")[0] or corpus.signature
    return msgspec.structs.replace(
        corpus,
        jprep=version("jprep"),
        format=FORMAT,
        signature="|".join([cited, f"filter:{','.join(labels)}", f"id:{mark[:12]}"]),
        fingerprint=mark,
        made_from=made_from,
        totals=totals,
        counts=sum_counts([corpus.counts, own]),
        rejects=sum_counts([corpus.rejects, *(receipt.rejects for receipt in receipts)]),
        parts=[output for output in outputs if output.folder == DOCUMENTS],
        reject_parts=[*corpus.reject_parts, *_new_rejects(corpus, receipts)],
    )


def _new_rejects(corpus: Manifest, receipts: list[Receipt]) -> list[Any]:
    copied = {part.path for part in corpus.reject_parts}
    return [each for each in list_outputs(receipts) if each.folder == REJECTS and each.path not in copied]
