"""Text with spaces between words: `boundaries = "spaces"`, the model `words`, BERT's words, and `min_frequency`."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Exported
from tokenizers import models, pre_tokenizers, trainers
from vocabularies import finished, small

from jprep.corpus.api import Corpus
from jprep.corpus.build import build
from jprep.corpus.config import decode_recipe
from jprep.corpus.document import SENTENCE, UNMARK, WORD
from jprep.dataset.manifest import SENTENCE_START, WORD_START, DatasetConfig
from jprep.dataset.pack import pack
from jprep.dataset.preprocessing.document_encoder import DocumentEncoder
from jprep.engine.executors.local import Local
from jprep.engine.fingerprint import plain
from jprep.engine.runner import SilentProgress
from jprep.errors import ConfigError
from jprep.tokenizer.card import TokenizerCard
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.learning.sentencepiece_trainer import BALLAST, train_bpe
from jprep.tokenizer.special_tokens import special_tokens
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.train import train
from jprep.tokenizer.training_data import CorpusTrainingData, InputTrainingData, TrainingData, WordCountTrainingData
from jprep.tokenizer.word_spaces import separate_words, separate_words_arrow
from tests.fakes.config_sections import tokenizer_config

SPACES = "\t \u3000\xa0\u2003\x85"
MARKED = st.text(st.sampled_from(f"ab語。\n{SENTENCE}{WORD}{SPACES}"), max_size=20)
LINES = ["今日 は いい 天気 です ね", "今日 は\u3000雨 です", "早稲田 大学 で 学ぶ", "  明日 も いい  天気 です か "]
KNOWN = st.lists(st.sampled_from(["今日", "は", "いい", "天気", "です"]), max_size=8)


@given(MARKED)
@settings(deadline=None)
def test_one_space_separates_words(words: str) -> None:
    separated = separate_words(words)
    lines = [re.split(f"[{SENTENCE}{WORD}{SPACES}]+", line) for line in words.split("\n")]
    assert separated.translate(UNMARK) == "\n".join(" ".join(filter(None, line)) for line in lines)
    assert separate_words(separated) == separated
    assert separate_words_arrow(pa.array([words]))[0].as_py() == separated


def test_marks_stay_before_the_space() -> None:
    marked = f"早稲田{WORD}大学{SENTENCE}で{WORD} {WORD}a b{WORD}\n{WORD}c"
    assert separate_words(marked) == f"早稲田{WORD} 大学{SENTENCE} で{WORD} a{WORD} b\nc"


def data_of(folder: Path, lines: list[str], segmenter: str = "spaces", **corpus: Any) -> InputTrainingData:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.txt").write_text("\n".join(lines), encoding="utf-8")
    source = {"name": "t", "paths": [str(folder / "train.txt")], "reader": {"use": "text", "documents": "line"}}
    section = {"sources": [source], "normalizers": [], "splitter": "none", "segmenter": segmenter} | corpus
    recipe = decode_recipe({"name": "x", "corpus": section | {"dedup": {"documents": False}}})
    return InputTrainingData(recipe, folder / "hashes")


def trained(data: TrainingData, folder: Path, **options: Any) -> TokenizerCard:
    return train(data, TokenizerConfig(**options), folder, Local(1), SilentProgress())


def learnable(data: TrainingData, folder: Path, **options: Any) -> int:
    """Return the number of ids that can be learnt."""
    with pytest.raises(ConfigError, match="can be learnt") as raised:
        trained(data, folder, vocab_size=9999, **options)
    return int(raised.value.fix.split()[-1])


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Return a tokenizer of the words that occur twice or more."""
    folder = tmp_path_factory.mktemp("words")
    trained(data_of(folder / "data", LINES), folder / "t", model="words", vocab_size=100, min_frequency=2)
    return Tokenizer(folder / "t")


def test_words_are_ordered_by_count_and_text(words: Tokenizer) -> None:
    pieces = [words.piece_of(number) for number in range(words.vocab_size)]
    assert pieces == ["<s>", "<pad>", "</s>", "<unk>", "です", "いい", "は", "今日", "天気", "<mask>"]


