"""`pointwise` decides as integers of any size do: nothing overflows, and no float has a part in the result."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.pointwise.characters import HALO, fold_codes, pad_texts, symbols_of
from jprep.corpus.segmenters.pointwise.dictionary import make_dictionary
from jprep.corpus.segmenters.pointwise.features import LANES, FeatureConfig
from jprep.corpus.segmenters.pointwise.second_look import LONGEST_STRING, MARGIN, MAX_SECOND
from jprep.corpus.segmenters.pointwise.weights import MAX_DIRECT, MAX_LANE, Weights
from jprep.testing.conformance.segmenter import HARD, SENTENCES

STEP, FINISH, NEXT, MASK = 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, 0xFFFFFFFF
SIZES = FeatureConfig(characters=9, pairs=10, triples=11, quadruples=12, neighbours=9, words=13, second=8)


def mix(hashed: int, salt: int) -> int:
    return (hashed ^ hashed >> 15) + salt & MASK


def row(hashed: int, salt: int, bits: int) -> int:
    return (mix(hashed, salt) * FINISH & MASK) >> 32 - bits


class Reference:
    """The decisions about one text, one boundary and one feature at a time, in Python's integers."""

    def __init__(self, symbols: list[int], held: Weights) -> None:
        self.symbols, self.held, self.bits = symbols, held, held.config

    def hashed(self, start: int, length: int) -> int:
        found = self.symbols[start]
        for symbol in self.symbols[start + 1 : start + length]:
            found = found * STEP + symbol & MASK
        return found

    def words_at(self, place: int) -> int:
        """The lengths of dictionary words that begin at a character, as bits."""
        found = 0
        for length in range(2, 9):
            byte = int(self.held.words[row(self.hashed(place, length), length, self.bits.words)])
            if 0 in self.symbols[place : place + length]:
                break
            found |= byte & 1 << length - 1
            if length == 4 and not byte & 1:
                break
        return found

    def first_sum(self, place: int) -> int:
        total = self.held.bias
        for length, (bits, lanes) in enumerate(zip(self.bits.row_bits, LANES, strict=True), 1):
            for lane in range(lanes):
                index = row(self.hashed(place - 3 + lane, length), length, bits)
                total += int(self.held.rows[length - 1][index, lane])
        return total + sum(int(table[i]) for table, i in zip(self.held.direct, self.direct(place), strict=True))

    def direct(self, place: int) -> list[int]:
        kinds = [symbol & 7 for symbol in self.symbols[place - 3 : place + 3]]
        window = sum(kind << 3 * (5 - n) for n, kind in enumerate(kinds))
        begin, end, right, left = self.words_at(place), 0, 0, 0
        for back in range(1, 9):
            words = self.words_at(place - back)
            end |= words & 1 << back - 1
            if back < 8 and words >> back:
                right, left = right | words >> back, left | 1 << back - 1
        lengths = [min(bits.bit_length(), 7) for bits in (begin, end, right, left)]
        longest = sum(length << 3 * n for n, length in enumerate(lengths))
        pair = (self.symbols[place - 1] * NEXT + self.symbols[place]) * STEP + longest & MASK
        coarse = (kinds[2] << 3 | kinds[3]) << 12 | longest
        return [window, begin | end << 8, right | left << 7, coarse, row(pair, 0, self.bits.neighbours)]

    def second_sum(self, place: int, total: int, begins: list[bool]) -> int:
        start, left = self.back(place, begins)
        end, right = self.on(place, begins)
        before, after = self.back(start, begins)[1], self.on(end, begins)[1]
        both = self.joined(left, 1, right)
        kinds = sum((self.symbols[place + n] & 7) << 3 * (1 - n) for n in range(-2, 2))
        size, lengths = total // 8 + MARGIN // 8, (place - start) * LONGEST_STRING + end - place
        strings = [both, left, right, self.joined(before, 2, both), self.joined(both, 3, after)]
        strings += [self.joined(before, 4, left), self.joined(right, 5, after)]
        strings += [size, size << 16 | lengths, size << 16 | kinds]
        index = [row(mix(each, 64 + n) * FINISH & MASK, 64, self.bits.second) for n, each in enumerate(strings)]
        return total + sum(int(table[i]) for table, i in zip(self.held.second, index, strict=True))

    def joined(self, one: int, salt: int, other: int) -> int:
        return (mix(one, salt) * FINISH & MASK) + other & MASK

    def back(self, end: int, begins: list[bool]) -> tuple[int, int]:
        found, place = 0, end
        while place == end or (not begins[place] and end - place < LONGEST_STRING):
            place -= 1
            found = found * STEP + self.symbols[place] + 1 & MASK
        return place, found

    def on(self, start: int, begins: list[bool]) -> tuple[int, int]:
        found, place = 0, start
        while place == start or (not begins[place] and place - start < LONGEST_STRING):
            found = found * STEP + self.symbols[place] + 1 & MASK
            place += 1
        return place, found

    def decide(self) -> list[bool]:
        alone = [symbol == 0 or symbol & 8 != 0 for symbol in self.symbols]
        inner = range(HALO, len(self.symbols) - HALO)
        sums = {place: self.first_sum(place) for place in inner if not alone[place] and not alone[place - 1]}
        begins = [sums[place] > 0 if place in sums else True for place in range(len(self.symbols))]
        doubts = {place: total for place, total in sums.items() if abs(total) < MARGIN}
        second = {place: self.second_sum(place, total, begins) > 0 for place, total in doubts.items()}
        return [second.get(place, begins[place]) for place in inner]


