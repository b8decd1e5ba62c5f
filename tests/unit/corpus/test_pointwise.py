"""The segmenter `pointwise`: its words, model files and training."""

from __future__ import annotations

import hashlib
import random
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.comparison import compare
from jprep.corpus.segmenters.pointwise import Pointwise, weights
from jprep.corpus.segmenters.pointwise.characters import HALO, PADS, decided_by_rule, fold_codes, pad_texts, symbols_of
from jprep.corpus.segmenters.pointwise.dictionary import jumandic_words, make_dictionary
from jprep.corpus.segmenters.pointwise.features import LANES, WINDOW, FeatureConfig, extract_features, hash_words
from jprep.corpus.segmenters.pointwise.model_file import (
    decode_model,
    encode_model,
    find_model,
    read_model,
    write_model,
)
from jprep.corpus.segmenters.pointwise.second_look import FEATURES, MARGIN, find_doubts
from jprep.corpus.segmenters.pointwise.training.examples import HALVES, Examples
from jprep.corpus.segmenters.pointwise.training.learner import LearnerConfig
from jprep.corpus.segmenters.pointwise.training.trainer import TrainingConfig, train
from jprep.corpus.segmenters.spaces import SpacesSegmenter
from jprep.errors import ConfigError, DamagedError, InputError, JprepError, MachineError
from jprep.testing.conformance.segmenter import HARD, SENTENCES, SegmenterSuite

TINY = FeatureConfig(characters=10, pairs=12, triples=12, quadruples=12, neighbours=10, words=12, second=10)
CONFIG = TrainingConfig(passes=6, features=TINY)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=WORD))
MIXED = st.text(st.sampled_from("東京タワ本を読む aｂ１2 \t\n\0\u3000。、𠮟👍"), max_size=60)

NOUNS = ("東京", "図書館", "彼女", "本", "天気", "犬", "タワー", "電車", "先生", "１２３")
VERBS = ("読む", "見る", "行く", "食べる", "作る", "Ａｂｃ")


def made_sentences(number: int, seed: int = 1) -> list[list[str]]:
    """Sentences of a small grammar, with their words."""
    draw = random.Random(seed)
    return [
        [draw.choice(NOUNS), draw.choice("はがも"), draw.choice(NOUNS), draw.choice("をにで"), draw.choice(VERBS), "。"]
        for _ in range(number)
    ]


@pytest.fixture(scope="module")
def model():
    return train(made_sentences(400), make_dictionary([*NOUNS, *VERBS], TINY), CONFIG)


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    found = tmp_path_factory.mktemp("model") / "words.model"
    write_model(found, model)
    return found


@pytest.fixture(scope="module")
def segmenter(path):
    return Pointwise(Pointwise.Config(model=str(path)))


class TestPointwise(SegmenterSuite):
    @pytest.fixture
    def segmenter(self, path):
        return Pointwise(Pointwise.Config(model=str(path)))


def test_it_learns_words_and_finds_them_in_new_sentences(segmenter):
    known = {tuple(words) for words in made_sentences(400)}
    unseen = [words for words in made_sentences(400, seed=2) if tuple(words) not in known]
    assert len(unseen) > 50
    assert compare(unseen, segmenter).first.f1 > 0.99


@given(text=TEXT | MIXED)
@settings(deadline=None)
def test_joined_words_are_the_text(segmenter, text):
    assert segmenter.segment([text])[0].replace(WORD, "") == text


@given(texts=st.lists(TEXT | MIXED | st.sampled_from(SENTENCES), max_size=8))
@settings(deadline=None, max_examples=40)
def test_a_text_has_the_same_words_in_every_batch(segmenter, texts):
    assert segmenter.segment(texts) == [segmenter.segment([text])[0] for text in texts]


@pytest.mark.parametrize("block", [5, 64, 1 << 20])
def test_the_size_of_blocks_does_not_change_the_words(segmenter, monkeypatch, block):
    texts = [*SENTENCES, *HARD[::4], "彼女は図書館で本を読む。" * 8]
    expected = segmenter.segment(texts)
    monkeypatch.setattr(weights, "BLOCK", block)
    monkeypatch.setattr("jprep.corpus.segmenters.pointwise.segmenter._GROUP", block)
    assert segmenter.segment(texts) == expected


def test_width_does_not_change_the_words(segmenter):
    wide, narrow = segmenter.segment(["１２３は本でＡｂｃ。", "123は本でAbc。"])
    assert [len(word) for word in wide.split(WORD)] == [len(word) for word in narrow.split(WORD)]


@given(text=MIXED)
@settings(deadline=None, max_examples=50)
def test_white_space_and_control_characters_are_words(segmenter, text):
    words = segmenter.segment([text])[0].split(WORD)
    assert not [word for word in words if len(word) > 1 and set(word) & set(" \t\n\0\u3000")]


