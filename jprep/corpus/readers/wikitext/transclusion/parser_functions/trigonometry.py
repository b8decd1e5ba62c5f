"""Trigonometric functions in decimal arithmetic: the same digits on every machine."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation, localcontext

_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620900")
_PRECISE = Context(prec=70, Emax=999, Emin=-999)
_DIGITS = 28  # of arguments
_MAX_EXPONENT = 30  # larger arguments would need more digits of pi
_HALVINGS = 5

Function = Callable[[Decimal], Decimal]


def sine(angle: Decimal) -> Decimal:
    """Return the sine of an angle in radians: 0 for pi, whose digits after the 28th are not those of the number.

    Raises:
        InvalidOperation: the angle is too large.
    """
    return _in_radians(angle, _sine)


def cosine(angle: Decimal) -> Decimal:
    """Return the cosine of an angle in radians; see `sine`."""
    return _in_radians(angle, lambda reduced: _sine(_PI / 2 - abs(reduced)))


def tangent(angle: Decimal) -> Decimal:
    """Return the tangent of an angle in radians; see `sine`.

    Raises:
        DecimalException: the angle is too large, or its cosine is 0.
    """
    with localcontext(_PRECISE):
        return sine(angle) / cosine(angle)


def arc_tangent(value: Decimal) -> Decimal:
    """Return the arc tangent, from -pi/2 to pi/2."""
    with localcontext(_PRECISE):
        for _ in range(_HALVINGS):
            value = value / (1 + (1 + value * value).sqrt())
        return (1 << _HALVINGS) * _arc_tangent(value)


def arc_sine(value: Decimal) -> Decimal:
    """Return the arc sine, from -pi/2 to pi/2.

    Raises:
        InvalidOperation: the value is not from -1 to 1.
    """
    with localcontext(_PRECISE):
        if abs(value) == 1:
            return _PI / 2 * value
        return arc_tangent(value / (1 - value * value).sqrt())


def arc_cosine(value: Decimal) -> Decimal:
    """Return the arc cosine, from 0 to pi; see `arc_sine`."""
    with localcontext(_PRECISE):
        return _PI / 2 - arc_sine(value)


def _in_radians(angle: Decimal, function: Function) -> Decimal:
    """Return what a function gives for an angle reduced to [-pi, pi]; 0 if it is less than the angle's last digit."""
    if angle.adjusted() > _MAX_EXPONENT:
        raise InvalidOperation
    with localcontext(_PRECISE):
        found = function(angle - 2 * _PI * (angle / (2 * _PI)).to_integral_value())
        return found if abs(found) > Decimal(1).scaleb(angle.adjusted() - _DIGITS + 2) else Decimal(0)


def _sine(angle: Decimal) -> Decimal:
    total, term, power = Decimal(0), angle, 1
    while total + term != total:
        total += term
        term *= -angle * angle / ((power + 1) * (power + 2))
        power += 2
    return total


def _arc_tangent(value: Decimal) -> Decimal:
    total, power, number = Decimal(0), value, 1
    while total + (term := power / number) != total:
        total += term
        power *= -value * value
        number += 2
    return total
