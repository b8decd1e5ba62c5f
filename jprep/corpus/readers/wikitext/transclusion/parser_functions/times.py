"""`{{#time:}}` and the variables of the day. The time of the page's revision is "now": no result depends on a clock."""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from datetime import UTC, datetime, timedelta

_TOKEN = re.compile(r"x[ijkmot][a-zA-Z]|x[a-zA-Z]|\\(.)|\"([^\"]*)\"|(.)", re.S)
_WEEKDAYS = "月火水木金土日"
_ENGLISH_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_ENGLISH_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ERAS = ((datetime(2019, 5, 1), "令和"), (datetime(1989, 1, 8), "平成"), (datetime(1926, 12, 25), "昭和"),
         (datetime(1912, 7, 30), "大正"), (datetime(1873, 1, 1), "明治"))  # fmt: skip
"""Since 1873 the Japanese calendar has the days of the Gregorian one."""

_DATES = tuple(
    re.compile(pattern, re.A)
    for pattern in (
        r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})(?:[T ](?P<H>\d{1,2}):(?P<M>\d\d)(?::(?P<S>\d\d))?Z?)?",
        r"(?P<y>\d{4})/(?P<m>\d{1,2})/(?P<d>\d{1,2})",
        r"(?P<y>\d{4})年(?P<m>\d{1,2})月(?P<d>\d{1,2})日",
        r"(?P<y>\d{4})-(?P<m>\d\d)",
        r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)(?P<H>\d\d)(?P<M>\d\d)(?P<S>\d\d)",
    )
)
_SECONDS_SINCE_1970 = re.compile(r"@(-?\d{1,14})", re.A)
_OFFSET = re.compile(
    r"\s*+([+-]?)\s*+(\d{1,6})\s*+(second|sec|minute|min|hour|day|week|month|year)s?( ago)?\b", re.I | re.A
)
_SECONDS = {"second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "day": 86_400, "week": 604_800}


class UnknownTimeError(ValueError):
    """A date or a format that cannot be understood."""


def format_time(template: str, date: str, now: datetime | None) -> str:
    """Return what `{{#time:template|date}}` shows on a Japanese wiki, in UTC.

    Args:
        template: the format, in PHP's codes and those of MediaWiki.
        date: the date; "" is now.
        now: time of the page's revision; None if it is unknown.

    Raises:
        UnknownTimeError: the date, or a code of the format, cannot be understood.
    """
    time = _parse(date.strip(), now)
    codes = _php_codes(time)
    return "".join(_shown(match, time, codes) for match in _TOKEN.finditer(template))


def parse_timestamp(timestamp: str) -> datetime | None:
    """Return the time of a revision as a dump writes it, or None."""
    try:
        return datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return None


def _parse(date: str, now: datetime | None) -> datetime:
    try:
        if match := _SECONDS_SINCE_1970.fullmatch(date):
            return datetime.fromtimestamp(int(match[1]), UTC).replace(tzinfo=None)
        for pattern in _DATES:
            if match := pattern.match(date):
                return _moved(_date(match.groupdict()), date[match.end() :])
        if now is None:
            raise UnknownTimeError(date)
        word = re.match(r"now|today|midnight|yesterday|tomorrow|", date, re.I)
        name = word[0].lower() if word else ""
        time = now if name in ("", "now") else datetime(now.year, now.month, now.day)
        days = {"yesterday": -1, "tomorrow": 1}.get(name, 0)
        return _moved(time + timedelta(days=days), date[len(name) :])
    except (ValueError, OverflowError, OSError) as error:
        raise UnknownTimeError(date) from error


def _date(parts: dict[str, str | None]) -> datetime:
    hour, minute, second = (int(parts.get(name) or 0) for name in "HMS")
    return datetime(int(parts["y"] or 0), int(parts["m"] or 0), int(parts.get("d") or 1), hour, minute, second)


def _moved(time: datetime, offsets: str) -> datetime:
    """Return a time moved by `+1 day -2 months`. A day that a month lacks is counted on, as PHP does."""
    done = 0
    while match := _OFFSET.match(offsets, done):
        count = int(match[2]) * (-1 if (match[1] == "-") != bool(match[4]) else 1)
        unit = match[3].lower()
        if unit in _SECONDS:
            time += timedelta(seconds=count * _SECONDS[unit])
        else:
            months = time.year * 12 + time.month - 1 + count * (12 if unit == "year" else 1)
            time = time.replace(year=months // 12, month=months % 12 + 1, day=1) + timedelta(days=time.day - 1)
        done = match.end()
    if offsets[done:].strip() not in ("", "UTC", "Z"):
        raise UnknownTimeError(offsets)
    return time


def _shown(token: re.Match[str], time: datetime, codes: dict[str, str]) -> str:
    """Return what one token of a format shows, given what PHP's codes show."""
    code = token[0]
    if token[1] is not None or token[2] is not None:
        return token[1] or token[2] or ""
    if code.startswith("x") and len(code) > 1:
        return _mediawiki(code, time)
    if code in codes:
        return codes[code]
    if code.isascii() and code.isalpha():
        raise UnknownTimeError(code)
    return code


def _mediawiki(code: str, time: datetime) -> str:
    """Return what a code of MediaWiki shows. Those of other calendars and numerals are unknown."""
    if code == "xx":
        return "x"
    if code == "xg":
        return f"{time.month}月"
    if code == "xkY":
        return str(time.year + 543)
    if code == "xoY":
        return str(time.year - 1911)
    if code == "xtY":
        return _era(time)
    raise UnknownTimeError(code)


def _era(time: datetime) -> str:
    for start, name in _ERAS:
        if time >= start:
            first = 1868 if name == "明治" else start.year
            return f"{name}{time.year - first + 1 if time.year > first else '元'}"
    raise UnknownTimeError("a year before the Gregorian calendar")


def _php_codes(time: datetime) -> dict[str, str]:
    """Return what each of PHP's codes shows."""
    day = time.weekday()
    hour = time.hour % 12 or 12
    year, week, _ = time.isocalendar()
    clock = f"{time:%H:%M:%S}"
    return {
        "d": f"{time.day:02}", "j": str(time.day), "D": _WEEKDAYS[day], "l": f"{_WEEKDAYS[day]}曜日", "N": str(day + 1),
        "w": str((day + 1) % 7), "z": str(time.timetuple().tm_yday - 1), "W": f"{week:02}", "o": str(year),
        "F": f"{time.month}月", "M": f"{time.month}月", "m": f"{time.month:02}",
        "n": str(time.month),
        "t": str(monthrange(time.year, time.month)[1]),
        "L": str(int(isleap(time.year))), "Y": str(time.year),
        "y": f"{time.year % 100:02}", "a": "pm" if time.hour > 11 else "am",
        "A": "PM" if time.hour > 11 else "AM", "g": str(hour), "G": str(time.hour), "h": f"{hour:02}",
        "H": f"{time.hour:02}", "i": f"{time.minute:02}", "s": f"{time.second:02}",
        "e": "UTC", "T": "UTC", "I": "0", "O": "+0000", "P": "+00:00", "Z": "0",
        "U": str(int((time - datetime(1970, 1, 1)).total_seconds())),
        "c": f"{time.year:04}-{time.month:02}-{time.day:02}T{clock}+00:00",
        "r": f"{_ENGLISH_DAYS[day]}, {time.day:02} {_ENGLISH_MONTHS[time.month - 1]} {time.year:04} {clock} +0000",
    }  # fmt: skip


_VARIABLES = {
    "YEAR": "Y", "MONTH": "m", "MONTH1": "n", "MONTH2": "m", "MONTHNAME": "F", "MONTHNAMEGEN": "F", "MONTHABBREV": "M",
    "DAY": "j", "DAY2": "d", "DOW": "w", "DAYNAME": "l", "TIME": "H:i", "HOUR": "H", "TIMESTAMP": "YmdHis",
}  # fmt: skip


def show_variable(name: str, now: datetime | None) -> str | None:
    """Return what `{{CURRENTYEAR}}` and its relatives show; None for others, or if the time of the page is unknown."""
    code = _VARIABLES.get(name.removeprefix("CURRENT")) if name.startswith("CURRENT") else None
    return format_time(code, "", now) if code and now else None
