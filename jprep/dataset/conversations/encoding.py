"""Encode conversations: special tokens come from the chat template only, and answers are told from prompts."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jprep.dataset.conversations.config import SftConfig
from jprep.dataset.conversations.reader import ASSISTANT, Conversation, Message, read_conversations
from jprep.dataset.conversations.template import ChatTemplate, Guards
from jprep.dataset.sampling.masking import Flags, Ids
from jprep.dataset.sampling.sample_index import Integers
from jprep.errors import ConfigError, InputError
from jprep.tokenizer.chat_template import built_in_template, own_template, role_tokens
from jprep.tokenizer.encoding.batch import EncodedBatch
from jprep.tokenizer.external.documents import Preceding
from jprep.tokenizer.external.tokenizer import ExternalTokenizer

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

_BLOCK = 1024  # conversations encoded at a time
_EXAMPLE: list[Message] = [{"role": "user", "content": "一"}, {"role": ASSISTANT, "content": "二"}]
_TURNS: list[Message] = [
    {"role": "user", "content": "一"},
    {"role": ASSISTANT, "content": "A二"},  # normalizers keep white space between letters only
    {"role": "user", "content": "三"},
    {"role": ASSISTANT, "content": "四"},
]
_COUNTS = ("conversations", "cut", "too_long", "unanswered", "trailing", "answers", "empty", "answer_tokens", "tokens")


class Conversations(NamedTuple):
    """Encoded conversations.

    Attributes:
        ids: the ids of all conversations, one after the other, int32, (tokens,).
        answers: whether each is to be learnt: it is part of an answer, or the token that ends it, (tokens,).
        offsets: int64, (conversations + 1,): conversation i is `ids[offsets[i]:offsets[i + 1]]`.
        counts: `conversations` that were read; of these, `cut` to the answers that fit, dropped because none fits
            (`too_long`) or because there is none (`unanswered`), and `trailing` ones without their messages after the
            last answer; and the `answers`, `answer_tokens` and `tokens` that are left.
    """

    ids: Ids
    answers: Flags
    offsets: Integers
    counts: dict[str, int]

    def __len__(self) -> int:
        return len(self.offsets) - 1


class ChatEncoder:
    """Encodes conversations with a tokenizer and a chat template.

    The ids are those that `apply_chat_template` of transformers gives for the same messages, except that special tokens
    spelt in a message are text, and that an answer is encoded by itself, as a model generates it.

    Args:
        tokenizer: a finished tokenizer.
        template: the chat template; "" is the tokenizer's own, or jprep's if it has none.
        where: the template's place, for errors; by default the tokenizer's.

    Attributes:
        template: the template.
        end: id of the token that ends an answer.

    Raises:
        ConfigError: the template is not valid, or ends answers with no special token.
        MachineError: Jinja2 is not installed.
    """

    def __init__(self, tokenizer: Tokenizer, template: str = "", where: str = "") -> None:
        self._tokenizer, special = tokenizer, tokenizer.special
        source = template or own_template(tokenizer.folder) or built_in_template(tokenizer)
        self.template = ChatTemplate(source, role_tokens(tokenizer), where or str(tokenizer.folder))
        names = sorted(filter(None, special.tokens), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, names)) or r"(?!)")
        self.end = self._find_end()
        self._check_prompt()
        self._check_turns()

    def read(self, paths: Iterable[Path], config: SftConfig, length: int) -> Conversations:
        """Read and encode the conversations of files; see `read_conversations` and `encode`."""
        return self.encode(chain.from_iterable(read_conversations(path, config) for path in paths), length)

    def encode(self, conversations: Iterable[Conversation], length: int) -> Conversations:
        """Encode conversations; those that are too long are cut after the last answer that fits.

        Args:
            conversations: the conversations.
            length: the maximum number of tokens of each.

        Raises:
            InputError: the template refuses a conversation; see `ChatTemplate.parts`.
        """
        counts = dict.fromkeys(_COUNTS, 0)
        kept = list(self._kept(iter(conversations), length, counts))
        sizes = [len(ids) for ids, _ in kept]
        counts["tokens"], counts["answer_tokens"] = sum(sizes), sum(int(each.sum()) for _, each in kept)
        return Conversations(
            ids=np.concatenate([np.zeros(0, np.int32), *(ids for ids, _ in kept)]),
            answers=np.concatenate([np.zeros(0, np.bool_), *(answers for _, answers in kept)]),
            offsets=np.cumsum([0, *sizes], dtype=np.int64),
            counts=counts,
        )

    def encode_prompt(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of messages up to where the assistant's answer begins.

        Raises:
            InputError: the template refuses the messages, or changes their text.
        """
        text, guards = self.template.prompt(messages, "the prompt")
        [[ids]] = self._encode_pieces([[self._pieces(text, guards, "the prompt")]])
        return list(map(int, ids))

    def _find_end(self) -> int:
        """Return the token that ends the answer of an example."""
        try:
            parts, guards = self.template.parts(_EXAMPLE, "an example of a user and an assistant")
        except InputError as error:
            fix = "give a template for the roles user and assistant, without a date, as train.sft.template"
            raise ConfigError(error.what, where=self.template.where, fix=error.fix or fix) from error
        pieces = self._pieces(parts[-1].text, guards, "an example")
        if found := [piece for piece in pieces if isinstance(piece, int)]:
            return found[-1]
        what = "this chat template ends answers with no special token, so that no model could tell where to stop"
        raise ConfigError(what, where=self.template.where, fix="add {{ eos_token }} after the assistant's content")

    def _check_prompt(self) -> None:
        """Warn if a tokenizer from elsewhere gives the parts of a conversation different ids than the whole of it."""
        tokenizer = self._tokenizer
        if not isinstance(tokenizer, ExternalTokenizer):
            return
        prompt = tokenizer.encode_prompt(self.template.render(_EXAMPLE[:1], "an example", prompt=True))
        whole = tokenizer.encode_prompt(self.template.render(_EXAMPLE, "an example", prompt=False))
        row = self.encode([Conversation(_EXAMPLE, "an example")], len(whole) + _BLOCK).ids.tolist()
        if prompt != self.encode_prompt(_EXAMPLE[:1]) or row != whole[: len(row)]:
            what = (
                "%s: apply_chat_template of transformers gives conversations different ids than they have in training"
            )
            _log.warning(what, tokenizer.folder)

    def _check_turns(self) -> None:
        """Warn if an answer has other ids in the prompt of a later turn than where it is learnt."""
        try:
            prompt = self.encode_prompt(_TURNS[:3])
            row = self.encode([Conversation(_TURNS, "an example")], len(prompt) + _BLOCK).ids.tolist()
        except InputError:  # a template for other messages, of which each conversation is told
            return
        if row[: len(prompt)] != prompt:
            what = "%s: answers may have other ids in the prompts of later turns than in training"
            fix = "a special token or a line break before the answers prevents it"
            _log.warning(f"{what}; {fix}", self.template.where)

    def _kept(
        self, conversations: Iterator[Conversation], length: int, counts: dict[str, int]
    ) -> Iterator[tuple[Ids, Flags]]:
        """Yield the ids of conversations that have an answer which fits, and which of them are answers."""
        while block := list(islice(conversations, _BLOCK)):
            answered = [each for each in block if any(one["role"] == ASSISTANT for one in each.messages)]
            counts["conversations"] += len(block)
            counts["unanswered"] += len(block) - len(answered)
            encoded = self._encode_pieces([self._piece_lists(each) for each in answered])
            for each, parts in zip(answered, encoded, strict=True):
                before = counts["answers"]
                if row := _joined(parts, length, counts):
                    counts["trailing"] += each.messages[-1]["role"] != ASSISTANT
                    counts["empty"] += _count_empty(each, counts["answers"] - before)
                    yield row

    def _piece_lists(self, conversation: Conversation) -> list[list[str | int]]:
        """Return the pieces of each part of a conversation: texts, and ids of special tokens. Every second part is an
        answer; what the template writes after its end begins the next part.
        """
        parts, guards = self.template.parts(conversation.messages, conversation.location)
        found: list[list[str | int]] = []
        behind = list[str | int]()
        for part in parts:
            pieces = _merged(behind + self._pieces(part.text, guards, conversation.location))
            ended = self._ended(pieces, conversation.location) if part.answer else len(pieces)
            found.append(pieces[:ended])
            behind = pieces[ended:]
        return found

    def _ended(self, pieces: Sequence[str | int], location: str) -> int:
        """Return the number of pieces of an answer up to the token that ends it; text may follow that."""
        ended = next((number for number in range(len(pieces), 0, -1) if isinstance(pieces[number - 1], int)), 0)
        if not ended or pieces[ended - 1] != self.end:
            token = self._tokenizer.piece_of(self.end)
            what = f"the chat template ({self.template.where}) does not end each answer with {token}"
            raise InputError(what, where=location, fix="end all answers with the same special token")
        return ended

    def _pieces(self, text: str, guards: Guards, location: str) -> list[str | int]:
        """Divide rendered text at the special tokens of the template: not at those spelt in messages."""
        guarded = f"{guards.open}([^{guards.close}]*){guards.close}"
        found, rest = list[str | int](), ""
        for token in re.finditer(f"{guarded}|({self._special.pattern})|(.)", text, re.DOTALL):
            message, special, other = token.groups()
            if special is None:
                rest += other if message is None else message
                continue
            found += [rest, self._tokenizer.id_of(special)] if rest else [self._tokenizer.id_of(special)]
            rest = ""
        if {*guards} & set(rest).union(*(set(piece) for piece in found if isinstance(piece, str))):
            raise InputError(f"the chat template ({self.template.where}) cuts the text of a message", where=location)
        return [*found, rest] if rest else found

    def _encode_pieces(self, conversations: Sequence[Sequence[Sequence[str | int]]]) -> Iterator[list[Ids]]:
        """Yield the ids of the parts of each conversation."""
        texts = [one for parts in conversations for one in _texts(parts)]
        kinds = dict[Preceding, list[str]]()
        for text, before in texts:
            kinds.setdefault(before, []).append(text)
        encoded = {before: _each(self._tokenizer.encode_after(before, each)) for before, each in kinds.items()}
        order = (next(encoded[before]) for _, before in texts)
        for parts in conversations:
            yield [
                np.concatenate(
                    [np.zeros(0, np.int32)]
                    + [np.array([piece], np.int32) if isinstance(piece, int) else next(order) for piece in pieces]
                )
                for pieces in parts
            ]


