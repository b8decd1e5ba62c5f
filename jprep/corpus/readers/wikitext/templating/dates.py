"""Parse the dates that templates take: numbers, names of months, `2018-01-02`."""

from __future__ import annotations

import re

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = re.compile(
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)\.?",
    re.I,
)
_ISO = re.compile(r"(\d{1,4})[-/](\d{1,2})(?:[-/](\d{1,2}))?", re.A)
_JAPANESE = re.compile(r"\d{1,4}年(?:\d{1,2}月(?:\d{1,2}日)?)?")


def year_number(text: str) -> str:
    """Return a year, or ""."""
    return text if text.isdecimal() and len(text) <= 4 else ""


def month_number(text: str) -> str:
    """Return the number of a month, given as number or by its English name, or ""."""
    if name := _NAME.fullmatch(text):
        return str(_MONTHS.index(name[1][:3].lower()) + 1)
    return _number(text, 12)


def day_number(text: str) -> str:
    """Return the day of a month, or ""."""
    return _number(text, 31)


def whole_date(text: str) -> str:
    """Return a date that is one text as a Japanese date: 2018-01-02 is 2018年1月2日; "" for other texts."""
    if not (date := _ISO.fullmatch(text)):
        return text if _JAPANESE.fullmatch(text) else ""
    month, day = month_number(date[2]), day_number(date[3] or "")
    return f"{date[1]}年{month}月" + (f"{day}日" if day else "") if month and bool(day) == bool(date[3]) else ""


def _number(text: str, most: int) -> str:
    return str(int(text)) if text.isdecimal() and len(text) <= 2 and 0 < int(text) <= most else ""
