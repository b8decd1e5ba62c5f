"""Errors for text in a wrong encoding, with a guess of the actual encoding."""

from __future__ import annotations

import codecs
import re

from jprep.corpus.readers.archives import is_spreadsheet, spreadsheet_error
from jprep.corpus.readers.detection import detect_encoding
from jprep.errors import InputError, Setting
from jprep.io.inputs.japanese_codecs import CP50221, CP51932

_CANDIDATES = ("euc-jp", CP51932, "cp932", "utf-16le", "utf-16be", "iso-2022-jp", "utf-8")
_ICONV = {
    "euc_jp": "euc-jp",
    CP51932: "euc-jp-ms",
    "euc_jis_2004": "euc-jisx0213",
    "iso2022_jp": "iso-2022-jp",
    "iso2022_jp_ext": "iso-2022-jp",
    CP50221: "iso-2022-jp",
}
_KANA = re.compile("[ぁ-んァ-ヶー、。]")
_SAMPLE = 1 << 16
_LIKELY = 0.2
_AROUND = 20


def guess_encoding(data: bytes) -> str:
    """Return the encoding in which the bytes contain the most kana, by a name known to Python and iconv, or ""."""
    for bom in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        if data.startswith(bom):
            return "utf-16"
    shares = {name: _kana_share(data[:_SAMPLE], name) for name in _CANDIDATES}
    best = max(shares, key=lambda name: shares[name])
    return best if shares[best] >= _LIKELY else ""


def iconv_name(encoding: str) -> str:
    """Return iconv's name of an encoding."""
    return _ICONV.get(encoding, encoding)


def _kana_share(data: bytes, encoding: str) -> float:
    text = data.decode(encoding, "replace")
    # Undecodable characters count against an encoding.
    return (len(_KANA.findall(text)) - 4 * text.count("\ufffd")) / max(1, len(text))


class WrongEncodingError(InputError):
    """Data that are valid in another encoding or format: to reject bad records would reject nearly all."""


def undecodable(
    where: str, error: UnicodeDecodeError, *, option: bool, detects: bool = False, sample: bytes = b""
) -> InputError:
    """Return the error for a record that cannot be decoded.

    Args:
        where: position of the record.
        error: the error raised by decoding.
        option: whether the reader has an option `encoding`.
        detects: whether that may be `detect`, and is not: then other files of the source may have other encodings.
        sample: more of the input, for the guess of its encoding; by default, the record.
    """
    if is_spreadsheet(error.object):
        found = spreadsheet_error(where, "text")
        return WrongEncodingError(found.what, where=where, fix=found.fix)
    what = f"byte 0x{error.object[error.start]:02x} is not valid {error.encoding} here ({error.reason})"
    looks = guess_encoding(sample or error.object)
    if looks in ("", "utf-8", error.encoding.replace("_", "-")):
        return InputError(what, where=where, fix="correct the file")
    fix, setting = f"it looks like {looks}: convert it (iconv -f {iconv_name(looks)} -t utf-8)", None
    if detects and detect_encoding((sample or error.object)[:_SAMPLE], complete=False) not in ("", "utf-8"):
        setting = Setting("encoding", "detect")
        fix += ' or set `encoding = "detect"`, which finds the encoding of each file'
    elif option and looks in ("cp932", "euc-jp", CP51932):
        setting = Setting("encoding", looks.replace("-", "_"))
        fix += f' or set `encoding = "{setting.value}"`'
    return WrongEncodingError(what, where=where, fix=fix, setting=setting)


def excerpt_around(error: UnicodeDecodeError) -> str:
    """Return the text around the undecodable byte, with bytes as `\\x..`, for a reject."""
    around = error.object[max(0, error.start - _AROUND) : error.start + _AROUND]
    return around.decode(error.encoding, "backslashreplace")
