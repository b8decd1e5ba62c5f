"""`jprep corpus stats`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.options import AS_JSON, FOLDER
from jprep.cli.common.output import echo, echo_json, table
from jprep.io.escaping import one_line

if TYPE_CHECKING:
    from jprep.corpus.store import Manifest


@click.command()
@FOLDER
@AS_JSON
def stats(folder: Path, as_json: bool) -> None:
    """Show the size of a corpus, what was dropped and why, and which characters were changed.

    \b
    Example:
      jprep corpus stats work/jawiki/corpus
    """
    from jprep.corpus.store import read_manifest

    show(read_manifest(folder), folder, as_json=as_json)


def show(manifest: Manifest, folder: Path, *, as_json: bool) -> None:
    """Print the figures of a corpus."""
    if as_json:
        import msgspec

        names = ("name", "signature", "fingerprint", "totals", "counts", "rejects")
        figures = {"folder": str(folder)} | {name: getattr(manifest, name) for name in names}
        figures["documents_by_source"] = manifest.documents_by_source
        figures |= {"test_sets": msgspec.to_builtins(manifest.test_sets)} if manifest.test_sets else {}
        echo_json(figures | {"warnings": list(_warnings(manifest))})
        return
    echo(one_line(f"{manifest.name}  {folder}"))
    if not manifest.totals:
        echo("\nno documents: the inputs are empty, or everything was rejected")
    table("totals", manifest.totals)
    if len(manifest.sources) > 1:
        table("documents by source", manifest.documents_by_source)
    table("rejected documents", manifest.rejects)
    table("counts", manifest.counts)
    for found in manifest.test_sets:
        figures = {"items": found.items, "not checked": found.not_checked, "found": found.found}
        figures |= {"checked as whole sentences": found.whole_sentence} if found.whole_sentence else {}
        table(f"test set {one_line(found.name)} ({found.action})", figures | {"documents with items": found.documents})
    for file in manifest.test_items:
        echo(f"\nitems and documents: {one_line(str(folder / file.path))}")
    for warning in _warnings(manifest):
        echo(f"\nwarning: {one_line(warning)}")
    echo(f"\n{one_line(manifest.signature)}")


def _warnings(manifest: Manifest) -> Iterator[str]:
    """Yield problems of a corpus that did not stop its build."""
    for name, documents in manifest.documents_by_source.items():
        if not documents and manifest.totals:
            yield f"source {name} has no documents: its files are empty, or all were rejected; see rejected documents"
    for source in manifest.sources:
        if shared := source.get("repeated_ids"):
            yield (
                f"source {source['name']}: {shared['documents']:,} documents share {shared['ids']:,} ids"
                f" ({shared['example']} occurs {shared['times']:,} times); fix: name a field that is unique as the"
                " reader's `id`, or leave `id` out to number the documents"
            )
