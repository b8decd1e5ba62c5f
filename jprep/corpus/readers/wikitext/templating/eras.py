"""Years in Japanese eras, from 645 on."""

from __future__ import annotations

import re
from bisect import bisect_right

# Name and first year. Between the first eras, years are counted by emperors.
_ERAS = """
大化645 白雉650 斉明天皇655 天智天皇662 天武天皇672 朱鳥686 持統天皇687 文武天皇697 大宝701 慶雲704 和銅708 霊亀715
養老717 神亀724 天平729 天平勝宝749 天平宝字757 天平神護765 神護景雲767 宝亀770 天応781 延暦782 大同806 弘仁810
天長824 承和834 嘉祥848 仁寿851 斉衡854 天安857 貞観859 元慶877 仁和885 寛平889 昌泰898 延喜901 延長923 承平931
天慶938 天暦947 天徳957 応和961 康保964 安和968 天禄970 天延973 貞元976 天元978 永観983 寛和985 永延987 永祚989
正暦990 長徳995 長保999 寛弘1004 長和1012 寛仁1017 治安1021 万寿1024 長元1028 長暦1037 長久1040 寛徳1044 永承1046
天喜1053 康平1058 治暦1065 延久1069 承保1074 承暦1077 永保1081 応徳1084 寛治1087 嘉保1094 永長1096 承徳1097 康和1099
長治1104 嘉承1106 天仁1108 天永1110 永久1113 元永1118 保安1120 天治1124 大治1126 天承1131 長承1132 保延1135 永治1141
康治1142 天養1144 久安1145 仁平1151 久寿1154 保元1156 平治1159 永暦1160 応保1161 長寛1163 永万1165 仁安1166 嘉応1169
承安1171 安元1175 治承1177 養和1181 寿永1182 元暦1184 文治1185 建久1190 正治1199 建仁1201 元久1204 建永1206 承元1207
建暦1211 建保1213 承久1219 貞応1222 元仁1224 嘉禄1225 安貞1227 寛喜1229 貞永1232 天福1233 文暦1234 嘉禎1235 暦仁1238
延応1239 仁治1240 寛元1243 宝治1247 建長1249 康元1256 正嘉1257 正元1259 文応1260 弘長1261 文永1264 建治1275 弘安1278
正応1288 永仁1293 正安1299 乾元1302 嘉元1303 徳治1306 延慶1308 応長1311 正和1312 文保1317 元応1319 元亨1321 正中1324
嘉暦1326 元徳1329 元弘1331 建武1334 延元1336 興国1340 正平1346 建徳1370 文中1372 天授1375 弘和1381 元中1384 明徳1393
応永1394 正長1428 永享1429 嘉吉1441 文安1444 宝徳1449 享徳1452 康正1455 長禄1457 寛正1460 文正1466 応仁1467 文明1469
長享1487 延徳1489 明応1492 文亀1501 永正1504 大永1521 享禄1528 天文1532 弘治1555 永禄1558 元亀1570 天正1573 文禄1592
慶長1596 元和1615 寛永1624 正保1644 慶安1648 承応1652 明暦1655 万治1658 寛文1661 延宝1673 天和1681 貞享1684 元禄1688
宝永1704 正徳1711 享保1716 元文1736 寛保1741 延享1744 寛延1748 宝暦1751 明和1764 安永1772 天明1781 寛政1789 享和1801
文化1804 文政1818 天保1830 弘化1844 嘉永1848 安政1854 万延1860 文久1861 元治1864 慶応1865 明治1868 大正1912 昭和1926
平成1989 令和2019
"""
_NORTHERN_ERAS = """
元徳1329 正慶1332 建武1334 暦応1338 康永1342 貞和1345 観応1350 文和1352 延文1356 康安1361 貞治1362 応安1368 永和1375
康暦1379 永徳1381 至徳1384 嘉慶1387 康応1389 明徳1390
"""
_TWO_COURTS = range(1331, 1393)
"""Years in which the southern and the northern court had eras of their own; from 1334 to 1335 they agreed."""


def _eras(source: str) -> tuple[list[int], list[str]]:
    found = re.findall(r"(\D+?)(\d+)\s", source.lstrip())
    return [int(year) for _, year in found], [name.strip() for name, _ in found]


_YEARS, _NAMES = _eras(_ERAS)
_NORTHERN_YEARS, _NORTHERN_NAMES = _eras(_NORTHERN_ERAS)
_FIRST_YEARS = dict(zip(_NAMES, _YEARS, strict=True)) | {"明徳": 1390}
"""First year of each era, also of those that the list above takes up later."""


def format_year_with_era(year: str) -> str:
    """Format a year with its era: `1980` becomes `1980年（昭和55年）`. Other text is returned unchanged.

    A year in which an era began has that era. The years of the two courts have the southern and the northern era:
    `1350年（正平5年/観応元年）`.
    """
    if not year.isdecimal() or len(year) > 4:
        return year
    number = int(year)
    shown = [_in_era(number, _YEARS, _NAMES)]
    if number in _TWO_COURTS and (northern := _in_era(number, _NORTHERN_YEARS, _NORTHERN_NAMES)) not in shown:
        shown.append(northern)
    return f"{number}年（{'/'.join(shown)}）" if shown[0] else f"{number}年"


def _in_era(year: int, years: list[int], names: list[str]) -> str:
    at = bisect_right(years, year) - 1
    if at < 0:
        return ""
    first = _FIRST_YEARS.get(names[at], years[at])
    return f"{names[at]}{'元' if year == first else year - first + 1}年"