def _texts(parts: Sequence[Sequence[str | int]]) -> Iterator[tuple[str, Preceding]]:
    """Yield the texts of a conversation, and what is before each: an answer continues the text of its prompt."""
    before: Preceding = ""
    for piece in chain.from_iterable(parts):
        if isinstance(piece, str):
            yield piece, before
        before = "text" if isinstance(piece, str) else "token"


def _each(batch: EncodedBatch) -> Iterator[Ids]:
    """Yield the ids of each text of a batch."""
    yield from (batch.ids[start:end] for start, end in pairwise(batch.offsets.tolist()))


def _merged(pieces: Sequence[str | int]) -> list[str | int]:
    """Return pieces in which no text follows another: the tokenizer gets them as one."""
    found = list[str | int]()
    for piece in pieces:
        if found and isinstance(found[-1], str) and isinstance(piece, str):
            found[-1] += piece
        else:
            found.append(piece)
    return found


def _count_empty(conversation: Conversation, answers: int) -> int:
    """Return how many of the first answers have no text."""
    contents = (one["content"] for one in conversation.messages if one["role"] == ASSISTANT)
    return sum(not content.strip() for content in islice(contents, answers))


def _joined(parts: Sequence[Ids], length: int, counts: dict[str, int]) -> tuple[Ids, Flags] | None:
    """Join prompts and answers up to the last answer that fits; None if none fits. The first token has no label."""
    ends = np.cumsum([len(part) for part in parts])[1::2]
    fitting = int((ends <= length).sum())
    counts["too_long"] += not fitting
    if not fitting:
        return None
    counts["cut"] += fitting < len(ends)
    counts["answers"] += fitting
    kept = parts[: 2 * fitting]
    answers = np.concatenate([np.full(len(part), number % 2 == 1) for number, part in enumerate(kept)])
    answers[0] = False  # nothing before predicts it
    return np.concatenate(kept).astype(np.int32), answers
