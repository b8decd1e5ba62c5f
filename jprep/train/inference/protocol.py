"""What an exported model is asked, and what it answers: tokens only, for text is the tokenizer's affair.

`python -m <backend>.worker infer FOLDER` reads one JSON `Request` per line from standard input, and writes its
`Response` as a line to standard output, in order, each as soon as it is known.
"""

from __future__ import annotations

import msgspec


class FillMask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="fill-mask", tag_field="task"):
    """Which tokens stand at the masks?

    Attributes:
        ids: a row, with the special tokens around it and the mask's id where something is hidden.
        mask: the mask's id.
        top: how many tokens for each mask.
    """

    ids: list[int]
    mask: int
    top: int = 5


class Generate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="generate", tag_field="task"):
    """How does it go on?

    Attributes:
        ids: a row to continue; at least one id.
        tokens: how many more at most; it ends earlier at `end`.
        temperature: 0 takes the likeliest token each time.
        top_k: sample among so many tokens; 0 for all.
        top_p: sample among the likeliest tokens that have this share of the probability together.
        seed: of the sampling.
        end: ids that end it; they are not part of the answer.
        never: ids that are never taken, e.g. padding.
    """

    ids: list[int]
    tokens: int = 64
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    end: list[int] = []
    never: list[int] = []


class Classify(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="judge", tag_field="task"):
    """Which class, or what score? (`classify`, `regress`)

    Attributes:
        ids: a row with the special tokens around it.
        token_types: 0 and 1 for the first and the second text; empty where the model has none.
    """

    ids: list[int]
    token_types: list[int] = []


Request = FillMask | Generate | Classify


class TokenProbability(msgspec.Struct, frozen=True):
    """A token and its probability."""

    id: int
    probability: float


class Response(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to one request.

    Attributes:
        masks: to `FillMask`: for each mask of the row, from left to right, tokens from the likeliest on.
        ids: to `Generate`: the tokens that follow.
        scores: to `Classify`: the probability of each class in the order of the job's labels, or one score.
        error: why there is no answer, or "".
    """

    masks: list[list[TokenProbability]] = []
    ids: list[int] = []
    scores: list[float] = []
    error: str = ""
