"""Special tokens: the published sets by task, and further ones."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jprep.errors import ConfigError
from jprep.tokenizer.config import ModelType, TokenizerConfig


class SpecialTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Special tokens and what each is for.

    Attributes:
        head: those with the first ids, in order.
        tail: those with the last ids, in order.
        unk, bos, eos, pad, cls, sep, mask: the token for that role, or "".
        before, after: what stands around one text when special tokens are asked for.
        between: what stands between two texts.
        pair_after: what stands after the second of two texts.
        max_length: tokens that such models usually take at once.
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

    @property
    def tokens(self) -> tuple[str, ...]:
        """All of them, in the order of their ids."""
        return self.head + self.tail


SPECIAL_TOKEN_SETS = {
    # fairseq's order: its dictionary puts these four first and <mask> last, so that its ids are ours.
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
    "none": SpecialTokens(),
}  # fmt: skip
"""Set → its tokens."""

DEFAULT_SETS: dict[ModelType, str] = {"bpe": "roberta", "unigram": "roberta", "byte-bpe": "gpt", "wordpiece": "bert"}
"""The set that a kind of model takes when none is named."""


def special_tokens(config: TokenizerConfig) -> SpecialTokens:
    """The special tokens of a tokenizer: one set, and the further tokens behind it, before a last `<mask>`.

    Raises:
        ConfigError: two sets, a token twice, or one that cannot be told from text.
    """
    sets = [name for name in config.special if name in SPECIAL_TOKEN_SETS] or [DEFAULT_SETS[config.model]]
    if len(sets) > 1:
        fix = "name one set, and what else is needed as tokens"
        raise ConfigError(f"two sets of special tokens: {', '.join(sets)}", where="tokenizer.special", fix=fix)
    chosen, further = (
        SPECIAL_TOKEN_SETS[sets[0]],
        [token for token in config.special if token not in SPECIAL_TOKEN_SETS],
    )
    if not chosen.unk and config.model != "byte-bpe":  # every other kind needs one, if only as the last resort
        chosen = msgspec.structs.replace(chosen, head=("<unk>", *chosen.head), unk="<unk>")
    _refuse_clashes(further, chosen)
    return msgspec.structs.replace(chosen, tail=(*further, *chosen.tail))


def _refuse_clashes(further: Sequence[str], chosen: SpecialTokens) -> None:
    taken = set(chosen.tokens)
    for token in further:
        if token in taken:
            raise ConfigError(
                f"the special token {token!r} is there twice", where="tokenizer.special", fix="name it once"
            )
        if token.lower() in SPECIAL_TOKEN_SETS:
            fix = f"the set is called {token.lower()!r}"
            raise ConfigError(f"no set of special tokens is called {token!r}", where="tokenizer.special", fix=fix)
        if len(token) < 2 or token != token.strip() or not token.isprintable():
            what = f"{token!r} cannot be a special token: it would be found in ordinary text"
            fix = f"two or more visible characters, e.g. <sep>; or a set: {', '.join(SPECIAL_TOKEN_SETS)}"
            raise ConfigError(what, where="tokenizer.special", fix=fix)
        if token.startswith("<0x") and token.endswith(">") and len(token) == 6:
            fix = "choose another name"
            raise ConfigError(f"{token!r} is the name of a byte", where="tokenizer.special", fix=fix)
        taken.add(token)
