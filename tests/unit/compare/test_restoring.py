"""What a lossy pipeline must pay for the text that it has changed."""

from __future__ import annotations

from math import isfinite, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.compare.models import restoring
from jprep.compare.models.restoring import _steps, changed_characters, restoring_bits

TEXTS = st.text(st.sampled_from("あい1１ 　ー～\nab。"), max_size=60)


def restored(original: str, changed: str) -> str:
    """Apply the events to the changed text: what they describe must be the original."""
    rest, made = list(changed), []
    for event, _ in _steps(original, changed):
        if event == "keep":
            made.append(rest.pop(0))
        elif event == "delete":
            rest.pop(0)
        else:
            made.append(event.partition(" ")[2])
            if event.startswith("replace"):
                rest.pop(0)
    assert not rest
    return "".join(made)


@given(TEXTS, TEXTS)
def test_the_events_describe_the_original(original: str, changed: str) -> None:
    assert restored(original, changed) == original


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=5))
def test_bits_are_finite_and_positive(pairs: list[tuple[str, str]]) -> None:
    bits = restoring_bits([one for one, _ in pairs], [other for _, other in pairs])
    assert all(isfinite(each) and each >= 0 for each in bits)


def test_unchanged_texts_cost_nothing() -> None:
    assert restoring_bits(["あ", "い"], ["あ", "い"]) == [0.0, 0.0]
    assert changed_characters("猫が１匹", "猫が1匹") == 1


def test_a_repeated_change_becomes_cheap_and_a_rule_cheaper_than_chance() -> None:
    rule = restoring_bits(["１" * 50] * 40, ["1" * 50] * 40)
    assert rule[-1] < rule[0] / 5
    mixed = ["１1" * 25] * 40  # whether a digit was wide is one bit for each
    chance = restoring_bits(mixed, ["1" * 50] * 40)
    assert sum(rule) < sum(chance)
    assert chance[-1] > 25 * log2(2)


def test_a_line_of_any_length_is_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoring, "_PIECE", 60)
    assert restored("あ１" * 110, "あ1" * 110) == "あ１" * 110
