"""TensorBoard's event files, written without TensorBoard: records of Protocol Buffers in TFRecord format."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from jprep.io.wire import protobuf
from jprep.io.wire.crc32c import crc32c, mask_checksums

_DOUBLE, _FLOAT = 1, 5  # protobuf's wire types
_START = 1  # SessionLog.START
_STRING = 7  # DT_STRING


def header(time: float) -> bytes:
    """Return the first record of a file."""
    return tfrecord_frame(_double(1, time) + protobuf.data(3, b"brain.Event:2"))


def restart(time: float, step: int) -> bytes:
    """Return a record that discards what was logged after a step."""
    return tfrecord_frame(
        _double(1, time) + protobuf.number(2, step + 1) + protobuf.data(7, protobuf.number(1, _START))
    )


def scalars(time: float, step: int, values: Mapping[str, float]) -> bytes:
    """Return a record of scalars by tag."""
    return _summary(time, step, (protobuf.data(1, tag.encode()) + _float(2, value) for tag, value in values.items()))


def text(time: float, tag: str, markdown: str) -> bytes:
    """Return a record of a text, for the page `Text`."""
    tensor = protobuf.number(1, _STRING) + protobuf.data(2, b"") + protobuf.data(8, markdown.encode())
    value = protobuf.data(1, tag.encode()) + protobuf.data(8, tensor) + _plugin("text", b"")
    return _summary(time, 0, [value])


def hyperparameters(time: float, name: str, values: Mapping[str, bool | float | str]) -> bytes:
    """Return a record of a run's hyperparameters, for the page `HParams`."""
    entries = b"".join(
        protobuf.data(1, protobuf.data(1, key.encode()) + protobuf.data(2, _value(value)))
        for key, value in values.items()
    )
    session = entries + protobuf.data(4, name.encode()) + _double(5, time)
    content = protobuf.data(3, session)  # HParamsPluginData.session_start_info
    return _summary(time, 0, [protobuf.data(1, b"_hparams_/session_start_info") + _plugin("hparams", content)])


def tfrecord_frame(record: bytes) -> bytes:
    """Return a record in TFRecord format: its length, the length's checksum, the record, its checksum."""
    length = struct.pack("<Q", len(record))
    return length + _checksum(length) + record + _checksum(record)


def _summary(time: float, step: int, values: Iterable[bytes]) -> bytes:
    found = b"".join(protobuf.data(1, value) for value in values)
    return tfrecord_frame(_double(1, time) + protobuf.number(2, step) + protobuf.data(5, found)) if found else b""


def _plugin(name: str, content: bytes) -> bytes:
    """Return the field that names the plugin of a value."""
    return protobuf.data(9, protobuf.data(1, protobuf.data(1, name.encode()) + protobuf.data(2, content)))


def _value(value: bool | float | str) -> bytes:
    """Return a `google.protobuf.Value`."""
    if isinstance(value, bool):
        return protobuf.encode_varint(4 << 3) + protobuf.encode_varint(int(value))
    return protobuf.data(3, value.encode()) if isinstance(value, str) else _double(2, value)


def _checksum(data: bytes) -> bytes:
    return mask_checksums(crc32c(data, [0, len(data)])).astype("<u4").tobytes()


def _double(field: int, value: float) -> bytes:
    return protobuf.encode_varint(field << 3 | _DOUBLE) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return protobuf.encode_varint(field << 3 | _FLOAT) + _packed(value)


def _packed(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:  # beyond the range of a 32-bit float
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))