@pytest.fixture(scope="module", params=["usual", "extreme"])
def held(request: pytest.FixtureRequest) -> Weights:
    """Random weights: small ones, which leave many boundaries in doubt, or the largest."""
    draw, extreme = np.random.default_rng(1), request.param == "extreme"

    def table(limit: int, shape: tuple[int, ...], kind: type) -> np.ndarray:
        if extreme:
            return draw.choice([-limit, limit], shape).astype(kind)
        return draw.integers(-6, 7, shape).astype(kind)

    rows = [table(MAX_LANE, (1 << bits, lanes), np.int8) for bits, lanes in zip(SIZES.row_bits, LANES, strict=True)]
    direct = [table(MAX_DIRECT, (1 << bits,), np.int16) for bits in SIZES.direct_bits]
    second = table(MAX_SECOND, (10, 1 << SIZES.second), np.int8)
    words = make_dictionary(["東京", "タワー", "東京タワー", "すもも", "もものうち", "ものうちに", "図書館"], SIZES)
    return Weights(SIZES, rows, direct, words, second, 8000 if extreme else 3)


def assert_same(text: str, held: Weights) -> None:
    padded, _ = pad_texts(fold_codes(np.array([ord(each) for each in text], np.uint32)), np.array([len(text)]))
    symbols = symbols_of(padded)
    assert held.decide(padded)[0][HALO:-HALO].tolist() == Reference(symbols.tolist(), held).decide()


@pytest.mark.parametrize("text", [*SENTENCES, "東京タワーもものうちに図書館", *(each[:200] for each in HARD if each)])
def test_sentences(text: str, held: Weights) -> None:
    assert_same(text.replace(WORD, ""), held)


@given(
    text=st.text(
        st.sampled_from("東京タワすものうちに図書館を読む aｂ１2\t\n\0\u3000。、𠮟👍"), min_size=1, max_size=40
    )
)
@settings(deadline=None, max_examples=30)
def test_any_text(text: str, held: Weights) -> None:
    assert_same(text, held)


def test_small_weights_leave_boundaries_in_doubt(held: Weights) -> None:
    """Otherwise the second look would not be compared."""
    codes = np.array([ord(each) for each in "東京タワーもものうちに図書館"], np.uint32)
    sums = held.first_sums(symbols_of(pad_texts(fold_codes(codes), np.array([len(codes)]))[0]))[HALO:-HALO]
    assert (np.abs(sums) < MARGIN).any() == (held.bias == 3)
