"""Japanese postal addresses, with house number and building."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jprep.corpus.normalizers.pii.match import Match, after

PREFECTURE = (
    "(?:北海道|東京都|京都府|大阪府|(?:青森|岩手|宮城|秋田|山形|福島|茨城|栃木|群馬|埼玉|千葉|神奈川|新潟|富山|石川|福井|山梨|長野|岐阜"
    "|静岡|愛知|三重|滋賀|兵庫|奈良|和歌山|鳥取|島根|岡山|広島|山口|徳島|香川|愛媛|高知|福岡|佐賀|長崎|熊本|大分|宮崎|鹿児島|沖縄)県)"
)
_END = re.compile("[都道府県市区]")
_PREFECTURE_BEFORE = re.compile(rf"{PREFECTURE}$")
_NAME = "[一-鿿㐀-䶿々〆ヶケノツァ-ヺーぁ-ん]"
_MUNICIPALITY = rf"{_NAME}{{1,7}}?[市区町村郡]"
_WORD = r"(?!では|には|での|にて|から|まで|です|ます|という|および|または|における|[はがをにとでも]第)"
_TOWN = rf"(?:{_WORD}{_NAME}){{1,14}}?"
_KANJI = "[〇一二三四五六七八九十百]"
_NUMERAL = "[0-9一二三四五六七八九十]{1,4}"
_UNIT = "(?:丁目[東西南北]?|番町|番地の?|番の?|条[東西南北]?|字|[-の]) ?"
_LAND = "(?:第?[0-9一二三四五六七八九十]{1,3}地割 ?)"
_LAST = f"(?:[0-9]{{1,5}}(?:号室?|番地?)?|{_KANJI}{{1,5}}(?:号|番地?))"
_BLOCK = (
    rf"(?:{_LAND}{_LAST}|(?<![はがをにとでも約第全計])(?!(?:19|20)[0-9][0-9]-[01]?[0-9]-[0-3]?[0-9](?![0-9-]))"
    rf"(?:(?:{_NUMERAL}{_UNIT}){{1,4}}{_LAST}|(?:[0-9]|{_KANJI}){{1,5}}番地))"
)
"""The numbers of a house: at least two of them (1-2, 三丁目11番1号, 1条西2丁目3番地), or one with 番地."""
_HOUSE = rf"(?:(?<=町)|(?:大字|字)(?:{_WORD}{_NAME}){{1,10}}?)[0-9]{{1,4}}(?![番丁]|[-の~][0-9])"
"""A single number: after a town's name in 町, or after the hamlet of a 大字."""
_FIRM = (
    rf"(?:{_NUMERAL}丁目[東西南北]?{_NUMERAL}(?:番地?の?|[-の]){_LAST}|{_NUMERAL}丁目{_NUMERAL}番地?"
    rf"|{_NUMERAL}番(?:地の?)?{_LAST}|{_NUMERAL}番地|{_NUMERAL}条[東西南北]?{_NUMERAL}丁目(?:[東西南北]?{_LAST}(?:[-の]{_LAST})?)?"
    r"|(?<![0-9])[0-9]{1,3}-[0-9]{1,3}-[0-9]{1,4}(?:-[0-9]{1,4})?号?)"
)
"""The numbers of a house that are nothing else, so that no prefecture is needed before them."""
_COUNTER = "(?![0-9年月日人円度kmgt%個件回位時分秒歳名種台箇つヶ代点倍万億千割階:]|[-.][0-9]|丁目|で(?:勝|敗|引き?分))"

