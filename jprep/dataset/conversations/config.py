"""The recipe's `[train.sft]`, and what a job has of its chat template. It needs no numpy."""

from __future__ import annotations

import msgspec

_LEFT_OUT = {
    "cut": "cut behind the last answer that fits into train.length",
    "too_long": "dropped because no answer fits",
    "unanswered": "dropped without an answer",
    "trailing": "without their messages behind the last answer",
}


class SftConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Instruction tuning (`task = "sft"`): which conversations, and how they become text.

    Attributes:
        messages: column of the messages: a list of objects with `role` (`system`, `user`, `assistant`) and `content`.
        template: path of a chat template in Jinja, as transformers has it; "" is the tokenizer's own template, or
            jprep's if it has none.
    """

    messages: str = "messages"
    template: str = ""


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is talked to, and the conversations that it learns from.

    Attributes:
        template: the chat template.
        end: id of the token that ends an answer.
        counts: what was found in the files; see `jprep.dataset.conversations.encoding.Conversations`.
        validation_counts: the same of the files to validate on; empty without any.
    """

    template: str
    end: int
    counts: dict[str, int] = {}
    validation_counts: dict[str, int] = {}


def describe_counts(counts: dict[str, int]) -> str:
    """Return a sentence about the conversations of a job: how many, and what was left out."""
    parts = [f"{counts['conversations']:,} conversations with {counts['answers']:,} answers"]
    parts += [f"{empty:,} of them empty"] if (empty := counts.get("empty", 0)) else []
    parts += [f"{counts[name]:,} {text}" for name, text in _LEFT_OUT.items() if counts.get(name)]
    return ", ".join(parts)
