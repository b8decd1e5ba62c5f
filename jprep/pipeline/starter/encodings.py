"""Choose the option `encoding` for input files that are not UTF-8."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from jprep.corpus.readers.detection import detect_encoding, with_extensions
from jprep.corpus.readers.encoding import iconv_name
from jprep.errors import ConfigError
from jprep.io.inputs.japanese_codecs import CP51932

UTF8 = "utf-8"
_UTF16 = "utf-16"
_TABLES = {"cp932", CP51932}
"""What `csv` and `tsv` read, of the encodings that are detected."""


def encoding_of(head: bytes, *, complete: bool) -> str:
    """Return the encoding of a file by its beginning; UTF-8 where none fits, whose errors the build reports.

    Args:
        head: the first bytes.
        complete: whether they are the whole file.
    """
    return detect_encoding(head, complete=complete) or UTF8


def find_encodings(heads: Iterable[tuple[str, bytes, int]]) -> dict[str, str]:
    """Return encoding → the first file that has it; that of files in ASCII is not listed.

    Args:
        heads: for each file, its path, its beginning, and how many bytes of it were asked for.
    """
    found: dict[str, str] = {}
    for path, head, size in heads:
        encoding = encoding_of(head, complete=len(head) < size)
        if encoding != UTF8 or not head.isascii():
            found.setdefault(encoding, path)
    return found


def as_utf8(head: bytes, encoding: str) -> bytes:
    """Return the beginning of a file in UTF-8; a character that is cut off at its end is left out."""
    return head if encoding == UTF8 else head.decode(encoding, "ignore").encode()


def encoding_option(found: Mapping[str, str], reader: str, *, whole_files: bool = False) -> dict[str, str]:
    """Return the option of a reader for the encodings of its files, empty for UTF-8.

    Args:
        found: encoding → the first file that has it.
        reader: name of the reader.
        whole_files: whether a document is a whole file.

    Raises:
        ConfigError: the reader cannot read one of them, or not all of them together.
    """
    others = {encoding: path for encoding, path in found.items() if encoding != UTF8}
    if not others:
        return {}
    if reader == "text":
        if _UTF16 in others and not whole_files:
            what = "the file is in utf-16, which can only be read where each of many files is a document"
            raise ConfigError(what, where=others[_UTF16], fix=_convert(_UTF16))
        return {"encoding": "detect"}
    if len(readable := {with_extensions(encoding) for encoding in found}) > 1:
        raise _several_encodings(found)
    if reader in ("csv", "tsv") and readable <= _TABLES:
        return {"encoding": readable.pop()}
    encoding, path = next(iter(others.items()))
    what = f"the file is in {iconv_name(encoding)}, which the reader {reader!r} cannot read"
    raise ConfigError(what, where=path, fix=_convert(encoding))


def _several_encodings(found: Mapping[str, str]) -> ConfigError:
    listed = ", ".join(f"{path} is in {iconv_name(name)}" for name, path in found.items())
    encoding, path = next((name, path) for name, path in found.items() if name != UTF8)
    fix = f"convert them, e.g. iconv -f {iconv_name(encoding)} -t utf-8 {shlex.quote(path)} > NEW_FILE"
    return ConfigError(f"the files have several encodings: {listed}", where="--input", fix=fix)


def _convert(encoding: str) -> str:
    return f"convert it (iconv -f {iconv_name(encoding)} -t utf-8)"
