"""Special tokens: published sets by model family, and additional tokens."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jprep.errors import ConfigError
from jprep.tokenizer.config import ModelType, TokenizerConfig

ROLES = ("unk", "bos", "eos", "pad", "cls", "sep", "mask")
"""What a special token is for: attributes of `SpecialTokens`."""


class SpecialTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Special tokens by role.

    Attributes:
        head: tokens with the first ids, in order.
        tail: tokens with the last ids, in order.
        unk, bos, eos, pad, cls, sep, mask: the token for that role, or "".
        before, after: tokens added around one text.
        between: tokens added between two texts.
        pair_after: tokens added after the second of two texts.
        max_length: usual maximum tokens per input of such models.
        types: whether the second text has token type 1; None if the roles tell it, see `uses_token_types`.
    """

    head: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()
    unk: str = ""
    bos: str = ""
    eos: str = ""
    pad: str = ""
    cls: str = ""
    sep: str = ""
    mask: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    between: tuple[str, ...] = ()
    pair_after: tuple[str, ...] = ()
    max_length: int = 1024
    types: bool | None = None

    @property
    def tokens(self) -> tuple[str, ...]:
        """All special tokens in the order of their ids."""
        return self.head + self.tail


SPECIAL_TOKEN_SETS = {
    # fairseq's order: its dictionary puts these four first and <mask> last, so that its ids equal ours.
    "roberta": SpecialTokens(
        head=("<s>", "<pad>", "</s>", "<unk>"), tail=("<mask>",),
        unk="<unk>", bos="<s>", eos="</s>", pad="<pad>", cls="<s>", sep="</s>", mask="<mask>",
        before=("<s>",), after=("</s>",), between=("</s>", "</s>"), pair_after=("</s>",), max_length=512,
    ),
    "bert": SpecialTokens(
        head=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        unk="[UNK]", pad="[PAD]", cls="[CLS]", sep="[SEP]", mask="[MASK]",
        before=("[CLS]",), after=("[SEP]",), between=("[SEP]",), pair_after=("[SEP]",), max_length=512,
    ),
    "gpt": SpecialTokens(
        tail=("<|endoftext|>",), bos="<|endoftext|>", eos="<|endoftext|>", pad="<|endoftext|>", max_length=1024
    ),
    "t5": SpecialTokens(
        head=("<pad>", "</s>", "<unk>"), tail=tuple(f"<extra_id_{n}>" for n in reversed(range(100))),
        unk="<unk>", eos="</s>", pad="<pad>", after=("</s>",), between=("</s>",), pair_after=("</s>",), max_length=512,
    ),
    # The ids of sentencepiece's own defaults; without a padding token, so the end-of-sequence token pads.
    "sentencepiece": SpecialTokens(
        head=("<unk>", "<s>", "</s>"), unk="<unk>", bos="<s>", eos="</s>", pad="</s>", max_length=1024
    ),
    # Those of Hugging Face's Unigram examples. RoBERTa's model has one token type, unlike BERT's.
    "hf-unigram": SpecialTokens(
        head=("[CLS]", "[SEP]", "<unk>", "<pad>", "[MASK]"),
        unk="<unk>", pad="<pad>", cls="[CLS]", sep="[SEP]", mask="[MASK]", types=False,
        before=("[CLS]",), after=("[SEP]",), between=("[SEP]",), pair_after=("[SEP]",), max_length=512,
    ),
    "none": SpecialTokens(),
}  # fmt: skip
"""Special tokens by name of the set."""

DEFAULT_SETS: dict[ModelType, str] = {
    "bpe": "roberta",
    "unigram": "roberta",
    "byte-bpe": "gpt",
    "wordpiece": "bert",
    "words": "roberta",
}
"""The default set of each model type."""


def special_tokens(config: TokenizerConfig) -> SpecialTokens:
    """Return a tokenizer's special tokens: one set, additional and reserved tokens after it, before a final `<mask>`.

    Raises:
        ConfigError: two sets, a repeated token, or a token that cannot be distinguished from text.
    """
    sets = [name for name in config.special if name in SPECIAL_TOKEN_SETS] or [DEFAULT_SETS[config.model]]
    if len(sets) > 1:
        fix = "use one set, and list additional tokens by name"
        raise ConfigError(f"two sets of special tokens: {', '.join(sets)}", where="tokenizer.special", fix=fix)
    chosen, additional = (
        SPECIAL_TOKEN_SETS[sets[0]],
        [token for token in config.special if token not in SPECIAL_TOKEN_SETS],
    )
    if not chosen.unk and config.model != "byte-bpe":  # every other model type needs one as a last resort
        chosen = msgspec.structs.replace(chosen, head=("<unk>", *chosen.head), unk="<unk>")
    additional += config.reserved_tokens
    _check_additional(additional, chosen)
    return msgspec.structs.replace(chosen, tail=(*additional, *chosen.tail))


def _check_additional(additional: Sequence[str], chosen: SpecialTokens) -> None:
    taken = set(chosen.tokens)
    for token in additional:
        if token in taken:
            raise ConfigError(f"duplicate special token {token!r}", where="tokenizer.special", fix="list it once")
        if token.lower() in SPECIAL_TOKEN_SETS:
            fix = f"use {token.lower()!r}"
            raise ConfigError(f"unknown set of special tokens: {token!r}", where="tokenizer.special", fix=fix)
        if len(token) < 2 or token != token.strip() or not token.isprintable():
            what = f"{token!r} cannot be a special token: it occurs in ordinary text"
            fix = f"use two or more visible characters, e.g. <sep>; or a set: {', '.join(SPECIAL_TOKEN_SETS)}"
            raise ConfigError(what, where="tokenizer.special", fix=fix)
        if token.startswith("<0x") and token.endswith(">") and len(token) == 6:
            fix = "choose another name"
            raise ConfigError(f"{token!r} is reserved for a byte", where="tokenizer.special", fix=fix)
        taken.add(token)
