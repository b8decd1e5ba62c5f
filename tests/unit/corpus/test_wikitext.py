"""The wikitext extractor, with one case per construct in `tests/golden/wikitext`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.corpus.readers.wikitext import Extractor, ExtractorConfig
from jprep.corpus.readers.wikitext.inline.bold_italic import remove_bold_italic

GOLDEN = Path(__file__).parents[2] / "golden" / "wikitext"
OPTIONS = {"kept_tables": {"tables": True}}
"""Options for the cases of a file, by its name."""

MARKS = "\x01\x02\x03\x04\x05\x06\x07\x0e\x0f\x1e\x1f"


def cases() -> list[object]:
    found: list[object] = []
    for file in sorted(GOLDEN.glob("*.txt")):
        for case in file.read_text(encoding="utf-8").removeprefix("@ ").split("\n@ "):
            name, _, body = case.partition("\n")
            source, _, shown = body.partition("\n---\n")
            options = OPTIONS.get(file.stem, {})
            found.append(pytest.param(source, shown.strip("\n"), options, id=f"{file.stem}: {name}"))
    return found


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    return Extractor(ExtractorConfig())


@pytest.mark.parametrize(("source", "shown", "options"), cases())
def test_construct(source: str, shown: str, options: dict[str, Any]) -> None:
    assert Extractor(ExtractorConfig(**options)).extract(source, "鴨川") == shown


@pytest.mark.parametrize(("source", "shown", "options"), cases())
def test_windows_line_ends_make_no_difference(source: str, shown: str, options: dict[str, Any]) -> None:
    extractor = Extractor(ExtractorConfig(**options))
    assert extractor.extract(source.replace("\n", "\r\n"), "鴨川") == shown


SIGNS = st.sampled_from(
    (
        *(
            "[[",
            "]]",
            "{{",
            "}}",
            "{{{",
            "}}}",
            "{|",
            "|}",
            "|-",
            "||",
            "|",
            "=",
            "==",
            "'" * 3,
            "'" * 2,
            "*",
            "#",
            ":",
            ";",
        ),
        *("<ref>", "</ref>", "<ref/>", "<nowiki>", "</nowiki>", "<!--", "-->", "<br>", "<math>", "</math>", "&amp;"),
        *("（", "）", "(", ")", "、", "。", "「", "」", "[http://a ", "]", "-{", "}-", "__NOTOC__", "&#x1f;"),
        *(
            "<td>",
            "<poem>",
            "</poem>",
            "<pre>",
            "</pre>",
            "{{!}}",
            "!!",
            "\n!",
            "\n|+",
            "\n;",
            "http://a.b/",
            "%41",
            "[[#",
        ),
        *("\n", " ", "\n\n", "\r\n", "ファイル:", "Category:", "en:", "lang", "small", "英:", "川", *MARKS),
    )
)
SOURCES = st.lists(st.one_of(SIGNS, st.text(max_size=4)), max_size=60).map("".join)


@settings(max_examples=400, deadline=None)
@given(SOURCES, st.booleans())
def test_paragraphs_are_stripped_and_without_placeholders(source: str, everything: bool) -> None:
    extractor = Extractor(ExtractorConfig(tables=everything, captions=everything, code=everything))
    text = extractor.extract(source, "題")
    assert not any(mark in text for mark in MARKS)
    assert all(line and line == line.strip() for line in text.split("\n")) or text == ""


@settings(max_examples=300, deadline=None)
@given(SOURCES.filter(lambda source: not any(each in source for each in ("nowiki", "pre", "&"))))  # shown as they are
def test_no_nesting_signs_remain(source: str) -> None:
    text = Extractor(ExtractorConfig()).extract(source, "題")
    assert not [sign for sign in ("[[", "]]", "{{", "}}", "{|", "|}", "<ref") if sign in text]


PLAIN = st.text(st.sampled_from("川の水はabc。！？ \n　1"), max_size=80)


@given(PLAIN)
def test_plain_text_is_unchanged(source: str) -> None:
    text = Extractor(ExtractorConfig()).extract(source, "題")
    assert "".join(text.split("\n")) == "".join(line.strip() for line in source.split("\n"))


OPENERS = (
    *("[[", "]]", "{{", "}}", "{{{", "{|", "\n{|", "\n|}", "{{small|", "[[a|", "[[ファイル:a|thumb|", "{{#if:", "\n| "),
    *(
        "<ref",
        "<ref>",
        "<!--",
        "<nowiki>",
        "<b>",
        "[http://",
        "'" * 3,
        "&",
        "__",
        "-{",
        "\n=",
        "\n;:",
        "（",
        "、",
        "（、",
        " ",
    ),
    *(
        "\n;[[",
        "\n;<b>",
        "\n|[[",
        "\n|<b>",
        "[http://a [",
        "''[[a]]'''s ",
        "\n''*",
        "<pre><nowiki>",
        "<poem>\n",
        "[[%41",
    ),
    *("{{未知}}", "{{未知}}を{{未知}}人", "（{{未知}}を食べ", "（を{{未知}}は海）", "。<ref/><ref/> "),
    *("{{!}}", "!!", "||", "[[http://a ", "&#", "}-", "\n=<p>"),
    *("<code>", "<code>]]", "<code>a[[</code>"),
    *("[[a|[b]]]", "[[a|[", "]]]", "[http://a [b]]", "[http://a b ["),
    *(
        '<span style="display:none">',
        '<div style="display:none"><p>',
        '<b style=":none ',
        '<p style="display:none">[[</p>',
    ),
)


@pytest.mark.parametrize("opener", OPENERS)
def test_repeated_openers_finish(extractor: Extractor, opener: str) -> None:
    text = extractor.extract(opener * 50_000, "題")
    assert not any(sign in text for sign in ("[[", "]]", "{{", "}}", "{|", "|}", "<ref"))


CELLS = ["\n|[[a", "\n|a||", "\n!a!!", "\n|<b>-", "\n|+", "\n{|\n|", "<td>", "\n|\n*''a"]


@pytest.mark.parametrize("opener", CELLS)
def test_repeated_cells_finish(opener: str) -> None:
    text = Extractor(ExtractorConfig(tables=True)).extract("{|\n" + opener * 25_000 + "\n|}", "題")
    assert not any(sign in text for sign in ("[[", "{|", "|}", *MARKS))


@pytest.mark.parametrize("opener", ["<ref>", "<ref>|</ref>", "<ref |", "<b |", "<!--", "[[|", "<poem>", "</ref"])
def test_repeated_captions_finish(opener: str) -> None:
    text = Extractor(ExtractorConfig(captions=True)).extract(f"<gallery>\na|{opener * 50_000}\n</gallery>", "題")
    assert not any(sign in text for sign in ("[[", "<ref", *MARKS))


@given(st.text(st.sampled_from("' \n川ab"), max_size=40))
def test_bold_italic_removes_apostrophes_only(text: str) -> None:
    shown = remove_bold_italic(text)
    assert shown.replace("'", "") == text.replace("'", "")
    assert shown.count("'") <= text.count("'")
    if "''" not in text:
        assert shown == text


@given(st.lists(st.text(st.sampled_from("' 川a"), max_size=20), max_size=5))
def test_bold_italic_is_resolved_line_by_line(lines: list[str]) -> None:
    assert remove_bold_italic("\n".join(lines)) == "\n".join(map(remove_bold_italic, lines))


NESTED = [("{{small|", "}}"), ("[[a|", "]]"), ("\n{|\n|", "\n|}"), ("{{{1|", "}}}")]


@pytest.mark.parametrize(("opener", "closer"), NESTED)
def test_deep_nesting_finishes(extractor: Extractor, opener: str, closer: str) -> None:
    assert extractor.extract(f"前{opener * 50_000}中{closer * 50_000}\n後", "題").split("\n")[0].startswith("前")


def test_nesting_within_the_limit_is_resolved(extractor: Extractor) -> None:
    assert extractor.extract("{{small|" * 90 + "川" + "}}" * 90, "題") == "川"
