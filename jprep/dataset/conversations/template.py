"""Chat templates: Jinja, rendered as transformers renders them, with a trace of what is text of the messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jprep.dataset.conversations.reader import ASSISTANT, Message
from jprep.errors import ConfigError, InputError
from jprep.libraries import import_library

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

_FIRST_GUARD, _LAST_GUARD = 0xF0000, 0xFFFFD  # private characters, which no text is expected to have

_ERRORS = (ArithmeticError, LookupError, TypeError, ValueError, RecursionError)
"""What templates raise, besides the errors of Jinja2."""


class Guards(NamedTuple):
    """Two characters that mark where the text of a message begins and ends."""

    open: str
    close: str


class Part(NamedTuple):
    """A part of a rendered conversation.

    Attributes:
        text: the text, with guards around the text of messages.
        answer: whether the assistant says it; else it is the prompt of the next answer.
    """

    text: str
    answer: bool


class ChatTemplate:
    """A chat template.

    Args:
        source: the template.
        tokens: special tokens by name, `eos_token` and so on, that it may use.
        where: its place, for errors.

    Raises:
        ConfigError: it is not valid.
        MachineError: Jinja2 is not installed.
    """

    def __init__(self, source: str, tokens: Mapping[str, str], where: str) -> None:
        self._jinja2 = import_library("jinja2", "chat templates need Jinja2", "'jprep[sft]'")
        self.source, self.where, self._tokens = source, where, dict(tokens)
        try:
            self._template = _environment().from_string(source)
        except self._jinja2.TemplateError as error:
            fix = "correct the template; see transformers' documentation of chat templates"
            raise ConfigError(f"not a chat template: {error}", where=where, fix=fix) from error

    def render(self, messages: Sequence[Message], location: str, *, prompt: bool) -> str:
        """Return the text of messages.

        Args:
            messages: the messages.
            location: their place, for errors.
            prompt: whether the beginning of an answer follows, as for generation.

        Raises:
            InputError: the template refuses them.
        """
        try:
            return self._template.render(
                messages=messages, tools=None, documents=None, add_generation_prompt=prompt, **self._tokens
            )
        except (self._jinja2.TemplateError, *_ERRORS) as error:
            fix = "change the conversation, or the template"
            raise InputError(
                f"the chat template ({self.where}) refuses it: {error}", where=location, fix=fix
            ) from error

    def prompt(self, messages: Sequence[Message], location: str) -> tuple[str, Guards]:
        """Return the text of messages up to where an answer begins, with guards.

        Raises:
            InputError: the template refuses the messages, or changes their text.
        """
        guards = self._guards(messages)
        text = self.render([_guarded(each, guards) for each in messages], location, prompt=True)
        self._check_text(text, messages, guards, location, prompt=True)
        return text, guards

    def parts(self, messages: Sequence[Message], location: str) -> tuple[list[Part], Guards]:
        """Divide the text of messages into answers and the prompts before them; what follows the last one is left out.

        An answer is what the text of the messages up to it has after the prompt for it.

        Raises:
            InputError: the template refuses the messages or changes their text, or what it makes of the first messages
                depends on later ones.
        """
        guards = self._guards(messages)
        given = [_guarded(each, guards) for each in messages]
        whole, done, parts = self.render(given, location, prompt=False), 0, list[Part]()
        self._check_text(whole, messages, guards, location, prompt=False)
        for number in (number for number, each in enumerate(messages) if each["role"] == ASSISTANT):
            prompt = self.render(given[:number], location, prompt=True)
            answered = self.render(given[: number + 1], location, prompt=False)
            if not answered.startswith(prompt) or not whole.startswith(answered) or len(prompt) < done:
                what = f"the chat template ({self.where}) does not begin message {number + 1} with the prompt for it"
                fix = "use a template whose text of a conversation begins with the prompts of all its answers"
                raise InputError(f"{what}, or changes its text when others follow it", where=location, fix=fix)
            parts += [Part(whole[done : len(prompt)], False), Part(whole[len(prompt) : len(answered)], True)]
            done = len(answered)
        return parts, guards

    def _guards(self, messages: Sequence[Message]) -> Guards:
        """Return two characters that neither messages nor the template have."""
        taken = set(self.source).union(*(each["content"] for each in messages))
        free = (chr(code) for code in range(_FIRST_GUARD, _LAST_GUARD) if chr(code) not in taken)
        return Guards(next(free), next(free))

    def _check_text(
        self, text: str, messages: Sequence[Message], guards: Guards, location: str, *, prompt: bool
    ) -> None:
        """Check that the template takes the text of each message as it is, and does not decide by it."""
        guarded = re.findall(f"{guards.open}(.*?){guards.close}", text, re.DOTALL)
        contents = [each["content"].strip() for each in messages]
        unguarded = text.translate(dict.fromkeys(map(ord, guards)))
        whole = text.count(guards.open) == text.count(guards.close) == len(guarded) and {*guarded} <= {*contents}
        what, fix = "", "use a template that takes texts as they are, or with `| trim`"
        if not whole or unguarded != self.render(messages, location, prompt=prompt):
            what = "cuts or changes the text of a message"
        elif missing := [number for number, each in enumerate(contents, 1) if each and each not in guarded]:
            what = f"leaves out message {missing[0]} ({messages[missing[0] - 1]['role']})"
        if what:
            raise InputError(f"the chat template ({self.where}) {what}", where=location, fix=fix)


def read_template(path: str) -> str:
    """Return the content of a file with a chat template; "" for no path.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except (OSError, UnicodeDecodeError) as error:
        what = f"the chat template cannot be read: {error}"
        raise ConfigError(what, where="train.sft.template", fix="give the path of a Jinja file in UTF-8") from error


def _guarded(message: Message, guards: Guards) -> Message:
    """Return a message with guards around its text, inside of white space, which templates may strip."""
    content = message["content"]
    if not (text := content.strip()):
        return message
    before, after = content[: len(content) - len(content.lstrip())], content[len(content.rstrip()) :]
    return {**message, "content": f"{before}{guards.open}{text}{guards.close}{after}"}


def _environment() -> ImmutableSandboxedEnvironment:
    """Return an environment like that of transformers, but without a clock: the text of a training has no date."""
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}`, with which templates mark answers: what is between the tags is text."""

        tags = {"generation"}

        def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def strftime_now(pattern: str) -> None:
        raise_exception("it asks for the date (strftime_now), so the same recipe would give other rows tomorrow")

    def tojson(value: Any, indent: int | None = None, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent, **options)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = tojson
    made.globals |= {"raise_exception": raise_exception, "strftime_now": strftime_now}
    return made
