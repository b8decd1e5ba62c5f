"""sentencepiece's precompiled character map: a Darts double array of byte strings, and what each becomes."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from itertools import count

_BLOCK = 256  # a reader looks at `base ^ byte` without asking whether it is there: the array ends with a whole block
_VALUE = 1 << 31
_HAS_VALUE = 1 << 8
_OFFSET = 10  # an offset's place in its unit, where offsets are below 2 ** 21

_Trie = dict[int, "_Trie"]


def charsmap(forms: Mapping[str, str]) -> str:
    """The map as `tokenizer.json` holds it.

    Args:
        forms: key → what it becomes; none holds NUL.

    Returns:
        Base64 of the array's length in bytes, the array (both little-endian uint32) and the forms, NUL after each.
    """
    places: dict[str, int] = {}
    ends = b""
    for form in sorted(set(forms.values())):
        places[form] = len(ends)
        ends += form.encode() + b"\0"
    units = _double_array({key.encode(): places[form] for key, form in forms.items()})
    return base64.b64encode(struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + ends).decode()


def _double_array(values: Mapping[bytes, int]) -> list[int]:
    """Darts-clone's units: a child stands at `node ^ offset ^ byte`, the node's value at `node ^ offset`."""
    units, bases = {0: 0}, set[int]()
    queue: list[tuple[_Trie, int, bytes]] = [(_trie(values), 0, b"")]
    for node, place, key in queue:
        base = next(b for b in count(1) if b not in bases and not any(b ^ byte in units for byte in node))
        bases.add(base)
        units[place] |= (base ^ place) << _OFFSET | (_HAS_VALUE if 0 in node else 0)
        for byte, child in node.items():
            units[base ^ byte] = byte or _VALUE | values[key]
            if byte:
                queue.append((child, base ^ byte, key + bytes([byte])))
    return [units.get(place, 0) for place in range((max(units) // _BLOCK + 1) * _BLOCK)]


def _trie(keys: Mapping[bytes, int]) -> _Trie:
    """Byte → node, and 0 where a key ends."""
    root: _Trie = {}
    for key in sorted(keys):
        node = root
        for byte in (*key, 0):
            node = node.setdefault(byte, {})
    return root
