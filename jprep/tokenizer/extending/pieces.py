"""Learn the new pieces: characters without a piece, then merges of the tokens that the old tokenizer gives.

The new merges of BPE come after all old ones and form new pieces only; `extending.files` says how Unigram does the
same. So a text is first cut into the old tokens, whatever was learnt, and then neighbouring ones are joined: each new
token is a sequence of old ones, or a character without a piece.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from jprep.errors import ConfigError, Setting
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting import UnitCounts
from jprep.tokenizer.counting.results import read_characters
from jprep.tokenizer.counting.sequences import FIRST_SYMBOL
from jprep.tokenizer.extending.base import BYTE_NAMES, BaseTokenizer
from jprep.tokenizer.learning.alphabet import default_size
from jprep.tokenizer.learning.selection import learn_fitting
from jprep.tokenizer.learning.sentencepiece_trainer import BALLAST, train_bpe
from jprep.tokenizer.learning.training_units import CUT, read_units, write_units
from jprep.tokenizer.sources.joins import PairJoins, merged
from jprep.tokenizer.vocabulary import SPACE_PIECE

_MOST_SYMBOLS = 1 << 19
_LONGEST = 64  # old tokens in a new one
_NO_PIECE = "\0\t\n\r\x1e\x1f" + SPACE_PIECE


class NewPieces(NamedTuple):
    """What is appended to a tokenizer.

    Attributes:
        characters: new pieces of a character.
        merges: the two pieces that each further new piece consists of, by rank.
    """

    characters: list[str]
    merges: list[tuple[str, str]]

    @property
    def pieces(self) -> list[str]:
        """All new pieces, in the order of their ids."""
        return [*self.characters, *(left + right for left, right in self.merges)]


def learn_pieces(base: BaseTokenizer, counted: UnitCounts, config: TokenizerConfig, scratch: Path) -> NewPieces:
    """Learn the pieces that a vocabulary of `config.vocab_size` ids has room for.

    Args:
        base: the tokenizer that is extended.
        counted: counts of the new text.
        config: the requested configuration.
        scratch: directory for temporary files; it is created.

    Raises:
        ConfigError: there is no room, no text, or too little of it.
    """
    room = room_for_pieces(base, config)
    scratch.mkdir(parents=True, exist_ok=True)
    characters = _new_characters(base, counted.characters, config)[:room]
    symbols = _write_symbols(base, counted.words, characters, scratch / "tokens.tsv")
    replay = _Replay(base, characters, symbols, config.max_piece_chars)
    if symbols and room > len(characters):
        learn = partial(train_bpe, scratch / "tokens.tsv", "".join(symbols), longest=_LONGEST, least=config.least_count)
        learn_fitting(learn, replay.fitting, room - len(characters))
    merges = replay.merges[: room - len(characters)]
    if missing := room - len(characters) - len(merges):
        size = config.vocab_size - missing
        what, setting = f"only {room - missing} new pieces can be learnt from this text", Setting("vocab_size", size)
        raise ConfigError(what, where="tokenizer.vocab_size", fix=f"vocab_size = {size}", setting=setting)
    return NewPieces(characters, merges)


def room_for_pieces(base: BaseTokenizer, config: TokenizerConfig) -> int:
    """Return the number of new pieces that a vocabulary of `config.vocab_size` ids has room for.

    Raises:
        ConfigError: there is no room.
    """
    room = config.vocab_size - base.size - len(config.reserved_tokens)
    if room < 1:
        what = f"the old tokenizer has {base.size:,} ids, so vocab_size = {config.vocab_size} leaves no new ones"
        fix, setting = f"vocab_size = {base.size + 1000} or more", Setting("vocab_size", base.size + 1000)
        raise ConfigError(what, where="tokenizer.vocab_size", fix=fix, setting=setting)
    return room


def _new_characters(base: BaseTokenizer, path: Path, config: TokenizerConfig) -> list[str]:
    """Return the characters that get a piece: the most frequent ones of the text, as for a new alphabet.

    For Unigram also those of added tokens: a text that spells one is less likely as that token than in characters, if
    these are known.
    """
    counts = {chr(code): count for code, count in read_characters(path).items() if chr(code) not in _NO_PIECE}
    spelled = "".join([*sorted(base.special), *config.reserved_beside(base.ids)]) if base.kind == "unigram" else ""
    chosen = dict.fromkeys([*spelled, *list(counts)[: config.alphabet or default_size(list(counts.values()))]])
    return [character for character in chosen if not base.is_known(character)]


def _write_symbols(base: BaseTokenizer, words: Path, characters: Sequence[str], path: Path) -> dict[str, str]:
    """Write the trainer's input, in which each token is one symbol; return the token of each symbol."""
    text, counts = read_units(words)
    cut = list(base.cut(text.split("\n"), characters))
    uses = Counter[str]()
    for parts, count in zip(cut, counts, strict=True):
        for part in parts:
            uses.update(dict.fromkeys(part, count))
    known = (base.ids.keys() | set(characters)) - base.special - (set() if base.kind == "byte-bpe" else BYTE_NAMES)
    ranked = sorted((token for token in uses if token in known), key=lambda token: (-uses[token], token))
    symbols = {token: chr(FIRST_SYMBOL + rank) for rank, token in enumerate(ranked[:_MOST_SYMBOLS])}
    if not symbols:
        return {}
    lines = (CUT.join("".join(symbols.get(token, CUT) for token in part) for part in parts) for parts in cut)
    write_units(path, "\n".join(lines), counts, BALLAST)
    return {symbol: token for token, symbol in symbols.items()}


class _Replay:
    """Keep the learnt pieces that are new, and that a single merge of earlier ones forms.

    Args:
        base: the tokenizer that is extended.
        characters: new characters.
        tokens: the token of each symbol.
        longest: maximum characters per piece.

    Attributes:
        merges: the merges of the pieces that were kept last, by rank.
    """

    def __init__(self, base: BaseTokenizer, characters: Sequence[str], tokens: dict[str, str], longest: int) -> None:
        self._base, self._characters, self._tokens, self._longest = base, characters, tokens, longest
        self.merges: list[tuple[str, str]] = []

    def fitting(self, learnt: Sequence[str]) -> list[str]:
        """Return the learnt pieces that are kept, in symbols."""
        joins, kept, known = PairJoins(()), list[str](), {*self._base.ids, *self._characters}
        self.merges = []
        for piece in learnt:
            parts, text = merged(piece, joins), self._spell(piece)
            if len(parts) == 2 and text not in known and self._is_allowed(text):
                joins.add(parts[0], parts[1])
                known.add(text)
                kept.append(piece)
                self.merges.append((self._spell(parts[0]), self._spell(parts[1])))
        return kept

    def _spell(self, symbols: str) -> str:
        return "".join(map(self._tokens.__getitem__, symbols))

    def _is_allowed(self, text: str) -> bool:
        return self._base.length_of(text) <= self._longest and not any(token in text for token in self._base.special)
