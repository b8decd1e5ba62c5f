"""Learning a vocabulary from counts, with all four model types."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sentencepiece

from jprep.errors import ConfigError
from jprep.tokenizer.config import ModelType, TokenizerConfig
from jprep.tokenizer.counting import UnitCounts
from jprep.tokenizer.formats import byte_level
from jprep.tokenizer.formats.sentencepiece_model import model_proto
from jprep.tokenizer.learning import learn
from jprep.tokenizer.learning.alphabet import choose_alphabet
from jprep.tokenizer.learning.unigram_seeds import write_seeds
from jprep.tokenizer.special_tokens import special_tokens
from jprep.tokenizer.vocabulary import Vocabulary

ALL: tuple[ModelType, ...] = ("bpe", "byte-bpe", "unigram", "wordpiece")
B = 2**32


def counted(folder: Path, words: dict[str, int], sample: str = "", *, more: str = "") -> UnitCounts:
    """Return the result of counting these words; `more` are characters that are in no unit."""
    folder.mkdir(exist_ok=True)
    characters = Counter(more)
    for word, count in words.items():
        for character in word:
            characters[character] += count
    ranked = sorted(words.items(), key=lambda pair: (-pair[1], pair[0]))
    (folder / "words.tsv").write_text("".join(f"{word}\t{count}\n" for word, count in ranked))
    rows = sorted(characters.items(), key=lambda pair: (-pair[1], pair[0]))
    (folder / "characters.tsv").write_text("".join(f"{ord(each):x}\t{count}\n" for each, count in rows))
    (folder / "sample.txt").write_text(sample, newline="\n")
    return UnitCounts(folder / "words.tsv", folder / "characters.tsv", folder / "sample.txt", {})


def language() -> dict[str, int]:
    """Return some 500 words of syllables with Zipf-distributed counts; some begin with a space."""
    syllables = ["か", "さ", "な", "東", "京", "い", "う", "ab", "c", "12"]
    words = ["".join(each) for each in product(syllables, repeat=3)][::2]
    return {(" " if number % 7 == 0 else "") + word: 20_000 // (number + 1) for number, word in enumerate(words)}


WORDS = language()
SIZE = {"bpe": 420, "unigram": 420, "byte-bpe": 420, "wordpiece": 160}


def learnt(folder: Path, words: dict[str, int], sample: str = "", **options: Any) -> Vocabulary:
    config = TokenizerConfig(**({"vocab_size": SIZE[options.get("model", "bpe")], "threads": 2} | options))
    return learn(counted(folder, words, sample), config, special_tokens(config), folder / "scratch")


def ordinary(vocabulary: Vocabulary) -> list[str]:
    return [piece.text for piece in vocabulary.pieces if piece.kind == "normal"]


def pieces(vocabulary: Vocabulary) -> list[str]:
    """Return the pieces of more than one character, as text."""
    texts = ordinary(vocabulary)
    if vocabulary.config.model == "byte-bpe":
        return [byte_level.decode_piece(text) for text in texts[256:]]
    return [text for text in texts if len(text.removeprefix("##")) > 1]


def least(model: ModelType, alphabet: int) -> int:
    return {"bpe": 5 + 256, "unigram": 5 + 256, "byte-bpe": 1 + 256, "wordpiece": 5 + 1}[model] + alphabet


# --- ids


@pytest.mark.parametrize("model", ALL)
def test_vocabulary_has_the_requested_size_and_distinct_pieces(model: ModelType, tmp_path: Path) -> None:
    for boundaries in ("train", "hard", "none"):
        made = learnt(tmp_path, WORDS, model=model, boundaries=boundaries, special=["<sep>", "<x>"])
        texts = [piece.text for piece in made.pieces]
        assert len(texts) == len(set(texts)) == SIZE[model]
        head, tail = made.special.head, made.special.tail
        assert tuple(texts[: len(head)]) == head
        assert tuple(texts[len(texts) - len(tail) :]) == tail


def test_bpe_order_is_bytes_merges_alphabet(tmp_path: Path) -> None:
    made = learnt(tmp_path, {"ab": 10, "abc": 6, "cd": 3}, vocab_size=268)
    assert [piece.text for piece in made.pieces[4:260]] == [f"<0x{byte:02X}>" for byte in range(256)]
    assert ordinary(made) == ["ab", "abc", "b", "a", "c", "d", "▁"][0:2] + list("abcd▁")
    assert [piece.score for piece in made.pieces if piece.kind == "normal"] == [-float(rank) for rank in range(7)]
    assert made.alphabet == "abcd "


def test_byte_bpe_begins_with_bytes_in_gpt2s_order(tmp_path: Path) -> None:
    made = learnt(tmp_path, {"の": 9, " の": 5}, model="byte-bpe", vocab_size=260)
    texts = [piece.text for piece in made.pieces]
    assert texts[0] == "!"
    assert texts[220] == "Ġ"  # as in GPT-2's vocab.json
    assert texts[256:] == ["ãģ", "ãģ®", "Ġãģ®", "<|endoftext|>"]
    assert made.merges == [("ã", "ģ"), ("ãģ", "®"), ("Ġ", "ãģ®")]
    assert made.alphabet == ""


def test_unigram_is_sorted_by_score_and_contains_every_character(tmp_path: Path) -> None:
    made = learnt(tmp_path, WORDS, model="unigram")
    scored = [(piece.score, piece.text) for piece in made.pieces if piece.kind == "normal"]
    assert scored == sorted(scored, key=lambda pair: (-pair[0], pair[1]))
    assert set(made.alphabet.replace(" ", "▁")) <= {text for _, text in scored}


def test_wordpiece_marks_continuing_pieces_under_hard_boundaries(tmp_path: Path) -> None:
    words = {"東京": 50, "京東": 20, "京": 5, "𠮷野": 9, "野𠮷": 8, "##東": 4}
    made = learnt(tmp_path, words, model="wordpiece", boundaries="hard", vocab_size=21)
    texts = ordinary(made)
    assert texts[:10] == ["京", "東", "野", "𠮷", "#", "▁", "␤", "##京", "##東", "##野"]
    assert "##𠮷" in texts
    assert {"東京", "京東", "𠮷野", "野𠮷"} <= set(texts)
    assert "####" not in texts
    assert not any("#" in text.removeprefix("##")[1:] for text in texts)


def test_wordpiece_without_hard_boundaries_marks_no_continuing_pieces(tmp_path: Path) -> None:
    made = learnt(tmp_path, {"東京": 50, " 東": 20, "▅京": 9}, model="wordpiece", vocab_size=13)
    assert set(ordinary(made)[:6]) == {"東", "京", "▁", "▅", "␤"} | {ordinary(made)[5]}
    assert {"東京", "▁東", "▅京"} <= set(ordinary(made))
    spaced = learnt(tmp_path, {"東京": 50, " 東": 20}, model="wordpiece", vocab_size=10, newline="space")
    assert "␤" not in ordinary(spaced)


# --- the alphabet


def test_alphabet_covers_9995_of_10000_characters(tmp_path: Path) -> None:
    made = counted(tmp_path, {"a": 99_940, "い": 20, "あ": 20, "う": 20})
    assert choose_alphabet(made.characters, TokenizerConfig()) == "aあ "
    assert choose_alphabet(made.characters, TokenizerConfig(alphabet=4)) == "aあい "
    assert choose_alphabet(made.characters, TokenizerConfig(alphabet=99)) == "aあいう "
    assert choose_alphabet(made.characters, TokenizerConfig(model="wordpiece", alphabet=3)) == "a \n"


def test_alphabet_excludes_reserved_characters(tmp_path: Path) -> None:
    made = counted(tmp_path, {"a": 5}, more="▁▅␤\t\n\r\0\x1e\x1f" * 9)
    assert set(choose_alphabet(made.characters, TokenizerConfig(alphabet=50))) == {"a", " ", "␤"}
    wordpiece = TokenizerConfig(model="wordpiece", alphabet=50)
    assert set(choose_alphabet(made.characters, wordpiece)) == {"a", " ", "\n", "\t", "▅"}


def test_alphabet_that_is_too_small_is_rejected(tmp_path: Path) -> None:
    words = {chr(0x4E00 + number): 10 for number in range(100)}
    with pytest.raises(ConfigError, match=r"alphabet too small: 80 characters cover 80.0%") as caught:
        learnt(tmp_path, words, alphabet=80, vocab_size=1_000)
    assert "alphabet = 100" in caught.value.fix


@pytest.mark.parametrize("model", ["bpe", "unigram", "wordpiece"])
def test_pieces_contain_only_the_alphabet(model: ModelType, tmp_path: Path) -> None:
    words = WORDS | {"か珍さ": 30, "珍": 1, "か▁さ": 20}
    made = learnt(tmp_path, words, model=model, alphabet=13)
    allowed = set(made.alphabet.translate({32: "▁", 10: "␤"}))
    assert len(made.alphabet) == 13
    assert set("".join(ordinary(made))) <= allowed
    assert "か▁さ" not in ordinary(made)


def test_space_has_a_piece_even_if_no_word_contains_one(tmp_path: Path) -> None:
    words = {word.strip(): count for word, count in WORDS.items()}
    for model in ("bpe", "unigram", "wordpiece"):
        assert "▁" in ordinary(learnt(tmp_path, words, model=model, vocab_size=SIZE[model] - 20))


# --- sizes and errors


@pytest.mark.parametrize("model", ALL)
def test_vocabulary_that_is_too_small_names_the_minimum(model: ModelType, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="vocab_size is too small") as caught:
        learnt(tmp_path, WORDS, model=model, vocab_size=10)
    [found] = re.findall(r"the minimum is (\d+)", caught.value.what)
    size, suggested = int(found), int(caught.value.fix.split()[2].rstrip(","))
    assert suggested >= max(1000, 2 * size)
    assert len(learnt(tmp_path, WORDS, model=model, vocab_size=size).pieces) == size
    with pytest.raises(ConfigError, match="too small"):
        learnt(tmp_path, WORDS, model=model, vocab_size=size - 1)


@pytest.mark.parametrize("model", ALL)
@pytest.mark.parametrize("words", [{"abc": 3, "abd": 2, "東京都": 2}, {"aaaa": 5}, WORDS, {"a": 3}])
def test_vocabulary_that_is_too_large_names_the_maximum(
    model: ModelType, words: dict[str, int], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="can be learnt") as caught:
        learnt(tmp_path, words, model=model, vocab_size=60_000)
    size = int(caught.value.fix.removeprefix("vocab_size = "))
    assert len(learnt(tmp_path, words, model=model, vocab_size=size).pieces) == size
    with pytest.raises(ConfigError, match="can be learnt"):
        learnt(tmp_path, words, model=model, vocab_size=size + 1)


@pytest.mark.parametrize("model", ALL)
def test_empty_counts_are_rejected(model: ModelType, tmp_path: Path) -> None:
    for words, more in (({}, ""), ({}, "abc")):
        config = TokenizerConfig(model=model)
        with pytest.raises(ConfigError, match="to learn from"):
            learn(counted(tmp_path, words, more=more), config, special_tokens(config), tmp_path / "scratch")


@pytest.mark.parametrize("model", ALL)
def test_special_token_that_is_a_word_is_rejected(model: ModelType, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="special token clash: 'です'"):
        learnt(tmp_path, WORDS | {"です": 90_000}, model=model, special=["です"], vocab_size=SIZE[model] + 40)


@pytest.mark.parametrize("model", ALL)
def test_special_tokens_in_text_give_no_piece(model: ModelType, tmp_path: Path) -> None:
    reserved = ["<s>", "[MASK]", "<|endoftext|>", "<0x41>", "<mask>"]
    made = learnt(tmp_path, WORDS | dict.fromkeys(reserved, 90_000), model=model, vocab_size=SIZE[model] + 60)
    own = {*made.special.tokens, "<0x41>"}
    assert not own & {text for text in pieces(made) if text not in set(reserved) - own}
    assert len({piece.text for piece in made.pieces}) == len(made.pieces)


# --- counts


@pytest.mark.parametrize("model", ALL)
def test_counts_beyond_32_bits_are_exact(model: ModelType, tmp_path: Path) -> None:
    # Truncated to 32 bits, "ab" would count 7, "cd" 0, and "ef" would be first.
    words = {"ab": 3 * B + 7, "cd": 2 * B, "ef": B - 1, "a": 10**9, "c": 10**9, "e": 10**9}
    size = least(model, 0 if model == "byte-bpe" else 7)
    assert pieces(learnt(tmp_path, words, model=model, vocab_size=size + 1)) == ["ab"]
    assert pieces(learnt(tmp_path, words, model=model, vocab_size=size + 3)) == ["ab", "cd", "ef"]


@pytest.mark.parametrize("model", ["bpe", "byte-bpe", "wordpiece"])
def test_rare_words_are_kept_beside_huge_counts(model: ModelType, tmp_path: Path) -> None:
    alphabet = {"bpe": 5, "byte-bpe": 0, "wordpiece": 6}[model]  # a, b, g, h, space and WordPiece's newline
    size = least(model, 5 if alphabet else 0) + 2
    made = learnt(tmp_path, {"ab": 3 * B, "gh": 9}, model=model, vocab_size=size, alphabet=alphabet)
    assert pieces(made) == ["ab", "gh"]


@pytest.mark.parametrize("model", ALL)
def test_sums_of_64_bits_are_scaled_down(model: ModelType, tmp_path: Path) -> None:
    words = {"ab": 2**62 + 5, "cd": 2**62 - 2**40, "ef": 2**61, "gh": 2**40}
    if model == "unigram":
        words |= dict.fromkeys("abcdef", 2**20)
    made = learnt(tmp_path, words, model=model, vocab_size=least(model, 0 if model == "byte-bpe" else 8) + 2)
    assert pieces(made)[:2] == ["ab", "cd"]


@pytest.mark.parametrize("model", ["bpe", "byte-bpe", "wordpiece"])
def test_counts_near_2_to_40_are_compared_exactly(model: ModelType, tmp_path: Path) -> None:
    words = {"xy": 2**40, "ab": 2**40 - 1, "cd": 2**40 + 1}
    size = least(model, 0 if model == "byte-bpe" else 7) + 3
    assert pieces(learnt(tmp_path, words, model=model, vocab_size=size))[:3] == ["cd", "xy", "ab"]


# --- determinism


_PRINT = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_learning import WORDS, digest, learnt
for model in ("bpe", "byte-bpe", "unigram", "wordpiece"):
    print(digest(learnt(Path(sys.argv[2]), WORDS, "かさ\\x1fな\\n" * 9, model=model)))
"""


