"""Tell the format of input files, and refuse those that a starter recipe would read as plain text by mistake."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from jprep.errors import ConfigError
from jprep.io.inputs.paths import SUFFIXES, is_local

READERS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".csv": "csv", ".tsv": "tsv"}
"""Suffix → reader; files with any other suffix are text, unless `refuse_other_formats` knows them."""

_TEXT_SUFFIX = ".txt"
_OTHERS = {
    ".html": "html", ".htm": "html", ".xhtml": "html", ".pdf": "pdf", ".warc": "warc", ".wet": "warc",
    ".json": "json", ".xml": "xml", ".zip": "zip", ".docx": "office", ".doc": "office", ".odt": "office",
    ".epub": "epub",
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
}
_FIXES = {
    "mediawiki": "--from wikipedia",
    "xml": '--from wikipedia for its dumps, `reader = "law"` in a recipe for laws; otherwise extract the text',
    "parquet": "end the file's name in .parquet",
    "zip": "unpack it, and give the files in it",
    "office": "save the text as .txt, in UTF-8",
    "epub": "extract the text",
}
_MOST_SUFFIXES = 5


def suffix_of(path: str) -> str:
    """Return the suffix of a file, in lower case and without that of its compression."""
    bare = next((path.removesuffix(end) for end in SUFFIXES if path.endswith(end)), path)
    return Path(bare).suffix.lower()


def files_in(pattern: str) -> str:
    """Return the pattern of the files in a directory that can be read, text first; any other pattern as it is.

    Raises:
        ConfigError: the directory has no such file.
    """
    folder = Path(pattern)
    if pattern == "-" or not (is_local(pattern) and folder.is_dir()):
        return pattern
    found = Counter(_whole_suffix(path) for path in folder.rglob("*") if path.is_file())
    for suffix in (_TEXT_SUFFIX, *READERS, *_OTHERS):
        if whole := next((each for each in sorted(found) if suffix_of(f"x{each}") == suffix), ""):
            return f"{pattern.rstrip('/')}/**/*{whole}"
    if not found:
        raise ConfigError("the directory has no files", where=pattern, fix="check the path")
    kinds = ", ".join(f"{count} *{suffix}" for suffix, count in found.most_common(_MOST_SUFFIXES))
    fix = f"if they are text, give a pattern: --input '{pattern.rstrip('/')}/**/*'"
    raise ConfigError(f"the directory has no files that end in .txt, but {kinds}", where=pattern, fix=fix)


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