def test_scores_are_plain_sums_of_weights(model):
    """The packed lanes give what adding the weights one by one gives."""
    codes = np.array([ord(each) for each in "彼女は東京で、犬を見る。"], np.uint32)
    padded, _ = pad_texts(fold_codes(codes), np.array([len(codes)]))
    symbols, held = symbols_of(padded), model.weights
    found = extract_features(symbols, held.words, held.config)
    expected = np.full(len(symbols) - 2 * HALO, held.bias)
    for place in range(len(expected)):
        for table, rows, lanes in zip(held.rows, found.rows, LANES, strict=True):
            expected[place] += sum(int(table[rows[place + lane], lane]) for lane in range(lanes))
        expected[place] += sum(int(t[index[place]]) for t, index in zip(held.direct, found.direct, strict=True))
    assert held.scores(symbols).tolist() == expected.tolist()


def test_extreme_weights_do_not_overflow():
    rows = [np.full((1 << bits, n), -weights.MAX_LANE, np.int8) for bits, n in zip(TINY.row_bits, LANES, strict=True)]
    direct = [np.full(1 << bits, -weights.MAX_DIRECT, np.int16) for bits in TINY.direct_bits]
    symbols = symbols_of(np.full(40, ord("本"), np.uint16))
    words = np.zeros(1 << TINY.words, np.uint8)
    total = sum(LANES) * weights.MAX_LANE + len(direct) * weights.MAX_DIRECT + 8000
    second = np.zeros((FEATURES, 1 << TINY.second), np.int8)
    for sign in (1, -1):
        held = weights.Weights(TINY, [t * -sign for t in rows], [t * -sign for t in direct], words, second, 8000 * sign)
        assert set(held.scores(symbols).tolist()) == {sign * total}


def in_doubt(text: str, begins: dict[int, int], doubtful: int):
    """The doubt about one boundary, given the sums of the others; 100 where a word begins."""
    codes = np.array([ord(each) for each in text], np.uint32)
    padded, places = pad_texts(fold_codes(codes), np.array([len(text)]))
    symbols, sums = symbols_of(padded), np.full(len(padded), -100, np.int16)
    sums[places[list(begins)]] = list(begins.values())
    sums[places[doubtful]] = 3
    found = find_doubts(symbols, sums, decided_by_rule(symbols), TINY.second)
    assert found.places.tolist() == [places[doubtful]]
    return found.index[:, 0].tolist()


def test_a_boundary_in_doubt_is_described_by_the_words_around():
    here = in_doubt("犬は東京都へ", {1: 100, 2: 100, 5: 100}, 4)
    assert here == in_doubt("猫は東京都へ", {1: 100, 2: 100, 5: 100}, 4)  # 猫 is two words away
    others = [
        in_doubt("犬は東京都へ", {1: 100, 5: 100}, 4),  # another word on the left
        in_doubt("犬は東京都へ", {1: 100, 2: 100}, 4),
        in_doubt("犬も東京都へ", {1: 100, 2: 100, 5: 100}, 4),
        in_doubt("犬は東京都に", {1: 100, 2: 100, 5: 100}, 4),
    ]
    left, right = 1, 2
    assert [here[left] == each[left] for each in others] == [False, True, True, True]
    assert [here[right] == each[right] for each in others] == [True, False, True, True]
    assert [here[3] == each[3] for each in others] == [False, False, False, True]  # with the word before
    assert [here[4] == each[4] for each in others] == [False, False, True, False]  # with the word behind


@pytest.mark.parametrize(
    ("text", "place"), [("あい", 1), ("あ" * 50, 1), ("あ" * 50, 49), ("い あい", 3), ("\0あい", 2)]
)
def test_words_at_the_ends_of_a_text_have_features(text, place):
    assert len(in_doubt(text, {}, place)) == FEATURES