_REST = r"[^\s、。,，()<>「」:]"
_PLAIN = r"[^\s、。,，()<>「」0-9:]"
_ROOM = r"(?:地下)?[A-Z]?-?[0-9]{1,4}"
_FLOOR = "(?:号[室館棟]?|階|F)"
_HOUSE_NAME = "ビル|マンション|ハイツ|ハイム|コーポ|アパート|荘|タワー|レジデンス|メゾン|ハウス|号館|団地|棟"
_BUILDING = (
    rf"(?: ?{_REST}{{0,20}}?(?:{_HOUSE_NAME}){_PLAIN}{{0,6}} ?(?:{_ROOM}{_FLOOR}?(?![0-9年月日時])(?:{_ROOM}号室?)?)?"
    rf"| ?{_PLAIN}{{0,12}}? ?{_ROOM}{_FLOOR}(?:{_ROOM}号室?)?){{0,2}}"
)
_ADDRESS = re.compile(
    rf" ?(?:(?:{_MUNICIPALITY} ?){{1,3}}(?:{_TOWN} ?)?{_BLOCK}{_COUNTER}"
    rf"|(?:{_NAME}{{1,6}}?郡{_NAME}{{1,6}}?[町村]|{_NAME}{{1,6}}?市(?:{_NAME}{{1,4}}?区)?|{_NAME}{{1,4}}?区) ?"
    rf"(?:{_WORD}{_NAME}){{0,10}}?{_HOUSE}{_COUNTER}){_BUILDING}"
)
"""What follows the name of a prefecture."""

_CITIES = (
    "札幌|仙台|さいたま|千葉|横浜|川崎|相模原|新潟|静岡|浜松|名古屋|京都|大阪|堺|神戸|岡山|広島|北九州|福岡|熊本"
    "|つくば|いわき|ひたちなか|うるま|あきる野|みどり|さくら|いなべ"
)
_CITY_BEFORE = re.compile(rf"(?:{_CITIES}|(?<![一-鿿々])[一-鿿々][一-鿿々ヶケノツ]{{0,4}})[市区]$")
_AFTER_CITY = re.compile(rf" ?{_TOWN} ?{_FIRM}{_COUNTER}{_BUILDING}")
_AFTER_KYOTO = re.compile(
    rf"(?:{_WORD}{_NAME}){{1,4}}?区(?:{_WORD}{_NAME}){{2,26}}?(?:{_FIRM}|{_HOUSE}|{_BLOCK}){_COUNTER}{_BUILDING}"
)
"""Addresses in Kyoto name the streets of a crossing before the town."""
_SINGLE = r"[0-9]{1,5}(?![番丁条]|[-の~][0-9])"
_AFTER_LABEL = re.compile(rf" ?(?:{_TOWN} ?)?(?:{_BLOCK}|{_SINGLE}){_COUNTER}{_BUILDING}")
_AFTER_LABEL_AND_PREFECTURE = re.compile(rf" ?(?:{_MUNICIPALITY} ?){{1,3}}(?:{_TOWN} ?)?{_SINGLE}{_COUNTER}{_BUILDING}")
"""Behind a label, a single number is that of a house too."""
_LABEL = re.compile(r"(?:[〒〶] ?[0-9]{3}-?[0-9]{4}|住所|所在地?|本籍)[ :は]{0,3}$")


def postal_addresses(text: str) -> Iterator[Match]:
    """Yield addresses down to the numbers of a house, with the building's name.

    They begin with a prefecture, or with a city where a label before or the form of the numbers leaves no doubt.
    """
    done = 0
    for end in _END.finditer(text):
        if end.end() > done:
            found = _from_city(text, end.end()) if end[0] in "市区" else _from_prefecture(text, end.end())
            if found and found.start >= done:
                done = found.end
                yield found


def _from_prefecture(text: str, end: int) -> Match | None:
    prefecture = after(text, end, _PREFECTURE_BEFORE, 4)
    if not prefecture:
        return None
    start = end - len(prefecture[0])
    rest = _ADDRESS.match(text, end)
    if not rest and after(text, start, _LABEL, 16):
        rest = _AFTER_LABEL_AND_PREFECTURE.match(text, end)
    return Match(start, rest.end()) if rest else None


def _from_city(text: str, end: int) -> Match | None:
    city = after(text, end, _CITY_BEFORE, 8)
    if not city:
        return None
    start = end - len(city[0])
    rest = _AFTER_CITY.match(text, end)
    if not rest and city[0].endswith("京都市"):
        rest = _AFTER_KYOTO.match(text, end)
    if not rest and after(text, start, _LABEL, 16):
        rest = _AFTER_LABEL.match(text, end)
    return Match(start, rest.end()) if rest else None
