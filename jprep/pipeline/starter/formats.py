"""Tell the format of input files, and refuse those that a starter recipe would read as plain text by mistake."""

from __future__ import annotations

import codecs
import contextlib
import glob
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from jprep.corpus.readers.archives import SAVE_AS_CSV
from jprep.errors import ConfigError
from jprep.io.inputs.paths import SUFFIXES, expand_patterns, is_local

READERS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".csv": "csv", ".tsv": "tsv"}
"""Suffix → reader; files with any other suffix are text, unless `refuse_other_formats` knows them."""

_TEXT_SUFFIX = ".txt"
_OTHERS = {
    ".html": "html", ".htm": "html", ".xhtml": "html", ".pdf": "pdf", ".warc": "warc", ".wet": "warc",
    ".json": "json", ".xml": "xml", ".zip": "zip", ".docx": "office", ".doc": "office", ".odt": "office",
    ".epub": "epub", ".xlsx": "spreadsheet", ".xlsm": "spreadsheet", ".xls": "spreadsheet", ".ods": "spreadsheet",
}  # fmt: skip
_MARKS = {
    "html": rb"(?i)\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype\s+html|html)\b",
    "pdf": rb"%PDF-",
    "warc": rb"WARC/[01]\.",
    "mediawiki": rb"\s*(?:<\?xml[^>]*>\s*)?<mediawiki\b",
    "xml": rb"\s*<\?xml\b",
    "parquet": rb"PAR1",
    "zip": rb"PK\x03\x04",
}
_MARK_BYTES = 4096
_NAMES = {
    "jsonl": "JSON Lines files",
    "csv": "CSV files",
    "tsv": "TSV files",
    "html": "HTML files",
    "pdf": "PDF files",
    "warc": "WARC files",
    "json": "JSON files",
    "xml": "XML files",
    "mediawiki": "dumps of a wiki",
    "parquet": "Parquet files",
    "zip": "ZIP archives",
    "office": "files of a word processor",
    "epub": "EPUB files",
    "spreadsheet": "spreadsheets",
}
_FIXES = {
    "mediawiki": "--from wikipedia",
    "xml": '`reader = "wikipedia"` in a recipe for dumps of a wiki, `reader = "law"` for laws; else extract the text',
    "parquet": "end the file's name in .parquet",
    "zip": "unpack it, and give the files in it",
    "office": "save the text as .txt, in UTF-8",
    "epub": "extract the text",
    "spreadsheet": SAVE_AS_CSV,
}
_MOST_SUFFIXES = 5


def suffix_of(path: str) -> str:
    """Return the suffix of a file, in lower case and without that of its compression."""
    bare = next((path.removesuffix(end) for end in SUFFIXES if path.endswith(end)), path)
    return Path(bare).suffix.lower()


def reader_of(path: str) -> str:
    """Return the reader of a file of text by its suffix, which is an option of `jprep corpus build`, too; or ""."""
    suffix = suffix_of(path)
    return READERS.get(suffix) or {_TEXT_SUFFIX: "text", ".xml": "wikipedia"}.get(suffix, "")


def files_in(pattern: str) -> list[str]:
    """Return patterns of the files in a directory, which must be of one format; any other pattern as it is.

    A pattern for each suffix: files may be compressed or not. Hidden files are left out, and metadata in JSON unless
    nothing else is there.

    Raises:
        ConfigError: the directory has files of several formats, or none of a known one.
    """
    folder = Path(pattern)
    if pattern == "-" or not (is_local(pattern) and folder.is_dir()):
        return [pattern]
    found = _by_suffix(folder)
    known = {suffix: files for suffix, files in found.items() if _format_of(suffix)}
    data = {suffix: files for suffix, files in known.items() if _format_of(suffix) != "json"} or known
    if not data:
        raise _nothing_known(pattern, found)
    if len({_format_of(suffix) for suffix in data}) > 1:
        raise _several_formats(pattern, data)
    return _patterns(pattern, data)


