"""Choose the option `encoding` for input files that are not UTF-8."""

from __future__ import annotations

from collections.abc import Mapping

from jprep.corpus.readers.detection import detect_encoding
from jprep.errors import ConfigError

UTF8 = "utf-8"
_TABLES = ("cp932", "euc_jp", "cp51932")
"""What `csv` and `tsv` read, of the encodings that are detected."""

_ICONV = {
    "euc_jp": "euc-jp",
    "cp51932": "euc-jp-ms",
    "euc_jis_2004": "euc-jisx0213",
    "iso2022_jp": "iso-2022-jp",
    "iso2022_jp_ext": "iso-2022-jp",
}


def encoding_of(head: bytes, *, complete: bool) -> str:
    """Return the encoding of a file by its beginning; UTF-8 where none fits, whose errors the build reports.

    Args:
        head: the first bytes.
        complete: whether they are the whole file.
    """
    return detect_encoding(head, complete=complete) or UTF8


def as_utf8(head: bytes, encoding: str) -> bytes:
    """Return the beginning of a file in UTF-8; a character that is cut off at its end is left out."""
    return head if encoding == UTF8 else head.decode(encoding, "ignore").encode()


def several_encodings(found: Mapping[str, str]) -> ConfigError:
    """Return the error for files of several encodings that the reader cannot tell apart.

    Args:
        found: encoding → the first file that has it.
    """
    listed = ", ".join(f"{path} is in {iconv_name(name)}" for name, path in found.items())
    encoding, path = next((name, path) for name, path in found.items() if name != UTF8)
    fix = f"convert them, e.g. iconv -f {iconv_name(encoding)} -t utf-8 {path} > NEW_FILE"
    return ConfigError(f"the files have several encodings: {listed}", where="--input", fix=fix)


def iconv_name(encoding: str) -> str:
    """Return iconv's name of an encoding."""
    return _ICONV.get(encoding, encoding)


def encoding_option(encoding: str, reader: str, path: str, *, whole_files: bool = False) -> dict[str, str]:
    """Return the option of a reader for an encoding, empty for UTF-8.

    Args:
        encoding: the encoding.
        reader: name of the reader.
        path: a file.
        whole_files: whether a document is a whole file.

    Raises:
        ConfigError: the reader cannot read the encoding.
    """
    if encoding == UTF8:
        return {}
    if reader == "text" and (encoding != "utf-16" or whole_files):
        return {"encoding": "detect"}
    if reader in ("csv", "tsv") and encoding in _TABLES:
        return {"encoding": encoding}
    name = iconv_name(encoding)
    what = f"the file is in {name}, which the reader {reader!r} cannot read"
    if reader == "text":
        what = "the file is in utf-16, which can only be read where each of many files is a document"
    raise ConfigError(what, where=path, fix=f"convert it (iconv -f {name} -t utf-8)")
