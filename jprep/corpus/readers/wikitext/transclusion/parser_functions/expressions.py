"""The expressions of `{{#expr:}}`, in decimal arithmetic: the same on every machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, DecimalException

from jprep.corpus.readers.wikitext.transclusion.parser_functions import trigonometry

_MAX_LENGTH = 1000
_MAX_NESTING = 20
_MAX_EXPONENT = 1000
_CONTEXT = Context(prec=28, Emax=308, Emin=-308)
_SHOWN = Context(prec=14, Emax=308, Emin=-308, rounding=ROUND_HALF_UP)
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d*)?|\.\d+)|([a-z]+)|(<=|>=|<>|!=|[-+*/^=<>()]))", re.I | re.A)

Operation = Callable[[Decimal, Decimal], Decimal]


class ExpressionError(ValueError):
    """An expression is invalid, or its result has no value."""


def evaluate_expression(source: str) -> str:
    """Return the result of an expression as MediaWiki shows it, with 14 digits; "" for an empty expression.

    Raises:
        ExpressionError: the expression is invalid, too long, or its result has no value.
    """
    if not source.strip():
        return ""
    if len(source) > _MAX_LENGTH:
        raise ExpressionError
    try:
        return _shown(_Parser(_tokens(source)).parse())
    except DecimalException as error:
        raise ExpressionError from error


def _tokens(source: str) -> list[str]:
    source, found, at = source.replace("−", "-").replace("&minus;", "-").strip(), list[str](), 0
    while at < len(source):
        if not (match := _TOKEN.match(source, at)):
            raise ExpressionError
        found.append(match[0].strip().lower())
        at = match.end()
    return found


class _Parser:
    """Parses tokens by the precedence of their operators, and computes on the way."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

    def parse(self) -> Decimal:
        result = self._binary(0)
        if self._at < len(self._tokens):
            raise ExpressionError
        return result

    def _binary(self, lowest: int) -> Decimal:
        left = self._unary()
        while (name := self._peek()) in _OPERATORS and _OPERATORS[name][0] >= lowest:
            self._at += 1
            precedence, operation = _OPERATORS[name]
            left = operation(left, self._binary(precedence + 1))
        return left

    def _unary(self) -> Decimal:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise ExpressionError
        result = self._operand(self._take())
        self._depth -= 1
        return result

    def _operand(self, token: str) -> Decimal:
        if token == "(":
            result = self._binary(0)
            if self._take() != ")":
                raise ExpressionError
            return result
        if token in ("+", "-"):
            operand = self._binary(_SIGN)
            return _CONTEXT.minus(operand) if token == "-" else operand
        if token in _FUNCTIONS:
            return _FUNCTIONS[token](self._binary(_SIGN))
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        if not token[:1].isdigit() and token[:1] != ".":
            raise ExpressionError
        return _CONTEXT.create_decimal(token)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token


def _truth(value: bool) -> Decimal:
    return Decimal(int(value))


def _power(base: Decimal, exponent: Decimal) -> Decimal:
    if not -_MAX_EXPONENT <= exponent <= _MAX_EXPONENT:
        raise ExpressionError
    return _CONTEXT.power(base, exponent) if exponent or base else Decimal(1)


def _scientific(base: Decimal, exponent: Decimal) -> Decimal:
    return _CONTEXT.multiply(base, _power(Decimal(10), exponent))


def _round(value: Decimal, digits: Decimal) -> Decimal:
    if not -27 <= digits <= 27:
        raise ExpressionError
    step = _CONTEXT.scaleb(Decimal(1), -int(digits))
    return _CONTEXT.multiply(_whole(_CONTEXT.divide(value, step), ROUND_HALF_UP), step)


def _remainder(left: Decimal, right: Decimal) -> Decimal:
    return _CONTEXT.remainder(_whole(left, ROUND_DOWN), _whole(right, ROUND_DOWN))


def _whole(value: Decimal, rounding: str) -> Decimal:
    return value.to_integral_value(rounding, _CONTEXT)


_SIGN = 9
"""The precedence of signs and functions: they take everything that binds closer."""

_OPERATORS: dict[str, tuple[int, Operation]] = {
    "or": (1, lambda a, b: _truth(bool(a) or bool(b))),
    "and": (2, lambda a, b: _truth(bool(a) and bool(b))),
    "=": (3, lambda a, b: _truth(a == b)),
    "<>": (3, lambda a, b: _truth(a != b)),
    "!=": (3, lambda a, b: _truth(a != b)),
    "<": (3, lambda a, b: _truth(a < b)),
    ">": (3, lambda a, b: _truth(a > b)),
    "<=": (3, lambda a, b: _truth(a <= b)),
    ">=": (3, lambda a, b: _truth(a >= b)),
    "round": (4, _round),
    "+": (5, _CONTEXT.add),
    "-": (5, _CONTEXT.subtract),
    "*": (6, _CONTEXT.multiply),
    "/": (6, _CONTEXT.divide),
    "div": (6, _CONTEXT.divide),
    "mod": (6, _remainder),
    "fmod": (6, _CONTEXT.remainder),
    "^": (7, _power),
    "e": (8, _scientific),
}
"""Precedence and operation of each binary operator. Those of equal precedence are computed from left to right."""

_FUNCTIONS: dict[str, Callable[[Decimal], Decimal]] = {
    "not": lambda value: _truth(not value),
    "abs": _CONTEXT.abs,
    "ceil": lambda value: _whole(value, ROUND_CEILING),
    "floor": lambda value: _whole(value, ROUND_FLOOR),
    "trunc": lambda value: _whole(value, ROUND_DOWN),
    "sqrt": _CONTEXT.sqrt,
    "ln": _CONTEXT.ln,
    "exp": _CONTEXT.exp,
    "sin": lambda value: _CONTEXT.plus(trigonometry.sine(value)),
    "cos": lambda value: _CONTEXT.plus(trigonometry.cosine(value)),
    "tan": lambda value: _CONTEXT.plus(trigonometry.tangent(value)),
    "asin": lambda value: _CONTEXT.plus(trigonometry.arc_sine(value)),
    "acos": lambda value: _CONTEXT.plus(trigonometry.arc_cosine(value)),
    "atan": lambda value: _CONTEXT.plus(trigonometry.arc_tangent(value)),
}
_CONSTANTS = {"pi": Decimal("3.141592653589793238462643383"), "e": Decimal("2.718281828459045235360287471")}


def _shown(value: Decimal) -> str:
    """Return a number as PHP prints it, with 14 digits: without zeros at the end, with an exponent if it is large."""
    if not value.is_finite():
        raise ExpressionError
    rounded = _SHOWN.plus(value)
    if not rounded:
        return "0"
    exponent = rounded.adjusted()
    if -5 < exponent < 14:
        text = f"{rounded:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa = f"{_SHOWN.scaleb(rounded, -exponent):f}".rstrip("0").rstrip(".")
    return f"{mantissa}{'' if '.' in mantissa else '.0'}E{exponent:+d}"
