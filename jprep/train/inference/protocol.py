"""The requests and responses of an inference server. They hold token ids; the client side tokenizes and decodes.

`python -m <backend>.worker infer DIR` reads one `Request` per line from standard input, as JSON, and writes one
`Response` per line to standard output, in the same order.
"""

from __future__ import annotations

import msgspec


class FillMask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="fill-mask", tag_field="task"):
    """Predict the masked tokens of a row.

    Attributes:
        ids: the row, with the special tokens around it and the mask's id at each mask.
        mask: the mask's id.
        top: the number of tokens to return for each mask.
    """

    ids: list[int]
    mask: int
    top: int = 5


class Generate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="generate", tag_field="task"):
    """Continue a row.

    Attributes:
        ids: the row to continue; at least one id.
        tokens: the maximum number of new tokens.
        temperature: the sampling temperature; 0 always selects the most likely token.
        top_k: sample among the `top_k` most likely tokens; 0 is all.
        top_p: sample among the most likely tokens whose probabilities add up to `top_p`.
        seed: the seed of sampling.
        end: ids that end the generation; they are not part of the response.
        never: ids that are never generated, such as padding.
        sequence: the number of this continuation among several of the same row, from 0; each is sampled on its own.
    """

    ids: list[int]
    tokens: int = 64
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    end: list[int] = []
    never: list[int] = []
    sequence: int = 0


class Classify(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="judge", tag_field="task"):
    """Predict the class or the score of a row (`classify`, `regress`).

    Attributes:
        ids: the row, with the special tokens around it.
        token_types: 0 and 1 for the first and the second text; empty if the model has no token types.
    """

    ids: list[int]
    token_types: list[int] = []


class Score(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="score", tag_field="task"):
    """Compute how likely a causal model finds the ends of rows, given their beginnings.

    Only backends with `Backend.scores` support it.

    Attributes:
        rows: the rows; at least two ids each.
        starts: for each row, the index of the first id of its end, at least 1.
    """

    rows: list[list[int]]
    starts: list[int]


Request = FillMask | Generate | Classify | Score


class TokenProbability(msgspec.Struct, frozen=True):
    """A token id and its probability."""

    id: int
    probability: float


class Response(msgspec.Struct, frozen=True, omit_defaults=True):
    """The response to one request.

    Attributes:
        masks: to `FillMask`: for each mask of the row, the most likely tokens first.
        ids: to `Generate`: the new tokens.
        scores: to `Classify`: the probability of each class in the order of the job's labels, or one score; to `Score`:
            the natural logarithm of the probability of each row's end.
        error: why the request failed, or "".
    """

    masks: list[list[TokenProbability]] = []
    ids: list[int] = []
    scores: list[float] = []
    error: str = ""
