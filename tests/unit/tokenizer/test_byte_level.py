"""GPT-2's byte-level alphabet."""

from __future__ import annotations

from jprep.tokenizer.formats import byte_level


def test_byte_level_pieces_count_partial_characters() -> None:
    assert byte_level.encode_bytes(" の\n") == "Ġãģ®\n"
    assert [byte_level.count_characters(byte_level.encode_bytes(text)) for text in ("a", "のが", " の")] == [1, 2, 2]
    assert byte_level.count_characters(byte_level.encode_bytes("のの")[1:]) == 2
    assert (
        sorted(byte_level.BYTE_TO_CHARACTER) == sorted(set(byte_level.BYTE_TO_CHARACTER)) == list(byte_level.ALPHABET)
    )
