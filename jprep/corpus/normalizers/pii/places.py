"""Postal codes and licence plates of Japan."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jprep.corpus.normalizers.pii.addresses import PREFECTURE
from jprep.corpus.normalizers.pii.match import Match, after

_CODE = re.compile(r"[0-9]{3}-?[0-9]{4}(?![0-9\-])")
_NAME_OF_CODE = re.compile(r"(?:[〒〶][ :]{0,2}|郵便番号[ :は]{0,2}) ?$")
_CODE_BEFORE_ADDRESS = re.compile(rf" {{0,2}}{PREFECTURE}")
_INSIDE = re.compile(r"[0-9A-Za-z\-]$")


def postal_codes(text: str) -> Iterator[Match]:
    """Yield postal codes, with their sign: after 〒 or 郵便番号, or before the name of a prefecture."""
    for found in _CODE.finditer(text):
        start, named = found.start(), after(text, found.start(), _NAME_OF_CODE, 8)
        if named:
            sign = named[0][0] in "〒〶"
            yield Match(start - len(named[0]) if sign else start, found.end())
        elif "-" in found[0] and _CODE_BEFORE_ADDRESS.match(text, found.end()) and not after(text, start, _INSIDE, 1):
            yield Match(start, found.end())


_OFFICES = (
    "札幌|函館|旭川|室蘭|苫小牧|釧路|知床|帯広|北見|青森|弘前|八戸|岩手|盛岡|平泉|宮城|仙台|秋田|山形|庄内|福島|会津|郡山|白河|いわき"
    "|水戸|土浦|つくば|宇都宮|那須|とちぎ|日光|群馬|前橋|高崎|大宮|川口|所沢|川越|熊谷|春日部|越谷|千葉|成田|習志野|市川|船橋|袖ヶ浦"
    "|市原|野田|柏|松戸|品川|世田谷|練馬|杉並|板橋|足立|江東|葛飾|江戸川|八王子|多摩|横浜|川崎|湘南|相模|山梨|富士山|新潟|長岡|上越"
    "|富山|石川|金沢|福井|長野|松本|諏訪|安曇野|南信州|岐阜|飛騨|静岡|浜松|沼津|伊豆|名古屋|豊橋|三河|岡崎|豊田|尾張小牧|一宮|春日井"
    "|三重|鈴鹿|四日市|伊勢志摩|滋賀|京都|大阪|なにわ|和泉|堺|神戸|姫路|奈良|飛鳥|和歌山|鳥取|島根|出雲|岡山|倉敷|広島|福山|山口|下関"
    "|徳島|香川|高松|愛媛|高知|福岡|北九州|久留米|筑豊|佐賀|長崎|佐世保|熊本|大分|宮崎|鹿児島|奄美|沖縄"
)
_PLATE = re.compile(
    r"[0-9]{1,2}[0-9ACFHKLMPXY]{0,2}[ -]?[あ-えか-さす-ふほ-をれろA-Z][ -]?"
    r"(?:[1-9]?[0-9]-[0-9]{2}|[・.]{1,3}[1-9][0-9]{0,2}|・[1-9]-[0-9]{2}|[1-9][0-9]{1,3})(?![0-9\-年月日人円号番])"
)
_OFFICE_BEFORE = re.compile(rf"(?:{_OFFICES})[ -]?$")


def licence_plates(text: str) -> Iterator[Match]:
    """Yield numbers of vehicles: the office, the class, a kana and up to four digits (品川 300 あ 12-34)."""
    for found in _PLATE.finditer(text):
        if office := after(text, found.start(), _OFFICE_BEFORE, 6):
            yield Match(found.start() - len(office[0]), found.end())
