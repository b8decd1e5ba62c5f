"""Map the tokenizer's ids to the rows of fairseq's dictionary."""

from __future__ import annotations

import re
from pathlib import Path

from jprep.errors import ConfigError, InputError
from jprep_fairseq_xla.convert.detect_model import LAYER_PREFIXES, matrix_shape
from jprep_fairseq_xla.convert.pickles import FairseqCheckpoint

SPECIAL_SYMBOL_COUNT = 4
"""Number of symbols at the start of fairseq's dictionary that no file lists."""

_UNKNOWN = 3
_ORIGINAL_FILE = "use the dict.txt of the training data, unchanged"
_MADE_UP = re.compile(r"madeupword\d+")


def map_dictionary_rows(
    checkpoint: FairseqCheckpoint, model_type: str, symbols: list[str], dictionary: Path | None
) -> list[int]:
    """Return the row of fairseq's dictionary for each id of the tokenizer.

    fairseq's own language modeling task has no `<mask>`: its row is then that of `<unk>`, which no text has either.

    Args:
        checkpoint: the checkpoint.
        model_type: its `model_type`.
        symbols: the tokenizer's symbols by id, as fairseq spells them.
        dictionary: the `dict.txt` that the model was trained with; None if it is the tokenizer's.

    Raises:
        ConfigError: the model was trained with other symbols.
        InputError: the file is not a dictionary.
    """
    known, _ = matrix_shape(checkpoint, f"{LAYER_PREFIXES[model_type]}.embed_tokens.weight")
    trained = _trained_symbols(known, model_type, symbols, dictionary)
    if len(trained) != known:
        source = "the tokenizer" if dictionary is None else dictionary.name
        what = f"the model was trained with {known:,} symbols, but {source} has {len(trained):,}"
        fix = "use the tokenizer that encoded its data" + ("" if dictionary else ", or pass its dict.txt with --dict")
        raise ConfigError(what, where=str(checkpoint.path), fix=fix)
    rows = {symbol: number for number, symbol in enumerate(trained)}
    if model_type == "gpt2":
        rows.setdefault(symbols[-1], _UNKNOWN)
    _check_symbols(symbols, rows, dictionary)
    return [rows[symbol] for symbol in symbols]


def _trained_symbols(known: int, model_type: str, symbols: list[str], dictionary: Path | None) -> list[str]:
    """Return the symbols of a model that knows so many.

    No file lists `<mask>`, which fairseq appends for RoBERTa and BERT.
    """
    *pieces, mask = symbols
    if dictionary is None:
        return pieces if model_type == "gpt2" and known == len(pieces) else symbols
    found = _read_symbols(dictionary, symbols[:SPECIAL_SYMBOL_COUNT])
    return found if model_type == "gpt2" or mask in found else [*found, mask]


def _read_symbols(dictionary: Path, special: list[str]) -> list[str]:
    """Return fairseq's special symbols and those of a `dict.txt`."""
    try:
        with dictionary.open(encoding="utf-8") as lines:
            found = [*special, *(line.rstrip("\n").rsplit(" ", 1)[0] for line in lines)]
    except OSError as error:
        what = f"cannot read the file: {error.strerror}"
        raise ConfigError(what, where=str(dictionary), fix="pass the path of a dict.txt") from error
    except UnicodeDecodeError as error:
        raise InputError(f"not a dict.txt: {error.reason}", where=str(dictionary), fix=_ORIGINAL_FILE) from error
    if len(set(found)) < len(found):
        raise InputError("a symbol is listed twice", where=str(dictionary), fix=_ORIGINAL_FILE)
    return found


def _check_symbols(symbols: list[str], rows: dict[str, int], dictionary: Path | None) -> None:
    missing = [symbol for symbol in symbols if symbol not in rows]
    extra = [symbol for symbol in rows.keys() - set(symbols) if not _MADE_UP.fullmatch(symbol)]
    if missing or extra:
        count = f"lacks {len(missing):,} of its pieces" if missing else f"has {len(extra):,} symbols that it lacks"
        what = f"this is not the tokenizer's dictionary: it {count}, e.g. {(missing or sorted(extra))[0]!r}"
        raise ConfigError(what, where=str(dictionary), fix="use the tokenizer that encoded the model's data")
