"""Rows of tables and infoboxes, with one case per construct in `tests/golden/wikitext_rows`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.document import SENTENCE, Tally
from jprep.corpus.readers.wikipedia import WikipediaReader
from jprep.corpus.readers.wikitext import Extractor, ExtractorConfig
from jprep.corpus.readers.wikitext.tabular.rows import TableRows
from jprep.corpus.splitters.rules import RuleSplitter
from jprep.corpus.step import describe_step

GOLDEN = Path(__file__).parents[2] / "golden" / "wikitext_rows"
ROWS = ExtractorConfig(tables="rows", infoboxes="rows")


def cases() -> list[object]:
    found: list[object] = []
    for file in sorted(GOLDEN.glob("*.txt")):
        for case in file.read_text(encoding="utf-8").removeprefix("@ ").split("\n@ "):
            name, _, body = case.partition("\n")
            source, _, shown = body.partition("\n---\n")
            found.append(pytest.param(source, shown.strip("\n"), id=f"{file.stem}: {name}"))
    return found


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    return Extractor(ROWS)


@pytest.mark.parametrize(("source", "shown"), cases())
def test_construct(extractor: Extractor, source: str, shown: str) -> None:
    assert extractor.extract(source, "鴨川") == shown


SIGNS = st.sampled_from((
    "\n{|", "\n|}", "\n|-", "\n|+", "\n|", "\n!", "||", "!!", "|", "=", "\n", "\n*", "<br>", "'''", "''", "。", "、",
    "：", " rowspan=2|", "colspan=3 |", "rowspan=2 colspan=100|", 'rowspan="999999"|', "colspan=-1|",
    "<table>", "<td rowspan=3>", "<th>", "<tr>", "</table>",
    "{{未知}}", "<ref/>", "{{Infobox 川", "\n|長さ=", "|水源種類=", "|水源名=", "}}", "[[", "]]",
    "<nowiki>", "</nowiki>", "<pre>", "</pre>", "&nbsp;", "（", "）", "[http://a ", "]", "1", "川", "人",
    "\x10", "\x11", "\x12", "__TOC__", "-{", "}-",
))  # fmt: skip
SOURCES = st.lists(SIGNS, max_size=60).map("".join)


@settings(max_examples=80, deadline=None)
@given(SOURCES)
def test_no_input_fails_or_leaves_placeholders(source: str) -> None:
    extractor = Extractor(ROWS)
    text = extractor.extract("{|" + source, "題")
    assert not any(mark in text for mark in "\x01\x02\x03\x04\x05\x06\x0e\x0f\x10\x11\x12")
    assert all(line and line == line.strip() for line in text.split("\n")) or text == ""
    assert text.count("\n") + 1 >= extractor.tally["rows"] or not text


CELLS = st.text(st.sampled_from("川山海1 。、（人"), max_size=6)
TABLES = st.lists(st.lists(CELLS, min_size=2, max_size=4), min_size=2, max_size=5)


@settings(max_examples=40, deadline=None)
@given(TABLES)
def test_each_row_is_a_line_with_its_words(table: list[list[str]]) -> None:
    body = "\n|-\n".join(
        "\n".join(f"| {sign}{cell}" for sign, cell in zip("甲乙丙丁", row, strict=False)) for row in table
    )
    text = Extractor(ROWS).extract(f"前\n{{|\n{body}\n|}}\n後", "題")
    first, *rows, last = text.split("\n")
    assert (first, last) == ("前", "後")
    assert len(rows) == len(table)
    for row, cells in zip(rows, table, strict=True):
        expected = "".join(sign + cell for sign, cell in zip("甲乙丙丁", cells, strict=False))
        assert re.sub(r"[^\w（]", "", row) == re.sub(r"[^\w（]", "", expected)


@settings(max_examples=30, deadline=None)
@given(SOURCES)
def test_text_outside_is_the_same(source: str) -> None:
    text = f"前の文。\n\n後の文{source.replace('{', '').replace('<t', '<b').replace('<p', '<b').replace('|', '')}。"
    assert Extractor(ROWS).extract(text, "題") == Extractor(ExtractorConfig()).extract(text, "題")


HOSTILE = (
    "\n|a||", "\n!a!!", "\n|-\n|a", "\n{|\n|",
    "\n|rowspan=9|a", "\n|-\n|rowspan=999999|a||colspan=999999|b", "\n|-\n!a\n!b",
    "\n|+a", "<td rowspan=9>",
    "\n|'''a'''", "\n|''a", "{{Infobox a|b=", "{{Infobox a|b=c}}", "{{Infobox a|肩書=a|氏名=b",
    "\n|a<br>", "\n|<span style='display:none", "\n|&nbsp;", "\n|a rowspan=",
)  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE)
def test_repeated_signs_end(extractor: Extractor, unit: str) -> None:
    for end in ("\n|}", ""):
        text = extractor.extract("{|\n" + unit * 1_000 + end, "題")
        assert len(text) < 20_000 + 12 * 1_000 * len(unit)


def test_headers_and_spans_of_a_huge_table_do_not_multiply() -> None:
    tally = Tally()
    header = "!!".join("長" * 90 for _ in range(40))
    content = "\n! " + header + "\n|-\n| rowspan=99999 | " + "値" * 3_000 + ("\n|-\n| " + "|| a" * 39) * 100
    shown = TableRows(tally).show(content)
    assert len(shown) < 11 * len(content) + 10_000
    assert tally["tables.cut"] == 1


def test_the_limits_of_nested_tables_do_not_multiply(extractor: Extractor) -> None:
    source = ""
    for _ in range(3):
        source = (
            "\n{|\n! a\n! b\n|-\n| rowspan=99999 | " + "値" * 2_000 + f"\n| {source}" + "\n|-\n| 1" * 500 + "\n|}\n"
        )
    assert len(extractor.extract(source, "題")) < 11 * len(source) + 3 * 10_000


NESTED = "{|\n| p || q\n|-\n| r || s\n|}"


def test_a_row_below_a_cell_over_all_columns_keeps_the_table_in_it(extractor: Extractor) -> None:
    source = f"{{|\n| rowspan=2 colspan=100 | a\n|-\n| x\n{NESTED}\n|-\n| c || d\n|}}"
    assert "p：q\nr：s\n" in extractor.extract(source, "題")


def test_a_table_in_any_row_of_headers_is_kept(extractor: Extractor) -> None:
    source = f"{{|\n! 川 !! 山\n|-\n! 長さ !! 高さ\n{NESTED}\n|-\n| 31 || 40\n|}}"
    assert extractor.extract(source, "題") == "p：q\nr：s\n川 長さ：31、山 高さ：40"


def test_columns_beyond_the_limit_are_counted() -> None:
    tally = Tally()
    TableRows(tally).show("\n| a\n| b" + "|| c" * 200)
    assert tally["cells.beyond"] == 102


def test_nested_tables_deeper_than_the_limit_end(extractor: Extractor) -> None:
    text = extractor.extract("前" + "\n{|\n| a\n| b\n|-\n| c\n|" * 3_000 + "\n|}" * 3_000 + "\n後", "題")
    assert text.startswith("前\n") and text.endswith("\n後")


def test_sentences_do_not_join_or_cut_rows() -> None:
    source = "{|\n! 年 !! 事項\n|-\n| 1年 || 開いた。\n|-\n| 2年 || 閉じた！\n|-\n| 終わり。 || 川\n|}"
    text = Extractor(ROWS).extract(source, "題")
    assert text == "年：1年、事項：開いた。\n年：2年、事項：閉じた！\n年：終わり、事項：川"
    assert SENTENCE not in RuleSplitter().mark(text)


def test_rows_and_what_is_left_out_are_counted() -> None:
    extractor = Extractor(ROWS)
    extractor.extract(
        '{|\n! 川 !! 長さ\n|-\n| 鴨川 || -\n|}\n{| class="navbox"\n| a || b\n|}\n'
        "{{Infobox 川|名前=鴨川|画像=a.jpg|長さ={{未知}}|地図=x|色=red|水源=b.svg}}",
        "題",
    )
    counts = {"tables": 2, "tables.layout": 1, "rows": 2, "cells": 2, "cells.empty": 1, "infoboxes": 1}
    counts |= {"infoboxes.lost": 1, "infoboxes.names": 2, "infoboxes.values": 2}
    assert {name: extractor.tally[name] for name in counts} == counts


def test_without_the_options_nothing_changes() -> None:
    described = describe_step(WikipediaReader())
    assert described["config"]["wikitext"]["tables"] is False
    assert "infoboxes" not in described["config"]["wikitext"]
    assert not any("infobox" in name for name in described["provenance"])
    assert "templates.infoboxes.toml" in Extractor(ROWS).provenance()
    source = "{{Infobox 川|名前=鴨川}}\n{|\n| a || b\n|-\n| c || d\n|}\n後"
    assert Extractor(ExtractorConfig()).extract(source, "題") == "後"


def test_infoboxes_of_an_own_table(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        '[infobox]\nnames = ["戦艦"]\nhidden = ["艦番"]\nlabels = { class_name = "級" }\npairs = { "役職" = "担当" }\n',
        encoding="utf-8",
    )
    source = "{{戦艦|艦名=大和|艦番号=1|class_name=大和型|役職2=艦長|担当2=山田}}\n後"
    rows = Extractor(ExtractorConfig(infoboxes="rows", templates=[str(mine)]))
    assert rows.extract(source, "題") == "艦名：大和\n級：大和型\n艦長：山田\n後"
    without = Extractor(ExtractorConfig(templates=[str(mine)]))
    assert without.extract(source, "題") == "後"
    assert without.tally["templates.hidden"] == 1


def test_dropped_infoboxes_have_the_options_from_before() -> None:
    assert ExtractorConfig(infoboxes="drop") == ExtractorConfig()
