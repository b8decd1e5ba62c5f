"""JSON files with a checksum of their content, so that damage is detected."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from jprep.engine.fingerprint import fingerprint, plain
from jprep.typed_json import convert

T = TypeVar("T")

_CHECKSUM = "checksum"


def encode_checksummed(content: Any, *, indent: int = -1) -> bytes:
    """Encode a struct or a dict as JSON, with a checksum as the last field.

    Args:
        content: the content of the file.
        indent: spaces per level of nesting; -1 writes one line.
    """
    fields = plain(content)
    data = msgspec.json.encode(fields | {_CHECKSUM: fingerprint(fields)})
    return data if indent < 0 else msgspec.json.format(data, indent=indent)


def decode_checksummed(data: bytes, kind: type[T]) -> T:
    """Decode what `encode_checksummed` wrote.

    Files of jprep 0.1, which have no checksum, are accepted.

    Raises:
        ValueError: it is not JSON of this type, or the checksum does not match.
    """
    try:
        fields = msgspec.json.decode(data, type=dict[str, Any])
        # Without a checksum, the last field may be the checksum under a damaged name.
        name = _CHECKSUM if _CHECKSUM in fields else next(reversed(fields), "")
        content = {key: value for key, value in fields.items() if key != name}
        if (name == _CHECKSUM) != (fields.get(name) == fingerprint(content)):
            raise ValueError("its checksum does not match")
        return convert(content if name == _CHECKSUM else fields, kind)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