def _by_suffix(folder: Path) -> dict[str, list[Path]]:
    """Return the files in a directory that are not hidden, sorted, by their suffix with that of their compression."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            found.setdefault(_whole_suffix(path), []).append(path)
    return found


def _format_of(whole_suffix: str) -> str:
    """Return the format that a suffix stands for; "" for an unknown one, which may be text."""
    suffix = suffix_of(f"x{whole_suffix}")
    return "text" if suffix == _TEXT_SUFFIX else READERS.get(suffix) or _OTHERS.get(suffix, "")


def _patterns(folder: str, suffixes: Iterable[str]) -> list[str]:
    return [f"{glob.escape(folder.rstrip('/'))}/**/*{suffix}" for suffix in sorted(suffixes)]


def _nothing_known(folder: str, found: dict[str, list[Path]]) -> ConfigError:
    if not found:
        return ConfigError("the directory has no files", where=folder, fix="check the path")
    most = sorted(found.items(), key=lambda item: -len(item[1]))[:_MOST_SUFFIXES]
    kinds = ", ".join(f"{len(files)} *{suffix}" for suffix, files in most)
    fix = f"if they are text, give a pattern: --input '{folder.rstrip('/')}/**/*'"
    return ConfigError(f"the directory has no files that end in .txt, but {kinds}", where=folder, fix=fix)


def _several_formats(folder: str, found: dict[str, list[Path]]) -> ConfigError:
    """Return an error with a file of each format; its fix names the files of the one with the most bytes."""
    files, sizes = dict[str, Path](), Counter[str]()
    for suffix, paths in found.items():
        files.setdefault(_format_of(suffix), paths[0].relative_to(folder))
        sizes[_format_of(suffix)] += sum(path.stat().st_size for path in paths)
    named = ", ".join(f"{kind} ({file})" for kind, file in sorted(files.items()))
    largest = [suffix for suffix in found if _format_of(suffix) == sizes.most_common(1)[0][0]]
    choice = " ".join(f"--input {shlex.quote(pattern)}" for pattern in _patterns(folder, largest))
    fix = f"choose the files of one format, and add the others to the recipe as further sources: {choice}"
    return ConfigError(f"the directory has files of several formats: {named}", where=folder, fix=fix)


def _whole_suffix(path: Path) -> str:
    """Return the suffix of a file, with that of its compression."""
    last = path.suffix
    return Path(path.stem).suffix + last if last in SUFFIXES else last


def refuse_other_formats(paths: Sequence[str], head: bytes = b"") -> None:
    """Refuse files that are not text, although text is what any unknown suffix stands for.

    Args:
        paths: the files.
        head: the first decompressed bytes of the first one, as far as they are known.

    Raises:
        ConfigError: a file is of another format; the error names its reader.
    """
    beginning = head[:_MARK_BYTES].removeprefix(codecs.BOM_UTF8)
    marked = next((kind for kind, mark in _MARKS.items() if re.match(mark, beginning)), "")
    for index, path in enumerate(paths):
        kind = _OTHERS.get(suffix_of(path), "")
        if kind in ("", "xml") and index == 0:  # other suffixes say more: word processors also write ZIP archives
            kind = marked or kind
        if kind:
            fix = _FIXES.get(kind) or f'add them to a recipe with `reader = "{kind}"` (docs/readers.md)'
            raise ConfigError(f"these are {_NAMES[kind]}, not plain text", where=path, fix=fix)


def refuse_as_text(patterns: Sequence[str]) -> None:
    """Refuse inputs of `jprep corpus build --text` that have the suffix of another format.

    Args:
        patterns: files, patterns and URLs; those that match nothing, or text among others, are left to the build.

    Raises:
        ConfigError: they are of another format; the error names the option for the first, or its reader.
    """
    for pattern in patterns:
        paths = _matches(pattern)
        if not any(map(_is_text, paths)):
            _refuse_others(paths, pattern)


def _refuse_others(paths: Sequence[str], pattern: str) -> None:
    for path in paths:
        if reader := READERS.get(suffix_of(path)):
            fix = f"--{reader} {shlex.quote(pattern)}"
            raise ConfigError(f"these are {_NAMES[reader]}, not plain text", where=path, fix=fix)
        refuse_other_formats([path])


def _is_text(path: str) -> bool:
    try:
        refuse_other_formats([path])
    except ConfigError:
        return False
    return suffix_of(path) not in READERS


def _matches(pattern: str) -> list[str]:
    with contextlib.suppress(ConfigError):
        return expand_patterns([pattern]) if is_local(pattern) else [pattern]
    return []
