"""Finds pieces that lie across word boundaries.

Under `boundaries = "train"` no piece was learnt across a boundary, but at use nothing marks boundaries, and some pieces
(`には`, which is a word now and then, and far more often two) are found mostly across one. A few hundred of them make
four fifths of all boundaries that are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jprep.corpus.document import WORD
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.formats.sentencepiece_model import model_bytes
from jprep.tokenizer.vocabulary import SPACE, VocabularyPiece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_USES = 5
"""A piece that is used less often in the sample is not judged."""

ENOUGH = 2_500_000
"""Bytes that are judged by. Three times as many found the same: recall of 97.8 % either way."""

_BLOCK = 64  # paragraphs that are encoded at once: one call for each takes half as long again


class CandidateEncoder(Protocol):
    """Encodes with pieces that are not a vocabulary yet."""

    def spell(self, text: str) -> str:
        """Write text as the pieces are spelt, except that a newline stays."""

    def sizes(self, pieces: Sequence[str]) -> list[int]:
        """UTF-8 bytes of each id's text; the pieces have the last ids."""

    def encode(self, pieces: Sequence[str], texts: list[str]) -> list[NDArray[np.int32]]:
        """Encode texts that are spelt."""


class BpeCandidates:
    """Encodes with pieces of BPE that are not a vocabulary yet.

    Args:
        base: the pieces that are always there; the first is the unknown one.
        spell: writes text as the pieces are spelt, except that a newline stays.
        size: UTF-8 bytes of the text that a piece spells.
        byte_fallback: whether all bytes are in `base`.
    """

    def __init__(
        self,
        base: list[VocabularyPiece],
        spell: Callable[[str], str],
        size: Callable[[str], int],
        *,
        byte_fallback: bool,
    ) -> None:
        self.base, self._spell, self._size, self._fallback = base, spell, size, byte_fallback

    def spell(self, text: str) -> str:
        """Write text as the pieces are spelt, except that a newline stays."""
        return self._spell(text)

    def encode(self, pieces: Sequence[str], texts: list[str]) -> list[NDArray[np.int32]]:
        """Encode texts that are spelt; ids count from the base's first piece."""
        import sentencepiece

        scored = [*self.base, *(VocabularyPiece(piece, "normal", float(-rank)) for rank, piece in enumerate(pieces))]
        unknown = {"unk": (0, self.base[0].text), "bos": (-1, ""), "eos": (-1, ""), "pad": (-1, "")}
        proto = model_bytes(scored, "bpe", unknown, byte_fallback=self._fallback)
        model = sentencepiece.SentencePieceProcessor(model_proto=proto)
        encoded: list[NDArray[np.int32]] = model.encode(texts, return_type="numpy", num_threads=1)
        return encoded

    def sizes(self, pieces: Sequence[str]) -> list[int]:
        """UTF-8 bytes of each id's text; what is no piece of text is a byte."""
        fixed = [self._size(piece.text) if piece.kind == "normal" else 1 for piece in self.base]
        return fixed + [self._size(piece) for piece in pieces]

    def unreachable(self, pieces: Sequence[str]) -> set[str]:
        """Those whose own text is not encoded as the one piece: nothing leads to them."""
        encoded = self.encode(pieces, [piece.replace(SPACE, " ") for piece in pieces])
        first = len(self.base)
        return {
            piece
            for number, (piece, ids) in enumerate(zip(pieces, encoded, strict=True), first)
            if len(ids) != 1 or ids[0] != number
        }


class BoundarySample:
    """Text with its word boundaries; positions are in UTF-8 bytes.

    Args:
        path: paragraphs, U+001F between words.
        config: its space policy says which boundaries are none: under `prefix` a space belongs to the next word.
        encoder: will encode it.
    """

    def __init__(self, path: Path, config: TokenizerConfig, encoder: CandidateEncoder) -> None:
        import numpy as np

        marked = _spread(path.read_bytes()).decode().replace(SPACE, " ")
        data = np.frombuffer(marked.encode(), np.uint8)
        marks = np.flatnonzero(data == ord(WORD))
        text = np.delete(data, marks)
        # Index n: whether a word ends before byte n.
        ends = np.zeros(len(text) + 2, np.int32)
        ends[marks - np.arange(len(marks))] = 1
        before, after = (text == ord(" "))[:-1], (text == ord(" "))[1:]
        ends[1 : len(text)] &= ~(before if config.spaces == "prefix" else before & after)
        self._ended = np.cumsum(ends, dtype=np.int32)
        lines = encoder.spell(marked.replace(WORD, "")).split("\n")
        self._blocks = ["\n".join(lines[at : at + _BLOCK]) + "\n" for at in range(0, len(lines), _BLOCK)]
        self._blocks[-1] = self._blocks[-1][:-1]
        self._encoder = encoder

    @classmethod
    def of(cls, path: Path, config: TokenizerConfig, encoder: CandidateEncoder) -> BoundarySample | None:
        """The sample, or None where crossing is not asked after, or there is no text to judge it by."""
        asked = config.boundaries == "train" and config.crossing < 1 and path.exists() and path.stat().st_size
        return cls(path, config, encoder) if asked else None

    def crossing(self, pieces: Sequence[str], share: float) -> set[str]:
        """The pieces of which more than this share of all uses hold a boundary inside."""
        import numpy as np

        if not pieces:
            return set()
        ids = np.concatenate(self._encoder.encode(pieces, self._blocks))
        sizes = np.array(self._encoder.sizes(pieces))
        ends = np.cumsum(sizes[ids])
        starts = ends - sizes[ids]
        crossed = ids[self._ended[ends - 1] > self._ended[starts]]
        uses, crossings = np.bincount(ids, minlength=len(sizes)), np.bincount(crossed, minlength=len(sizes))
        found = (uses >= LEAST_USES) & (crossings > share * uses)
        return {piece for piece, yes in zip(pieces, found[-len(pieces) :].tolist(), strict=True) if yes}


def _spread(data: bytes) -> bytes:
    """About `ENOUGH` bytes of these lines, taken evenly: every second, third, …."""
    step = -(-len(data) // ENOUGH)
    return b"\n".join(data.split(b"\n")[::step]) if step > 1 else data
