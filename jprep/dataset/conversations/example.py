"""Show what is learnt of a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path

import numpy as np

from jprep.dataset.conversations.config import SftConfig
from jprep.dataset.conversations.encoding import ChatEncoder
from jprep.dataset.conversations.reader import read_conversations
from jprep.tokenizer.tokenizer import Tokenizer

_READ = 100  # conversations: the first ones may be left out
_BEGIN, _END = "⟦", "⟧"


def example_of(paths: Iterable[Path], config: SftConfig, template: str, tokenizer: Tokenizer, length: int) -> str:
    """Return the text of the first conversation that is trained on, what is learnt of it between ⟦ and ⟧.

    Args:
        paths: files with conversations.
        config: how they are read.
        template: the chat template.
        tokenizer: the tokenizer.
        length: the maximum number of tokens.

    Returns:
        The text of its tokens, special ones too; "" if none of the first hundred conversations is trained on.

    Raises:
        InputError: a conversation cannot be used.
    """
    read = chain.from_iterable(read_conversations(path, config) for path in paths)
    data = ChatEncoder(tokenizer, template).encode(islice(read, _READ), length)
    if not len(data):
        return ""
    ids, learnt = data.ids[: data.offsets[1]], data.answers[: data.offsets[1]]
    places = np.flatnonzero(np.diff(learnt)) + 1
    texts = [tokenizer.decode(part) for part in np.split(ids, places)]
    marks = [bool(learnt[at]) for at in (0, *places)]
    return "".join(f"{_BEGIN}{text}{_END}" if mark else text for text, mark in zip(texts, marks, strict=True))
