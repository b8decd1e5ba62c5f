"""Swallow's measures, against a plain reference that reads one document at a time."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.published.swallow import SwallowLetters, SwallowSentences
from jprep.corpus.signals.published.swallow_repetition import SwallowDuplicates, SwallowNgrams

_SIGNALS = (SwallowLetters, SwallowSentences, SwallowDuplicates, SwallowNgrams)
_ENDS = "。．！？!?"
_TEXTS = st.text(st.sampled_from("あいァー漢𠮷々a。．！？!?、…・ 　\n\n"), max_size=60)


def batch_of(*texts: str) -> TextBatch:
    return TextBatch([Document(str(index), "s", "", "", text) for index, text in enumerate(texts)])


def measured(*texts: str) -> list[dict[str, float]]:
    columns: dict[str, list[float]] = {}
    for signal in _SIGNALS:
        found = signal().measure(batch_of(*texts))
        assert tuple(found) == signal().columns
        columns |= {name: values.tolist() for name, values in found.items()}
    return [{name: values[index] for name, values in columns.items()} for index in range(len(texts))]


def plain_sentences(text: str) -> list[list[str]]:
    """Return the sentences of each line, one character at a time."""
    lines = []
    for line in text.split("\n"):
        found, current = [], ""
        for char in line:
            if char not in _ENDS:
                current += char
            elif current:
                found.append(current + char)
                current = ""
        lines.append([*found, current] if current else found)
    return lines


def plain_duplicates(items: list[str]) -> tuple[float, float]:
    before = [item for index, item in enumerate(items) if item in items[:index]]
    total = len("".join(items))
    return (len(before) / len(items) if items else 0.0, len("".join(before)) / total if total else 0.0)


def plain(text: str) -> dict[str, float]:
    lines = plain_sentences(text)
    sentences = [sentence for line in lines for sentence in line]
    hiragana, katakana = len(re.findall("[ぁ-ゖ]", text)), len(re.findall("[ァ-ヺ]", text))
    japanese = hiragana + katakana + len(re.findall("[々〇〻\u3400-\u9fff\uf900-\ufaff、，。．！？]", text))
    nan = float("nan")
    found = {
        "swallow_letters": len(text),
        "swallow_japanese_letters": japanese,
        "swallow_japanese_share": japanese / len(text) if text else 0,
        "swallow_hiragana_share": hiragana / japanese if japanese else 0,
        "swallow_katakana_share": katakana / japanese if japanese else 0,
        "swallow_mean_sentence": len("".join(sentences)) / len(sentences) if sentences else nan,
        "swallow_longest_sentence": max(map(len, sentences)) if sentences else nan,
        "swallow_ellipsis_share": sum(s.strip()[-1:] in tuple("…・") for s in sentences) / max(len(sentences), 1),
    }
    by_line, by_sentence = plain_duplicates(["".join(line) for line in lines]), plain_duplicates(sentences)
    found |= {"swallow_duplicate_line_share": by_line[0], "swallow_duplicate_line_character_share": by_line[1]}
    found |= {"swallow_duplicate_sentence_share": by_sentence[0]}
    found |= {"swallow_duplicate_sentence_character_share": by_sentence[1]}
    for size in range(2, 11):
        counts = Counter(text[at : at + size] for at in range(len(text) - size + 1))
        if size < 5:
            found[f"swallow_top_{size}gram_share"] = max(counts.values(), default=0) / max(counts.total(), 1)
        else:
            repeated = sum(count > 1 for count in counts.values())
            found[f"swallow_duplicate_{size}gram_share"] = repeated / max(len(counts), 1)
    return found


@given(st.lists(_TEXTS, max_size=6))
def test_values_are_those_of_the_plain_reference(texts: list[str]) -> None:
    assert measured(*texts) == [pytest.approx(plain(text), nan_ok=True, rel=1e-15) for text in texts]


@given(st.lists(st.text(st.sampled_from("あい\n"), max_size=80), max_size=5))
def test_ngrams_of_texts_full_of_repetition(texts: list[str]) -> None:
    assert measured(*texts) == [pytest.approx(plain(text), nan_ok=True, rel=1e-15) for text in texts]


@given(st.lists(_TEXTS, min_size=1, max_size=5))
def test_a_value_does_not_depend_on_the_other_documents(texts: list[str]) -> None:
    assert repr(measured(*texts)) == repr([measured(text)[0] for text in texts])


def test_marks_behind_a_mark_belong_to_no_sentence() -> None:
    found = measured("。。これは三文。！？ですね！！\n。\nこれは三文。")[0]
    assert found["swallow_mean_sentence"] == (6 + 4 + 6) / 3
    assert found["swallow_duplicate_sentence_share"] == 1 / 3


def test_an_ellipsis_before_white_space_ends_a_sentence() -> None:
    assert measured("続く… \u3000\n終わり。\nまた・\nここ…。")[0]["swallow_ellipsis_share"] == 2 / 4


def test_empty_lines_are_duplicates_of_each_other() -> None:
    assert measured("一\n\n\n二")[0]["swallow_duplicate_line_share"] == 1 / 4


def test_no_texts_have_no_values() -> None:
    assert measured() == []
