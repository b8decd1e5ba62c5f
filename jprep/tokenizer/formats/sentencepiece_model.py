"""Write sentencepiece's model file: the required fields of `sentencepiece_model.proto`, without protobuf."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence

from jprep.io.wire import protobuf
from jprep.tokenizer.vocabulary import PieceKind, Vocabulary, VocabularyPiece

MODEL_TYPE = {"unigram": 1, "bpe": 2, "words": 3}
"""`TrainerSpec.ModelType` of the supported model types."""

_TYPE: dict[PieceKind, int] = {"normal": 1, "unknown": 2, "special": 3, "byte": 6}
# Numbers of the fields `<role>_id` and `<role>_piece` of TrainerSpec.
_ROLE_FIELDS = {"unk": (40, 45), "bos": (41, 46), "eos": (42, 47), "pad": (43, 48)}


def model_proto(vocabulary: Vocabulary) -> bytes:
    """Return the model file of a bpe or unigram vocabulary, with the same ids."""
    ids = {piece.text: number for number, piece in enumerate(vocabulary.pieces)}
    roles = {}
    for role in _ROLE_FIELDS:
        token = getattr(vocabulary.special, role)
        roles[role] = (ids[token], token) if token else (-1, "")
    return model_bytes(vocabulary.pieces, vocabulary.config.model, roles, byte_fallback=True)


def model_bytes(
    pieces: Iterable[VocabularyPiece], model: str, roles: dict[str, tuple[int, str]], *, byte_fallback: bool
) -> bytes:
    """Return a model file with the given pieces.

    Args:
        pieces: pieces by id; one of them of kind `unknown`.
        model: `bpe`, `unigram` or `words`.
        roles: id and token of unk, bos, eos and pad; -1 and "" if there is none.
        byte_fallback: whether all 256 bytes are among the pieces.
    """
    written = [_piece(piece) for piece in pieces]
    numbers = {3: MODEL_TYPE[model], 4: len(written), 35: int(byte_fallback)}
    trainer = b"".join(protobuf.number(field, value) for field, value in numbers.items())
    for role, (number, token) in roles.items():
        field, name = _ROLE_FIELDS[role]
        trainer += protobuf.number(field, number) + (protobuf.data(name, token.encode()) if token else b"")
    # Spaces are written as U+2581. A model of words has one before each word, and no other.
    spaces = int(model == "words")
    normalizer = protobuf.data(1, b"identity") + b"".join(
        protobuf.number(field, value) for field, value in ((3, spaces), (4, spaces), (5, 1))
    )
    return b"".join([*written, protobuf.data(2, trainer), protobuf.data(3, normalizer)])


def word_model_proto(symbols: Sequence[str], special: Collection[str], unknown: str) -> bytes:
    """Return a model file that divides text at spaces into words, which it spells with U+2581 in front.

    Args:
        symbols: words and special tokens by id.
        special: the special tokens.
        unknown: the unknown token.
    """
    kinds: dict[str, PieceKind] = dict.fromkeys(special, "special") | {unknown: "unknown"}  # type: ignore[assignment]
    pieces = [VocabularyPiece(symbol, kinds.get(symbol, "normal")) for symbol in symbols]
    roles = dict.fromkeys(_ROLE_FIELDS, (-1, "")) | {"unk": (list(symbols).index(unknown), unknown)}
    return model_bytes(pieces, "words", roles, byte_fallback=False)


def _piece(piece: VocabularyPiece) -> bytes:
    """Serialise field 1 of the model: text, score and type. Performance matters: training writes several models."""
    text = piece.text.encode()
    body = b"\n" + _size(text) + text + _SCORE.pack(2 << 3 | 5, piece.score) + _TYPES[piece.kind]
    return b"\n" + _size(body) + body


def _size(data: bytes) -> bytes:
    return bytes((len(data),)) if len(data) < 0x80 else protobuf.encode_varint(len(data))


_SCORE = struct.Struct("<Bf")
_TYPES = {kind: protobuf.number(3, number) for kind, number in _TYPE.items()}
