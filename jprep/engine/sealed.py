"""JSON files that show their own damage: each carries a checksum of its content."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from jprep.engine.fingerprint import fingerprint, plain

T = TypeVar("T")

_CHECKSUM = "checksum"


def seal(content: Any, *, indent: int = -1) -> bytes:
    """Encode a struct or a dict as JSON, with the fingerprint of its fields as the last field.

    Args:
        content: what the file is to hold.
        indent: spaces that a level is indented by; -1 writes all in one line.
    """
    fields = plain(content)
    data = msgspec.json.encode(fields | {_CHECKSUM: fingerprint(fields)})
    return data if indent < 0 else msgspec.json.format(data, indent=indent)


def unseal(data: bytes, kind: type[T]) -> T:
    """Decode what `seal` wrote. Files without a checksum, as jprep 0.1 wrote them, are accepted.

    Raises:
        ValueError: it is not JSON of this kind, or the checksum is not that of the content.
    """
    try:
        fields = msgspec.json.decode(data, type=dict[str, Any])
        checksum = fields.pop(_CHECKSUM, None)
        if checksum is not None and checksum != fingerprint(fields):
            raise ValueError("its checksum is not that of its content")
        return msgspec.convert(fields, kind)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
