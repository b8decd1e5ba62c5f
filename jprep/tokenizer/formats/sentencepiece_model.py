"""Writes sentencepiece's model file: the few fields of `sentencepiece_model.proto` that it needs, without protobuf."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from jprep.io import protobuf
from jprep.tokenizer.vocabulary import PieceKind, Vocabulary, VocabularyPiece

MODEL_TYPE = {"unigram": 1, "bpe": 2}
"""`TrainerSpec.ModelType` of the kinds that have such a file."""

_TYPE: dict[PieceKind, int] = {"normal": 1, "unknown": 2, "special": 3, "byte": 6}
_ROLES = {"unk": (40, 45), "bos": (41, 46), "eos": (42, 47), "pad": (43, 48)}  # TrainerSpec's <role>_id, <role>_piece


def model_proto(vocabulary: Vocabulary) -> bytes:
    """The model file of a vocabulary of kind bpe or unigram; its ids are the vocabulary's."""
    ids = {piece.text: number for number, piece in enumerate(vocabulary.pieces)}
    roles = {}
    for role in _ROLES:
        token = getattr(vocabulary.special, role)
        roles[role] = (ids[token], token) if token else (-1, "")
    return model_bytes(vocabulary.pieces, vocabulary.config.model, roles, byte_fallback=True)


def model_bytes(
    pieces: Iterable[VocabularyPiece], model: str, roles: dict[str, tuple[int, str]], *, byte_fallback: bool
) -> bytes:
    """A model file of these pieces.

    Args:
        pieces: by id; one of them of kind `unknown`.
        model: `bpe` or `unigram`.
        roles: of unk, bos, eos and pad: the id and the token; -1 and "" where there is none.
        byte_fallback: whether all 256 bytes are among the pieces.
    """
    written = [_piece(piece) for piece in pieces]
    numbers = {3: MODEL_TYPE[model], 4: len(written), 35: int(byte_fallback)}
    trainer = b"".join(protobuf.number(field, value) for field, value in numbers.items())
    for role, (number, token) in roles.items():
        field, name = _ROLES[role]
        trainer += protobuf.number(field, number) + (protobuf.data(name, token.encode()) if token else b"")
    # No dummy prefix, no space removed, spaces written as U+2581.
    normalizer = protobuf.data(1, b"identity") + protobuf.number(3, 0) + protobuf.number(4, 0) + protobuf.number(5, 1)
    return b"".join([*written, protobuf.data(2, trainer), protobuf.data(3, normalizer)])


def _piece(piece: VocabularyPiece) -> bytes:
    """Field 1 of the model: text, score and type. Quick, for a model is written several times while it is learnt."""
    text = piece.text.encode()
    body = b"\n" + _size(text) + text + _SCORE.pack(2 << 3 | 5, piece.score) + _TYPES[piece.kind]
    return b"\n" + _size(body) + body


def _size(data: bytes) -> bytes:
    return bytes((len(data),)) if len(data) < 0x80 else protobuf.encode_varint(len(data))


_SCORE = struct.Struct("<Bf")
_TYPES = {kind: protobuf.number(3, number) for kind, number in _TYPE.items()}
