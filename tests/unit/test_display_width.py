"""Text is padded by the columns that a terminal gives it."""

from __future__ import annotations

import pytest

from jprep.cli.common.output import print_columns, table
from jprep.display_width import display_width, pad


@pytest.mark.parametrize(("text", "width"), [("f1/口コミ", 9), ("ｶﾞ", 2), ("か\u3099", 2), ("Ａ", 2), ("é", 1), ("", 0)])
def test_wide_characters_take_two_columns(text: str, width: int) -> None:
    assert display_width(text) == width
    assert pad(text, 10) == text + " " * (10 - width)


def test_tables_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    table("figures", {"口コミ": 1, "loss": 0.5, "a/百科": 20})
    lines = capsys.readouterr().out.splitlines()[2:]
    assert len({display_width(line) for line in lines}) == 1


@pytest.mark.parametrize("right", [False, True])
def test_columns_are_aligned(right: bool, capsys: pytest.CaptureFixture[str]) -> None:
    print_columns([("source", "files", "end"), ("青空文庫", "一つ", "end"), ("web", "12,345", "end")], right=right)
    lines = capsys.readouterr().out.splitlines()
    assert len({display_width(line) for line in lines}) == 1
    assert all(line.endswith("  end") for line in lines)
