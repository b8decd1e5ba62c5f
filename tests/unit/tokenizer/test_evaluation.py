"""Each score compared with its plain definition, on random texts and segmentations, and with real tokenizers."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import ConfigError, InputError, JprepError
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.encoding.batch import TokenSpans
from jprep.tokenizer.evaluation import (
    RoundTripDifference,
    TokenizerAdapter,
    evaluate,
    score_tokenizer,
)
from jprep.tokenizer.evaluation.adapter import continuation_ids, partial_character_ids
from jprep.tokenizer.evaluation.compare import compare
from jprep.tokenizer.evaluation.input_text import open_text, sample
from jprep.tokenizer.evaluation.jprep_tokenizer import JprepAdapter
from jprep.tokenizer.evaluation.loading import load_adapters
from jprep.tokenizer.evaluation.metrics import MetricsAccumulator

WORD = "\x1f"
SIZE = 7


class ToyTokenizer(TokenizerAdapter):
    """Returns the spans and ids that a test defines; loses the letter x."""

    name, identity, model, size, unknown = "toy", "0", "toy", SIZE, 3
    parts = np.arange(SIZE) == 4

    def __init__(self, tokens: dict[str, list[tuple[int, int, int]]] | None = None) -> None:
        self.tokens = tokens

    def of(self, text: str) -> list[tuple[int, int, int]]:
        if self.tokens is None:
            return [(ord(character) % SIZE, at, at + 1) for at, character in enumerate(text)]
        return self.tokens.get(text, [])

    def encode(self, texts):
        self.seen = list(texts)
        flat = np.array([token for text in texts for token in self.of(text)], np.int64).reshape(-1, 3)
        offsets = np.cumsum([0, *(len(self.of(text)) for text in texts)])
        return TokenSpans(flat[:, 0], offsets, flat[:, 1], flat[:, 2])

    def decode(self, encoded):
        return [text.replace("x", "") for text in self.seen]

    def encode_only(self, texts):
        self.encode(texts)


paragraphs = st.lists(st.text(st.sampled_from("ab x漢字" + WORD), max_size=9), max_size=6)


@st.composite
def cases(draw):
    """Generate marked paragraphs with tokens: in order, with gaps between them, and several in one character."""
    marked = draw(paragraphs)
    tokens = {}
    for text in {paragraph.replace(WORD, "") for paragraph in marked}:
        ends = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
        spans = []
        for start, end in zip([0, *ends], ends, strict=False):
            spans.append((max(0, start - draw(st.integers(0, 1))), end))
        tokens[text] = [(draw(st.integers(0, SIZE - 1)), *span) for span in spans if draw(st.integers(0, 4))]
    return marked, tokens


def naive(marked: list[str], tokens: dict[str, list[tuple[int, int, int]]]) -> dict[str, float]:
    """Compute all figures by their definitions, paragraph by paragraph."""
    n = Counter()
    uses = Counter()
    for paragraph in filter(None, marked):
        text = paragraph.replace(WORD, "")
        inside = {at for at in range(1, len(text)) if text[at - 1] != " "}
        words = {len(paragraph[:at].replace(WORD, "")) for at, mark in enumerate(paragraph) if mark == WORD} & inside
        begun, reached = set(), 0
        for _, start, end in tokens[text]:
            begun |= {start} if start >= reached else set()
            begun |= {reached} if start > reached else set()
            reached = max(reached, end)
        places = sorted(begun | {reached, 0, len(text)})
        whole = words | {0, len(text)} | {at for at in range(1, len(text)) if " " in text[at - 1 : at + 1]}
        for start, end in pairwise(places):
            n["cutting"] += any(start < at < end for at in words) and not {start, end} <= whole
        begun = (begun | {reached}) & inside
        n.update(paragraphs=1, characters=len(text), bytes=len(text.encode()), tokens=len(tokens[text]))
        n.update(kept=len(words & begun), boundaries=len(words), cuts=len(begun), same="x" not in text)
        n.update(words=sum(bool(word.strip()) for word in paragraph.split(WORD)), marks=paragraph.count(WORD))
        uses.update(number for number, _, _ in tokens[text])
    total = n["tokens"]
    power = sum((count / total) ** 2.5 for count in uses.values())
    figures = {name: n[name] for name in ("paragraphs", "characters", "bytes", "tokens")} | {
        "characters_per_token": n["characters"] / total if total else 0,
        "bytes_per_token": n["bytes"] / total if total else 0,
        "unknown_rate": uses[3] / total if total else 0,
        "byte_rate": uses[4] / total if total else 0,
        "lossless_rate": n["same"] / max(1, n["paragraphs"]),
        "vocabulary_used": len(uses) / SIZE,
        "renyi_efficiency": math.log(power) / (1 - 2.5) / math.log(SIZE) if total else 0,
    }
    if n["marks"]:
        precision = n["kept"] / n["cuts"] if n["cuts"] else 1
        recall = n["kept"] / n["boundaries"] if n["boundaries"] else 1
        either = n["cuts"] + n["boundaries"]
        f1 = 2 * n["kept"] / either if either else 1
        figures |= {"boundary_precision": precision, "boundary_recall": recall, "boundary_f1": f1}
        figures |= {"word_cut_rate": n["cutting"] / total if total else 0}
        figures |= {"words": n["words"], "pieces_per_word": total / n["words"] if n["words"] else 0}
    return figures if n["paragraphs"] else {}


@given(cases())
def test_figures_match_their_definitions(case):
    marked, tokens = case
    assert score_tokenizer(ToyTokenizer(tokens), marked).figures() == pytest.approx(naive(marked, tokens), abs=1e-6)


@given(cases())
def test_batch_size_does_not_matter(case):
    marked, tokens = case
    many = [paragraph for paragraph in marked if paragraph] * 3
    one_by_one = [score_tokenizer(ToyTokenizer(tokens), [paragraph]) for paragraph in many]
    together = score_tokenizer(ToyTokenizer(tokens), many)
    assert together.tokens == sum(each.tokens for each in one_by_one)
    aligned = [each.words for each in one_by_one if each.words]
    if together.words and len(aligned) == len(many):
        assert together.words.kept == sum(each.kept for each in aligned)
        assert together.words.token_boundaries == sum(each.token_boundaries for each in aligned)


def test_lossy_paragraphs_are_reported():
    scores = score_tokenizer(ToyTokenizer(), ["ab", "axbx", "xa"])
    assert scores.differing == [RoundTripDifference(1, 1, "xbx", "b"), RoundTripDifference(2, 0, "xa", "a")]
    assert (scores.lost, scores.gained) == ({"x": 3}, {})


def test_longest_frequent_words_are_reported_in_pieces():
    class Halves(ToyTokenizer):
        def of(self, text):
            return [(0, 0, len(text) // 2), (1, len(text) // 2, len(text))]

    scores = score_tokenizer(Halves(), [f"形態素解析{WORD}する{WORD}1234567890"] * 3 + [f"一度だけの長い{WORD}語"])
    assert scores.longest == {"形態素解析": "形態|素解析", "する": "す|る"}


def test_figures_exclude_speed():
    scores = evaluate([(ToyTokenizer(), list)], ["かな漢字" * 20_000])[0]
    assert scores.speed > 0
    assert "speed" not in scores.figures()


def test_empty_text_has_no_figures():
    assert score_tokenizer(ToyTokenizer(), ["", ""]).figures() == {}


def test_partial_characters_are_recognised_by_their_pieces():
    byte_level = {"a": 0, "ãģ": 1, "ãģ®": 2, "®": 3, "Ġ": 4, "<|endoftext|>": 5}
    assert partial_character_ids(byte_level, 6, byte_level=True).tolist() == [False, True, False, True, False, False]
    assert continuation_ids(byte_level, 6, byte_level=True).tolist() == [False, False, False, True, False, False]
    characters = {"<0xE3>": 0, "<0x81>": 1, "<0xる": 2, "ab": 3}
    assert partial_character_ids(characters, 4, byte_level=False).tolist() == [True, True, False, False]
    assert continuation_ids(characters, 4, byte_level=False).tolist() == [False, True, False, False]


@given(st.lists(st.text("aあ" + WORD, min_size=1, max_size=20)), st.integers(1, 200))
def test_sample_is_every_nth_paragraph_within_its_limit(paragraphs, limit):
    def size(some):
        return sum(len(paragraph.replace(WORD, "").encode()) for paragraph in some)

    kept, stride = sample(iter(paragraphs), limit)
    assert kept == paragraphs[::stride]
    assert size(kept) <= limit or len(kept) == 1
    assert stride == 1 or size(paragraphs[:: stride // 2]) > limit


def write_bytes_tokenizer(path: Path) -> Path:
    """Write a byte-level tokenizer with a single merge, of the first and second bytes of kana."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: number for number, character in enumerate([*alphabet, "ãģ", "ab"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("ã", "ģ"), ("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(path))
    return path


