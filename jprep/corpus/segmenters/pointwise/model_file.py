"""Model files: a header with a card and a hash, then the compressed tables."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from jprep.corpus.segmenters.pointwise.features import LANES, VERSION, FeatureConfig
from jprep.corpus.segmenters.pointwise.second_look import FEATURES, MAX_SECOND
from jprep.corpus.segmenters.pointwise.weights import MAX_DIRECT, MAX_LANE, Weights
from jprep.errors import ConfigError, DamagedError, MachineError
from jprep.io.atomic import write_atomic
from jprep.io.os_errors import translate_read_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODELS = "jprep_pointwise"
"""Entry points of distributions with a model; each names an object that is the path of a model file."""

TRAIN = "train one with `jprep segmenter train`"

_DEFAULT = "words"
_WHERE = "segmenter pointwise: model"
_INSTALL = "pip install jprep-words (in a checkout: pip install ./models/words)"
_MAGIC = b"jprep-pointwise-1\n"
_MAX_BIAS = 8000
_MAX_FILE, _MAX_HEADER, _MAX_TABLES = 1 << 28, 1 << 24, 1 << 29  # bytes
_HASH, _LENGTH = 32, 4  # bytes of the hash of what follows, and of the size of the header


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """What a model was made from.

    Attributes:
        jprep: version of jprep that trained it.
        made_from: options and versions, and the hashes of the inputs.
        sentences: number of sentences for training.
        characters: their characters.
        license: the licence that the maker of the model states.
        note: what else the maker says about it.
    """

    jprep: str
    made_from: dict[str, Any]
    sentences: int = 0
    characters: int = 0
    license: str = ""
    note: str = ""


class Model(msgspec.Struct, frozen=True):
    """A model and its card."""

    card: ModelCard
    weights: Weights


class _Header(msgspec.Struct, frozen=True):
    """The header of a model file.

    Attributes:
        features: version of the features.
        config: sizes of the tables.
        bias: see `Weights`.
        card: the card.
    """

    features: int
    config: FeatureConfig
    bias: int
    card: ModelCard


def write_model(path: Path, model: Model) -> None:
    """Write a model file atomically; equal models give equal bytes.

    Raises:
        MachineError: the file cannot be written.
    """
    write_atomic(path, encode_model(model))


def encode_model(model: Model) -> bytes:
    """Return the content of a model file."""
    weights = model.weights
    tables: list[NDArray[Any]] = [*weights.rows, *weights.direct, weights.second, weights.words]
    compressed = zlib.compress(b"".join(map(_little_endian, tables)), 9)
    header = msgspec.json.encode(_Header(VERSION, weights.config, weights.bias, model.card), order="sorted")
    content = b"".join((len(header).to_bytes(_LENGTH, "little"), header, compressed))
    return _MAGIC + hashlib.sha256(content).digest() + content


def read_model(path: Path) -> Model:
    """Read a model file, and check it against its hash.

    Raises:
        ConfigError: the file does not exist, is not a model, or belongs to another version of jprep.
        DamagedError: it is damaged.
    """
    check_exists(path)
    with translate_read_errors(str(path)), path.open("rb") as file:
        data = file.read(_MAX_FILE + 1)
    if len(data) > _MAX_FILE:
        raise _damaged("the file is larger than any model", str(path))
    return decode_model(data, str(path))


def check_exists(path: Path) -> None:
    """Check that a model exists.

    Raises:
        ConfigError: there is no such file.
    """
    if not path.is_file():
        raise ConfigError("there is no such model", where=str(path), fix=TRAIN)


def decode_model(data: bytes, where: str) -> Model:
    """Return the model in the content of a model file; see `read_model`."""
    if not data.startswith(_MAGIC):
        raise ConfigError("this is not a model of the segmenter `pointwise`", where=where, fix=TRAIN)
    sha256, content = data[len(_MAGIC) :][:_HASH], data[len(_MAGIC) + _HASH :]
    if hashlib.sha256(content).digest() != sha256:
        raise _damaged("the file was changed or damaged", where)
    end = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    if end > _MAX_HEADER:
        raise _damaged("the header is larger than any", where)
    header = _read_header(content[_LENGTH:end], where)
    weights = _split_tables(_decompress(content[end:], header.config, where), header)
    if max(_excesses(weights), default=0) > 0 or abs(header.bias) > _MAX_BIAS:
        raise _damaged("a weight is out of its range", where)
    return Model(header.card, weights)


def find_model(name: str) -> Path:
    """Return the path of a model.

    Args:
        name: name of a model of an installed distribution, or a path; "" is the model of `jprep-words`.

    Raises:
        MachineError: `jprep-words` is not installed, or the model of a distribution cannot be loaded.
    """
    found = next((each for each in entry_points(group=MODELS) if each.name == (name or _DEFAULT)), None)
    if name and found is None:
        return Path(name).expanduser()
    if found is None:
        raise MachineError("no model is installed", where=_WHERE, fix=f"{_INSTALL}, or {TRAIN}")
    try:
        return Path(found.load())
    except (ImportError, AttributeError, TypeError) as error:
        what = f"the model {found.name} cannot be loaded: {error}"
        raise MachineError(what, where=_WHERE, fix="install its distribution again") from error


def _read_header(data: bytes, where: str) -> _Header:
    try:
        header = msgspec.json.decode(data, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(f"the header cannot be read: {error}", where) from error
    if header.features != VERSION:
        what = f"the model has features of version {header.features}, this jprep has version {VERSION}"
        raise ConfigError(what, where=where, fix=f"{TRAIN}, or install the jprep that made it")
    return header


def _shapes(config: FeatureConfig) -> Iterator[tuple[type[np.generic], tuple[int, ...]]]:
    """Yield the type and shape of each table, in the order of the file."""
    for bits, lanes in zip(config.row_bits, LANES, strict=True):
        yield np.int8, (1 << bits, lanes)
    for bits in config.direct_bits:
        yield np.int16, (1 << bits,)
    yield np.int8, (FEATURES, 1 << config.second)
    yield np.uint8, (1 << config.words,)


def _decompress(tables: bytes, config: FeatureConfig, where: str) -> bytes:
    """Return the decompressed tables; never more than the header announces."""
    expected = sum(np.dtype(kind).itemsize * math.prod(shape) for kind, shape in _shapes(config))
    if expected > _MAX_TABLES:
        raise _damaged("the tables are larger than any", where)
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(tables, expected + 1)
    except zlib.error as error:
        raise _damaged(f"the tables cannot be decompressed: {error}", where) from error
    if len(content) != expected or not reader.eof:
        raise _damaged("the tables do not have the size that the header says", where)
    return content


def _split_tables(content: bytes, header: _Header) -> Weights:
    tables, at = list[Any](), 0
    for kind, shape in _shapes(header.config):
        dtype = np.dtype(kind).newbyteorder("<")
        count = math.prod(shape)
        tables.append(np.frombuffer(content, dtype, count, at).astype(kind).reshape(shape))
        at += count * dtype.itemsize
    rows = len(LANES)
    return Weights(header.config, tables[:rows], tables[rows:-2], tables[-1], tables[-2], header.bias)


def _excesses(weights: Weights) -> Iterator[int]:
    """Yield by how much the largest weight of each table exceeds its limit."""
    for tables, limit in ((weights.rows, MAX_LANE), (weights.direct, MAX_DIRECT), ([weights.second], MAX_SECOND)):
        for table in tables:
            yield max(int(table.max()), -int(table.min())) - limit


def _little_endian(table: NDArray[Any]) -> bytes:
    return table.astype(table.dtype.newbyteorder("<")).tobytes()


def _damaged(what: str, where: str) -> DamagedError:
    return DamagedError(what, where=where, fix=f"copy it again, or {TRAIN}")
