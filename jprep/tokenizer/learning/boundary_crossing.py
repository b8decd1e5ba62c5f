"""Find pieces that cross word boundaries.

Under `boundaries = "train"` no piece is learnt across a boundary. But raw text has no marked boundaries, and some
pieces (such as `には`, sometimes a word but more often two) mostly occur across one. A few hundred of them cause four
fifths of all lost boundaries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jprep.corpus.document import WORD
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.formats.sentencepiece_model import model_bytes
from jprep.tokenizer.vocabulary import SPACE_PIECE, VocabularyPiece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CUTTING = 0.5
"""Under `super`, pieces that cut words in more than this share of their uses are dropped."""

MIN_USES = 5
"""Pieces with fewer uses in the sample are not judged."""

SAMPLE_BYTES = 2_500_000
"""Bytes of the sample. Three times as many gave the same result: a recall of 97.8 % either way."""

_BLOCK = 64  # paragraphs per call: one call for each takes 1.5 times as long


class CandidateEncoder(Protocol):
    """Encode with candidate pieces that are not in a vocabulary yet."""

    def spell(self, text: str) -> str:
        """Convert text to the characters of pieces; newlines are unchanged."""

    def sizes(self, pieces: Sequence[str]) -> list[int]:
        """Return the UTF-8 bytes of each id's text; the pieces have the last ids."""

    def encode(self, pieces: Sequence[str], texts: list[str]) -> list[NDArray[np.int32]]:
        """Encode converted texts."""


class BpeCandidates:
    """Encode with candidate BPE pieces that are not in a vocabulary yet.

    Args:
        base: fixed pieces; the first is the unknown token.
        spell: converts text to the characters of pieces; newlines are unchanged.
        size: returns the UTF-8 bytes of a piece's text.
        byte_fallback: whether `base` contains all bytes.
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
        """Convert text to the characters of pieces; newlines are unchanged."""
        return self._spell(text)

    def encode(self, pieces: Sequence[str], texts: list[str]) -> list[NDArray[np.int32]]:
        """Encode converted texts; ids are counted from the first piece of `base`."""
        import sentencepiece

        scored = [*self.base, *(VocabularyPiece(piece, "normal", float(-rank)) for rank, piece in enumerate(pieces))]
        unknown = {"unk": (0, self.base[0].text), "bos": (-1, ""), "eos": (-1, ""), "pad": (-1, "")}
        proto = model_bytes(scored, "bpe", unknown, byte_fallback=self._fallback)
        model = sentencepiece.SentencePieceProcessor(model_proto=proto)
        encoded: list[NDArray[np.int32]] = model.encode(texts, return_type="numpy", num_threads=1)
        return encoded

    def sizes(self, pieces: Sequence[str]) -> list[int]:
        """Return the UTF-8 bytes of each id's text; pieces that are not text count as a byte."""
        fixed = [self._size(piece.text) if piece.kind == "normal" else 1 for piece in self.base]
        return fixed + [self._size(piece) for piece in pieces]

    def unreachable(self, pieces: Sequence[str]) -> set[str]:
        """Return the pieces whose own text is not encoded as that piece: no text gives them."""
        encoded = self.encode(pieces, [piece.replace(SPACE_PIECE, " ") for piece in pieces])
        first = len(self.base)
        return {
            piece
            for number, (piece, ids) in enumerate(zip(pieces, encoded, strict=True), first)
            if len(ids) != 1 or ids[0] != number
        }


class BoundarySample:
    """Text with word boundaries; positions are in UTF-8 bytes.

    Args:
        path: file of paragraphs with U+001F between words.
        config: its space policy decides which boundaries count: under `prefix` a space belongs to the next word.
            Its boundaries decide which pieces cross words in too many of their uses: under `train` those that contain a
            boundary; under `super` those that also begin or end inside a word.
        encoder: encodes the sample.
    """

    def __init__(self, path: Path, config: TokenizerConfig, encoder: CandidateEncoder) -> None:
        import numpy as np

        marked = _thin_out(path.read_bytes()).decode().replace(SPACE_PIECE, " ")
        data = np.frombuffer(marked.encode(), np.uint8)
        marks = np.flatnonzero(data == ord(WORD))
        text = np.delete(data, marks)
        # Index n: whether a word ends before byte n.
        ends = np.zeros(len(text) + 2, np.int32)
        ends[marks - np.arange(len(marks))] = 1
        before, after = (text == ord(" "))[:-1], (text == ord(" "))[1:]
        ends[1 : len(text)] &= ~(before if config.spaces == "prefix" else before & after)
        self._ended = np.cumsum(ends, dtype=np.int32)
        self._super, self._share = config.boundaries == "super", config.crossing
        if self._super:
            self._edges, self._share = _edges(text, ends, config), CUTTING
        lines = encoder.spell(marked.replace(WORD, "")).split("\n")
        self._blocks = ["\n".join(lines[at : at + _BLOCK]) + "\n" for at in range(0, len(lines), _BLOCK)]
        self._blocks[-1] = self._blocks[-1][:-1]
        self._encoder = encoder

    @classmethod
    def of(cls, path: Path, config: TokenizerConfig, encoder: CandidateEncoder) -> BoundarySample | None:
        """Return the sample, or None if crossing is not limited or there is no text."""
        limited = config.boundaries == "super" or (config.boundaries == "train" and config.crossing < 1)
        return cls(path, config, encoder) if limited and path.exists() and path.stat().st_size else None

    def crossing(self, pieces: Sequence[str]) -> set[str]:
        """Return the pieces that cross words in too many of their uses."""
        import numpy as np

        if not pieces:
            return set()
        ids = np.concatenate(self._encoder.encode(pieces, self._blocks))
        sizes = np.array(self._encoder.sizes(pieces))
        ends = np.cumsum(sizes[ids])
        starts = ends - sizes[ids]
        crossing = self._ended[ends - 1] > self._ended[starts]
        if self._super:
            crossing &= ~(self._edges[starts] & self._edges[ends])
        crossed = ids[crossing]
        uses, crossings = np.bincount(ids, minlength=len(sizes)), np.bincount(crossed, minlength=len(sizes))
        found = (uses >= MIN_USES) & (crossings > self._share * uses)
        return {piece for piece, yes in zip(pieces, found[-len(pieces) :].tolist(), strict=True) if yes}


def _edges(text: NDArray[np.uint8], ends: NDArray[np.int32], config: TokenizerConfig) -> NDArray[np.bool_]:
    """Return for each index of `ends` whether a word or a line begins or ends there; before a space a word ends."""
    apart = [ord("\n"), ord(" ")] if config.spaces == "alone" else [ord("\n")]
    edges = ends > 0
    for byte in apart:
        edges[1 : len(text) + 1] |= text == byte
    for byte in (ord("\n"), ord(" ")):
        edges[: len(text)] |= text == byte
    edges[[0, len(text)]] = True
    return edges


def _thin_out(data: bytes) -> bytes:
    """Return about `SAMPLE_BYTES` bytes of evenly chosen lines: every second, third, …."""
    step = -(-len(data) // SAMPLE_BYTES)
    return b"\n".join(data.split(b"\n")[::step]) if step > 1 else data