def test_hugging_face_tokenizer_is_evaluated(tmp_path):
    write_bytes_tokenizer(tmp_path / "tokenizer.json")
    (encoder,) = load_adapters([tmp_path])
    scores = score_tokenizer(encoder, [f"の{WORD}ab{WORD}c{WORD} {WORD}の"])
    assert (encoder.name, encoder.model, scores.tokens, scores.parts) == (tmp_path.name, "byte-bpe", 7, 4)
    assert (scores.words.boundaries, scores.words.token_boundaries, scores.words.kept) == (3, 3, 3)
    assert scores.lossless_rate == 1


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no tokenizer at this path"),
        ({"tokenizer.json": "{}"}, "not a tokenizer"),
        ({"x.model": "nonsense"}, "not a sentencepiece model"),
    ],
)
def test_files_that_are_not_tokenizers_are_rejected(tmp_path, files, message):
    for name, content in files.items():
        tmp_path.joinpath(name).write_text(content)
    with pytest.raises(ConfigError, match=message):
        load_adapters([tmp_path])


def test_what_is_no_folder_is_a_name_on_the_hub(monkeypatch):
    pytest.importorskip("huggingface_hub.constants")  # reads the variable once, which later tests must not have
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(JprepError, match="there is no folder 'someone/some-model', and as a name on the Hub"):
        load_adapters([Path("someone/some-model")])
    with pytest.raises(ConfigError, match="no such tokenizer"):
        load_adapters([Path("some/where/else")])


