"""Postal codes, postal addresses and licence plates of Japan."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jprep.corpus.normalizers.pii.match import Match, after

_PREFECTURE = (
    "(?:北海道|東京都|京都府|大阪府|(?:青森|岩手|宮城|秋田|山形|福島|茨城|栃木|群馬|埼玉|千葉|神奈川|新潟|富山|石川|福井|山梨|長野|岐阜"
    "|静岡|愛知|三重|滋賀|兵庫|奈良|和歌山|鳥取|島根|岡山|広島|山口|徳島|香川|愛媛|高知|福岡|佐賀|長崎|熊本|大分|宮崎|鹿児島|沖縄)県)"
)
_END_OF_PREFECTURE = re.compile("[都道府県]")
_PREFECTURE_BEFORE = re.compile(rf"{_PREFECTURE}$")
_NAME = "[一-鿿㐀-䶿々〆ヶケノツァ-ヺーぁ-ん]"
_MUNICIPALITY = rf"{_NAME}{{1,7}}?[市区町村郡]"
_PARTICLE = r"(?!では|には|での|にて|から|まで|です|ます|という|および|または|における)"
_TOWN = rf"(?:{_PARTICLE}{_NAME}){{1,14}}?"
_NUMERAL = "[0-9一二三四五六七八九十]{1,4}"
_UNIT = "(?:丁目|番町|番地の?|番の?|条[東西南北]?|[-の]) ?"
_BLOCK = (
    r"(?<![はがをにとでも約第全計])"
    rf"(?:(?:{_NUMERAL}{_UNIT}){{1,4}}[0-9]{{1,5}}(?:号室?|番地?)?|[0-9]{{1,5}}番地)"
)
"""The numbers of a house: at least two of them (1-2, 三丁目11番1号, 1条西2丁目3番地), or one with 番地."""
_REST = r"[^\s、。,，()<>「」]"
_BUILDING = (
    rf"(?: ?{_REST}{{1,20}}?(?:ビル|マンション|ハイツ|コーポ|アパート|荘|タワー|レジデンス|メゾン|ハウス|号館|団地)"
    r"[^\s、。,，()<>「」0-9]{0,6} ?(?:[A-Z]?[0-9]{1,4}(?:号室?|階|F)?)?| ?[A-Z]?[0-9]{2,4}号室)?"
)
_ADDRESS = re.compile(rf" ?(?:{_MUNICIPALITY} ?){{1,3}}(?:{_TOWN} ?)?{_BLOCK}(?![0-9年月日人円度kmgt%]){_BUILDING}")
"""What follows the name of a prefecture."""

_CODE = re.compile(r"[0-9]{3}-?[0-9]{4}(?![0-9\-])")
_NAME_OF_CODE = re.compile(r"(?:〒|郵便番号[ :は]{0,2}) ?$")
_CODE_BEFORE_ADDRESS = re.compile(rf" {{0,2}}{_PREFECTURE}")
_INSIDE = re.compile(r"[0-9A-Za-z\-]$")


def postal_codes(text: str) -> Iterator[Match]:
    """Yield postal codes, with their sign: after 〒 or 郵便番号, or before the name of a prefecture."""
    for found in _CODE.finditer(text):
        start, named = found.start(), after(text, found.start(), _NAME_OF_CODE, 8)
        if named:
            sign = text.rfind("〒", max(0, start - 2), start)
            yield Match(sign if sign >= 0 else start, found.end())
        elif "-" in found[0] and _CODE_BEFORE_ADDRESS.match(text, found.end()) and not after(text, start, _INSIDE, 1):
            yield Match(start, found.end())


def postal_addresses(text: str) -> Iterator[Match]:
    """Yield addresses with a prefecture, a municipality and the numbers of a house, with the building's name."""
    done = 0
    for end in _END_OF_PREFECTURE.finditer(text):
        prefecture = after(text, end.end(), _PREFECTURE_BEFORE, 4) if end.end() > done else None
        rest = _ADDRESS.match(text, end.end()) if prefecture else None
        if prefecture and rest:
            done = rest.end()
            yield Match(end.end() - len(prefecture[0]), done)


_OFFICES = (
    "札幌|函館|旭川|室蘭|苫小牧|釧路|知床|帯広|北見|青森|弘前|八戸|岩手|盛岡|平泉|宮城|仙台|秋田|山形|庄内|福島|会津|郡山|白河|いわき"
    "|水戸|土浦|つくば|宇都宮|那須|とちぎ|日光|群馬|前橋|高崎|大宮|川口|所沢|川越|熊谷|春日部|越谷|千葉|成田|習志野|市川|船橋|袖ヶ浦"
    "|市原|野田|柏|松戸|品川|世田谷|練馬|杉並|板橋|足立|江東|葛飾|江戸川|八王子|多摩|横浜|川崎|湘南|相模|山梨|富士山|新潟|長岡|上越"
    "|富山|石川|金沢|福井|長野|松本|諏訪|安曇野|南信州|岐阜|飛騨|静岡|浜松|沼津|伊豆|名古屋|豊橋|三河|岡崎|豊田|尾張小牧|一宮|春日井"
    "|三重|鈴鹿|四日市|伊勢志摩|滋賀|京都|大阪|なにわ|和泉|堺|神戸|姫路|奈良|飛鳥|和歌山|鳥取|島根|出雲|岡山|倉敷|広島|福山|山口|下関"
    "|徳島|香川|高松|愛媛|高知|福岡|北九州|久留米|筑豊|佐賀|長崎|佐世保|熊本|大分|宮崎|鹿児島|奄美|沖縄"
)
_PLATE = re.compile(
    r"[0-9]{1,2}[0-9ACFHKLMPXY]{0,2} ?[あ-えか-さす-ふほ-をれろA-Z] ?"
    r"(?:[1-9][0-9]-[0-9]{2}|[・.]{1,3}[1-9][0-9]{0,2}|・[1-9]-[0-9]{2}|[1-9][0-9]{1,3})(?![0-9\-年月日人円号番])"
)
_OFFICE_BEFORE = re.compile(rf"(?:{_OFFICES}) ?$")


def licence_plates(text: str) -> Iterator[Match]:
    """Yield numbers of vehicles: the office, the class, a kana and up to four digits (品川 300 あ 12-34)."""
    for found in _PLATE.finditer(text):
        if office := after(text, found.start(), _OFFICE_BEFORE, 6):
            yield Match(found.start() - len(office[0]), found.end())
