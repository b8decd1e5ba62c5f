"""Inputs of a recipe at scale tiny: beginnings of what would be downloaded, or the embedded sample."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from jprep import samples
from jprep.corpus.config import Recipe, Source, step_name
from jprep.corpus.download.head import HEAD_BYTES, SUPPORTED_READERS, fetch_head, head_path
from jprep.corpus.download.remote import RetryPolicy
from jprep.errors import MachineError
from jprep.io.atomic import write_atomic
from jprep.io.inputs.paths import all_exist

FOLDER = "beginnings"
"""Below the folder of downloads."""

Say = Callable[[str], None]

_PATIENCE = RetryPolicy(tries=2, pause_s=1.0, timeout_s=20.0)
_VOCABULARY, _ALPHABET, _VALIDATION = 1_500, 800, 0.2
"""What the sample carries."""


def pending_partial_downloads(recipe: Recipe, downloads: Path) -> dict[Path, str]:
    """Return which beginnings would be downloaded: their paths, and their URLs."""
    folder = downloads / FOLDER
    wanted = {head_path(source.files[0], folder): source.files[0].url for source in _cut(recipe)}
    return {path: url for path, url in wanted.items() if not path.exists()}


def with_tiny_inputs(recipe: Recipe, downloads: Path, say: Say, patience: RetryPolicy = _PATIENCE) -> Recipe:
    """Return the recipe with beginnings of those inputs that are not there and would be downloaded.

    Where no server can be reached, the embedded sample is used, now and in later calls.

    Args:
        recipe: the recipe.
        downloads: the folder of downloads.
        say: called with what is done, a line each.
        patience: how often to try a server again.

    Raises:
        MachineError: no server can be reached, and the sample has no form for the reader.
        ConfigError, InputError: see `fetch_head`.
    """
    places = {source.name: _begin(source, downloads / FOLDER, say, patience) for source in _cut(recipe)}
    sources = [
        msgspec.structs.replace(source, paths=[str(places[source.name])], files=[]) if source.name in places else source
        for source in recipe.corpus.sources
    ]
    replaced = msgspec.structs.replace(recipe, corpus=msgspec.structs.replace(recipe.corpus, sources=sources))
    return _for_sample(replaced) if any(map(_is_sample, places.values())) else replaced


def _cut(recipe: Recipe) -> list[Source]:
    """The sources whose inputs are not there, and can be cut."""
    return [
        source
        for source in recipe.corpus.sources
        if source.files and step_name(source.reader) in SUPPORTED_READERS and not all_exist(source.paths)
    ]


def _begin(source: Source, folder: Path, say: Say, patience: RetryPolicy) -> Path:
    file, reader = source.files[0], step_name(source.reader)
    path, sample = head_path(file, folder), folder / f"sample-{reader}"
    if not path.exists() and sample.exists():
        say(f"{source.name}: the embedded sample, as before; delete {sample} to try the download again")
        return sample
    if not path.exists():
        say(f"{source.name}: downloading the first {HEAD_BYTES / 1e6:.1f} MB of {file.url} (no checksum covers a part)")
    try:
        return fetch_head(file, folder, reader, patience=patience)
    except MachineError as error:
        if reader not in _SAMPLES:
            raise
        write_atomic(sample, _SAMPLES[reader]())
        say(f"{source.name}: {error.what}; using the embedded sample instead, which is not from {source.name}")
        return sample


def _is_sample(path: Path) -> bool:
    return path.name.startswith("sample-")


def _for_sample(recipe: Recipe) -> Recipe:
    """Return the recipe with no more ids than a sample of 29 documents can teach, and enough of them for validation."""
    tokenizer, dataset = dict(recipe.tokenizer), dict(recipe.dataset)
    if "vocab_size" in tokenizer:
        tokenizer["vocab_size"] = min(tokenizer["vocab_size"], _VOCABULARY)
    if "alphabet" in tokenizer:
        tokenizer["alphabet"] = min(tokenizer["alphabet"], _ALPHABET)
    if dataset.get("validation"):
        dataset["validation"] = max(dataset["validation"], _VALIDATION)
    return msgspec.structs.replace(recipe, tokenizer=tokenizer, dataset=dataset)


_SAMPLES: dict[str, Callable[[], bytes]] = {
    "wikipedia": samples.dump_bytes,
    "cc100": samples.crawl_bytes,
    "text": samples.crawl_bytes,
}
"""The embedded sample in a reader's form."""
