"""Codecs for EUC-JP and ISO-2022-JP with the characters of NEC and IBM."""

from __future__ import annotations

import codecs
import io

import pytest

from jprep.corpus.readers.detection import detect_encoding
from jprep.io.inputs.japanese_codecs import CP50221, CP51932

TEXT = "髙橋さんと山﨑さんは①㈱と德川家、ⅣⅷⅩの〜と−である。"
PLACES = {"髙": b"|b", "﨑": b"yu", "①": b"-!", "㈱": b"-j", "德": b"y~", "Ⅳ": b"-8", "ⅷ": b"|x", "Ⅹ": b"->"}
"""Rows and cells by the table of NEC's characters, each in seven bits."""


def in_seven_bits(char: str) -> bytes:
    return PLACES.get(char) or bytes(byte & 0x7F for byte in char.encode("euc_jp"))


PAIRS = b"".join(map(in_seven_bits, TEXT))
DATA = {CP51932: bytes(byte | 0x80 for byte in PAIRS), CP50221: b"\x1b$B" + PAIRS + b"\x1b(B"}


@pytest.mark.parametrize("name", DATA)
def test_bytes_are_decoded_as_browsers_do(name: str) -> None:
    assert DATA[name].decode(name) == TEXT
    assert io.TextIOWrapper(io.BytesIO(DATA[name]), encoding=name).read() == TEXT
    with pytest.raises(UnicodeDecodeError):
        DATA[name].decode({CP51932: "euc_jp", CP50221: "iso2022_jp_ext"}[name])


@pytest.mark.parametrize("name", DATA)
def test_a_character_may_be_cut_anywhere(name: str) -> None:
    data = DATA[name]
    for cut in range(len(data)):
        decoder = codecs.getincrementaldecoder(name)("strict")
        assert decoder.decode(data[:cut]) + decoder.decode(data[cut:], True) == TEXT


def test_rows_13_and_89_to_92_are_those_of_cp932() -> None:
    pairs = {bytes([first, second]) for first in range(256) for second in range(256)}
    more = {pair for pair in pairs if pair.decode("euc_jp", "ignore") != pair.decode(CP51932, "ignore")}
    assert {pair[0] - 0xA0 for pair in more} == {13, 89, 90, 91, 92}
    assert len(more) == 83 + 374


@pytest.mark.parametrize("errors", ["replace", "ignore", "backslashreplace"])
@pytest.mark.parametrize("data", [b"\xf5\xa1abc", b"\xad<br>", b"\xf9A", b"\x8f\xad\xa1", b"\xad"])
def test_other_bytes_of_euc_jp_stay_errors(data: bytes, errors: str) -> None:
    assert data.decode(CP51932, errors) == data.decode("euc_jp", errors)
    with pytest.raises(UnicodeDecodeError):
        data.decode(CP51932)


@pytest.mark.parametrize("data", [b"ab\xad!cd", b"\x1b$(D-!", b"\x1b(J\xad!"])
def test_other_bytes_of_iso_2022_jp_stay_errors(data: bytes) -> None:
    assert data.decode(CP50221, "replace") == data.decode("iso2022_jp_ext", "replace")
    with pytest.raises(UnicodeDecodeError):
        data.decode(CP50221)


@pytest.mark.parametrize("name", DATA)
def test_detection_finds_them(name: str) -> None:
    assert detect_encoding(DATA[name]) == name