def test_the_second_look_decides_where_the_first_sum_is_small(model):
    """Weights that say no to everything in doubt remove exactly those boundaries."""
    padded, _ = pad_texts(
        fold_codes(np.array([ord(each) for each in "彼女は東京で犬を見る"], np.uint32)), np.array([10])
    )
    symbols = symbols_of(padded)
    no = np.full((FEATURES, 1 << TINY.second), -100, np.int8)
    small = int(model.weights.first_sums(symbols).max()) - MARGIN // 2
    held = msgspec.structs.replace(model.weights, bias=model.weights.bias - small, second=no)
    sums, ruled = held.first_sums(symbols), decided_by_rule(symbols)
    assert (sums >= MARGIN // 2).any()
    assert held.decide(padded)[0].tolist() == (((sums > 0) & (np.abs(sums) >= MARGIN)) | ruled).tolist()


def test_the_second_look_learns_what_the_first_sums_cannot():
    """Whether にす is one word depends on the first character of the word before, which the first sums do not see."""
    draw, sentences = random.Random(3), list[list[str]]()
    for _ in range(600):
        first = draw.choice("犬猫")
        word = first + draw.choice("あいう") + "かきくけこ"
        before = [draw.choice(NOUNS), draw.choice("はがも"), draw.choice(NOUNS), "を"]
        sentences.append([*before, word, *(["に", "す"] if first == "犬" else ["にす"]), "。"])
    config = TrainingConfig(passes=6, features=TINY, learner=LearnerConfig(batch=64))
    made = train(sentences, make_dictionary((), TINY), config)
    plain = msgspec.structs.replace(made.weights, second=made.weights.second * 0)
    texts = ["".join(words) for words in sentences]
    padded, places = pad_texts(
        fold_codes(np.array([ord(each) for each in "".join(texts)], np.uint32)), np.array([len(each) for each in texts])
    )
    starts = np.cumsum([len(word) for words in sentences for word in words])[:-1]
    wrong = [np.setxor1d(np.flatnonzero(each.decide(padded)[0][places]), starts).size for each in (plain, made.weights)]
    assert wrong[1] < wrong[0] / 5


def test_words_of_the_dictionary_are_found_around_a_boundary():
    text = "東京タワーの犬"
    codes = np.array([ord(each) for each in text], np.uint32)
    padded, places = pad_texts(fold_codes(codes), np.array([len(text)]))
    found = extract_features(symbols_of(padded), make_dictionary(["東京", "タワー", "東京タワー", "京タ"], TINY), TINY)
    at, over = found.direct[1][places - HALO], found.direct[2][places - HALO]
    in_front_of_tower = text.index("タ")
    assert at[in_front_of_tower] == 1 << 2 | 1 << 1 << HALO  # タワー begins, 東京 ends
    assert over[in_front_of_tower] & 0b1111111 == 1 << 0 | 1 << 2  # 京タ and 東京タワー go on for 1 and 3 characters
    assert over[in_front_of_tower] >> 7 == 1 << 0 | 1 << 1  # they began 1 and 2 characters before
    assert at[0] == 1 << 1 | 1 << 4
    assert len(found.rows[0]) == len(padded) - 2 * HALO + LANES[0] - 1 and WINDOW == 3


def test_dictionary_words_do_not_cross_texts():
    table = make_dictionary(["東京"], TINY)
    padded, _ = pad_texts(fold_codes(np.array([ord("東"), ord("京")], np.uint32)), np.array([1, 1]))
    assert not any(extract_features(symbols_of(padded), table, TINY).direct[1])


def test_every_surface_of_jumandic_is_in_its_dictionary():
    words = [word for word in jumandic_words() if len(word) <= HALO]
    assert len(words) > 600_000 and {"東京", "読んで", "タワー", "に"} <= set(words)
    config = FeatureConfig()
    table = make_dictionary(words, config)
    pairs = np.array([[ord(each) for each in word] for word in words if len(word) == 2], np.uint32)
    index = hash_words(symbols_of(fold_codes(pairs.ravel())).reshape(pairs.shape), config)
    assert ((table[index] >> 1) & 1).all()
    assert ((table >> 1) & 1).mean() < 0.02


class TestTraining:
    def test_it_is_deterministic(self, model):
        again = train(made_sentences(400), make_dictionary([*NOUNS, *VERBS], TINY), CONFIG)
        assert hashlib.sha256(encode_model(again)).digest() == hashlib.sha256(encode_model(model)).digest()

    def test_another_seed_is_another_order(self, model):
        other = train(
            made_sentences(400),
            make_dictionary([*NOUNS, *VERBS], TINY),
            TrainingConfig(passes=6, features=TINY, seed=5, learner=CONFIG.learner),
        )
        assert encode_model(other) != encode_model(model)

    def test_the_card_describes_the_training(self, model):
        assert model.card.sentences == 400
        assert model.card.characters == sum(len(word) for words in made_sentences(400) for word in words)
        assert model.card.made_from["config"]["passes"] == 6

    def test_there_must_be_something_to_learn(self):
        with pytest.raises(InputError, match="no sentence"):
            train([["あ"], []], make_dictionary((), TINY), CONFIG)

    def test_labels_are_those_of_the_words(self, tmp_path):
        sentences = [["東京", "は", "晴れ"], ["犬", " ", "も"], ["𠮟る", "👍"]]
        examples = Examples(tmp_path, 16).write(sentences)
        found = list(examples.batches(0, 0))
        assert sum(len(batch.labels) for batch in found) == sum(len("".join(words)) + 3 for words in sentences)
        assert sum(int(batch.counted.sum()) for batch in found) == 4 + 0 + 2
        assert sum(int((batch.labels * batch.counted).sum()) for batch in found) == 2 + 0 + 1

    def test_each_pass_sees_every_batch_once_in_another_order(self, tmp_path):
        examples = Examples(tmp_path, 16).write(made_sentences(60))
        passes = [[batch.symbols.tobytes() for batch in examples.batches(epoch, 0)] for epoch in (0, 1)]
        assert sorted(passes[0]) == sorted(passes[1]) and passes[0] != passes[1]
        assert len(passes[0]) == examples.batch_count()

    def test_long_parts_hold_whole_sentences(self, tmp_path, monkeypatch):
        monkeypatch.setattr("jprep.corpus.segmenters.pointwise.training.examples._STRETCH", 50)
        sentences = made_sentences(60)
        examples = Examples(tmp_path, 16).write(sentences)
        parts = [part for half in HALVES for part in examples.stretches(half)]
        assert len(parts) > 6
        assert sum(int((part.symbols != 0).sum()) for part in parts) == sum(len("".join(words)) for words in sentences)
        for part in parts:
            assert not part.symbols[:HALO].any() and not part.symbols[-HALO - PADS :].any()


class TestModelFile:
    def test_a_model_is_read_back(self, model, path):
        again = read_model(path)
        assert again.card == model.card
        assert encode_model(again) == path.read_bytes()

    @given(data=st.data())
    @settings(deadline=None, max_examples=60)
    def test_no_change_of_a_byte_goes_unnoticed(self, path, data):
        content = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
        with pytest.raises(JprepError):
            decode_model(bytes(content), "x.model")

    @given(size=st.integers(0, 2000))
    @settings(deadline=None, max_examples=30)
    def test_a_cut_file_is_an_error(self, path, size):
        with pytest.raises(JprepError):
            decode_model(path.read_bytes()[:size], "x.model")

    @pytest.mark.parametrize(
        ("old", "new", "kind", "what"),
        [
            (b'"features":2', b'"features":9', ConfigError, "features of version 9"),
            (b'"words":12', b'"words":13', DamagedError, "size"),
            (b'"words":12', b'"words":99', DamagedError, "header"),
            (b'"bias":', b'"bias":9999', DamagedError, "range|header"),
        ],
    )
    def test_a_header_with_a_right_hash_is_checked(self, path, old, new, kind, what):
        content = path.read_bytes()
        start = content.index(b"\n") + 1
        size = int.from_bytes(content[start + 32 : start + 36], "little")
        header = content[start + 36 : start + 36 + size].replace(old, new)
        rest = len(header).to_bytes(4, "little") + header + content[start + 36 + size :]
        with pytest.raises(kind, match=what):
            decode_model(content[:start] + hashlib.sha256(rest).digest() + rest, "x.model")

    def test_a_missing_model_is_named(self, tmp_path):
        with pytest.raises(ConfigError, match="no such model") as caught:
            Pointwise(Pointwise.Config(model=str(tmp_path / "a.model"))).segment(["本を読む"])
        assert "a.model" in caught.value.where

    def test_without_an_installed_model_the_fix_says_how_to_make_one(self, monkeypatch):
        monkeypatch.setattr("jprep.corpus.segmenters.pointwise.model_file.entry_points", lambda group: [])
        with pytest.raises(MachineError, match="no model is installed") as caught:
            find_model("")
        assert "./models/words" in caught.value.fix and "jprep segmenter train" in caught.value.fix

    def test_a_model_of_another_distribution_is_used_by_its_name(self, path, monkeypatch):
        others = [SimpleNamespace(name=name, load=lambda name=name: path.with_name(name)) for name in ("a", "words")]
        monkeypatch.setattr("jprep.corpus.segmenters.pointwise.model_file.entry_points", lambda group: others)
        assert [find_model(name).name for name in ("", "a", "words", "./a.model")] == ["words", "a", "words", "a.model"]


def test_differences_are_the_shortest_stretches(segmenter):
    gold = [["本", "を", "読む", "。"], ["東", "京", "は", "犬", "。"]]
    counts = compare(gold, SpacesSegmenter()).first
    assert counts.differences == {("本|を|読む|。", "本を読む。"): 1, ("東|京|は|犬|。", "東京は犬。"): 1}
    assert counts.f1 == 0 and counts.sentences == 2
    same = compare([[each] for each in SENTENCES], segmenter, segmenter).agreement
    assert same.f1 == 1 and same.equal_sentences == len(SENTENCES) and not same.differences
