"""`jprep dataset inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jprep.cli.common.options import AS_JSON, FOLDER
from jprep.cli.common.output import echo, echo_json, table
from jprep.cli.common.remote_output import FINISHED_OUTPUT
from jprep.io.escaping import one_line

if TYPE_CHECKING:
    from jprep.dataset.manifest import DatasetManifest


@click.command()
@FOLDER
@click.option("--token", type=click.IntRange(0), metavar="N", help="Show the origin of token N of the split.")
@click.option("--document", type=click.IntRange(0), metavar="N", help="Show the origin of document N of the split.")
@click.option("--split", default="train", show_default=True, help="train, validation or test.")
@click.option(
    "--corpus",
    type=FINISHED_OUTPUT,
    help="The corpus of the dataset. Default: search near the dataset.",
)
@click.option(
    "--tokenizer",
    type=FINISHED_OUTPUT,
    help="The tokenizer of the dataset. Default: search near the dataset.",
)
@AS_JSON
def inspect(
    folder: Path,
    token: int | None,
    document: int | None,
    split: str,
    corpus: Path | None,
    tokenizer: Path | None,
    as_json: bool,
) -> None:
    """Show the size of a dataset, or the origin of one of its tokens or documents. Numbers begin at 0.

    \b
    Example:
      jprep dataset inspect work/jawiki/dataset --token 0
    """
    from jprep.cli.common.unused_options import refuse_unused
    from jprep.dataset.manifest import read_dataset

    if token is not None and document is not None:
        raise click.UsageError("give either --token or --document")
    if token is None and document is None:
        refuse_unused("it needs --token or --document", "split", "corpus", "tokenizer")
    dataset = read_dataset(folder)
    if token is None and document is None:
        show(dataset, folder, as_json=as_json)
        return
    found = _found(folder, dataset, (split, token, document), (corpus, tokenizer))
    if as_json:
        echo_json(found)
    else:
        _show_found(found, dataset)


def _found(
    folder: Path,
    dataset: DatasetManifest,
    asked: tuple[str, int | None, int | None],
    given: tuple[Path | None, Path | None],
) -> dict[str, Any]:
    """Return the origin of a token or a document, and its text if its corpus and tokenizer are found."""
    import msgspec

    from jprep.dataset.lineage import find_corpus, find_origin, find_tokenizer, locate_document, text_around

    split, token, document = asked
    location = locate_document(folder, split, token=token, document=document)
    found: dict[str, Any] = msgspec.to_builtins(location)
    if corpus := given[0] or find_corpus(folder, dataset):
        found |= {"origin": msgspec.to_builtins(find_origin(dataset, location, corpus))}
    if tokenizer := given[1] or find_tokenizer(folder, dataset):
        shown = location.tokens[0] if token is None else token
        texts = text_around(folder, dataset, location, shown, tokenizer)
        found |= {"text": dict(zip(("before", "token", "after"), texts, strict=True))}
    return found


def _show_found(found: dict[str, Any], dataset: DatasetManifest) -> None:
    first, end = found["tokens"]
    origin, text = found.get("origin"), found.get("text")
    echo(f"document  {found['document']:,} of {found['split']}, tokens {first:,} to {end - 1:,}")
    if origin:
        echo(one_line(f"id        {origin['id']}"))
        echo(one_line(f"title     {origin['title']}"))
        echo(one_line(f"url       {origin['url']}"))
    if part := found.get("mix_part"):
        echo(one_line(f"mixture   {part}"))
    row = f", row {origin['row']:,}" if origin else ""
    echo(one_line(f"part      {found['part']}{row}  sha256 {found['sha256']}"))
    if origin:
        echo(one_line(f"source    {origin['source']}  {origin['about'].get('licence', '')}"))
        files = origin["about"].get("files", [])
        for file in files:
            digest = file.get("sha256") or file.get("shards", "")
            echo(one_line(f"  {'one of' if len(files) > 1 else 'file  '}  {file['name']}  sha256 {digest}"))
    else:
        echo(f"for its id, title and source, add {_option('corpus', dataset)}")
    if text:
        echo(f"text      {text['before']}⟦{text['token']}⟧{text['after']}")
    else:
        echo(f"for its text, add {_option('tokenizer', dataset)}")


def _option(kind: str, dataset: DatasetManifest) -> str:
    """Return the option that names the corpus or tokenizer: none beside the dataset has the right fingerprint."""
    called = f" {dataset.name!r}" if kind == "corpus" else ""
    return f"--{kind} DIR: none nearby is the {kind}{called} with fingerprint {dataset.made_from[kind]['fingerprint']}"


def show(dataset: DatasetManifest, folder: Path, *, as_json: bool) -> None:
    """Print the figures of a dataset."""
    import msgspec

    figures = _figures(dataset, folder)
    if as_json:
        names = ("name", "signature", "fingerprint", "dtype", "vocab_size", "end", "newline", "counts")
        shown = {"folder": str(folder)} | {name: getattr(dataset, name) for name in names}
        shown |= {"figures": figures, "splits": msgspec.to_builtins(dataset.splits)}
        echo_json(shown | {"parts": msgspec.to_builtins(dataset.parts)} | _mixture(dataset))
        return
    echo(one_line(f"{dataset.name}  {folder}"))
    for split in dataset.splits:
        start = f"{split.name}."
        held = {name[len(start) :]: count for name, count in dataset.counts.items() if name.startswith(start)}
        table(split.name, held)
    _show_mixture(dataset)
    table("as a whole", {"corpus shards": len(dataset.parts)} | figures)
    echo(f"\n{one_line(dataset.signature)}")


def _mixture(dataset: DatasetManifest) -> dict[str, Any]:
    """Return the parts of the mixture and what is left out, as data; nothing of a dataset without parts."""
    import msgspec

    found = {"mix_parts": dataset.mix_parts, "left_out": dataset.left_out}
    return {name: msgspec.to_builtins(each) for name, each in found.items()} if dataset.mix_parts else {}


def _show_mixture(dataset: DatasetManifest) -> None:
    table("documents of each part", {part.name: part.documents for part in dataset.mix_parts})
    table("tokens of each part", {part.name: part.tokens for part in dataset.mix_parts})
    table("documents in no part, left out", {each.source: each.documents for each in dataset.left_out})


def _figures(dataset: DatasetManifest, folder: Path) -> dict[str, float]:
    """Return sizes in bytes, and their ratios."""
    from jprep.dataset.manifest import stored_size

    text = sum(dataset.counts[f"{split.name}.bytes"] for split in dataset.splits)
    disk = sum(stored_size(folder, split) for split in dataset.splits)
    tokens = sum(split.tokens for split in dataset.splits)
    return {
        "text_bytes": text,
        "disk_bytes": disk,
        "disk_bytes_per_text_byte": disk / text,
        "bytes_per_token": text / tokens,
    }