def digest(vocabulary: Vocabulary) -> str:
    return hashlib.sha256(msgspec.json.encode(vocabulary)).hexdigest()


def test_learning_is_deterministic_across_processes(tmp_path: Path) -> None:
    def run(seed: str) -> list[str]:
        command = [sys.executable, "-c", _PRINT, str(Path(__file__).parent), str(tmp_path / seed)]
        env = os.environ | {"PYTHONHASHSEED": seed}
        return subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout.split()

    ours = [digest(learnt(tmp_path, WORDS, "かさ\x1fな\n" * 9, model=model)) for model in ALL]
    assert run("1") == run("2") == ours


# --- what is learnt


def test_byte_bpe_has_one_merge_per_piece(tmp_path: Path) -> None:
    made = learnt(tmp_path, WORDS, model="byte-bpe")
    assert [left + right for left, right in made.merges] == ordinary(made)[256:]
    known = set(byte_level.ALPHABET)
    for left, right in made.merges:
        assert left in known
        assert right in known
        known.add(left + right)


@pytest.mark.parametrize("model", ALL)
def test_piece_length_is_limited(model: ModelType, tmp_path: Path) -> None:
    size = SIZE[model] - (100 if model == "unigram" else 60)
    made = learnt(tmp_path, WORDS | {"東京東京": 10**6}, model=model, max_piece_chars=2, vocab_size=size)
    lengths = [len(piece.removeprefix("##")) for piece in pieces(made)]
    assert max(lengths) == 2