def test_the_card_counts_unknown_words(words: Tokenizer) -> None:
    counts = words.card.counts
    running = [word for line in LINES for word in line.split()]
    unknown = [word for word in running if running.count(word) < 2]
    assert counts["units.total"] == len(running)
    assert counts["words.unknown.total"] == len(unknown) == 9
    assert counts["words.unknown.distinct"] == len(set(unknown)) == 9
    assert counts["vocabulary.size"] == words.vocab_size


def test_vocab_size_is_the_maximum_of_words(tmp_path: Path) -> None:
    card = trained(data_of(tmp_path / "data", LINES), tmp_path / "t", model="words", vocab_size=7)
    assert [Tokenizer(tmp_path / "t").piece_of(number) for number in (4, 5)] == ["です", "いい"]
    assert card.counts["vocabulary.size"] == 7
    with pytest.raises(ConfigError, match="no word is frequent enough"):
        trained(data_of(tmp_path / "data", LINES), tmp_path / "u", model="words", min_frequency=4)


@given(st.lists(st.sampled_from([*["今日", "は", "いい", "天気", "です"], " ", "\u3000", "\n", "\t"]), max_size=12))
@settings(deadline=None)
def test_decoding_known_words_gives_the_text_with_single_spaces(words: Tokenizer, parts: list[str]) -> None:
    text = " ".join(parts)
    ids = words.encode(text)
    assert words.decode(ids) == " ".join(text.split())
    exported = Exported.from_file(str(words.folder / "tokenizer.json"))
    assert exported.encode(text, add_special_tokens=False).ids == ids
    assert exported.decode(ids) == words.decode(ids)


def test_other_words_and_special_tokens_in_text_are_unknown(words: Tokenizer) -> None:
    assert words.encode("猫 <mask> は、") == [words.unk] * 3
    assert words.encode(f"今日{WORD}は{SENTENCE}天気") == words.encode("今日 は 天気")


def test_words_take_the_mask_between_words(words: Tokenizer) -> None:
    exported = Exported.from_file(str(words.folder / "tokenizer.json"))
    ids = exported.encode("今日 は いい <mask> です").ids
    assert [words.piece_of(number) for number in ids] == ["<s>", "今日", "は", "いい", "<mask>", "です", "</s>"]