def test_words_of_a_text_file_require_a_segmenter(tmp_path):
    text = tmp_path / "a.txt"
    text.write_bytes("\ufeffすもももももも。\r\n\n東京 ab\n".encode())
    tokenizer = write_bytes_tokenizer(tmp_path / "own.json")
    (plain,), (found,) = (compare([tokenizer], str(text), segmenter=name) for name in ("", "pointwise"))
    assert (plain.paragraphs, plain.characters, plain.words) == (2, 13, None)
    assert found.words.words > 4
    assert found.tokens == plain.tokens
    pattern = r"jprep:[^|]+\|tokenizer:own\.json@\w{12}\|model:byte-bpe\|vocab:258\|.*text:a\.txt@\w{12}\|sample:1/1"
    assert re.match(pattern, plain.signature)
    assert "|segmenter:pointwise|" in found.signature
    assert "|recall:" in found.signature
    assert "|recall:" not in plain.signature


def test_invalid_texts_are_rejected(tmp_path):
    tokenizer = write_bytes_tokenizer(tmp_path / "own.json")
    bad, empty = tmp_path / "bad.txt", tmp_path / "empty.txt"
    bad.write_bytes("よい\n".encode() + "悪い".encode("cp932"))
    empty.write_bytes(b"\n \n")
    with pytest.raises(InputError, match="not valid utf-8") as caught:
        compare([tokenizer], str(bad))
    assert "byte 7" in caught.value.where
    with pytest.raises(InputError, match="no text"):
        compare([tokenizer], str(empty))
    with pytest.raises(ConfigError, match="no finished corpus"):
        compare([tokenizer], str(tmp_path))


