"""The normalizer `characters`: deletions and replacements, each counted."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus.config import make_step
from jprep.corpus.normalizers.characters import CharactersNormalizer
from jprep.errors import ConfigError
from jprep.testing.conformance.normalizer import NormalizerSuite


class TestCharacters(NormalizerSuite):
    step = CharactersNormalizer
    options = {"delete": "★🈁", "ranges": ["U+2500-U+257F"], "categories": ["Co"], "map": {"髙": "高", "﨑": "崎"}}
    pairs = (("★髙﨑さん━━\ue000🈁", "高崎さん"), ("髙", "高"), ("同じ", "同じ"))


class TestCharactersWithoutOptions(NormalizerSuite):
    step = CharactersNormalizer
    options = {"delete": "あ"}
    pairs = (("あい", "い"),)


def make(**options: Any) -> CharactersNormalizer:
    return CharactersNormalizer(msgspec.convert(options, CharactersNormalizer.Config))


ALPHABET = "あい髙高★─━a^]-\\&~|[\ue000\n 　"


@given(st.text(st.sampled_from(ALPHABET)), st.sets(st.sampled_from("あ★a^]-\\&~|[ ")))
def test_laws(text: str, deleted: set[str]) -> None:
    step = make(delete="".join(sorted(deleted)), ranges=["U+2500-U+257F"], categories=["Co"], map={"髙": "高い"})
    result = step.apply(text)
    gone = {*deleted, "─", "━", "\ue000"}
    assert result == "".join("高い" if one == "髙" else "" if one in gone else one for one in text)
    counts = Counter(text)
    assert sum(count for name, count in step.tally.items() if name.startswith("deleted.")) == sum(
        counts[one] for one in gone
    )
    assert step.tally["replaced.U+9AD9"] == counts["髙"]
    assert all(step.tally[f"deleted.U+{ord(one):04X}"] == counts[one] for one in deleted)
    assert step.tally["deleted.Co"] == counts["\ue000"]
    again = make(delete="".join(sorted(deleted)), ranges=["U+2500-U+257F"], categories=["Co"], map={"髙": "高い"})
    assert again.apply(result) == result
    assert not again.tally


@pytest.mark.parametrize("name", ["Co", "Cf", "Zs", "Cc", "Mn"])
def test_a_category_is_that_of_python(name: str) -> None:
    scalars = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    kept = set(make(categories=[name]).apply("".join(scalars)))
    assert {one for one in scalars if unicodedata.category(one) == name and one not in "\n\x1e\x1f"} == set(
        scalars
    ) - kept


def test_a_single_character_has_precedence_over_its_range() -> None:
    step = make(ranges=["U+2600-U+26FF"], categories=["So"], map={"★": "*", "♪": "music"})
    assert step.apply("★☆♪〒") == "*music"
    assert dict(step.tally) == {
        "replaced.U+2605": 1, "deleted.U+2600-U+26FF": 1, "replaced.U+266A": 1, "deleted.So": 1, "lines_changed": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"delete": "ab", "map": {"a": "b"}}, "given twice"),
        ({"delete": "aa"}, "given twice"),
        ({"map": {"ab": "c"}}, "not one character"),
        ({"map": {"": "c"}}, "not one character"),
        ({"map": {"a": "b", "b": "c"}}, "is itself changed"),
        ({"map": {"a": "★"}, "categories": ["So"]}, "is itself changed"),
        ({"delete": "\n"}, "line feeds"),
        ({"map": {"a": "b\n"}}, "line feeds"),
        ({"ranges": ["U+0000-U+001F"]}, "line feeds"),
        ({"ranges": ["2500-257F"]}, "not a range"),
        ({"ranges": ["U+257F-U+2500"]}, "not a range"),
        ({"ranges": ["U+110000-U+110001"]}, "not a range"),
        ({"ranges": ["U+D800-U+DFFF"]}, "not a range"),
    ],
)
def test_ambiguous_options_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        make(**options)


def test_an_unknown_category_is_refused() -> None:
    with pytest.raises(ConfigError, match="'Xx' is not a valid value of `categories"):
        make_step("normalizer", {"use": "characters", "categories": ["Xx"]})
