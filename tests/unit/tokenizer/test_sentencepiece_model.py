"""The model file that jprep writes, as sentencepiece reads it."""

from __future__ import annotations

import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.formats.sentencepiece_model import model_proto
from jprep.tokenizer.learning.assembly import BYTE_PIECES, with_special
from jprep.tokenizer.special_tokens import special_tokens
from jprep.tokenizer.vocabulary import SPACE_PIECE, Vocabulary, VocabularyPiece

WORDS = ["日本", "日本語", "▁日", "▁a", "ab", "▁ab", "s>", "mask", "0x", "で", "は", "では"]


def vocabulary(model: str = "bpe", *special: str) -> Vocabulary:
    config = TokenizerConfig(model=model, special=list(special))
    letters = "日本語では▁absmk<>0x4"
    ranked = [*WORDS[:-3], WORDS[-1], *letters]
    pieces = [*BYTE_PIECES, *(VocabularyPiece(text, "normal", -1.0 - rank) for rank, text in enumerate(ranked))]
    chosen = special_tokens(config)
    return Vocabulary(config, chosen, with_special(chosen, pieces), [], letters, {})


def loaded(made: Vocabulary) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=model_proto(made))


MODELS = {model: loaded(vocabulary(model)) for model in ("bpe", "unigram")}
texts = st.text(alphabet=st.characters(exclude_characters=SPACE_PIECE, exclude_categories=["Cs"])) | st.lists(
    st.sampled_from([*"日本語では  \n\tab<s>", "<mask>", "<0x41>", "<unk>", "\0", "\ufeff", "\ufffd", "👨‍👩‍👧"])
).map("".join)


@given(texts, st.sampled_from(sorted(MODELS)))
def test_round_trip(text: str, model: str) -> None:
    ids = MODELS[model].encode(text)
    assert MODELS[model].decode(ids) == text
    assert not any(MODELS[model].is_control(number) or MODELS[model].is_unknown(number) for number in ids)


def test_ids_equal_the_vocabulary() -> None:
    for model in ("bpe", "unigram"):
        made = vocabulary(model)
        sp = loaded(made)
        assert [sp.id_to_piece(number) for number in range(len(sp))] == [piece.text for piece in made.pieces]
        assert [sp.get_score(number) for number in range(len(sp))] == [piece.score for piece in made.pieces]


def test_special_tokens_have_their_roles() -> None:
    def roles(*names: str) -> tuple[int, ...]:
        sp = loaded(vocabulary("bpe", *names))
        return sp.unk_id(), sp.bos_id(), sp.eos_id(), sp.pad_id()

    last = len(vocabulary("bpe", "gpt").pieces) - 1
    assert roles("roberta") == (3, 0, 2, 1)
    assert roles("t5") == (2, -1, 1, 0)
    assert roles("bert") == (1, -1, -1, 0)
    assert roles("gpt") == (0, last, last, last)
    assert roles("none") == (0, -1, -1, -1)


def test_special_tokens_in_text_are_treated_as_text() -> None:
    sp = MODELS["bpe"]
    for text in ("<s>", "<mask>", "<0x41>", "</s>", "<unk>"):
        assert text not in sp.encode(text, out_type=str)


def test_merges_by_rank_with_byte_fallback() -> None:
    sp = MODELS["bpe"]
    assert sp.encode("日本語では", out_type=str) == ["日本語", "では"]
    assert sp.encode("é", out_type=str) == ["<0xC3>", "<0xA9>"]
    assert sp.encode("日本\nでは ab", out_type=str) == ["日本", "<0x0A>", "では", "▁ab"]
    assert sp.encode("  a", out_type=str) == ["▁", "▁a"]