def test_long_units_and_long_pieces(tmp_path: Path) -> None:
    words = WORDS | {"あ" * 70_000: 3, "東京特許許可局" * 3: 100_000}
    for model in ("bpe", "byte-bpe", "unigram"):
        times = 1 if model == "unigram" else 3
        made = learnt(tmp_path, words, model=model, max_piece_chars=7 * times, vocab_size=450)
        assert "東京特許許可局" * times in pieces(made)


def test_seeds_use_counts_and_include_single_words(tmp_path: Path) -> None:
    units = tmp_path / "units.tsv"
    units.write_text("東京\t5\n東京都\t3\n大阪府\t4\nか\t9\n一度\t1\n")
    write_seeds(units, tmp_path / "seeds.tsv", 16)
    # 大阪 is always followed by 府, 一度 occurs once.
    assert (tmp_path / "seeds.tsv").read_text().split("\n")[:-1] == [
        "東京\t8",
        "大阪府\t4",
        "東京都\t3",
        "阪府\t4",
        "京都\t3",
    ]
    write_seeds(units, tmp_path / "seeds.tsv", 2)
    assert (tmp_path / "seeds.tsv").read_text().split("\n")[0] == "東京\t8"


# --- pieces across words


def crossing_language() -> tuple[dict[str, int], str]:
    """Return words where `では` is sometimes a word but more often two, and so is `という`."""
    words = WORDS | {"で": 3_000, "は": 3_000, "では": 400, "ではか": 60, "です": 2_500}
    lines = ["かさな\x1fで\x1fは\x1f東京\x1f \x1f東", "かさな\x1fでは\x1fです", "か\x1fで\x1fは\x1fです"]
    return words, "".join(f"{line}\n" for line in lines * 20)


