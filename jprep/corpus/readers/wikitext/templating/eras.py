"""Years in Japanese eras since Meiji."""

from __future__ import annotations

_ERAS = ((2019, "令和"), (1989, "平成"), (1926, "昭和"), (1912, "大正"), (1868, "明治"))


def format_year_with_era(year: str) -> str:
    """Format a year with its era: `1980` becomes `1980年（昭和55年）`. Other text is returned unchanged."""
    if not year.isdecimal() or len(year) > 4:
        return year
    for first, name in _ERAS:
        if int(year) >= first:
            count = int(year) - first + 1
            return f"{int(year)}年（{name}{'元' if count == 1 else count}年）"
    return f"{int(year)}年"
