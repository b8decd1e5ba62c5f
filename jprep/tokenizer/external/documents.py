"""Changed copies of a `tokenizer.json`: for text that spells special tokens, and for text inside of another one."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Collection
from typing import Any, Literal

Document = dict[str, Any]
"""The content of a `tokenizer.json`."""

Preceding = Literal["", "token", "text"]
"""What stands before a text: nothing, a special token, or text that it continues."""

_STEPS = ("normalizer", "pre_tokenizer")


def without_special_tokens(document: Document, special: Collection[str]) -> Document:
    """Return a tokenizer that finds no special token in a text, if its option `encode_special_tokens` is on.

    That option leaves out added tokens that are flagged as special. Those that are not, and those that the model has in
    its vocabulary as well, get secret names here, with the same ids: no text spells them, and no merge makes them. The
    unknown token of a model that looks it up by name keeps its own.

    Args:
        document: the tokenizer.
        special: the special tokens.

    Returns:
        The tokenizer itself if it needs no change.
    """
    model, added = document["model"], document.get("added_tokens") or []
    unflagged = {token["content"] for token in added if not token.get("special")} & set(special)
    names = {token: secrets.token_hex(16) for token in (unflagged | _pieces(model, special)) - {model.get("unk_token")}}
    if not names:
        return document
    changed = {"vocab": _vocabulary(model, names)}
    if "merges" in model:
        kept = (merge for merge in model["merges"] if names.keys().isdisjoint((*_parts(merge), _merged(model, merge))))
        changed["merges"] = list(kept)
    renamed = [_renamed(token, names) for token in added]
    return document | {"added_tokens": renamed, "model": model | changed}


def _pieces(model: Document, special: Collection[str]) -> set[str]:
    """Return the special tokens that a model may find in a text.

    A BPE finds those that its merges make, all of them if it ignores merges, and single characters. These keep their
    names where they would be lost from texts without them: only byte fallback can spell them otherwise.
    """
    vocab = model["vocab"]
    found = set(special).intersection(vocab if isinstance(vocab, dict) else (piece for piece, _ in vocab))
    if model.get("type") != "BPE":
        return found
    longer = {token for token in found if len(token) > 1}
    if not model.get("ignore_merges"):
        longer &= {_merged(model, merge) for merge in model["merges"]}
    return longer | {token for token in found - longer if len(token) == 1 and _has_bytes(model, token)}


def _has_bytes(model: Document, token: str) -> bool:
    return bool(model.get("byte_fallback")) and all(f"<0x{byte:02X}>" in model["vocab"] for byte in token.encode())


def _parts(merge: str | list[str]) -> list[str]:
    """Return the two parts of a merge, in the former format of the library (one string) or in today's."""
    return merge.split(" ") if isinstance(merge, str) else merge


def _merged(model: Document, merge: str | list[str]) -> str:
    """Return the piece that a merge makes."""
    first, second = _parts(merge)
    return first + second.removeprefix(model.get("continuing_subword_prefix") or "")


def _renamed(token: Document, names: dict[str, str]) -> Document:
    content = token["content"]
    return token | {"content": names[content], "special": True} if content in names else token


def _vocabulary(model: Document, names: dict[str, str]) -> Any:
    if isinstance(model["vocab"], dict):
        return {names.get(piece, piece): number for piece, number in model["vocab"].items()}
    return [[names.get(piece, piece), score] for piece, score in model["vocab"]]


def within_text(document: Document, before: Preceding = "text") -> Document:
    """Return a tokenizer without what it does at the beginning or the edges of a text only: spaces added or removed.

    Args:
        document: the tokenizer.
        before: what stands before the text: after a special token, only what is for the first text of all is left out.

    Returns:
        The tokenizer itself if it needs no change.
    """
    changed = {key: _within_text(document.get(key), before) for key in _STEPS} if before else {}
    return document | changed if any(document.get(key) != changed[key] for key in changed) else document


def steps_of(component: Document | None) -> list[Document]:
    """Return a component of a tokenizer as a list of those that it consists of."""
    if not component:
        return []
    inner = component.get("normalizers") or component.get("pretokenizers") if component["type"] == "Sequence" else None
    return [component] if inner is None else [step for each in inner for step in steps_of(each)]


def _within_text(component: Document | None, before: Preceding) -> Document | None:
    """Return a component without what is for the beginning of a text; unchanged if nothing of it is."""
    steps = steps_of(component)
    kept = [found for step in steps if (found := _step_within_text(step, before)) is not None]
    if kept == steps:
        return component
    if len(kept) < 2:
        return kept[0] if kept else None
    name = "normalizers" if component and "normalizers" in component else "pretokenizers"
    return {"type": "Sequence", name: kept}


def _step_within_text(step: Document, before: Preceding) -> Document | None:
    pattern, after_text = (step.get("pattern") or {}).get("Regex", ""), before == "text"
    step = copy.deepcopy(step)
    if after_text and (step["type"] in ("Prepend", "Strip") or pattern.startswith((r"\A", "^"))):
        return None
    if step["type"] == "Metaspace" and (after_text or step.get("prepend_scheme") == "first"):
        step |= {"prepend_scheme": "never"}
        step.pop("add_prefix_space", None)
    if step["type"] == "ByteLevel" and "add_prefix_space" in step and after_text:
        step["add_prefix_space"] = False
    return step
