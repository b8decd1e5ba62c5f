"""Upload a model export, a tokenizer or a dataset export to the Hugging Face Hub, with its card."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from jprep.dataset.exports import read_export_manifest
from jprep.dataset.exports.base import DatasetExportManifest
from jprep.engine.checksummed_json import decode_checksummed
from jprep.engine.output_kinds import DATASET, DATASET_EXPORT, MODEL_EXPORT, RUN, TOKENIZER, find_outputs
from jprep.engine.output_paths import refuse_url
from jprep.errors import ConfigError
from jprep.hub import Kind, Uploaded, check_access, check_name, download, upload
from jprep.hub.client import retry_unavailable
from jprep.io.safe_names import inner_path
from jprep.io.verified_files import verify_file
from jprep.tokenizer.card import TokenizerCard, read_card
from jprep.train.exporting.manifest import EDITABLE, ModelExportManifest, read_export


class Publication(NamedTuple):
    """A finished output that can be uploaded.

    Attributes:
        folder: its directory.
        kind: the kind of the Hub's repository.
        what: what it is, for messages.
        title: its name and step, for the commit's message.
        manifest: the name of its manifest.
        files: the SHA-256 of each other file by name.
    """

    folder: Path
    kind: Kind
    what: str
    title: str
    manifest: str
    files: dict[str, str]

    @property
    def names(self) -> list[str]:
        """The files to upload, the manifest among them."""
        return sorted([*self.files, self.manifest])

    @property
    def size(self) -> int:
        """Their size in bytes."""
        return sum((self.folder / name).stat().st_size for name in self.names)

    @property
    def others(self) -> list[str]:
        """Files in the directory that the manifest does not name, and that are not uploaded; without hidden ones."""
        found = (path.relative_to(self.folder) for path in sorted(self.folder.rglob("*")) if path.is_file())
        names = (path.as_posix() for path in found if not any(part.startswith(".") for part in path.parts))
        return [name for name in names if name not in self.names]


def find_publication(folder: Path) -> Publication:
    """Return what is in a directory, if it can be uploaded.

    Raises:
        ConfigError: it holds no finished model export, tokenizer or dataset export.
        DamagedError: its manifest is damaged.
    """
    refuse_url(str(folder))
    found = [each.kind for each in find_outputs(folder) if each.finished] if folder.is_dir() else []
    for kind, read in _READERS.items():
        if kind in [each.name for each in found]:
            return read(folder)
    raise _not_uploadable(folder)


def publish(
    folder: Path,
    name: str,
    *,
    token: str | None = None,
    private: bool = True,
    message: str = "",
    progress: bool = True,
) -> Uploaded:
    """Check the hashes of a finished output, and upload its files in one commit.

    Files that the Hub has already are not sent. Files of an earlier upload of the same kind that this one does not
    have are deleted there, so that no shard of an earlier export stays.

    Args:
        folder: a model export, a tokenizer, or a dataset export.
        name: the repository, `org/name`; created if it does not exist.
        token: a token; by default HF_TOKEN, or that of `hf auth login`.
        private: whether a new repository is private.
        message: the commit's message; by default it names the output.
        progress: show progress bars on a terminal.

    Raises:
        ConfigError: there is nothing to upload, or the name or the token is wrong.
        DamagedError: a file differs from what was written.
        MachineError: the library is not installed, or the Hub cannot be reached.
    """
    check_name(name, "--to")
    found = find_publication(folder)
    existed = retry_unavailable(lambda: check_access(name, kind=found.kind, token=token))
    verify(found)
    return upload(
        folder,
        name,
        kind=found.kind,
        token=token,
        private=private,
        message=message or f"Upload {found.title} with jprep",
        files=found.names,
        obsolete=_uploaded_before(found, name, token) if existed else (),
        progress=progress,
    )


def verify(publication: Publication) -> None:
    """Check the hashes of the files, except of cards and plots, which users may edit.

    Raises:
        DamagedError: a file is missing, or its content has changed.
        MachineError: a file cannot be read.
    """
    for name, sha256 in publication.files.items():
        if not name.endswith(EDITABLE):
            verify_file(publication.folder / name, sha256, f"make this {publication.what} again")


def _model(folder: Path) -> Publication:
    found = read_export(folder)
    return Publication(folder, "model", "model export", f"{found.name}, step {found.step}", "export.json", found.files)


def _tokenizer(folder: Path) -> Publication:
    found = read_card(folder)
    return Publication(folder, "model", "tokenizer", found.name, "card.json", found.files)


def _dataset(folder: Path) -> Publication:
    found = read_export_manifest(folder)
    title = f"{found.dataset['name']} as {found.form}"
    return Publication(folder, "dataset", "dataset export", title, "export.json", _hashes(found))


def _hashes(found: DatasetExportManifest) -> dict[str, str]:
    files = [file for split in found.splits for file in split.files] + found.further
    return {inner_path(file.path): file.sha256 for file in files}


_READERS: Mapping[str, Callable[[Path], Publication]] = {
    MODEL_EXPORT.name: _model,
    DATASET_EXPORT.name: _dataset,
    TOKENIZER.name: _tokenizer,
}
"""Kind of output → what describes it. A model export is also a tokenizer."""


def _not_uploadable(folder: Path) -> ConfigError:
    """Return the error for a directory with something else, with the command that makes what can be uploaded."""
    kinds = {each.kind.name for each in find_outputs(folder)} if folder.is_dir() else set()
    fix = "give the directory of `jprep export`, `jprep tokenizer train` or `jprep dataset export`"
    if RUN.name in kinds:
        fix = f"export its model: `jprep export {folder}`, then `jprep push {folder / 'export'} --to …`"
    elif DATASET.name in kinds:
        fix = f"export it: `jprep dataset export {folder} --format arrow -o …`, then push that directory"
    what = f"a {min(kinds)} cannot be uploaded" if kinds else "there is nothing here that can be uploaded"
    return ConfigError(what, where=str(folder), fix=fix)


def _uploaded_before(publication: Publication, name: str, token: str | None) -> list[str]:
    """Return the files of an earlier upload of the same kind, according to its manifest in the repository."""
    with contextlib.suppress(ConfigError):  # there is no manifest
        folder = retry_unavailable(
            lambda: download(name, kind=publication.kind, patterns=[publication.manifest], token=token)
        )
        return list(_listed(publication.what, (folder / publication.manifest).read_bytes()))
    return []


def _listed(what: str, data: bytes) -> Iterator[str]:
    """Yield the names in a manifest; none if it is not one of this kind."""
    with contextlib.suppress(ValueError, ConfigError):
        if what == "dataset export":
            yield from _hashes(decode_checksummed(data, DatasetExportManifest))
        elif what == "tokenizer":
            yield from decode_checksummed(data, TokenizerCard).files
        else:
            yield from decode_checksummed(data, ModelExportManifest).files
