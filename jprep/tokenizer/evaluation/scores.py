"""Scores of a tokenizer, and the counts they are computed from."""

from __future__ import annotations

import msgspec

_DIGITS = 6  # decimals of shares in figures: the last bits of a float may depend on the machine


class RoundTripDifference(msgspec.Struct, frozen=True):
    """A paragraph that does not decode to itself.

    Attributes:
        paragraph: index in the evaluated text, from 0.
        at: first character that differs, from 0.
        text: some characters of the paragraph from there.
        decoded: some characters of the decoded text from there.
    """

    paragraph: int
    at: int
    text: str
    decoded: str


class WordAlignment(msgspec.Struct, frozen=True, kw_only=True):
    """Alignment of tokens with the words of a text.

    Attributes:
        words: number of words that are not only white space.
        boundaries: word boundaries, see `jprep.tokenizer.evaluation.boundaries`.
        token_boundaries: token boundaries.
        kept: positions that are both.
        cutting: tokens that contain a word boundary, and begin or end inside a word.
    """

    words: int
    boundaries: int
    token_boundaries: int
    kept: int
    cutting: int

    @property
    def recall(self) -> float:
        """Share of word boundaries at which a token begins."""
        return self.kept / self.boundaries if self.boundaries else 1.0

    @property
    def precision(self) -> float:
        """Share of token boundaries that are word boundaries."""
        return self.kept / self.token_boundaries if self.token_boundaries else 1.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        both = self.boundaries + self.token_boundaries
        return 2 * self.kept / both if both else 1.0


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """Scores of a tokenizer on a text.

    Attributes:
        tokenizer: name.
        identity: shortened fingerprint or hash.
        model: model type.
        traits: other properties that the scores depend on.
        vocab_size: number of ids.
        paragraphs, characters, bytes: size of the text, normalized for the tokenizer; bytes of UTF-8.
        tokens: number of tokens.
        unknown: number of unknown tokens.
        parts: number of tokens that stand for a part of a character: a byte of a character without a piece; for
            byte-level models any piece that is not whole characters.
        lossless: number of paragraphs that decode to themselves.
        differing: the first paragraphs that do not.
        lost: characters that are more frequent in the text than in the decoded text, with the difference, largest
            first.
        gained: characters that are more frequent in the decoded text, likewise.
        used: number of ids that occur.
        renyi_efficiency: how evenly ids are used, `H(p) / log |V|` with Rényi's entropy of order 2.5, V the vocabulary:
            Zouhar et al. 2023, "Tokenization and the Noiseless Channel".
        words: alignment with words, None if the text's words are unknown.
        longest: the longest frequent words of non-ASCII letters → their pieces, joined by `|`; a cut inside a character
            is not shown.
        speed: MB of UTF-8 encoded per CPU second, 0 if not measured. Differs from run to run.
        signature: one line to cite: what the scores depend on, and the main ones. "" if not requested.
    """

    tokenizer: str
    identity: str
    model: str
    traits: dict[str, str]
    vocab_size: int
    paragraphs: int
    characters: int
    bytes: int
    tokens: int
    unknown: int
    parts: int
    lossless: int
    differing: list[RoundTripDifference]
    lost: dict[str, int]
    gained: dict[str, int]
    used: int
    renyi_efficiency: float
    words: WordAlignment | None
    longest: dict[str, str]
    speed: float = 0.0
    signature: str = ""

    @property
    def characters_per_token(self) -> float:
        """Average characters per token."""
        return _ratio(self.characters, self.tokens)

    @property
    def bytes_per_token(self) -> float:
        """Average UTF-8 bytes per token."""
        return _ratio(self.bytes, self.tokens)

    @property
    def unknown_rate(self) -> float:
        """Share of tokens that are the unknown token."""
        return _ratio(self.unknown, self.tokens)

    @property
    def byte_rate(self) -> float:
        """Share of tokens that stand for a part of a character, see `parts`."""
        return _ratio(self.parts, self.tokens)

    @property
    def lossless_rate(self) -> float:
        """Share of paragraphs with `decode(encode(x)) == x`."""
        return _ratio(self.lossless, self.paragraphs)

    @property
    def vocabulary_used(self) -> float:
        """Share of ids that occur, including special tokens."""
        return _ratio(self.used, self.vocab_size)

    @property
    def pieces_per_word(self) -> float:
        """Tokens per word that is not white space: the fertility of Rust et al. 2021, for running text."""
        return _ratio(self.tokens, self.words.words) if self.words else 0.0

    @property
    def word_cut_rate(self) -> float:
        """Share of tokens that contain a word boundary, and begin or end inside a word."""
        return _ratio(self.words.cutting, self.tokens) if self.words else 0.0

    def figures(self) -> dict[str, float]:
        """Return all deterministic figures by name; empty if there was no text."""
        if not self.paragraphs:
            return {}
        counts = {name: getattr(self, name) for name in ("paragraphs", "characters", "bytes", "tokens")}
        shares = {name: getattr(self, name) for name in _SHARES}
        if self.words:
            names = {"precision": "boundary_precision", "recall": "boundary_recall", "f1": "boundary_f1"}
            counts["words"] = self.words.words
            shares |= {shown: getattr(self.words, name) for name, shown in names.items()}
            shares |= {"pieces_per_word": self.pieces_per_word, "word_cut_rate": self.word_cut_rate}
        return counts | {name: round(share, _DIGITS) for name, share in shares.items()}


_SHARES = (
    "characters_per_token",
    "bytes_per_token",
    "unknown_rate",
    "byte_rate",
    "lossless_rate",
    "vocabulary_used",
    "renyi_efficiency",
)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
