"""Student's t distribution with any number of degrees of freedom, also fractions, without SciPy."""

from __future__ import annotations

from math import exp, inf, lgamma, log, log1p

_PRECISION = 1e-14
_TINY = 1e-300


def t_two_sided(t: float, df: float) -> float:
    """Return the probability that |T| is at least |t|.

    Args:
        t: a value of the statistic; may be infinite.
        df: degrees of freedom, above 0.
    """
    if t in (inf, -inf):
        return 0.0
    if t == 0:
        return 1.0
    return _beta(df / 2, 0.5, df / (df + t * t), t * t / (df + t * t))


def t_quantile(probability: float, df: float) -> float:
    """Return the t that T does not exceed with this probability.

    Args:
        probability: from 0.5 to below 1.
        df: degrees of freedom, above 0.
    """
    tail, low, high = 2 * (1 - probability), 0.0, 1.0
    while t_two_sided(high, df) > tail:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_two_sided(middle, df) > tail else (low, middle)
    return high


def _beta(a: float, b: float, x: float, rest: float) -> float:
    """Return the regularised incomplete beta function of x; `rest` is 1 - x without its loss of digits."""
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, rest, x)
    if x <= 0:
        return 0.0
    log_rest = log1p(-x) if x < 0.5 else log(rest)
    front = exp(a * log(x) + b * log_rest + lgamma(a + b) - lgamma(a) - lgamma(b)) / a
    return front / _continued_fraction(a, b, x)


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Evaluate the continued fraction of the incomplete beta function (DLMF 8.17.22) by Lentz's method."""
    value, c, d, number = 1.0, 1.0, 0.0, 0
    while True:
        number += 1
        half, odd = divmod(number, 2)
        if odd:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        d = 1 / _nonzero(1 + term * d)
        c = _nonzero(1 + term / c)
        value *= c * d
        if abs(c * d - 1) < _PRECISION or number > 10_000:
            return value


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