def test_corpus_is_evaluated_with_its_words(corpus, tmp_path, jprep):
    tokenizer = write_bytes_tokenizer(tmp_path / "own.json")
    text = open_text(str(corpus), 0)
    marked = list(text)
    assert text.has_words
    figures = score_tokenizer(load_adapters([tokenizer])[0], marked).figures()
    answer = jprep("tokenizer", "evaluate", tokenizer, corpus, "--json", "--limit-mb", 0)
    (scores,) = json.loads(answer.stdout)
    assert scores["figures"] == figures
    assert figures["boundary_recall"] == 1
    table = jprep("tokenizer", "evaluate", tokenizer, corpus, "--limit-mb", 0).stdout.splitlines()
    assert table[-1] == scores["signature"]
    assert any(line.startswith("boundary_recall") and "100.00%" in line for line in table)


class TokenizerStub:
    """A stub of jprep's tokenizer with what an evaluation uses."""

    def __init__(self, pieces: list[str], characters: list[int], model: str, boundaries: str, ids) -> None:
        config = TokenizerConfig(model=model, boundaries=boundaries)
        steps = {"normalizers": [], "splitter": None, "segmenter": None}
        self.card = SimpleNamespace(name="own", fingerprint="f" * 32, config=config, **steps)
        self.special, self.vocab_size, self.unk = SimpleNamespace(tokens=["[UNK]"]), len(pieces), 0
        self.characters, self.piece_of, self._ids = np.array(characters, np.int32), pieces.__getitem__, ids

    def encode_batch(self, texts, *, normalized):
        assert normalized
        parts = [self._ids(text) for text in texts]
        return np.array([i for part in parts for i in part], np.int32), np.cumsum([0, *map(len, parts)])


def test_token_positions_are_computed_from_characters():
    # の is E3 81 AE: its last byte and the a behind it are one piece, in which the boundary before a is lost.
    tokenizer = TokenizerStub(["[UNK]", "bãģ", "®a", "c"], [0, 2, 1, 1], "byte-bpe", "train", lambda text: [1, 2, 3])
    encoded = JprepAdapter(tokenizer).encode(["bのac", "bのac"])
    assert encoded.starts.tolist() == [0, 1, 3] * 2
    assert encoded.ends.tolist() == [2, 3, 4] * 2
    assert JprepAdapter(tokenizer).parts.tolist() == [False, True, True, False]


def test_tokens_that_do_not_cover_the_text_are_an_error():
    tokenizer = TokenizerStub(["[UNK]", "a"], [0, 1], "bpe", "train", lambda text: [1])
    with pytest.raises(JprepError, match="do not cover the text"):
        JprepAdapter(tokenizer).encode(["aa"])


def test_unknown_token_covers_its_word():
    words = {"ab": [1, 2], "▁漢字": [0], "##": [3], "漢字": [0], "": []}

    def ids(text):
        assert WORD in text  # otherwise it would count as raw text
        return [i for word in text.replace(f" {WORD}", "▁").split(WORD) for i in words[word]]

    tokenizer = TokenizerStub(["[UNK]", "a", "##b", "##"], [0, 1, 1, 0], "wordpiece", "hard", ids)
    encoded = JprepAdapter(tokenizer).encode([f"ab{WORD} {WORD}漢字{WORD}##{WORD}ab", "漢字"])
    assert encoded.starts.tolist() == [0, 1, 2, 5, 7, 8, 0]
    assert encoded.ends.tolist() == [1, 2, 5, 7, 8, 9, 2]


def test_speed_is_measured_on_text_without_marks(monkeypatch):
    class Marked(ToyTokenizer):
        marked = True

        def of(self, text):
            return super().of(text.replace(WORD, ""))

    monkeypatch.setattr("time.process_time", iter([0.0, 0.5] * 3).__next__)
    assert evaluate([(Marked(), list)], [f"ab{WORD}漢{WORD}字"] * 1000)[0].speed == 8e3 / 1e6 / 0.5


def test_number_of_remembered_words_is_limited(monkeypatch):
    monkeypatch.setattr("jprep.tokenizer.evaluation.metrics._MAX_WORDS", 10)
    meter = MetricsAccumulator(ToyTokenizer())
    for length in range(1, 60):
        meter.add([WORD.join(["長" * length] * 2 + ["長"])])
        assert 0 < len(meter._words) <= 10
    assert meter._words["長"] == 61
