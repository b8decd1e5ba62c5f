"""The normalizer `characters` as steps of a `tokenizer.json`."""

from __future__ import annotations

from typing import Any

from jprep.config import parse_config
from jprep.corpus.normalizers.characters import CharactersNormalizer, CodeRange, character_class, deletion_groups
from jprep.corpus.normalizers.neologdn_tables import CONVERSIONS, SPACE
from jprep.tokenizer.normalizers.neologdn_replacements import BYTE_ORDER_MARK, KEPT, replace


def characters(options: dict[str, Any], *, before_neologdn: bool, before_spaces: bool) -> list[dict[str, Any]]:
    """Return steps that delete and replace characters.

    neologdn treats the start of a text differently, so something remains of what is deleted there before it.

    Args:
        options: the normalizer's options.
        before_neologdn: whether neologdn follows: it removes a byte order mark at the start.
        before_spaces: whether it removes spaces there, too.
    """
    config = parse_config(options, CharactersNormalizer.Config, where="tokenizer.normalizers")
    mapped = [{"type": "Replace", "pattern": {"String": key}, "content": text} for key, text in config.map.items()]
    deleted = [one for group in deletion_groups(config).values() for one in group]
    if not deleted:
        return mapped
    any_deleted = character_class(deleted)
    at_start = _before_a_space(any_deleted, deleted) if before_spaces else []
    if before_neologdn:
        at_start.append(replace(rf"\A{any_deleted}(?={any_deleted}*{BYTE_ORDER_MARK})", KEPT))
    return [*mapped, *at_start, replace(any_deleted, "")]


def _before_a_space(any_deleted: str, deleted: list[CodeRange]) -> list[dict[str, Any]]:
    """Return steps that replace a deleted character at the start of a text before a space by a space."""
    spaces = [one for one in CONVERSIONS[SPACE][0] if not any(first <= ord(one) <= last for first, last in deleted)]
    following = character_class((ord(one), ord(one)) for one in spaces)
    return [replace(rf"\A{any_deleted}(?={any_deleted}*{following})", spaces[0])] if spaces else []
