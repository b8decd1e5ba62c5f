"""A tokenizer's scores, and the counts that they come from."""

from __future__ import annotations

import msgspec

_DIGITS = 6  # of shares in figures: the last bits of a float may be another machine's own


class RoundTripDifference(msgspec.Struct, frozen=True):
    """A paragraph that does not come back.

    Attributes:
        paragraph: its number in the text that was measured, from 0.
        at: the first character that differs, from 0.
        text: what stands there, some characters of it.
        decoded: what came back instead.
    """

    paragraph: int
    at: int
    text: str
    decoded: str


class WordAlignment(msgspec.Struct, frozen=True, kw_only=True):
    """How a tokenizer's tokens lie to the words of a text.

    Attributes:
        words: that are not white space alone.
        boundaries: word boundaries, see `jprep.tokenizer.evaluation.boundaries`.
        token_boundaries: token boundaries.
        kept: positions that are both.
    """

    words: int
    boundaries: int
    token_boundaries: int
    kept: int

    @property
    def recall(self) -> float:
        """Share of word boundaries at which a token begins: word boundaries kept."""
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
    """What a tokenizer did with a text.

    Attributes:
        tokenizer: its name.
        identity: its fingerprint or hash, shortened.
        model: its kind.
        traits: what else its figures depend on.
        vocab_size: its ids.
        paragraphs, characters, bytes: of the text, normalised as the tokenizer has it; bytes of UTF-8.
        tokens: what it made of them.
        unknown: tokens that stand for what it has no piece for.
        parts: tokens that stand for a part of a character: a byte of one without a piece of its own; byte-level
            kinds: any piece that is not whole characters.
        lossless: paragraphs that decode to themselves.
        differing: the first paragraphs that do not.
        lost: characters that paragraphs had oftener than what came back, with how much oftener, most first.
        gained: characters that came back oftener, likewise.
        used: ids that occur.
        renyi_efficiency: how evenly ids are used, `H(p) / log |V|` with Rényi's entropy of order 2.5, V the vocabulary:
            Zouhar et al. 2023, "Tokenization and the Noiseless Channel".
        words: how tokens lie to words, None where the text's words are not known.
        longest: the longest of the frequent words of letters, but those of ASCII → its pieces, joined by `|`; a cut
            inside a character is not shown.
        speed: MB of UTF-8 encoded in a CPU-second, 0 where it was not measured. Of no two runs the same.
        signature: one line to cite: what the figures depend on, and the chief ones. "" where it was not asked for.
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
        """Characters that a token stands for, on average."""
        return _ratio(self.characters, self.tokens)

    @property
    def bytes_per_token(self) -> float:
        """Bytes of UTF-8 that a token stands for, on average."""
        return _ratio(self.bytes, self.tokens)

    @property
    def unknown_rate(self) -> float:
        """Share of tokens that are the unknown one."""
        return _ratio(self.unknown, self.tokens)

    @property
    def byte_rate(self) -> float:
        """Share of tokens that stand for a part of a character, see `parts`."""
        return _ratio(self.parts, self.tokens)

    @property
    def lossless_rate(self) -> float:
        """Share of paragraphs for which `decode(encode(x)) == x`."""
        return _ratio(self.lossless, self.paragraphs)

    @property
    def vocabulary_used(self) -> float:
        """Share of all ids, special tokens among them, that occur."""
        return _ratio(self.used, self.vocab_size)

    @property
    def pieces_per_word(self) -> float:
        """Tokens for each word that is not white space: the fertility of Rust et al. 2021, of running text."""
        return _ratio(self.tokens, self.words.words) if self.words else 0.0

    def figures(self) -> dict[str, float]:
        """All figures that are the same in every run, by name; none where there was no text."""
        if not self.paragraphs:
            return {}
        counts = {name: getattr(self, name) for name in ("paragraphs", "characters", "bytes", "tokens")}
        shares = {name: getattr(self, name) for name in _SHARES}
        if self.words:
            names = {"precision": "boundary_precision", "recall": "boundary_recall", "f1": "boundary_f1"}
            counts["words"] = self.words.words
            shares |= {shown: getattr(self.words, name) for name, shown in names.items()}
            shares["pieces_per_word"] = self.pieces_per_word
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
