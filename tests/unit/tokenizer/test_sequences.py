"""`boundaries = "super"`: which sequences are found and counted, and which pieces are learnt from them."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_counting import count, make_corpus
from tokenizers import Tokenizer as Exported
from vocabularies import finished

from jprep.corpus.api import Corpus
from jprep.errors import ConfigError
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting import merging, read_counts, stages, unit_counter
from jprep.tokenizer.counting.sequences import FIRST_SYMBOL, MAX_WORDS, SequenceFinder
from jprep.tokenizer.formats import byte_level
from jprep.tokenizer.learning import learn
from jprep.tokenizer.special_tokens import special_tokens
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.vocabulary import Vocabulary
from tests.conftest import digests
from tests.fakes.config_sections import tokenizer_config

FREQUENT = ["の", "は", "。", " the", "a", " ", "東京", "1", *(f"w{number}" for number in range(12))]
MODELS: tuple[Any, ...] = ("bpe", "byte-bpe")
LINES = [
    "東京都\x1fに\x1fは\x1f本\x1fが\x1fある\x1f。",
    "学校\x1fに\x1fは\x1f本\x1fが\x1fない\x1f。\x1e東京\x1fに\x1fは\x1fない\x1f。",
    "本\x1fは\x1f学校\x1fに\x1fある\x1f \x1fof\x1f \x1fthe\x1f \x1fcode\x1f。",
    "ために\x1fは\x1f12\x1f円\x1fが\x1f要る\x1f。",
    "<\x1fs\x1f>\x1f \x1fof\x1f \x1fthe\x1f \x1fcode\x1f \x1fof\x1f \x1fthe",
]


def found(*rows: str, words: list[str] = FREQUENT, **options: Any) -> list[list[str]]:
    values = SequenceFinder(words, TokenizerConfig(**options)).find(pa.array(rows, pa.string()))
    return [[words[ord(symbol) - FIRST_SYMBOL] for symbol in value.decode()] for value in values.to_pylist()]


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("東京\x1fの\x1f猫\x1fは\x1f。", [["東京", "の"], ["は", "。"]]),  # 猫 is rare
        ("東京\x1fの\x1e東京\x1fは", [["東京", "の"], ["東京", "は"]]),  # another sentence
        ("東京\x1fの\nは\x1f。", [["東京", "の"], ["は", "。"]]),  # another line
        ("東京\x1f \x1fthe\x1f \x1e\x1fthe\x1fa", [["東京", " the"], [" the", "a"]]),  # a mark after a space
        ("東京\x1f  \x1fthe\x1fa", []),  # a run of spaces is no word, and no word is searched for in it
        ("東京\x1f東京都\x1fの", []),
        ("の", []),
        ("", []),
    ],
)
def test_sequences_are_whole_words_of_one_sentence(marked: str, expected: list[list[str]]) -> None:
    assert found(marked) == expected


def test_sequences_do_not_cross_texts_and_follow_the_policies() -> None:
    assert found("東京\x1fの", "は\x1f。") == [["東京", "の"], ["は", "。"]]
    assert found("東京\x1f1\x1fの\x1fは") == [["東京", "1", "の", "は"]]
    assert found("東京\x1f1\x1fの\x1fは", digits="split") == [["の", "は"]]
    assert found("の\x1f \x1fthe\x1fa", words=["の", "the", "a"], spaces="alone") == []
    assert found("東京\x1fの\nthe\x1fa", "東京\x1fの", newline="space") == [["東京", "の", " the", "a"], ["東京", "の"]]


def test_long_sequences_are_cut_before_their_rarest_word() -> None:
    words = [f"w{number}" for number in range(20)]
    line = "\x1f".join(words[n] for n in [3, 1, 2, 9, 1, 2, 3, 4, 1, 2])
    assert found(line, words=words) == [["w3", "w1", "w2"], ["w9", "w1", "w2", "w3", "w4", "w1", "w2"]]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([*FREQUENT[:5], *FREQUENT[6:], "猫"]), st.sampled_from("\x1f\x1f\x1f\x1e\n")))
)
def test_every_sequence_is_in_the_text(parts: list[tuple[str, str]]) -> None:
    marked = "".join(word + mark for word, mark in parts)
    for words in found(marked):
        assert 2 <= len(words) <= MAX_WORDS
        assert re.search(rf"(^|[\x1e\x1f\n]){re.escape(chr(31).join(words))}[\x1e\x1f\n]", marked)


# --- counting


def super_corpus(folder: Path) -> Corpus:
    return make_corpus(folder, [LINES[:2] * 40, LINES[2:] * 30, LINES[:1] * 9])


def test_workers_spilling_and_ranges_do_not_change_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MIN_TASK_BYTES", 1)
    corpus, config = super_corpus(tmp_path / "corpus"), TokenizerConfig(boundaries="super")
    one = count(corpus, tmp_path / "1", config)
    two = count(corpus, tmp_path / "2", config, workers=2)
    assert digests(tmp_path / "1") == digests(tmp_path / "2") and one.counts == two.counts
    monkeypatch.setattr(unit_counter, "MAX_ROWS", 2)
    monkeypatch.setattr("jprep.tokenizer.counting.sorted_runs._BATCH_ROWS", 2)
    monkeypatch.setattr(merging, "_RANGE", 1)
    ranges = count(corpus, tmp_path / "3", config)
    assert len(list((tmp_path / "3" / "sequence-summing" / "receipts").iterdir())) > 1
    assert one.sequences and ranges.sequences and one.sequences.read_bytes() == ranges.sequences.read_bytes()
    assert one.counts == ranges.counts and one.counts["sequences.cut.total"] == 0
    assert not list((tmp_path / "3").rglob("sequence-*/runs/*"))


def test_rarest_sequences_are_dropped_and_counted(tmp_path: Path) -> None:
    lines = ["\x1f".join(words) for words in permutations("abcd")]
    corpus = make_corpus(tmp_path / "corpus", [[line] * (number + 1) for number, line in enumerate(lines)])
    counted = count(corpus, tmp_path / "state", TokenizerConfig(boundaries="super", max_words=5))
    assert counted.sequences
    kept = [int(line.split("\t")[1]) for line in counted.sequences.read_text(encoding="utf-8").split("\n")[:-1]]
    assert kept == [24, 23, 22, 21, 20]
    assert counted.counts["sequences.total"] == sum(range(25))
    assert counted.counts["sequences.cut.total"] == sum(range(20))


def test_word_lists_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="which words follow each other"):
        read_counts(tmp_path / "words.tsv", TokenizerConfig(boundaries="super"), tmp_path)


@pytest.mark.parametrize(
    "section",
    [{"model": "unigram"}, {"model": "wordpiece"}, {"sequences": 1.0}, {"sequences": -0.1}],
)
def test_impossible_settings_are_refused(section: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"super|share"):
        tokenizer_config({"boundaries": "super"} | section, "recipe.toml")


# --- pieces


@pytest.fixture(scope="module", params=MODELS)
def learnt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Vocabulary, Tokenizer]:
    """A vocabulary learnt from the lines, and its tokenizer."""
    folder, model = tmp_path_factory.mktemp("super"), str(request.param)
    config = TokenizerConfig(model=model, vocab_size=330, boundaries="super", sequences=0.5)  # type: ignore[arg-type]
    counted = count(super_corpus(folder / "corpus"), folder / "state", config)
    vocabulary = learn(counted, config, special_tokens(config), folder / "scratch")
    return vocabulary, Tokenizer(finished(folder / "tokenizer", vocabulary))


def texts(vocabulary: Vocabulary) -> list[str]:
    spelt = [piece.text for piece in vocabulary.pieces if piece.kind == "normal" and len(piece.text) > 1]
    if vocabulary.config.model == "byte-bpe":
        return [byte_level.decode_piece(text) for text in spelt]
    return [text.replace("▁", " ") for text in spelt]


def units() -> list[list[str]]:
    """Return the units of each sentence of the lines."""
    sentences = re.split("[\x1e\n]", "\n".join(LINES))
    return [
        re.findall(" ?[^ \x1f]+", sentence.replace(" \x1f", "\x1f ").replace("\x1f\x1f", "\x1f"))
        for sentence in sentences
    ]


def test_pieces_are_parts_of_a_word_or_whole_words(learnt: tuple[Vocabulary, Tokenizer]) -> None:
    vocabulary, _ = learnt
    sentences = units()
    words = {word for sentence in sentences for word in sentence}
    runs = {
        "".join(sentence[start:end])
        for sentence in sentences
        for start in range(len(sentence))
        for end in range(start + 2, len(sentence) + 1)
    }
    inside = {
        word[start:end] for word in words for start in range(len(word)) for end in range(start + 1, len(word) + 1)
    }
    learnt_texts = [text for text in texts(vocabulary) if "\ufffd" not in text]
    assert set(learnt_texts) <= inside | runs
    sequences = [text for text in learnt_texts if text in runs - inside]
    assert {" of the"} | ({"には"} if vocabulary.config.model == "bpe" else set()) <= set(sequences)
    assert vocabulary.counts["pieces.sequences"] == len(sequences)
    assert not set(vocabulary.special.tokens) & set(sequences) and len(set(learnt_texts)) == len(learnt_texts)


def test_text_is_restored_and_the_exported_tokenizer_agrees(learnt: tuple[Vocabulary, Tokenizer]) -> None:
    _, tokenizer = learnt
    plain = [line.translate({0x1E: None, 0x1F: None}) for line in LINES]
    given = [*plain, "東京都には本がない。ためには12円", " of the\n of  the本が", "未知の𠮷には"]
    encoded = tokenizer.encode_batch(given, normalized=True)
    assert tokenizer.decode_batch(*encoded) == given
    exported = Exported.from_file(str(tokenizer.folder / "tokenizer.json"))
    theirs = [
        each.ids
        for each in exported.encode_batch([text.replace("<s>", "") for text in given], add_special_tokens=False)
    ]
    assert theirs == [tokenizer.encode(text.replace("<s>", ""), normalized=True) for text in given]
    assert len(tokenizer.encode(" of the", normalized=True)) == 1


def test_too_few_sequences_give_more_pieces_inside_words(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path / "corpus", [["東京都庁\x1fの\n京都府庁\n大阪府庁\n北海道庁"] * 5])
    config = TokenizerConfig(vocab_size=290, boundaries="super", sequences=0.9)
    made = learn(count(corpus, tmp_path / "state", config), config, special_tokens(config), tmp_path / "scratch")
    assert len(made.pieces) == 290 and made.counts["pieces.sequences"] <= 1
