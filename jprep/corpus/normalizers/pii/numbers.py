"""Numbers that identify people: telephones, cards, My Number, bank accounts.

Formats: the numbering plan of Japan (Ministry of Internal Affairs and Communications), ISO/IEC 7812 for cards, and the
check digit of individual numbers (order 85 of 2014 of the same ministry).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from jprep.corpus.normalizers.pii.match import Match, after, digits

_NUMBER = re.compile(r"[0-9](?:[0-9]|[-. ()]{1,2}(?=[0-9(])){5,24}(?![-.]?(?!TEL|FAX)[0-9A-Za-z_])")
"""Digits in groups: what could be a telephone number, a card or a My Number."""

_INSIDE = re.compile(r"(?:[0-9A-Za-z_]|(?<!-[0-9]{4})/|(?:[0-9]|[A-Za-z]{2})\.|[0-9A-Za-z][-#=]|[0-9]:)[+(]?$")
"""What stands before digits that are the end of a longer number, a code or a path."""

_LABEL = re.compile(r"(?:(?<![A-Za-z])(?:TEL|FAX|PHONE|MOBILE)|card(?:_?no)?)[.:=]?[+(]?$", re.IGNORECASE)
"""Words that may touch a number."""


@lru_cache(maxsize=1)  # three kinds of numbers look at the same ones
def _numbers(text: str) -> list[Match]:
    """Return the places of digits in groups, with a plus sign or a bracket before them."""
    return [
        Match(number.start() - (text[number.start() - 1 : number.start()] in ("+", "(")), number.end())
        for number in _NUMBER.finditer(text)
    ]


_NEXT_GROUP = re.compile(r"[-.]?[0-9]| [0-9]{3}")


def _search(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield where a pattern is found in digits in groups, beside other numbers that a space or a bracket sets apart.

    Groups that spaces separate are a number only without digits before and after them.
    """
    for number in _numbers(text):
        for found in pattern.finditer(text, number.start, number.end):
            start = found.start()
            if after(text, start, _INSIDE, 8) and not after(text, start, _LABEL, 10):
                continue
            spaced = " " in found[0] and "-" not in found[0]
            if not (spaced and text[number.start : start].strip(" (")) and not _NEXT_GROUP.match(text, found.end()):
                yield found


_AREA = r"0[1-9][0-9]{0,3}"
_LOCAL = r"[2-9][0-9]{0,3}"  # an exchange never begins with 0 or 1
_JAPANESE = re.compile(
    rf"{_AREA}[-. ]{_LOCAL}[-. ][0-9]{{4}}|\({_AREA}\) ?{_LOCAL}[-. ][0-9]{{4}}|{_AREA} ?\({_LOCAL}\) ?[0-9]{{4}}"
)
_MOBILE = re.compile(r"0[5-9]0([-. ]?)[0-9]{4}\1[0-9]{4}")
_MOBILE_IN_BRACKETS = re.compile(r"\(?0[5-9]0\)?[-. ]?\(?[0-9]{4}\)?[-. ]?[0-9]{4}")
_FREE_CALL = re.compile(
    r"(?:0120|0570|0990)([-. ])(?:[0-9]{3}\1[0-9]{3}|[0-9]{2}\1[0-9]{4})|0800([-. ])[0-9]{3}\2[0-9]{4}"
    r"|0120\([0-9]{3}\)[0-9]{3}"
)
_INTERNATIONAL = re.compile(
    r"(?:\+|00(?=81))[1-9][0-9]{0,2}\)?[-. ]?(?:\([0-9]{1,5}\)[-. ]?)?[0-9](?:[-. ]?[0-9]){4,12}"
)
_TELEPHONE_SHAPES = re.compile(
    "|".join(
        f"(?:{pattern})"
        for pattern in (
            r"(?:\+|00(?=81))[1-9][0-9. ()-]{7,20}[0-9]",
            r"0[0-9]{9,10}",
            r"\(0[5-9]0\)[-. ]?\(?[0-9]{4}\)?[-. ]?[0-9]{4}",
            rf"\({_AREA}\) ?\(?{_LOCAL}[-. )]{{1,2}}[0-9]{{4}}",
            rf"{_AREA} ?\([0-9]{{1,4}}\)[- ]?[0-9]{{3,4}}",
            r"0[0-9]{1,4}([-. ])[0-9]{1,4}[-. ][0-9]{3,4}",
        )
    ).replace("([-. ])", "[-. ]")
)
"""What may be a telephone number; the patterns above decide."""
_NAMED = re.compile(
    r"0[1-9][0-9]{8}|0(?:120|570|990)[0-9]{6}|0[5-9]0[0-9]{8}"
    rf"|(?=(?:[-() ]?[0-9]){{10}}$){_AREA}[-(][0-9]{{1,4}}[-)][0-9]{{4}}"
)
"""A telephone number only after a word like 電話: without groups, or with an exchange that the plan does not have."""
_TELEPHONE = re.compile(
    r"(?:電話|でんわ|連絡先|携帯|ファッ?クス|フリー(?:ダイヤル|コール)|問い?合わせ|番号|☎|℡|📞|(?<![A-Za-z])(?:TEL|FAX|PHONE|MOBILE))[^0-9\n]{0,12}$",
    re.IGNORECASE,
)
_OTHER_NUMBER = re.compile(
    r"(?:型番|品番|品名|型式|商品|注文|伝票|製造|管理|識別|振替|口座|ISBN|ISSN|JAN|No)(?![^0-9\n]{0,6}(?:電話|TEL|FAX))[^0-9\n]{0,6}$",
    re.IGNORECASE,
)


