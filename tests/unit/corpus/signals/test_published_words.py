"""Words of a list, counted as published filter sets count them."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.published.word_lists import PublishedWords
from jprep.errors import ConfigError, InputError


def count(folder: Path, definition: str, words: str, text: str) -> float:
    path = folder / "words.txt"
    path.write_text(words, encoding="utf-8")
    config = PublishedWords.Config(path=str(path), definition=definition)  # type: ignore[arg-type]
    return float(PublishedWords(config).measure(TextBatch([Document("1", "s", "", "", text)]))["listed_words"][0])


def test_llm_jp_takes_katakana_words_only_alone(tmp_path: Path) -> None:
    assert count(tmp_path, "llm-jp", "バカ\n悪い", "バカンスは悪い。バカは悪いバカだ。") == 4


def test_llm_jp_takes_the_first_word_of_the_list(tmp_path: Path) -> None:
    assert count(tmp_path, "llm-jp", "悪\n悪悪", "悪悪悪") == 3
    assert count(tmp_path, "llm-jp", "悪悪\n悪", "悪悪悪") == 2


def test_llm_jp_without_katakana_words_counts_no_empty_matches(tmp_path: Path) -> None:
    assert count(tmp_path, "llm-jp", "悪い", "良い本") == 0


def test_hojichar_counts_katakana_within_words(tmp_path: Path) -> None:
    assert count(tmp_path, "hojichar", "バカ\n悪い", "バカンスは悪い。") == 2


def test_swallow_gives_characters_of_longest_matches_per_japanese_letter(tmp_path: Path) -> None:
    assert count(tmp_path, "swallow", "悪\n悪い人", "悪い人と悪。abc") == 4 / 6
    assert count(tmp_path, "swallow", "悪", "abc") == 0


def test_uzushio_counts_different_words(tmp_path: Path) -> None:
    assert count(tmp_path, "uzushio", "# 一覧\n悪\n悪い\n人", "悪い悪い人、悪。") == 3


def test_characters_of_patterns_are_plain(tmp_path: Path) -> None:
    assert count(tmp_path, "hojichar", "a.c\n(x", "abc a.c (x") == 2


def test_the_list_is_recorded_by_its_hash(tmp_path: Path) -> None:
    def provenance(words: str) -> dict[str, str]:
        (tmp_path / "words.txt").write_text(words, encoding="utf-8")
        return PublishedWords(PublishedWords.Config(path=str(tmp_path / "words.txt"))).provenance()

    assert provenance("悪") != provenance("悪い")


@pytest.mark.parametrize(
    ("data", "what"), [(b"\xff\xfe", "not UTF-8"), (b"\n \n", "no words"), (None, "cannot be read")]
)
def test_a_list_that_cannot_be_used_is_refused(tmp_path: Path, data: bytes | None, what: str) -> None:
    path = tmp_path / "words.txt"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError, match=what):
        PublishedWords(PublishedWords.Config(path=str(path)))


def test_a_list_is_needed() -> None:
    with pytest.raises(ConfigError, match="list of words is needed"):
        PublishedWords()
