"""The manifests of finished outputs: which kind of output it is, and the hashes of its files."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jprep.corpus import store
from jprep.corpus.exporting.text_files import CorpusExportManifest
from jprep.dataset.exports.base import EXPORT, DatasetExportManifest
from jprep.dataset.manifest import DATASET_JSON, DatasetManifest
from jprep.engine.checksummed_json import decode_checksummed
from jprep.engine.output_kinds import CORPUS_EXPORT
from jprep.engine.stage import Output
from jprep.errors import ConfigError, DamagedError
from jprep.io.remote import join_url, read_bytes
from jprep.io.safe_names import inner_path
from jprep.tokenizer.card import CARD_JSON, TokenizerCard
from jprep.tokenizer.export import EXPORT_MANIFEST, TokenizerExportManifest
from jprep.train.exporting.manifest import MANIFEST as MODEL_JSON
from jprep.train.exporting.manifest import ModelExportManifest

Files = dict[str, str]
"""SHA-256 by path relative to the output's folder."""


class ManifestKind(NamedTuple):
    """A kind of output.

    Attributes:
        name: its name in messages.
        manifest: the name of its manifest.
        files: returns the other files of an output from its manifest; raises ValueError for another kind's.
    """

    name: str
    manifest: str
    files: Callable[[bytes], Files]


class RemoteOutput(NamedTuple):
    """A finished output at a URL.

    Attributes:
        kind: its kind.
        data: its manifest.
        files: its other files.
    """

    kind: ManifestKind
    data: bytes
    files: Files


def _hashes(outputs: list[Output]) -> Files:
    return {output.path: output.sha256 for output in outputs}


def _corpus(data: bytes) -> Files:
    return _hashes(decode_checksummed(data, store.Manifest).files)


def _tokenizer(data: bytes) -> Files:
    return dict(decode_checksummed(data, TokenizerCard).files)


def _dataset(data: bytes) -> Files:
    return _hashes([file for split in decode_checksummed(data, DatasetManifest).splits for file in split.files])


def _dataset_export(data: bytes) -> Files:
    export = decode_checksummed(data, DatasetExportManifest)
    return _hashes([file for split in export.splits for file in split.files] + export.further)


def _text_export(data: bytes) -> Files:
    return _hashes(decode_checksummed(data, CorpusExportManifest).files)


def _model_export(data: bytes) -> Files:
    return dict(decode_checksummed(data, ModelExportManifest).files)


def _tokenizer_export(data: bytes) -> Files:
    return dict(decode_checksummed(data, TokenizerExportManifest).vocabulary_files)


CORPUS = ManifestKind("corpus", store.MANIFEST, _corpus)
TOKENIZER = ManifestKind("tokenizer", CARD_JSON, _tokenizer)
DATASET = ManifestKind("dataset", DATASET_JSON, _dataset)
DATASET_EXPORT = ManifestKind("dataset export", EXPORT, _dataset_export)
TEXT_EXPORT = ManifestKind("corpus export", CORPUS_EXPORT.manifest, _text_export)
MODEL_EXPORT = ManifestKind("model export", MODEL_JSON, _model_export)
TOKENIZER_EXPORT = ManifestKind("tokenizer export", EXPORT_MANIFEST, _tokenizer_export)

REMOTE_KINDS = (MODEL_EXPORT, DATASET_EXPORT, TEXT_EXPORT, TOKENIZER_EXPORT, DATASET, CORPUS, TOKENIZER)
"""A model export, which holds a tokenizer's card, comes before a tokenizer."""


def kind_named(name: str) -> ManifestKind:
    """Return the kind of output with a name."""
    return next(kind for kind in REMOTE_KINDS if kind.name == name)


def find_remote_output(url: str) -> RemoteOutput | None:
    """Return the finished output at a URL; None if there is none.

    Raises:
        DamagedError: its manifest is damaged, or another version of jprep wrote it.
        ConfigError, MachineError: see `jprep.io.remote.retry_remote`.
    """
    for name in dict.fromkeys(kind.manifest for kind in REMOTE_KINDS):
        if (data := read_bytes(join_url(url, name))) is not None:
            return _decode(url, name, data)
    return None


def read_remote_output(url: str) -> RemoteOutput:
    """Return the finished output at a URL; see `find_remote_output`.

    Raises:
        ConfigError: there is none.
    """
    if found := find_remote_output(url):
        return found
    fix = "check the URL; if an upload was interrupted, run its command again"
    raise ConfigError("there is no finished output at this URL", where=url, fix=fix)


def _decode(url: str, name: str, data: bytes) -> RemoteOutput:
    problem: ValueError | None = None
    for kind in (kind for kind in REMOTE_KINDS if kind.manifest == name):
        try:
            files = kind.files(data)
            return RemoteOutput(kind, data, {inner_path(path): sha256 for path, sha256 in files.items()})
        except ValueError as error:
            problem = error
    fix = "upload the output again"
    raise DamagedError(f"{name} cannot be read: {problem}", where=join_url(url, name), fix=fix) from problem
