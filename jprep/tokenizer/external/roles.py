"""The special tokens of a tokenizer from elsewhere: their roles, and what it adds around one text and two."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.errors import ConfigError
from jprep.tokenizer.external.files import read_json
from jprep.tokenizer.formats.file_names import SPECIAL_TOKENS_MAP_JSON, TOKENIZER_CONFIG_JSON
from jprep.tokenizer.special_tokens import ROLES, SPECIAL_TOKEN_SETS, SpecialTokens

_DEFAULTS = ("bert", "roberta", "t5", "gpt")
"""Sets to try if no file names the roles, as in the first releases of transformers."""
_PROBES = ("a", "の", "1")


class WithSpecialTokens(NamedTuple):
    """A text or two as the tokenizer encodes them for a model.

    Attributes:
        ids: with special tokens.
        types: the token type of each.
    """

    ids: Sequence[int]
    types: Sequence[int]


def read_roles(folder: Path, vocabulary: Container[str]) -> dict[str, str]:
    """Return role → token, as a tokenizer's files say; tokens that the vocabulary lacks have no role."""
    stated = read_json(folder / TOKENIZER_CONFIG_JSON) | read_json(folder / SPECIAL_TOKENS_MAP_JSON)
    named = {role: token_text(stated.get(f"{role}_token")) for role in ROLES}
    found = {role: token for role, token in named.items() if token and token in vocabulary}
    return found or _default_roles(vocabulary)


def read_additional(folder: Path) -> list[str]:
    """Return the special tokens without a role that a tokenizer's files list."""
    stated = read_json(folder / TOKENIZER_CONFIG_JSON) | read_json(folder / SPECIAL_TOKENS_MAP_JSON)
    listed = stated.get("additional_special_tokens") or stated.get("extra_special_tokens") or []
    tokens = listed.values() if isinstance(listed, dict) else listed
    return [token_text(token) for token in tokens] if isinstance(tokens, Iterable) else []


def make_special_tokens(
    roles: Mapping[str, str],
    tokens: Iterable[str],
    piece_of: Callable[[int], str],
    encode: Callable[[str, str | None], tuple[Sequence[int], WithSpecialTokens]],
    where: str,
) -> SpecialTokens:
    """Return special tokens, with those around texts found by encoding a short one.

    Args:
        roles: role → token.
        tokens: all special tokens.
        piece_of: returns the token of an id.
        encode: returns the ids of a text without special tokens, and those of one or two texts with them.
        where: the folder, for errors.

    Raises:
        ConfigError: what the tokenizer adds around texts depends on the texts.
    """
    for probe in _PROBES:
        plain, alone = encode(probe, None)
        if plain:
            pair = encode(probe, probe)[1]
            around = _around(list(plain), alone, pair)
            break
    else:
        around = None
    if around is None:
        what = "what this tokenizer adds around texts cannot be found"
        raise ConfigError(what, where=where, fix="check that AutoTokenizer loads the folder and encodes 'a' and 'の'")
    before, after, between, pair_after, types = around
    pieces = [tuple(map(piece_of, ids)) for ids in (before, after, between, pair_after)]
    every = dict.fromkeys([*roles.values(), *tokens])
    special = SpecialTokens(
        tail=tuple(every), before=pieces[0], after=pieces[1], between=pieces[2], pair_after=pieces[3], types=types
    )
    return msgspec.structs.replace(special, **roles)


def _around(plain: list[int], alone: WithSpecialTokens, pair: WithSpecialTokens) -> tuple[Any, ...] | None:
    """Return the ids before, after and between texts, and after the second; None if the texts are not found."""
    one, two = list(alone.ids), list(pair.ids)
    first = _find(one, plain, 0)
    if first < 0 or two[: first + len(plain)] != one[: first + len(plain)]:
        return None
    second = _find(two, plain, first + len(plain))
    if second < 0:
        return None
    end = second + len(plain)
    around = len(two) > 2 * len(plain)  # without any, libraries number the texts of a pair although no model reads it
    types = around and set(pair.types[second:end]) == {1}
    return one[:first], one[first + len(plain) :], two[first + len(plain) : second], two[end:], types


def _find(ids: list[int], part: list[int], start: int) -> int:
    return next((at for at in range(start, len(ids) - len(part) + 1) if ids[at : at + len(part)] == part), -1)


def token_text(token: Any) -> str:
    """Return the text of a token, which files spell as a string or as a table."""
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")


def _default_roles(vocabulary: Container[str]) -> dict[str, str]:
    for name in _DEFAULTS:
        chosen = SPECIAL_TOKEN_SETS[name]
        roles = {role: getattr(chosen, role) for role in ROLES if getattr(chosen, role)}
        if all(token in vocabulary for token in roles.values()):
            return roles
    return {}
