"""Changed copies of a `tokenizer.json`: for text that spells special tokens, and for text inside of another one."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any, Literal

from jprep.tokenizer.formats.tokenizer_json import never_chosen

Document = dict[str, Any]
"""The content of a `tokenizer.json`."""

Before = Literal["token", "text"]
"""What stands before a text that is not the first one: a special token, or text that it continues."""

_STEPS = ("normalizer", "pre_tokenizer")


def without_special_pieces(document: Document, special: Collection[str]) -> Document:
    """Return a tokenizer that finds no special token in a text, if its option `encode_special_tokens` is on.

    That option leaves out added tokens that are flagged as special. Unigram has them in its vocabulary as well, often
    with the best of all scores, and would choose them.

    Args:
        document: the tokenizer.
        special: the special tokens.
    """
    added = [
        token | {"special": token.get("special", False) or token["content"] in special}
        for token in document.get("added_tokens") or []
    ]
    model = document["model"]
    if model.get("type") == "Unigram":
        never = never_chosen([score for piece, score in model["vocab"] if piece not in special], special)
        vocab = [[piece, never if piece in special else score] for piece, score in model["vocab"]]
        model = model | {"vocab": vocab}
    return document | {"added_tokens": added, "model": model}


def within_text(document: Document, before: Before = "text") -> Document:
    """Return a tokenizer without what it does at the beginning or the edges of a text only: spaces added or removed.

    Args:
        document: the tokenizer.
        before: what stands before the text: behind a special token, only what is for the first text of all is left out.
    """
    return document | {key: _within_text(document.get(key), before) for key in _STEPS}


def steps_of(component: Document | None) -> list[Document]:
    """Return a component of a tokenizer as a list of those that it consists of."""
    if not component:
        return []
    inner = component.get("normalizers") or component.get("pretokenizers") if component["type"] == "Sequence" else None
    return [component] if inner is None else [step for each in inner for step in steps_of(each)]


def _within_text(component: Document | None, before: Before) -> Document | None:
    kept = []
    for step in copy.deepcopy(steps_of(component)):
        pattern, after_text = (step.get("pattern") or {}).get("Regex", ""), before == "text"
        if after_text and (step["type"] in ("Prepend", "Strip") or pattern.startswith((r"\A", "^"))):
            continue
        if step["type"] == "Metaspace" and (after_text or step.get("prepend_scheme") == "first"):
            step |= {"prepend_scheme": "never"}
            step.pop("add_prefix_space", None)
        if step["type"] == "ByteLevel" and "add_prefix_space" in step and after_text:
            step["add_prefix_space"] = False
        kept.append(step)
    if len(kept) < 2:
        return kept[0] if kept else None
    name = "normalizers" if component and "normalizers" in component else "pretokenizers"
    return {"type": "Sequence", name: kept}