@pytest.mark.parametrize("model", ["bpe", "byte-bpe", "wordpiece"])
def test_pieces_that_cross_words_are_dropped(model: ModelType, tmp_path: Path) -> None:
    words, sample = crossing_language()
    plain = learnt(tmp_path, words, sample, model=model, crossing=1.0)
    made = learnt(tmp_path, words, sample, model=model, crossing=0.6)
    assert "では" in pieces(plain)
    assert "では" not in pieces(made)
    assert "です" in pieces(made)
    assert made.counts["pieces.crossing.dropped"] == 1
    assert len(made.pieces) == len(plain.pieces)
    assert "では" in pieces(learnt(tmp_path, words, sample, model=model, crossing=0.7))
    assert "では" in pieces(learnt(tmp_path, words, sample, model=model, crossing=0.6, boundaries="hard"))


def test_space_before_a_word_is_not_a_crossing(tmp_path: Path) -> None:
    words, sample = crossing_language()
    words |= {" 東": 9_000}
    assert "▁東" in ordinary(learnt(tmp_path, words, sample, crossing=0.1))
    assert "▁東" not in ordinary(learnt(tmp_path, words, sample, crossing=0.1, spaces="alone"))


def test_every_bpe_piece_is_reachable(tmp_path: Path) -> None:
    words, sample = crossing_language()
    made = learnt(tmp_path, words, sample, crossing=0.3)
    sp = sentencepiece.SentencePieceProcessor(model_proto=model_proto(made))
    texts = list(spelt(made))
    assert [sp.encode(text, out_type=str) for text in texts] == [[text.replace(" ", "▁")] for text in texts]


def spelt(vocabulary: Vocabulary) -> Iterator[str]:
    return (text.replace("▁", " ") for text in ordinary(vocabulary))


def test_unusual_characters_do_not_shift_boundaries(tmp_path: Path) -> None:
    words, sample = crossing_language()
    odd = "\0\t▁▅\ufeff\ufffd\r\x85\u2028👨‍👩‍👧␤\n\n珍\n"
    for model in ("bpe", "byte-bpe", "wordpiece"):
        made = learnt(tmp_path, words, odd * 3 + sample + odd, model=model, crossing=0.6)
        assert made.counts["pieces.crossing.dropped"] == 1
        assert "では" not in pieces(made)


def test_large_sample_is_thinned_out_evenly(tmp_path: Path) -> None:
    words, sample = crossing_language()
    none = "か\x1fさ\n" * 600_000  # 4.8 MB before it
    made = learnt(tmp_path, words, none + sample * 4, crossing=0.6)
    assert "では" not in pieces(made)
