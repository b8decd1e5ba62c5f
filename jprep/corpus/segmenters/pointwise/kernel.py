"""Mark words as `Weights.decide` decides, in a function that numba compiles.

Texts are taken in blocks that fit into the processor's cache. Most of the time goes into look-ups in tables that do
not: each table has a loop of its own, in which the processor has many look-ups under way, and no branch depends on one.

All arithmetic is in integers. Signed and unsigned ones never meet in one operation, because numba makes floats of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.pointwise import hashing
from jprep.corpus.segmenters.pointwise.characters import ALONE, ASTRAL, ASTRAL_KANJI, HALO, KIND, PADS
from jprep.corpus.segmenters.pointwise.features import KIND_BITS, LANES, LONGEST, NEXT, REACH_BITS, WINDOW
from jprep.corpus.segmenters.pointwise.packed_tables import DICTIONARY_AT, QUADRUPLE_DICTIONARY_AT
from jprep.corpus.segmenters.pointwise.second_look import FEATURES, LONGEST_STRING, MARGIN, SALT, SUM_STEP
from jprep.corpus.segmenters.pointwise.weights import CERTAIN

BLOCK = 2048
"""Characters of a block, unless one text has more."""

_REACH = LONGEST  # characters after a place that are looked at
_MARK = np.uint32(ord(WORD))
_STEP, _FINISH, _NEXT = np.uint32(hashing.STEP), np.uint32(hashing.FINISH), np.uint32(NEXT)
_FOLD = np.uint32(15)
_U = np.uint64
_0, _1, _2, _3, _6, _8, _9, _12, _16, _32, _56 = map(_U, (0, 1, 2, 3, 6, 8, 9, 12, 16, 32, 56))
_ALONE, _KIND = _U(ALONE), _U(KIND)
_SMALL, _ASTRAL, _ASTRAL_KANJI, _HALF_PLANES = _U(0xFFFF), _U(ASTRAL), _U(ASTRAL_KANJI), _U(17)
_KIND_BITS, _LONGEST, _REACH_BITS = _U(KIND_BITS), _U(LONGEST), _U(REACH_BITS)
_KINDS, _BEHIND, _PAIR = (
    _U((1 << 2 * WINDOW * KIND_BITS) - 1),
    _U((WINDOW - 1) * KIND_BITS),
    _U((1 << 2 * KIND_BITS) - 1),
)
_AT, _QUADRUPLE_AT = _U(DICTIONARY_AT), _U(QUADRUPLE_DICTIONARY_AT)
_EVEN, _ODD, _LANE = _U(0xFF00FF00FF), _U(0x00FF00FF), _U(0xFFFF)
_BYTES, _LOW_BITS, _TOP_BITS = _U(0x0101010101010101), _U(0x7F7F7F7F7F7F7F7F), _U(0x8080808080808080)
_DIAGONAL, _GATHER, _RIGHT = _U(0x8040201008040201), _U(0x0102040810204080), _U(0x7F)
_FIRST_LONG = len(LANES)


class Scratch(NamedTuple):
    """Arrays for a block, with `HALO` pads at both ends.

    Attributes:
        symbols: its symbols; 0 at pads.
        hashes: mixed hashes of the n-grams that begin at each character, by length.
        rows: what is looked up for n-grams of 1 to 3 characters.
        quadruples: the same for 4 characters.
        direct: indices of direct features.
        found: lengths of the words that begin at each character.
        begins: whether a word begins there by the first sum or a rule.
        sums: the sums.
        places: characters to return to.
    """

    symbols: Any
    hashes: Any
    rows: Any
    quadruples: Any
    direct: Any
    found: Any
    begins: Any
    sums: Any
    places: Any


def make_scratch(longest: int) -> Scratch:
    """Return arrays for texts of at most some characters."""
    size = max(longest, BLOCK) + PADS + 2 * HALO
    shapes = (np.uint32, ()), (np.uint32, (4,)), (np.uint64, (3,)), (np.uint32, ()), (np.uint32, (5,))
    narrow = (np.uint8, ()), (np.bool_, ()), (np.int16, ()), (np.int64, ())
    made: list[Any] = [np.zeros((*shape, size), kind) for kind, shape in (*shapes, *narrow)]
    scratch = Scratch(*made)
    scratch.begins[:] = True
    return scratch


@njit(cache=True)
def mark_texts(codes, lengths, tables, scratch, marked, ends, sure):
    """Copy texts with U+001F between words.

    Args:
        codes: code points of the texts, one after the other, uint32; none is U+001F.
        lengths: characters of each text, at least 1, int64.
        tables: see `PackedTables`.
        scratch: see `Scratch`.
        marked: the result, uint32; at most twice as long as `codes`.
        ends: where each text ends there, int64.
        sure: the least absolute sum of the boundaries of each text, or `CERTAIN`, int64.

    Returns:
        The length of the result.
    """
    text, read, written = 0, 0, 0
    while text < len(lengths):
        end, size = _read_block(codes, read, lengths, text, tables.symbols, scratch.symbols)
        _hash(scratch, size)
        _look_up_rows(tables, scratch, size)
        _find_long_words(tables, scratch, _sum_rows(tables, scratch, size))
        _describe(tables, scratch, size)
        _decide_again(tables, scratch, _decide(tables, scratch, size))
        at = HALO
        while text < end:
            written, sure[text] = _copy(codes[read : read + lengths[text]], scratch.sums, at, marked, written)
            ends[text] = written
            read += lengths[text]
            at += lengths[text] + PADS
            text += 1
    return written


@njit
def _read_block(codes, read, lengths, text, table, symbols):
    """Fill in the symbols of some texts, with pads between them; return the next text and the number of symbols."""
    size = HALO
    for i in range(HALO):
        symbols[i] = 0
    while text < len(lengths) and (size == HALO or size + lengths[text] + PADS <= BLOCK):
        for i in range(lengths[text]):
            code = _U(codes[read + i])
            if code > _SMALL:
                code = _ASTRAL_KANJI if code >> _HALF_PLANES == _1 else _ASTRAL
            symbols[size + i] = table[code]
        read += lengths[text]
        size += lengths[text]
        for i in range(PADS):
            symbols[size + i] = 0
        size += PADS
        text += 1
    for i in range(HALO):
        symbols[size + i] = 0
    return text, size + HALO


@njit
def _mixed(hashed, salt):
    return np.uint32(np.uint32((hashed ^ (hashed >> _FOLD)) + np.uint32(salt)) * _FINISH)


@njit
def _extended(hashed, symbol):
    return np.uint32(hashed * _STEP + symbol)


@njit
def _hash(scratch, size):
    """Compute the mixed hashes of all n-grams."""
    symbols = scratch.symbols
    one, two, three, four = scratch.hashes[0], scratch.hashes[1], scratch.hashes[2], scratch.hashes[3]
    for i in range(size - _REACH):
        hashed = symbols[i]
        one[i] = _mixed(hashed, 1)
        hashed = _extended(hashed, symbols[i + 1])
        two[i] = _mixed(hashed, 2)
        hashed = _extended(hashed, symbols[i + 2])
        three[i] = _mixed(hashed, 3)
        hashed = _extended(hashed, symbols[i + 3])
        four[i] = _mixed(hashed, 4)


@njit
def _look_up_rows(tables, scratch, size):
    _look_up(tables.singles, scratch.hashes[0], tables.shifts[0], scratch.rows[0], size)
    _look_up(tables.pairs, scratch.hashes[1], tables.shifts[1], scratch.rows[1], size)
    _look_up(tables.triples, scratch.hashes[2], tables.shifts[2], scratch.rows[2], size)
    _look_up(tables.quadruples, scratch.hashes[3], tables.shifts[3], scratch.quadruples, size)


@njit
def _look_up(table, hashes, shift, found, size):
    for i in range(size - _REACH):
        found[i] = table[_U(hashes[i]) >> shift]


@njit
def _sum_rows(tables, scratch, size):
    """Sum lanes along the diagonal, and find words of 2 to 4 characters; return how many places begin a longer word.

    Lanes are summed in 16 bits each: lanes 0, 2 and 4 in one integer, 1 and 3 in another. What is lane k of one
    character is added to lane k + 1 of the next one.
    """
    symbols, shift = scratch.symbols, tables.words_shift
    ones, twos, threes = scratch.rows[0], scratch.rows[1], scratch.rows[2]
    two_part, three_part, four_part = tables.parts[1], tables.parts[2], tables.parts[3]
    even, odd, count = _0, _0, 0
    for i in range(1, size - _REACH):
        one, two, three, four = ones[i], twos[i], threes[i], _U(scratch.quadruples[i])
        even, odd = (
            (odd << _16) + (one & _EVEN) + (two & _EVEN) + (three & _ODD) + (four & _ODD),
            even + ((one >> _8) & _ODD) + ((two >> _8) & _ODD) + ((three >> _8) & _ODD) + ((four >> _8) & _U(0xFF)),
        )
        scratch.sums[i - 1] = np.int64((even >> _32) & _LANE) + tables.bias
        two_alive = _U(symbols[i] != 0) & _U(symbols[i + 1] != 0)
        three_alive = two_alive & _U(symbols[i + 2] != 0)
        four_alive = three_alive & _U(symbols[i + 3] != 0)
        two >>= _AT + ((_U(scratch.hashes[1, i]) >> shift) & two_part)
        three >>= _AT + ((_U(scratch.hashes[2, i]) >> shift) & three_part)
        four >>= _QUADRUPLE_AT + _2 * ((_U(scratch.hashes[3, i]) >> shift) & four_part)
        scratch.found[i] = ((two & two_alive) << _1) | ((three & three_alive) << _2) | ((four & four_alive) << _3)
        scratch.places[count] = i
        count += np.int64((four >> _1) & four_alive)
    return count


@njit
def _find_long_words(tables, scratch, count):
    """Add the words of 5 to 8 characters that begin at some places."""
    symbols = scratch.symbols
    for n in range(count):
        place = scratch.places[n]
        hashed, bit, found = symbols[place], _U(1 << _FIRST_LONG), _0
        for k in range(1, _FIRST_LONG):
            hashed = _extended(hashed, symbols[place + k])
        for k in range(_FIRST_LONG, LONGEST):
            symbol = symbols[place + k]
            bit = bit if symbol != 0 else _0
            hashed = _extended(hashed, symbol)
            found |= _U(tables.words[_U(_mixed(hashed, k + 1)) >> tables.words_shift]) & bit
            bit <<= _1
        scratch.found[place] |= found


@njit
def _describe(tables, scratch, size):
    """Compute the indices of the direct features.

    Byte n - 1 of `before` holds the words that begin n characters before; of `beyond` how far these reach behind here.
    """
    symbols, longest = scratch.symbols, tables.longest
    kinds, at_index, over_index, coarse, neighbours = (
        scratch.direct[0],
        scratch.direct[1],
        scratch.direct[2],
        scratch.direct[3],
        scratch.direct[4],
    )
    before, beyond, window = _0, _0, _0
    for i in range(WINDOW, size - _REACH):
        found = _U(scratch.found[i])
        window = ((window << _KIND_BITS) | (_U(symbols[i + WINDOW - 1]) & _KIND)) & _KINDS
        ending = ((before & _DIAGONAL) * _BYTES) >> _56
        left = ((((beyond + _LOW_BITS) & _TOP_BITS) >> _U(7)) * _GATHER) >> _56
        right = beyond | (beyond >> _32)
        right |= right >> _16
        right = (right | (right >> _8)) & _RIGHT
        both = _U(longest[found]) | (_U(longest[ending]) << _3) | (_U(longest[right]) << _6) | (_U(longest[left]) << _9)
        pair = np.uint32(symbols[i - 1] * _NEXT + symbols[i])
        kinds[i] = window
        at_index[i] = found | (ending << _LONGEST)
        over_index[i] = right | (left << _REACH_BITS)
        coarse[i] = (((window >> _BEHIND) & _PAIR) << _12) | both
        neighbours[i] = _U(_mixed(_extended(pair, np.uint32(both)), 0)) >> tables.neighbours_shift
        before = (before << _8) | found
        beyond = (((beyond >> _1) & _LOW_BITS) << _8) | (found >> _1)


@njit
def _decide(tables, scratch, size):
    """Add the direct features, apply the rules, and return how many places are in doubt."""
    sums, symbols, count = scratch.sums, scratch.symbols, 0
    _add(tables.neighbours, scratch.direct[4], sums, size)
    _add(tables.kinds, scratch.direct[0], sums, size)
    _add(tables.lengths, scratch.direct[1], sums, size)
    _add(tables.over, scratch.direct[2], sums, size)
    _add(tables.coarse, scratch.direct[3], sums, size)
    for i in range(HALO, size - HALO):
        here, before, total = _U(symbols[i]), _U(symbols[i - 1]), np.int64(sums[i])
        ruled = (((here | before) & _ALONE) != 0) | (here == 0) | (before == 0)
        sums[i] = CERTAIN if ruled else total
        scratch.begins[i] = ruled | (total > 0)
        scratch.places[count] = i
        count += ((abs(total) - MARGIN) >> 63) & np.int64(not ruled) & 1
    for i in range(size - HALO, size):
        scratch.begins[i] = True
    return count


@njit
def _add(table, index, sums, size):
    for i in range(HALO, size - HALO):
        sums[i] += table[_U(index[i])]


@njit
def _decide_again(tables, scratch, count):
    """Give places in doubt the sums of the second look, see `find_doubts`."""
    for n in range(count):
        place = scratch.places[n]
        total = np.int64(scratch.sums[place])
        strings = _strings_around(scratch.symbols, scratch.begins, place, total)
        for feature in range(FEATURES):
            hashed = _mixed(_mixed(strings[feature], SALT + feature), SALT)
            total += tables.second[feature, _U(hashed) >> tables.second_shift]
        scratch.sums[place] = total


@njit
def _strings_around(symbols, begins, place, total):
    left, start = _read_back(symbols, begins, place)
    right, end = _read_on(symbols, begins, place)
    beyond_left, _ = _read_back(symbols, begins, start)
    beyond_right, _ = _read_on(symbols, begins, end)
    both = np.uint32(_mixed(left, 1) + right)
    lengths = np.uint32((place - start) * LONGEST_STRING + (end - place))
    kinds = np.uint32(0)
    for offset in range(-2, 2):
        kinds = np.uint32((kinds << np.uint32(KIND_BITS)) | (symbols[place + offset] & KIND))
    sum_class = np.uint32(total // SUM_STEP + MARGIN // SUM_STEP)
    return (
        both,
        left,
        right,
        np.uint32(_mixed(beyond_left, 2) + both),
        np.uint32(_mixed(both, 3) + beyond_right),
        np.uint32(_mixed(beyond_left, 4) + left),
        np.uint32(_mixed(right, 5) + beyond_right),
        sum_class,
        np.uint32((sum_class << np.uint32(16)) | lengths),
        np.uint32((sum_class << np.uint32(16)) | kinds),
    )


@njit
def _read_back(symbols, begins, place):
    """Return the hash of the word that ends in front of a place, read backwards, and where it begins."""
    hashed = np.uint32(0)
    for _ in range(LONGEST_STRING):
        place -= 1
        hashed = _extended(hashed, np.uint32(symbols[place] + np.uint32(1)))
        if begins[place]:
            break
    return hashed, place


@njit
def _read_on(symbols, begins, place):
    """Return the hash of the word that begins at a place, and where it ends."""
    hashed = np.uint32(0)
    for _ in range(LONGEST_STRING):
        hashed = _extended(hashed, np.uint32(symbols[place] + np.uint32(1)))
        place += 1
        if begins[place]:
            break
    return hashed, place


@njit
def _copy(codes, sums, at, marked, written):
    """Copy a text with marks; return where it ends, and the least absolute sum."""
    sure = np.int64(CERTAIN)
    marked[written] = codes[0]
    written += 1
    for i in range(1, len(codes)):
        total = np.int64(sums[at + i])
        sure = min(sure, abs(total))
        marked[written] = _MARK
        written += np.int64(total > 0)
        marked[written] = codes[i]
        written += 1
    return written, sure
