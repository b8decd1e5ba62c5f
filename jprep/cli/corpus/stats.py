"""`jprep corpus stats`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.output import echo, echo_json
from jprep.io.escaping import one_line

if TYPE_CHECKING:
    from jprep.corpus.store import Manifest

FOLDER = click.argument("folder", type=click.Path(path_type=Path))
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@FOLDER
@AS_JSON
def stats(folder: Path, as_json: bool) -> None:
    """What a corpus holds, what was dropped and why, which characters were changed."""
    from jprep.corpus.store import read_manifest

    show(read_manifest(folder), folder, as_json=as_json)


def show(manifest: Manifest, folder: Path, *, as_json: bool) -> None:
    """Print a corpus's figures."""
    if as_json:
        names = ("name", "signature", "fingerprint", "totals", "counts", "rejects")
        figures = {"folder": str(folder)} | {name: getattr(manifest, name) for name in names}
        echo_json(figures | {"warnings": list(_warnings(manifest))})
        return
    echo(one_line(f"{manifest.name}  {folder}"))
    if not manifest.totals:
        echo("\nno documents: the inputs are empty, or everything was rejected")
    table("holds", manifest.totals)
    table("rejected documents", manifest.rejects)
    table("counted on the way", manifest.counts)
    for warning in _warnings(manifest):
        echo(f"\nwarning: {one_line(warning)}")
    echo(f"\n{one_line(manifest.signature)}")


def _warnings(manifest: Manifest) -> Iterator[str]:
    """What is wrong with a corpus although it could be built."""
    for source in manifest.sources:
        if shared := source.get("repeated_ids"):
            yield (
                f"source {source['name']}: {shared['documents']:,} documents share {shared['ids']:,} ids"
                f" ({shared['example']} occurs {shared['times']:,} times); fix: name a field that is unique as the"
                " reader's `id`, or leave `id` out to number the documents"
            )


def table(title: str, figures: Mapping[str, float]) -> None:
    """Print figures by name, counts with thousands marked and shares with four places."""
    if figures:
        echo(f"\n{title}")
        named = [(one_line(name), figure) for name, figure in figures.items()]
        width = max(len(name) for name, _ in named)
        for name, figure in named:
            echo(f"  {name:<{width}}  {figure:>15{',' if isinstance(figure, int) else ',.4f'}}")
