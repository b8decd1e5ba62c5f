"""Decode a page: by its marks and declarations, then by detection."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

from jprep.corpus.readers.detection import detect_encoding
from jprep.corpus.readers.encoding import guess_encoding
from jprep.io.inputs.japanese_codecs import CP50221, CP51932

_HEAD = 8192  # bytes in which a declaration is looked for; pages of portals begin with long scripts
_COMMENT = re.compile(rb"<!-(?=-).*?(?:-->|\Z)", re.DOTALL)
_META = re.compile(rb"<meta\b[^>]{0,500}?\bcharset\s{0,20}=\s{0,20}[\"']?\s{0,20}([\w.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"<\?xml\b[^>]{0,200}?\bencoding\s{0,20}=\s{0,20}[\"']([\w.:-]{1,40})", re.IGNORECASE)
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}

_CODECS = {
    "shift_jis": ("cp932",),
    "euc_jp": ("euc_jp", CP51932, "euc_jis_2004"),
    "iso2022_jp": ("iso2022_jp", "iso2022_jp_ext", CP50221),
    "gb2312": ("gb18030",),
    "gbk": ("gb18030",),
    "euc_kr": ("cp949",),
    "big5": ("big5hkscs",),
    "latin_1": ("cp1252", "latin_1"),
    "ascii": ("cp1252", "latin_1"),
}
"""Codecs that decode what servers send under a name: supersets, as browsers use them."""

_NAMES = {
    "x-sjis": "shift_jis",
    "windows-31j": "shift_jis",
    "cp932": "shift_jis",
    "x-euc-jp": "euc_jp",
    "eucjp-ms": "euc_jp",
    "cp51932": "euc_jp",
}
_ANY_BYTES = re.compile(r"cp125\d|iso8859|latin|ascii|mac_|koi8|cp8\d\d|tis_620")
_USABLE = re.compile(
    r"(?:utf-8$|utf_(?:16|32)$|iso2022|iso8859|cp\d|gb|big5|euc|shift_jis|koi8|mac|latin|ascii|johab|hz|tis)"
)
_MAX_REPLACED = 1e-3


class Decoded(NamedTuple):
    """The text of a page.

    Attributes:
        text: the text.
        encoding: a name known to Python.
        replaced: undecodable bytes, which are U+FFFD in the text.
    """

    text: str
    encoding: str
    replaced: int = 0


def decode_page(data: bytes, header: str = "", *, markup: bool = True) -> Decoded | None:
    """Decode a page in the first encoding in which all bytes are valid.

    The order: a byte order mark, the declaration of the HTTP header, that of the page, detection among UTF-8 and the
    Japanese encodings, and last a declared encoding in which any bytes are valid (ISO-8859-1 is what many servers
    declare without knowing). If none fits, the declared or the most plausible encoding is used and undecodable bytes
    are replaced.

    Args:
        data: the page.
        header: the encoding that the HTTP header declares, or "".
        markup: whether the page is HTML, which can declare its encoding in itself.

    Returns:
        None if more than one character in a thousand would be replaced.
    """
    tried = []
    for name in _candidates(data, header, _declared(data) if markup else ""):
        try:
            return Decoded(data.decode(name), name)
        except UnicodeDecodeError:
            tried.append(name)
    name = (tried or [guess_encoding(data) or "utf-8"])[0]
    text = data.decode(name, "replace")
    replaced = text.count("\ufffd") - data.decode(name, "ignore").count("\ufffd")  # the page may have its own
    return Decoded(text, name, replaced) if replaced <= _MAX_REPLACED * len(text) else None


def _candidates(data: bytes, *labels: str) -> Iterator[str]:
    yield from (name for mark, name in _BOMS.items() if data.startswith(mark))
    declared = [name for label in labels for name in codecs_of(label)]
    yield from (name for name in declared if not _ANY_BYTES.match(name))
    if detected := detect_encoding(data):
        yield detected
    yield from (name for name in declared if _ANY_BYTES.match(name))


def _declared(data: bytes) -> str:
    """Return the encoding that a page declares in itself, or ""."""
    head = _COMMENT.sub(b"", data[:_HEAD])
    found = _META.search(head) or _XML.match(head.lstrip())
    label = found[1].decode("ascii", "replace") if found else ""
    return "utf-8" if label.lower().startswith("utf-16") else label  # or the declaration could not have been read


def codecs_of(label: str) -> tuple[str, ...]:
    """Return Python's codecs for the name of an encoding; none for one that is unknown or no encoding of text."""
    label = label.strip(" \t\r\n\"';").lower()
    try:
        name = codecs.lookup(_NAMES.get(label, label)).name.replace("-", "_")
    except (LookupError, ValueError):
        return ()
    name = {"iso8859_1": "latin_1", "utf_8": "utf-8"}.get(name, name)
    return _CODECS.get(name, (name,)) if _USABLE.match(name) else ()
