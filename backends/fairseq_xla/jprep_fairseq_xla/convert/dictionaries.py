"""fairseq's dictionary and the tokenizer's ids: which row of one is which of the other."""

from __future__ import annotations

import re
from pathlib import Path

from jprep.errors import ConfigError, InputError
from jprep_fairseq_xla.convert.detect_model import LAYER_PREFIXES, matrix_shape
from jprep_fairseq_xla.convert.pickles import FairseqCheckpoint

SPECIAL_SYMBOL_COUNT = 4
"""How many symbols fairseq's dictionary begins with that no file names."""

_UNKNOWN = 3
_AS_IT_WAS = "give the dict.txt as it was made"
_MADE_UP = re.compile(r"madeupword\d+")


def map_dictionary_rows(
    checkpoint: FairseqCheckpoint, kind: str, ours: list[str], dictionary: Path | None
) -> list[int]:
    """For each id of the tokenizer's, that of fairseq's dictionary.

    fairseq's own task of language models has no `<mask>`: such a row is then that of `<unk>`, which no text has either.

    Args:
        checkpoint: the checkpoint.
        kind: its `model_type`.
        ours: the tokenizer's symbols by id, as fairseq spells them.
        dictionary: the `dict.txt` that it was trained with; None where it is the tokenizer's.

    Raises:
        ConfigError: it was trained with other symbols.
        InputError: the file is none.
    """
    known, _ = matrix_shape(checkpoint, f"{LAYER_PREFIXES[kind]}.embed_tokens.weight")
    theirs = _trained_with(known, kind, ours, dictionary)
    if len(theirs) != known:
        source = "the tokenizer" if dictionary is None else dictionary.name
        what = f"the model was trained with {known:,} symbols, and {source} has {len(theirs):,}"
        fix = "give the tokenizer that made its data" + ("" if dictionary else ", or its dict.txt by --dict")
        raise ConfigError(what, where=str(checkpoint.path), fix=fix)
    ids = {symbol: number for number, symbol in enumerate(theirs)}
    if kind == "gpt2":
        ids.setdefault(ours[-1], _UNKNOWN)
    _check_symbols(ours, ids, dictionary)
    return [ids[symbol] for symbol in ours]


def _trained_with(known: int, kind: str, ours: list[str], dictionary: Path | None) -> list[str]:
    """The symbols of a model that knows so many; no file names `<mask>`, which fairseq adds at the end for RoBERTa and
    BERT.
    """
    *pieces, mask = ours
    if dictionary is None:
        return pieces if kind == "gpt2" and known == len(pieces) else ours
    found = _symbols(dictionary, ours[:SPECIAL_SYMBOL_COUNT])
    return found if kind == "gpt2" or mask in found else [*found, mask]


def _symbols(dictionary: Path, own: list[str]) -> list[str]:
    """fairseq's own symbols, and those of a `dict.txt`."""
    try:
        with dictionary.open(encoding="utf-8") as lines:
            found = [*own, *(line.rstrip("\n").rsplit(" ", 1)[0] for line in lines)]
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(dictionary), fix="name a dict.txt") from error
    except UnicodeDecodeError as error:
        raise InputError(f"this is no dict.txt: {error.reason}", where=str(dictionary), fix=_AS_IT_WAS) from error
    if len(set(found)) < len(found):
        raise InputError("a symbol stands there twice", where=str(dictionary), fix=_AS_IT_WAS)
    return found


def _check_symbols(ours: list[str], theirs: dict[str, int], dictionary: Path | None) -> None:
    missing = [symbol for symbol in ours if symbol not in theirs]
    more = [symbol for symbol in theirs.keys() - set(ours) if not _MADE_UP.fullmatch(symbol)]
    if missing or more:
        some = f"lacks {len(missing):,} of its pieces" if missing else f"has {len(more):,} symbols that are none of it"
        what = f"this is not the tokenizer's dictionary: it {some}, e.g. {(missing or sorted(more))[0]!r}"
        raise ConfigError(what, where=str(dictionary), fix="give the tokenizer that its data was made with")
