"""Windows over a text's tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jprep.compare.models.windows import windows


@given(st.integers(0, 200), st.integers(4, 40))
def test_each_token_is_scored_once_with_context(tokens: int, length: int) -> None:
    ids, scored = list(range(1, tokens + 1)), []
    for number, window in enumerate(windows(0, ids, length)):
        assert 1 <= window.start < len(window.ids) <= length
        assert number == 0 or window.start >= length // 2
        scored += window.ids[window.start :]
    assert scored == ids
