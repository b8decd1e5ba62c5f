"""JSON files that show their own damage: each carries a checksum of its content."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from jprep.engine.fingerprint import fingerprint, plain

T = TypeVar("T")

_CHECKSUM = "checksum"


def encode_checksummed(content: Any, *, indent: int = -1) -> bytes:
    """Encode a struct or a dict as JSON, with the fingerprint of its fields as the last field.

    Args:
        content: what the file is to hold.
        indent: spaces that a level is indented by; -1 writes all in one line.
    """
    fields = plain(content)
    data = msgspec.json.encode(fields | {_CHECKSUM: fingerprint(fields)})
    return data if indent < 0 else msgspec.json.format(data, indent=indent)


def decode_checksummed(data: bytes, kind: type[T]) -> T:
    """Decode what `seal` wrote.

    A file without a checksum, as jprep 0.1 wrote it, is accepted.

    Raises:
        ValueError: it is not JSON of this kind, or the checksum is not that of its content.
    """
    try:
        fields = msgspec.json.decode(data, type=dict[str, Any])
        # Without a checksum the last field may be one whose name is damaged.
        name = _CHECKSUM if _CHECKSUM in fields else next(reversed(fields), "")
        content = {key: value for key, value in fields.items() if key != name}
        if (name == _CHECKSUM) != (fields.get(name) == fingerprint(content)):
            raise ValueError("its checksum is not that of its content")
        return msgspec.convert(content if name == _CHECKSUM else fields, kind)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
