"""Options and arguments that take a path or the URL of a finished output."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import click

from jprep.cli.common.output import note
from jprep.cli.common.output_path import OutputPath


class Url(str):
    """The URL that a finished output is uploaded to."""


class OutputPathOrUrl(OutputPath):
    """A local path to write to, or a URL that the finished output is uploaded to."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path or the `Url`.

        Raises:
            click.BadParameter: it is empty.
            ConfigError: nothing can be written to this kind of URL.
        """
        from jprep.io.remote.objects import is_url, refuse_read_only

        if not is_url(str(value)):
            return super().convert(value, param, ctx)
        refuse_read_only(str(value))
        return Url(value)


class FinishedOutput(click.Path):
    """A path, or the URL of a finished output, which is downloaded with checked hashes unless there is a copy."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, or that of the local copy.

        Raises:
            JprepError: see `jprep.pipeline.remote.download.download_output`.
        """
        from jprep.io.remote.objects import is_url

        if not is_url(str(value)):
            return super().convert(value, param, ctx)
        from jprep.pipeline.remote.download import download_output

        return download_output(str(value), lambda text: note(f"jprep: {text}"))


def local_corpus(source: str, *, manifest_only: bool = False) -> str:
    """Return the path of a local copy if this is the URL of a finished corpus; else the argument.

    Args:
        source: a path or a URL.
        manifest_only: whether the copy has the manifest only and lasts as long as the command, for `--dry-run`.

    Raises:
        JprepError: see `jprep.pipeline.remote.download.download_output`.
    """
    from jprep.corpus.store import MANIFEST
    from jprep.io.inputs.paths import SUFFIXES
    from jprep.io.remote import is_url, join_url, read_bytes

    is_file = source.endswith((".txt", ".tsv", ".csv", ".jsonl", ".parquet", *SUFFIXES))  # saves a request
    if not is_url(source) or is_file or read_bytes(join_url(source, MANIFEST)) is None:
        return source
    if manifest_only:
        from jprep.pipeline.remote.download import download_manifest

        folder = click.get_current_context().with_resource(tempfile.TemporaryDirectory(prefix="jprep-"))
        return str(download_manifest(source, Path(folder)))
    return str(FINISHED_OUTPUT.convert(source, None, None))


OUTPUT_PATH_OR_URL = OutputPathOrUrl()
FINISHED_OUTPUT = FinishedOutput()


@contextlib.contextmanager
def local_output(
    output: Path | Url | None, kind: str, default: Path | None = None, *, replace: bool = True
) -> Iterator[Path]:
    """Yield the folder to write an output to; after the block, upload it if it was to go to a URL.

    Args:
        output: the option.
        kind: the name of its kind, see `jprep.pipeline.remote.manifests`.
        default: the folder if the option is missing or a URL; None uses a temporary one.
        replace: whether another output of the same kind at the URL is replaced.

    Raises:
        JprepError: see `jprep.pipeline.remote.upload`. The URL is checked before the block.
    """
    if not isinstance(output, Url):
        yield _given(output, default)
        return
    from jprep.cli.common.progress import show_progress
    from jprep.pipeline.remote.manifests import kind_named
    from jprep.pipeline.remote.upload import check_destination, upload_output

    chosen = kind_named(kind)
    check_destination(output, chosen)
    with _folder(default) as folder:
        yield folder
        with show_progress() as progress:
            upload_output(folder, output, chosen, replace=replace, progress=progress)
    note(f"uploaded to {output}")


@contextlib.contextmanager
def local_tokenizer_export(output: Path | Url, names: Collection[str]) -> Iterator[Path]:
    """Yield the folder to export a tokenizer to; after the block, upload its files if they go to a URL.

    Args:
        output: the option.
        names: the names that the files may have.

    Raises:
        JprepError: see `jprep.pipeline.remote.upload`. The URL is checked before the block.
    """
    if not isinstance(output, Url):
        yield output
        return
    from jprep.pipeline.remote.manifests import TOKENIZER_EXPORT
    from jprep.pipeline.remote.upload import check_destination, upload_tokenizer_export

    check_destination(output, TOKENIZER_EXPORT, names)
    with _folder(None) as folder:
        yield folder
        upload_tokenizer_export(folder, output)
    note(f"uploaded to {output}")


@contextlib.contextmanager
def local_file(output: Path | Url) -> Iterator[Path]:
    """Yield the path to write a file to; after the block, upload it if it goes to a URL.

    Raises:
        click.UsageError: the URL names no object.
        JprepError: see `jprep.io.remote`. The URL is checked before the block.
    """
    if not isinstance(output, Url):
        yield output
        return
    from jprep.io.remote import check_writable, is_url, upload_file

    parent, _, name = output.rpartition("/")
    if not name or not is_url(parent):
        raise click.UsageError(f"-o is a file here: give the URL of an object, e.g. {output.rstrip('/')}/text")
    check_writable(parent)
    with _folder(None) as folder:
        folder.mkdir()
        yield folder / "output"
        upload_file(folder / "output", output)


def written_to(output: Path | Url, path: Path, folder: Path) -> str:
    """Return where a file of an output was written: its path, or its URL if its folder was uploaded."""
    from jprep.io.remote import join_url

    return join_url(output, path.relative_to(folder).as_posix()) if isinstance(output, Url) else str(path)


def _given(output: Path | None, default: Path | None) -> Path:
    folder = output or default
    if folder is None:
        raise click.UsageError("give an output directory with -o")
    return folder


@contextlib.contextmanager
def _folder(default: Path | None) -> Iterator[Path]:
    """Yield a folder that need not exist; a temporary one is deleted after the block."""
    if default:
        yield default
    else:
        with tempfile.TemporaryDirectory(prefix="jprep-") as folder:
            yield Path(folder) / "output"
