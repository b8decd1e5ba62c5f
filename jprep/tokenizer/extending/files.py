"""Write an extended tokenizer: its files with the new pieces after the old ids."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from jprep.io.atomic import write_atomic
from jprep.tokenizer.chat_template import CHAT_TEMPLATE
from jprep.tokenizer.extending.base import BYTE_NAMES, BaseTokenizer
from jprep.tokenizer.extending.pieces import NewPieces
from jprep.tokenizer.external.files import read_json
from jprep.tokenizer.formats.file_names import SPECIAL_TOKENS_MAP_JSON, TOKENIZER_CONFIG_JSON, TOKENIZER_JSON
from jprep.tokenizer.formats.tokenizer_json import never_chosen

FILES = (TOKENIZER_JSON, TOKENIZER_CONFIG_JSON, SPECIAL_TOKENS_MAP_JSON, CHAT_TEMPLATE)
"""The files that `write_extension` may write."""

_SAVED = 2**-20  # log probability for a token that a new piece of Unigram saves: more than rounding errors
_FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def write_extension(base: BaseTokenizer, new: NewPieces, reserved: Sequence[str], folder: Path) -> None:
    """Write the directory. Other forms of the old vocabulary (`vocab.json`, `tokenizer.model`) are left out.

    Args:
        base: the old tokenizer.
        new: the new pieces.
        reserved: special tokens that follow them.
        folder: output directory; the caller writes the card.
    """
    tokens = {token: base.size + len(new.pieces) + number for number, token in enumerate(reserved)}
    _write(folder / TOKENIZER_JSON, extended_json(base, new, tokens))
    config = read_json(base.folder / TOKENIZER_CONFIG_JSON)
    # The class of the original may build its own pre-tokenizer; this one takes tokenizer.json as it is.
    config |= {"tokenizer_class": "PreTrainedTokenizerFast"}
    config.pop("auto_map", None)
    if tokens:
        config |= _with_reserved(config, tokens)
    _write(folder / TOKENIZER_CONFIG_JSON, config)
    for name in (SPECIAL_TOKENS_MAP_JSON, CHAT_TEMPLATE):
        if (base.folder / name).is_file():
            shutil.copyfile(base.folder / name, folder / name)


def extended_json(base: BaseTokenizer, new: NewPieces, reserved: dict[str, int]) -> dict[str, Any]:
    """Return the `tokenizer.json`. All old ids, those of added tokens included, are written down in its vocabulary.

    Without that, `tokenizers` would number added tokens after the larger vocabulary.

    Args:
        base: the old tokenizer.
        new: the new pieces.
        reserved: further special tokens with their ids.
    """
    appended = {piece: base.size + number for number, piece in enumerate(new.pieces)}
    vocab = base.ids | appended | reserved
    model = _unigram(base, new, vocab) if base.kind == "unigram" else _bpe(base, new, vocab)
    added = [{"id": number, "content": token} | _FLAGS for token, number in reserved.items()]
    return base.document | {
        "added_tokens": [*(base.document.get("added_tokens") or []), *added],
        "model": base.model | model,
    }


def _bpe(base: BaseTokenizer, new: NewPieces, ids: dict[str, int]) -> dict[str, Any]:
    return {"vocab": ids, "merges": [*map(_pair, base.model["merges"]), *map(list, new.merges)]}


def _unigram(base: BaseTokenizer, new: NewPieces, ids: dict[str, int]) -> dict[str, Any]:
    """Return the vocabulary of Unigram, in the order of the ids.

    A new piece has the log probability of the old ones that it consists of, and a tiny bit more for each token that it
    saves. So the most likely old pieces of a text stay what they are, unless others are as likely up to that bit, and
    as many of them as possible are joined. Added tokens are not pieces of a text that spells them.
    """
    scores, sizes = base.scores | dict.fromkeys(new.characters, base.lowest_score), Counter[str]()
    for left, right in new.merges:
        sizes[left + right] = sizes[left] + sizes[right] + 1
        scores[left + right] = scores[left] + scores[right]
    names = {number: piece for piece, number in ids.items()}
    pieces = [names.get(number, f"<|unused_{number}|>") for number in range(max(names) + 1)]
    hidden = {piece for piece in pieces if piece not in scores or piece in base.special}
    never = never_chosen([scores[piece] for piece in scores.keys() - hidden - BYTE_NAMES], hidden)
    return {"vocab": [[each, never if each in hidden else scores[each] + _SAVED * sizes[each]] for each in pieces]}


def _pair(merge: str | list[str]) -> list[str]:
    return merge.split(" ") if isinstance(merge, str) else merge


def _with_reserved(config: dict[str, Any], tokens: dict[str, int]) -> dict[str, Any]:
    described = {str(number): {"content": token} | _FLAGS for token, number in tokens.items()}
    listed = config.get("additional_special_tokens") or []
    return {
        "added_tokens_decoder": (config.get("added_tokens_decoder") or {}) | described,
        "additional_special_tokens": [*listed, *tokens],
    }


def _write(path: Path, content: Any) -> None:
    write_atomic(path, msgspec.json.format(msgspec.json.encode(content), indent=2))