def telephones(text: str) -> Iterator[Match]:
    """Yield telephone and fax numbers: of Japan in groups, or in other forms after a word like 電話; and +81 …"""
    for found in _search(_TELEPHONE_SHAPES, text):
        if _is_telephone(found[0]):
            if not after(text, found.start(), _OTHER_NUMBER, 16):
                yield Match(found.start(), found.end())
        elif _NAMED.fullmatch(found[0]) and after(text, found.start(), _TELEPHONE, 24):
            yield Match(found.start(), found.end())


def _is_telephone(number: str) -> bool:
    if number[0] == "+" or number.startswith("0081"):
        return _INTERNATIONAL.fullmatch(number) is not None and 8 <= len(digits(number)) <= 15
    if _FREE_CALL.fullmatch(number) or _MOBILE.fullmatch(number) or _MOBILE_IN_BRACKETS.fullmatch(number):
        return len(number) > 10
    return _JAPANESE.fullmatch(number) is not None and len(digits(number)) == 10


_ISSUERS = re.compile(
    r"4|5[1-5]|22[3-9]|222[1-9]|2[3-6]|27[01]|2720|3[47]|35(?:2[89]|[3-8])|30[0-5]|3[689]|6011|6[45]|62"
)
_CARD_GROUPS = re.compile(
    r"[0-9]{4}([-. ])[0-9]{4}\1[0-9]{4}\1[0-9]{1,7}|[0-9]{4}([- ])[0-9]{6}\2[0-9]{4,5}|[0-9]{14,16}"
)


def cards(text: str) -> Iterator[Match]:
    """Yield numbers of payment cards: an issuer's prefix, 14 to 19 digits, and a correct check digit."""
    for found in _search(_CARD_GROUPS, text):
        if _ISSUERS.match(found[0]) and luhn(digits(found[0])):
            yield Match(found.start(), found.end())


def luhn(number: str) -> bool:
    """Return whether the last digit of a number is its check digit by Luhn's algorithm."""
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(number))]
    return sum(value - 9 * (value > 9) for value in doubled) % 10 == 0


_MY_NUMBER = re.compile(r"[0-9]{4}([-. ]?)[0-9]{4}\1[0-9]{4}")
_NAME_OF_MY_NUMBER = re.compile(r"マイナンバー|個人番号|個人識別番号|my ?number", re.I)

_NAME_OF_PARCEL = re.compile(r"(?:伝票|荷物|追跡|送り状|注文|予約|問い?合わせ)[^0-9\n]{0,8}$")


def my_numbers(text: str) -> Iterator[Match]:
    """Yield individual numbers: twelve digits with a correct check digit, in fours or after the number's name.

    Waybills and orders have twelve digits in fours as well, and one in eleven has a correct check digit.
    """
    for found in _search(_MY_NUMBER, text):
        named = after(text, found.start(), _NAME_OF_MY_NUMBER, 40)
        in_fours = found[1] in ("-", " ") and not after(text, found.start(), _NAME_OF_PARCEL, 16)
        if (named or in_fours) and my_number_is_valid(digits(found[0])):
            yield Match(found.start(), found.end())


def my_number_is_valid(number: str) -> bool:
    """Return whether the last of twelve digits is the check digit of the eleven before it."""
    total = sum(int(digit) * (place + 1 if place <= 6 else place - 5) for place, digit in enumerate(number[10::-1], 1))
    return int(number[11]) == (11 - total % 11 if total % 11 > 1 else 0)


_ACCOUNT = re.compile(r"[0-9]{6,8}(?![0-9人件台株枚個-]| ?[円億万千兆])")
_BRANCH = re.compile(r"[店部所] ?$")
_KIND_BEHIND = re.compile(r" ?\((?:普通|当座)")
_NAME_OF_ACCOUNT = re.compile(
    r"(?:(?:普通|当座|貯蓄|定期)(?:預金|口座|貯金)*|口座番号|口座|\([普当]\))"
    r"(?:\([0-9]桁\)|[ :・()\[\]【】「」]|番号|No\.?|第|が|は|へ){0,5}$"
)
_TRANSFER = re.compile(r"0(?<![0-9-]0)[0-9]{4}-[0-9]-[0-9]{1,6}(?![0-9-])|1(?<![0-9-]1)[0-9]{3}0-[0-9]{1,7}1(?![0-9-])")
_NAME_OF_TRANSFER = re.compile(r"(?:振替|ゆうちょ|郵貯|口座)[^0-9\n]{0,8}$")
_POST_OFFICE = re.compile(r"記号(?:[・/]?番号)?[ :・]{0,2}([0-9]{5})(?:-[0-9])?[ ・、,/\-]{0,2}(?:番号)?[ :・]{0,2}$")


def bank_accounts(text: str) -> Iterator[Match]:
    """Yield account numbers after words like 普通 or 口座番号, and a post office account's 記号 and 番号."""
    for found in _TRANSFER.finditer(text):
        if after(text, found.start(), _NAME_OF_TRANSFER, 16):
            yield Match(found.start(), found.end())
    for found in _ACCOUNT.finditer(text):
        start = found.start()
        if symbol := after(text, start, _POST_OFFICE, 24):
            line = start - len(symbol.string)
            yield Match(line + symbol.start(1), line + symbol.end(1))
        if symbol or after(text, start, _NAME_OF_ACCOUNT, 24) or _is_account_of_a_branch(text, found):
            yield Match(start, found.end())


def _is_account_of_a_branch(text: str, number: re.Match[str]) -> bool:
    """Return whether the kind of account stands after a number, and the branch before it: 本店 1234567 (普通)."""
    return bool(_KIND_BEHIND.match(text, number.end()) and after(text, number.start(), _BRANCH, 3))
