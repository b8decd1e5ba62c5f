"""The price of a run: its estimated duration at a price per hour or day."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from jprep.errors import ConfigError
from jprep.train.planning.duration import Duration

_PRICE = re.compile(
    r"(?P<before>[^\d\s./+-]{0,8})\s*(?P<number>\d[\d,]*(?:\.\d+)?|\.\d+)\s*(?P<after>[^\d\s./+-]{0,8})\s*/\s*(?P<unit>\w+)"
)
_HOURS = {"hour": 1, "h": 1, "day": 24, "d": 24}


class Price(NamedTuple):
    """A price of all machines of a run together.

    Attributes:
        per_hour: the price of an hour.
        currency: as given; "" if none was given.
    """

    per_hour: float
    currency: str = ""


def parse_price(text: str) -> Price:
    """Parse a price.

    Args:
        text: `32.77/hour`, `$786.48/day`, `5000 JPY/hour`.

    Raises:
        ConfigError: it is not a price.
    """
    found = _PRICE.fullmatch(text.strip())
    hours = found and _HOURS.get(found["unit"].lower())
    if not found or not hours or (found["before"] and found["after"]):
        fix = "e.g. --price 32.77/hour, '$786.48/day' or '5000 JPY/hour'"
        raise ConfigError(f"{text!r} is not a price per hour or day", where="--price", fix=fix)
    number = float(found["number"].replace(",", ""))
    if not 0 < number < math.inf:
        raise ConfigError("a price must be above 0", where="--price", fix="e.g. --price 32.77/hour")
    return Price(number / hours, found["before"] or found["after"])


class Cost(NamedTuple):
    """The estimated price of a run.

    Attributes:
        amount: None if the duration is unknown.
        text: the amount, and what it is computed from.
    """

    amount: float | None
    text: str


def estimate_cost(price: Price, duration: Duration) -> Cost:
    """Return the price of a run: its hours times the price per hour of all machines.

    Args:
        price: the price.
        duration: the estimated duration, which does not include interruptions.
    """
    each = f"{format_amount(price.per_hour, price.currency)} per hour"
    if duration.seconds is None:
        return Cost(None, f"unknown, at {each}: the duration is unknown")
    hours = duration.seconds / 3600
    amount = hours * price.per_hour
    shown = format_amount(amount, price.currency)
    return Cost(amount, f"about {shown}: {_rounded(hours)} hours at {each}, without interruptions")


def format_amount(amount: float, currency: str) -> str:
    """Return an amount with its currency, a sign before and a code after it."""
    shown = f"{amount:,.2f}" if amount < 1000 else f"{amount:,.0f}"
    return f"{shown} {currency}".rstrip() if currency.isalpha() else f"{currency}{shown}"


def _rounded(number: float) -> str:
    """Return a number with at least three digits."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
