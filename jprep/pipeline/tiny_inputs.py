"""Inputs of a recipe at scale tiny: the first megabytes of each download, or the embedded sample."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from jprep import samples
from jprep.corpus.config import Source, make_step, step_name
from jprep.corpus.download.head import HEAD_BYTES, SUPPORTED_READERS, fetch_head, head_path
from jprep.corpus.download.parquet_head import fetch_parquet_head, parquet_head_path, write_parquet_sample
from jprep.corpus.download.remote import NotOnServer, RetryPolicy
from jprep.corpus.readers.fields import FieldConfig
from jprep.errors import MachineError
from jprep.io.atomic import write_atomic
from jprep.io.inputs.paths import all_exist, is_local
from jprep.pipeline.recipe import Recipe

_SAMPLE = "sample-"

FOLDER = "beginnings"
"""The folder of partial downloads, below that of downloads."""

Note = Callable[[str], None]

_RETRY = RetryPolicy(tries=2, pause_s=1.0, timeout_s=20.0)
_VALIDATION = 0.2
_SIZES = {"wikipedia": (1_500, 800), "cc100": (600, 400), "text": (600, 400), "parquet": (600, 400)}
"""Number of ids and of characters that suit the sample, by reader: that of Wikipedia is larger than that of the web."""


def pending_partial_downloads(recipe: Recipe, downloads: Path) -> dict[Path, str]:
    """Return the partial downloads that are missing: URLs by path."""
    folder = downloads / FOLDER
    wanted = {head_path(source.files[0], folder): source.files[0].url for source in _partial(recipe)}
    wanted |= {parquet_head_path(source.paths[0], folder): source.paths[0] for source in _remote_tables(recipe)}
    return {path: url for path, url in wanted.items() if not path.exists()}


def with_tiny_inputs(recipe: Recipe, downloads: Path, note: Note, retry: RetryPolicy = _RETRY) -> Recipe:
    """Return the recipe with inputs that do not exist replaced by the first megabytes of their downloads.

    Where no server can be reached, or a download is gone, the embedded sample is used instead, by later calls too. A
    missing file that the reader reads from a server itself is an error: its URL is the user's.

    Args:
        recipe: the recipe.
        downloads: the directory of downloads.
        note: called with a line for each download.
        retry: how often to retry a download.

    Raises:
        MachineError, ConfigError: no server can be reached, or the file is gone, and no sample can stand in for it.
        InputError: see `fetch_head`.
    """
    inputs = {source.name: _fetch_part(source, downloads / FOLDER, note, retry) for source in _partial(recipe)}
    inputs |= {source.name: _fetch_rows(source, downloads / FOLDER, note) for source in _remote_tables(recipe)}
    sources = [
        msgspec.structs.replace(source, paths=[str(inputs[source.name])], files=[]) if source.name in inputs else source
        for source in recipe.corpus.sources
    ]
    replaced = msgspec.structs.replace(recipe, corpus=msgspec.structs.replace(recipe.corpus, sources=sources))
    samples = [path.name.removeprefix(_SAMPLE) for path in inputs.values() if path.name.startswith(_SAMPLE)]
    return _for_samples(replaced, samples) if samples else replaced


def _partial(recipe: Recipe) -> list[Source]:
    """Return the sources whose inputs do not exist, and whose reader accepts a partial file."""
    return [
        source
        for source in recipe.corpus.sources
        if source.files and step_name(source.reader) in SUPPORTED_READERS and not all_exist(source.paths)
    ]


def _fetch_part(source: Source, folder: Path, note: Note, retry: RetryPolicy) -> Path:
    file, reader = source.files[0], step_name(source.reader)
    path, sample = head_path(file, folder), folder / f"{_SAMPLE}{reader}"
    if not path.exists() and sample.exists():
        note(f"{source.name}: using the embedded sample, as before; delete {sample} to try the download again")
        return sample
    if not path.exists():
        note(f"{source.name}: downloading the first {HEAD_BYTES / 1e6:.1f} MB of {file.url} (without a checksum)")
    try:
        return fetch_head(file, folder, reader, retry_policy=retry)
    except (MachineError, NotOnServer) as error:
        if reader not in _SAMPLES:
            raise
        write_atomic(sample, _SAMPLES[reader]())
        note(f"{source.name}: {error.what}; using the embedded sample instead, which is not from {source.name}")
        return sample


def _remote_tables(recipe: Recipe) -> list[Source]:
    """Return the sources that read Parquet files from a server."""
    return [
        source
        for source in recipe.corpus.sources
        if step_name(source.reader) == "parquet" and source.paths and not any(map(is_local, source.paths))
    ]


def _fetch_rows(source: Source, folder: Path, note: Note) -> Path:
    """Return the first rows of a source's first file, or the embedded sample with the same columns."""
    fields: FieldConfig = make_step("reader", source.reader).config
    url = source.paths[0]
    path = parquet_head_path(url, folder)
    sample = folder / f"{_SAMPLE}parquet-{path.stem}"
    if not path.exists() and sample.exists():
        note(f"{source.name}: using the embedded sample, as before; delete {sample} to try the download again")
        return sample
    if not path.exists():
        note(f"{source.name}: downloading the first rows of {url}")
    try:
        return fetch_parquet_head(url, folder, fields.names())
    except MachineError as error:
        if any("." in name for name in fields.names()):
            raise
        columns = {name: name for name in fields.names()} | {fields.text: "text"}
        write_parquet_sample(samples.crawl_bytes().decode().strip().split("\n\n"), columns, sample)
        reason = f"{error.what} ({error.fix})" if error.fix else error.what
        note(f"{source.name}: {reason}; using the embedded sample instead, which is not from {source.name}")
        return sample


def _for_samples(recipe: Recipe, readers: list[str]) -> Recipe:
    """Return the recipe with a vocabulary that the samples' few documents can fill, and a larger validation split."""
    vocabulary, alphabet = max(_SIZES[reader.partition("-")[0]] for reader in readers)
    tokenizer, dataset = recipe.tokenizer, recipe.dataset
    if tokenizer:
        sizes = {"vocab_size": min(tokenizer.vocab_size, vocabulary), "alphabet": min(tokenizer.alphabet, alphabet)}
        tokenizer = msgspec.structs.replace(tokenizer, **sizes)
    if dataset and not isinstance(dataset.validation, list) and dataset.validation:
        dataset = msgspec.structs.replace(dataset, validation=max(dataset.validation, _VALIDATION))
    return msgspec.structs.replace(recipe, tokenizer=tokenizer, dataset=dataset)


_SAMPLES: dict[str, Callable[[], bytes]] = {
    "wikipedia": samples.dump_bytes,
    "cc100": samples.crawl_bytes,
    "text": samples.crawl_bytes,
}
"""The embedded sample, by reader."""
