"""Upload a finished output to a URL, its manifest last."""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path

from jprep.engine.checksummed_json import encode_checksummed
from jprep.engine.runner import ProgressReporter, SilentProgress
from jprep.engine.stage import Receipt
from jprep.errors import ConfigError, MismatchError
from jprep.io.atomic import file_sha256, write_atomic
from jprep.io.escaping import one_line
from jprep.io.remote import check_writable, list_objects, upload_folder
from jprep.io.remote.folders import RECORD, Progress
from jprep.pipeline.remote.manifests import ManifestKind, find_remote_output
from jprep.plurals import and_more
from jprep.tokenizer.export import EXPORT_MANIFEST, TokenizerExportManifest

_MAX_NAMES = 3  # objects that a message names
_OTHER = "choose another URL, or delete the objects below this one"


def check_destination(url: str, kind: ManifestKind, files: Collection[str] = ()) -> None:
    """Check that an output can be uploaded to a URL, before it is made.

    Args:
        url: the URL.
        kind: the kind of output.
        files: names that objects may have without a manifest.

    Raises:
        ConfigError: there is no such bucket; or below the URL are objects that jprep has not written, or another kind
            of output.
        MachineError: no credentials or rights, or the store cannot be reached.
    """
    check_writable(url)
    names = list_objects(url)
    if not names or RECORD in names:
        return
    found = find_remote_output(url)
    if found and found.kind is not kind:
        raise ConfigError(f"there is another output at this URL: a {found.kind.name}", where=url, fix=_OTHER)
    if not found and (others := [name for name in names if name not in files]):
        listed = ", ".join(map(one_line, others[:_MAX_NAMES])) + and_more(len(others), _MAX_NAMES)
        raise ConfigError(f"below this URL are objects that jprep has not written: {listed}", where=url, fix=_OTHER)


def upload_output(
    folder: Path, url: str, kind: ManifestKind, *, replace: bool, progress: ProgressReporter | None = None
) -> None:
    """Upload a finished output. Objects that have arrived are not sent again, so an interrupted upload resumes.

    Args:
        folder: the output's folder.
        url: the URL.
        kind: its kind.
        replace: whether another output of the same kind is replaced.
        progress: progress callback.

    Raises:
        MismatchError: there is another output of the same kind, and it is not replaced.
        DamagedError: a file is missing, or was changed or damaged.
        ConfigError, MachineError: see `jprep.io.remote.retry_remote`.
    """
    data, before = (folder / kind.manifest).read_bytes(), find_remote_output(url)
    if before and before.data != data and not replace:
        fix = "choose another URL, or add --restart to replace it"
        what = f"there is another {kind.name} at this URL"
        raise MismatchError(what, where=url, fix=fix, options=("--restart",))
    files = kind.files(data)
    reporter = progress or SilentProgress()
    reporter.begin("uploading", sum((folder / name).stat().st_size for name in files))
    upload_folder(
        folder, url, files, kind.manifest, replaced=before.files if before else {}, progress=_advancing(reporter)
    )


def upload_tokenizer_export(folder: Path, url: str) -> None:
    """Upload the files of a tokenizer's export, and a manifest last. Exports in other formats at the URL stay.

    Raises:
        ConfigError, MachineError: see `jprep.io.remote.retry_remote`.
    """
    before = find_remote_output(url)
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    files = {name: file_sha256(folder / name) for name in names}
    every = (before.files if before else {}) | files
    manifest = TokenizerExportManifest(jprep=version("jprep"), vocabulary_files=dict(sorted(every.items())))
    write_atomic(folder / EXPORT_MANIFEST, encode_checksummed(manifest, indent=1))
    upload_folder(folder, url, files, EXPORT_MANIFEST)


def _advancing(reporter: ProgressReporter) -> Progress:
    def advance(name: str, size: int, fresh: bool) -> None:
        reporter.advance(size, Receipt("", "", "", [], {}, {}), fresh=fresh)

    return advance