@pytest.mark.parametrize("model", ["bpe", "byte-bpe", "unigram"])
def test_pieces_never_cross_a_space(model: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": model, "boundaries": "spaces", "special": ["sentencepiece"]}
    data = data_of(tmp_path / "data", LINES * 4)
    size = learnable(data, tmp_path / "t", **options)
    trained(data, tmp_path / "t", vocab_size=size, **options)
    ours = Tokenizer(tmp_path / "t")
    assert [ours.piece_of(number) for number in range(3)] == ["<unk>", "<s>", "</s>"]
    assert (ours.pad, ours.eos, ours.bos) == (2, 2, 1)
    space = "Ġ" if model == "byte-bpe" else "▁"
    assert not [p for p in map(ours.piece_of, range(ours.vocab_size)) if space in p[1:]]
    exported = Exported.from_file(str(tmp_path / "t" / "tokenizer.json"))
    for text in ("早稲田 大学 で 自然 言語", "今日\u3000は  いい", f"今日{WORD}は{SENTENCE}雨", " a b ", "今日\n は"):
        ids = exported.encode(text, add_special_tokens=False).ids
        assert ours.encode(text) == ids
        assert ours.decode(ids) == re.sub(f"[{SPACES}{SENTENCE}{WORD}]+", " ", text) == exported.decode(ids)


def test_words_of_an_analyzer_are_learnt_with_their_spaces(tmp_path: Path) -> None:
    """The corpus has no spaces; the tokenizer takes them, and its normalizer must not remove them."""
    data = data_of(tmp_path / "data", ["今日はいい天気です。"] * 9, "pointwise", normalizers=["neologdn"])
    size = learnable(data, tmp_path / "t", boundaries="spaces")
    card = trained(data, tmp_path / "t", boundaries="spaces", vocab_size=size)
    assert card.normalizers[0]["config"]["remove_space"] is False
    ours = Tokenizer(tmp_path / "t")
    assert [ours.piece_of(number) for number in ours.encode("今日　は いい 天気 です 。")[-2:]] == ["▁です", "▁。"]
    document = f"今日{WORD}は{WORD}いい{WORD}天気{WORD}です{WORD}。{SENTENCE}今日{WORD}は"
    found = DocumentEncoder(ours).encode([document.encode()])
    assert ours.decode(found.tokens[:-1]) == "今日 は いい 天気 です 。 今日 は"
    starts = [ours.piece_of(number) for number in found.tokens[found.marks & SENTENCE_START > 0]]
    assert starts[-1].startswith("▁") and len(starts) == 2
    assert np.count_nonzero(found.marks & WORD_START) == 8


def test_packing_a_corpus_writes_spaces_for_word_boundaries(tmp_path: Path) -> None:
    lines = [f"今日はいい天気です。{name}へ行く。" for name in ("東京", "京都", "大阪")] * 4
    recipe = data_of(tmp_path / "data", lines, "pointwise", normalizers=["neologdn"], splitter="rules").recipe
    build(recipe, tmp_path / "corpus", Local(1), SilentProgress())
    corpus = Corpus(tmp_path / "corpus")
    size = learnable(CorpusTrainingData(corpus), tmp_path / "t", boundaries="spaces")
    trained(CorpusTrainingData(corpus), tmp_path / "t", boundaries="spaces", vocab_size=size)
    config = DatasetConfig(validation=0.0)
    pack(corpus, tmp_path / "t", config, tmp_path / "dataset", Local(1), SilentProgress())
    ours, split = Tokenizer(tmp_path / "t"), open_split(tmp_path / "dataset", "train")
    expected = [document.words.replace(SENTENCE, " ").replace(WORD, " ") for document in corpus.documents(["words"])]
    ends = np.flatnonzero(split == ours.eos)
    starts = [0, *(ends[:-1] + 1)]
    assert [ours.decode(split[start:end]) for start, end in zip(starts, ends, strict=True)] == expected
    assert expected[0].split() == ["今日", "は", "いい", "天気", "です", "。", "東京", "へ", "行く", "。"]
    build(
        msgspec.structs.replace(recipe, corpus=msgspec.structs.replace(recipe.corpus, segmenter="none")),
        tmp_path / "unsegmented",
        Local(1),
        SilentProgress(),
    )
    with pytest.raises(ConfigError, match="between which the tokenizer expects spaces"):
        pack(Corpus(tmp_path / "unsegmented"), tmp_path / "t", config, tmp_path / "d", Local(1), SilentProgress())


def open_split(folder: Path, name: str) -> Any:
    """Return all tokens of a split."""
    dtype = json.loads((folder / "dataset.json").read_bytes())["dtype"]
    return np.fromfile(folder / f"{name}.bin", dtype)


def test_a_corpus_without_words_names_the_segmenter(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no words") as raised:
        trained(data_of(tmp_path / "data", LINES, "none"), tmp_path / "t", boundaries="spaces", vocab_size=300)
    assert 'segmenter = "spaces"' in raised.value.fix


@pytest.mark.parametrize(
    ("options", "text", "starts"),
    [
        ({"model": "words"}, f"日本{WORD}語龘龘{WORD}です{SENTENCE}東京", [3, 1, 1, 3]),
        ({"model": "wordpiece", "boundaries": "bert"}, f"Python{WORD},{WORD}です{SENTENCE}する", [3, 1, 1, 3]),
    ],
)
def test_packing_marks_whole_words(options: dict[str, Any], text: str, starts: list[int], tmp_path: Path) -> None:
    ours = Tokenizer(finished(tmp_path, small(**options)))
    found = DocumentEncoder(ours).encode([text.encode(), text.encode()])
    first = found.marks[: found.lengths[0]].tolist()
    assert [mark for mark in first if mark] == starts
    assert found.lengths.tolist() == [len(first)] * 2
    assert found.tokens[found.lengths[0] - 1] == DocumentEncoder(ours).end


@pytest.mark.parametrize("split", [True, False])
def test_bert_words_are_those_of_the_library(split: bool, tmp_path: Path) -> None:
    lines = ["東京でPython、Java。", "東京でRuby、Java!", "東京のJava。"] * 3
    options: dict[str, Any] = {"model": "wordpiece", "boundaries": "bert", "handle_chinese_chars": split}
    data = data_of(tmp_path / "data", lines, "none")
    trained(data, tmp_path / "t", vocab_size=learnable(data, tmp_path / "t", **options), **options)
    ours = Tokenizer(tmp_path / "t")
    pieces = [ours.piece_of(number) for number in range(ours.vocab_size)]
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert ("東京でpython".replace("p", "P") in pieces) is not split
    assert " " not in "".join(pieces) and "▁" not in pieces
    exported = Exported.from_file(str(tmp_path / "t" / "tokenizer.json"))
    for text in ("東京でJava、Java。", "java é\u3000[MASK]x ##a"):
        apart = text.replace("[MASK]", "[ MASK ]")
        assert ours.encode(text) == exported.encode(apart, add_special_tokens=False).ids
        assert exported.decode(ours.encode(text), skip_special_tokens=False) == ours.decode(ours.encode(text))


@pytest.mark.parametrize("seed", range(10))
def test_min_frequency_is_that_of_tokenizers(seed: int, tmp_path: Path) -> None:
    """Ties may be merged in another order, which can change the count of a later merge: so one piece may differ."""
    draw, least = random.Random(seed), 20
    counted = {"".join(draw.choices("abcd", k=draw.randint(2, 5))): draw.randint(1, 60) for _ in range(9)}
    lines = [f"{word}\t{count}\n" for word, count in counted.items()]
    total = sum(len(word) * count for word, count in counted.items())
    (tmp_path / "units.tsv").write_text("".join([*lines, f"{BALLAST}\t{total}\n"]), encoding="utf-8")
    theirs = Exported(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=9999, min_frequency=least, show_progress=False)
    theirs.train_from_iterator([f"{word} " * count for word, count in counted.items()], trainer)
    merged = [piece for piece in theirs.get_vocab() if len(piece) > 1]
    ours, every = (train_bpe(tmp_path / "units.tsv", "abcd", 999, 16, number) for number in (least, 1))
    assert ours == every[: len(ours)] and len(ours) < len(every)
    assert abs(len(ours) - len(merged)) <= 1


@pytest.mark.parametrize("model", ["bpe", "byte-bpe", "wordpiece"])
def test_min_frequency_drops_rare_merges(model: str, tmp_path: Path) -> None:
    counts = {"東京都": 9, "東京": 7, "京都": 5, "都東": 2}
    (tmp_path / "words.tsv").write_text("".join(f"{word}\t{n}\n" for word, n in counts.items()), encoding="utf-8")
    sizes = []
    for least in (1, 3, 6, 10):
        data = WordCountTrainingData(tmp_path / "words.tsv")
        sizes.append(learnable(data, tmp_path / f"t{least}", model=model, min_frequency=least))
    assert sizes[0] > sizes[1] > sizes[2] > sizes[3]
    assert model == "byte-bpe" or [size - sizes[3] for size in sizes] == [3, 2, 1, 0]


def test_new_keys_are_absent_where_they_are_not_set() -> None:
    """A tokenizer that does not use them keeps its fingerprint and the bytes of its card."""
    assert not {"min_frequency", "handle_chinese_chars"} & plain(TokenizerConfig()).keys()
    config = tokenizer_config({"min_frequency": 2}, "here")
    assert plain(config)["min_frequency"] == 2
    assert msgspec.json.decode(msgspec.json.encode(config), type=TokenizerConfig) == config


@pytest.mark.parametrize(
    "section",
    [
        {"model": "words", "boundaries": "hard"},
        {"model": "wordpiece", "boundaries": "spaces"},
        {"model": "bpe", "boundaries": "bert"},
        {"model": "words", "digits": "split"},
        {"model": "unigram", "min_frequency": 2},
        {"min_frequency": -1},
    ],
    ids=json.dumps,
)
def test_contradictions_are_refused(section: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as raised:
        tokenizer_config(section, "here")
    assert raised.value.fix


def test_sentencepiece_set_has_its_three_tokens() -> None:
    special = special_tokens(TokenizerConfig(special=["sentencepiece"]))
    assert special.tokens == ("<unk>", "<s>", "</s>")
    assert (special.pad, special.mask, special.before, special.after) == ("</s>", "", (), ())
