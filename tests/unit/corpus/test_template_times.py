"""`{{#time:}}` and the variables of the day within template pages."""

from __future__ import annotations

import contextlib
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.readers.wikitext import Extractor, ExtractorConfig
from jprep.corpus.readers.wikitext.transclusion.page_file import TemplatePage, write_template_pages
from jprep.corpus.readers.wikitext.transclusion.parser_functions.times import (
    UnknownTimeError,
    format_time,
    parse_timestamp,
    show_variable,
)

NOW = datetime(2024, 2, 29, 15, 4, 5)


@pytest.mark.parametrize(
    ("form", "date", "shown"),
    [
        ("Y年n月j日", "", "2024年2月29日"),
        ("Y-m-d H:i:s", "now", "2024-02-29 15:04:05"),
        ("y F M xg", "2020-01-05", "20 1月 1月 1月"),
        ("D l N w", "2020年1月5日", "日 日曜日 7 0"),
        ("z W o t L", "2021-01-01", "0 53 2020 31 0"),
        ("t L", "2020-02-10", "29 1"),
        ("a A g G h H", "2020-01-05 00:07", "am AM 12 0 12 00"),
        ("a g h", "2020/1/5 +15 hours", "pm 3 03"),
        ("U e T", "1970-01-02", "86400 UTC UTC"),
        ("c", "20200105060708", "2020-01-05T06:07:08+00:00"),
        ("r", "2020-01-05", "Sun, 05 Jan 2020 00:00:00 +0000"),
        ("Y-m-d", "@86400", "1970-01-02"),
        ("Y-m-d", "+1 day", "2024-03-01"),
        ("Y-m-d", "2024-01-31 +1 month", "2024-03-02"),
        ("Y-m-d", "2024-02-29 -1 year", "2023-03-01"),
        ("Y-m-d", "2024-03-01 2 days ago", "2024-02-28"),
        ("Y-m-d H", "yesterday", "2024-02-28 00"),
        ("Y-m-d", "2024-01", "2024-01-01"),
        ("xtY年", "2019-04-30", "平成31年"),
        ("xtY年", "2019-05-01", "令和元年"),
        ("xkY xoY xx", "2020-01-05", "2563 109 x"),
        (r"\Y\n Y", "2020-01-05", "Yn 2020"),
        ('"Year: "Y', "2020-01-05", "Year: 2020"),
    ],
)
def test_times(form: str, date: str, shown: str) -> None:
    assert format_time(form, date, NOW) == shown


@pytest.mark.parametrize(
    ("form", "date"),
    [
        *(
            ("Y", date)
            for date in (
                "2020-13-01",
                "2020",
                "1月5日",
                "来年",
                "+99999 years",
                "2020-01-05 abc",
                "@x",
                "@1_000",
                "@000000000000000000001",
                "next month",
            )
        ),
        *((form, "2020-01-05") for form in ("xjY", "xij", "B", "xnY", "xr")),
        ("xtY", "1800-01-01"),
    ],
)
def test_what_cannot_be_understood_is_unknown(form: str, date: str) -> None:
    with pytest.raises(UnknownTimeError):
        format_time(form, date, NOW)


def test_without_a_revision_now_is_unknown() -> None:
    assert format_time("Y", "2020-01-05", None) == "2020"
    assert parse_timestamp("yesterday") is None
    assert show_variable("CURRENTYEAR", None) is None
    with pytest.raises(UnknownTimeError):
        format_time("Y", "", None)


def test_long_dates_and_formats_end() -> None:
    assert format_time("Y" * 200_000, "2020-01-05", NOW) == "2020" * 200_000
    for date in ("2020-01-05" + " " * 200_000 + "x", "now" + " +1 day" * 50_000 + " x", "+" + " " * 200_000):
        with pytest.raises(UnknownTimeError):
            format_time("Y", date, NOW)


TEXT = st.text(st.sampled_from('YmdxtgjU\\"0123456789-/年月日+ @daysmonthag'), max_size=20)


@settings(max_examples=100, deadline=None)
@given(TEXT, TEXT)
def test_any_format_and_date_is_shown_or_unknown(form: str, date: str) -> None:
    with contextlib.suppress(UnknownTimeError):
        assert format_time(form, date, NOW) == format_time(form, date, NOW)


def test_the_time_of_the_revision_is_now(tmp_path: Path) -> None:
    body = "{{#time:Y年n月j日|{{{1|}}}}}と{{CURRENTYEAR}}年と{{#time:Y||de}}"
    write_template_pages(tmp_path / "t.sqlite", [TemplatePage("今日", "", body, "")], {})
    extractor = Extractor(ExtractorConfig(template_pages=str(tmp_path / "t.sqlite")))
    assert extractor.extract("{{今日}}。", "題", "2024-02-29T15:04:05Z") == "2024年2月29日と2024年と。"
    assert extractor.extract("{{今日|+1 day}}。", "題", "2020-12-31T00:00:00Z") == "2021年1月1日と2020年と。"
    assert extractor.tally["templates.functions"] == 4
