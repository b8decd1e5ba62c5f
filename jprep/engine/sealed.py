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
    """Decode what `seal` wrote.

    A struct without a checksum, as jprep 0.1 wrote it, is accepted if it has no field that its kind does not have: an
    unknown one may be a damaged `checksum`.

    Raises:
        ValueError: it is not JSON of this kind, it has no checksum, or one that is not that of its content.
    """
    try:
        fields = msgspec.json.decode(data, type=dict[str, Any])
        checksum = fields.pop(_CHECKSUM, None)
        if checksum is None and not fields.keys() <= set(getattr(kind, "__struct_fields__", ())):
            raise ValueError("it has no checksum")
        if checksum is not None and checksum != fingerprint(fields):
            raise ValueError("its checksum is not that of its content")
        return msgspec.convert(fields, kind)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
