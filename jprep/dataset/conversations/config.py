"""The recipe's `[train.sft]`, and what a job has of its chat template. It needs no numpy."""

from __future__ import annotations

import msgspec

from jprep.errors import ConfigError

_LEFT_OUT = {
    "cut": "cut after the last answer that fits into train.length",
    "too_long": "dropped because no answer fits",
    "unanswered": "dropped without an answer",
    "trailing": "without their messages after the last answer",
}


class SftConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Instruction tuning (`task = "sft"`): which conversations, and how they become text.

    Attributes:
        messages: column of the messages: a list of objects with `role` (`system`, `user`, `assistant`) and `content`,
            or with `from` (`system`, `human`, `gpt`) and `value`.
        prompt: column of the user's text, in data with a column for the text and one for its answer; "" if a column
            holds messages.
        context: column of more of the user's text, put after that of `prompt` after a blank line; may be empty in a
            row.
        answer: column of the assistant's text, with `prompt`.
        system: column of the system's text, with `prompt`; may be empty in a row.
        template: path of a chat template in Jinja, as transformers has it; "" is the tokenizer's own template, or
            jprep's if it has none.
    """

    messages: str = "messages"
    prompt: str = ""
    context: str = ""
    answer: str = ""
    system: str = ""
    template: str = ""

    def columns(self) -> dict[str, str]:
        """Return the columns that are read, by the key that names them."""
        if not self.prompt:
            return {"messages": self.messages}
        found = {"prompt": self.prompt, "context": self.context, "answer": self.answer, "system": self.system}
        return {key: column for key, column in found.items() if column}

    def check(self) -> None:
        """Check that the columns fit each other.

        Raises:
            ConfigError: a prompt without an answer or beside messages, or other columns without a prompt.
        """
        given = [key for key in ("context", "answer", "system") if getattr(self, key)]
        if self.prompt and not self.answer:
            what, fix = "prompt needs answer", 'name the column of the answers, e.g. answer = "output"'
            raise ConfigError(what, where="train.sft.answer", fix=fix)
        if given and not self.prompt:
            what, fix = f"{given[0]} needs prompt", 'name the column of the prompts, e.g. prompt = "instruction"'
            raise ConfigError(what, where="train.sft.prompt", fix=fix)
        if self.prompt and self.messages != SftConfig().messages:
            what = "messages and prompt name two forms of data"
            raise ConfigError(what, where="train.sft.messages", fix="remove messages or prompt")


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
