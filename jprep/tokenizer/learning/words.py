"""Take the most frequent words as a vocabulary: one id for each word."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.errors import ConfigError
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.learning.assembly import pieces_to_learn, with_special
from jprep.tokenizer.learning.training_units import read_units
from jprep.tokenizer.special_tokens import SpecialTokens
from jprep.tokenizer.vocabulary import Vocabulary, VocabularyPiece

if TYPE_CHECKING:
    from jprep.tokenizer.counting import UnitCounts


def learn(counted: UnitCounts, config: TokenizerConfig, special: SpecialTokens, scratch: Path) -> Vocabulary:
    """Take words by count, ties by code point; see `jprep.tokenizer.learning.learn`.

    Words that occur less than `min_frequency` times, do not fit in `vocab_size`, or are spelt like a special token,
    are unknown. The card counts their occurrences and how many different words they are.
    """
    room = pieces_to_learn(config, special)
    text, counts = read_units(counted.words)
    excluded = {" ", *special.tokens}
    listed = zip(text.split("\n"), counts, strict=True)
    ranked = [(word, count) for word, count in listed if word not in excluded]
    known = list(takewhile(lambda one: one[1] >= config.least_count, ranked))[:room]
    if not known:
        fix = "use a lower `min_frequency`, a larger `vocab_size`, or more text"
        raise ConfigError("no word is frequent enough for the vocabulary", where="tokenizer.min_frequency", fix=fix)
    unknown = {
        "words.unknown.total": counted.counts["units.total"] - sum(count for _, count in known),
        "words.unknown.distinct": counted.counts["units.distinct"] - len(known),
    }
    pieces = with_special(special, [VocabularyPiece(word) for word, _ in known])
    return Vocabulary(config, special, pieces, [], "", unknown | {"vocabulary.size": len(pieces)})
