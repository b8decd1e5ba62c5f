"""Options, counts and template tables of the wikitext extractor."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from jprep.corpus.readers.wikitext import Extractor, ExtractorConfig
from jprep.corpus.readers.wikitext.placeholders import LOST
from jprep.corpus.readers.wikitext.templating.definitions import BUILTIN_FILES, TemplateTable
from jprep.corpus.readers.wikitext.templating.eras import format_year_with_era
from jprep.corpus.readers.wikitext.templating.formats import TemplateFormat
from jprep.errors import ConfigError

DOCS = Path(__file__).parents[3] / "docs" / "wikitext.md"


def extract(source: str, **options: object) -> str:
    return Extractor(ExtractorConfig(**options)).extract(source, "鴨川")


def test_headings_can_be_dropped() -> None:
    assert extract("== 地理 ==\n川。", headings="drop") == "川。"


def test_lists_can_be_dropped_but_not_indented_text() -> None:
    assert extract("前\n* 一\n; 二: 三\n: 四", lists=False) == "前\n四"


def test_sections_can_be_dropped_with_subsections() -> None:
    source = "前\n== 脚注 ==\n一\n=== 注 ===\n二\n== 川 ==\n三"
    assert extract(source, drop_sections=["脚注"]) == "前\n川\n三"


def test_tables_can_be_kept() -> None:
    source = '{| class="a"\n|+ 題\n|-\n! 川 !! 長さ\n|-\n| style="b" | [[鴨川|鴨]] || 31\n|}\n後'
    assert extract(source, tables=True) == "題\n川\t長さ\n鴨\t31\n後"


def test_captions_can_be_kept() -> None:
    source = (
        "[[ファイル:A.jpg|thumb|200px|[[鴨川|川]]の春|alt=x]]前[[ファイル:B.png|20px]]\n<gallery>\nC.jpg|秋\n</gallery>"
    )
    assert extract(source, captions=True) == "川の春\n前\n秋"


def test_options_of_a_gallery_are_no_captions() -> None:
    lines = (
        "File:a.jpg|alt=代替|説明|link=頁",
        "b.jpg|代替文=図",
        "c.jpg|class=x|[[鴨川|川]]と{{color|red|池}}",
        "d.jpg|thumb|左",
        "e.jpg|",
        "f.jpg|page=2|a=b",
        "g.jpg",
    )
    source = "\n".join(("<gallery>", *lines, "</gallery>"))
    assert extract(source, captions=True) == "説明\n川と池\n左\na=b"


@pytest.mark.parametrize(
    ("source", "caption"),
    [
        ("文<ref>[http://x.jp 報告|記事]</ref>|alt=x", "文"),
        ("文<ref name='a|b' />", "文"),
        ("<ref>a|b</ref>文<ref>c|d</ref>", "文"),
        ("絶対値<math>|x|</math>の図", "絶対値|x|の図"),
        ("<nowiki>a|b</nowiki>", "a|b"),
        ("<span title='x|y'>語</span>", "語"),
        ("<!-- a|b -->説", "説"),
        ("左|右", "右"),
    ],
)
def test_signs_within_elements_do_not_cut_captions(source: str, caption: str) -> None:
    gallery = f"<gallery>\na.jpg|{source}\n</gallery>"
    assert extract(gallery, captions=True, math=True) == caption


def test_captions_can_end_in_an_external_link() -> None:
    assert extract("[[File:a.jpg|thumb|説明[http://c.jp d]]]本文", captions=True) == "説明d\n本文"


def test_links_can_show_their_targets() -> None:
    source = "[[貞観 (日本)|貞観]]13年、[[沿革#戦後|戦後]]、[[#節|この節]]、[[塔|{{small|旧塔}}]]、[[鴨川]]"
    assert extract(source, links="target") == "貞観 (日本)13年、沿革、この節、塔、鴨川"


def test_targets_are_titles() -> None:
    source = "[[京都_市|京]]、[[京都%E5%B8%82#川|京]]、[[京都__市_#川|京]]、[[100%|全部]]、[[京都市]]"
    assert extract("[[京都  市|京]]、[[ 京都 |京]]、[[京都 市\u3000|京]]、[[ 川 ]]、[[a b c]]", links="target") == (
        "京都 市、京都、京都 市、川、a b c"
    )
    assert extract(source, links="target") == "京都 市、京都市、京都 市、100%、京都市"


def test_apostrophes_of_targets_are_text() -> None:
    assert extract("''[[Rock ''n'' Roll|曲]]''と''[[B's]]''", links="target") == "Rock ''n'' RollとB's"


def test_formulas_and_code_can_be_kept() -> None:
    source = "<math>a\n+b</math>\n<syntaxhighlight>\nx = [[1]]\n</syntaxhighlight>"
    assert extract(source, math=True, code=True) == "a +b\nx = [[1]]"


def test_the_namespaces_of_a_wiki() -> None:
    extractor = Extractor(ExtractorConfig(), namespaces={"datei": 6, "kategorie": 14})
    assert extractor.extract("前[[Datei:A.jpg|x]][[Kategorie:B]][[File:C]]後", "題") == "前後"


def test_counts() -> None:
    extractor = Extractor(ExtractorConfig())
    source = "{{small|a}}{{sfn|a}}{{未知}}<ref>b</ref>[[File:a]][[Category:b]][[en:c]]（{{未知}}）\n{|\n|}\n[[x"
    extractor.extract(source, "題")
    expected = {"templates.expanded": 1, "templates.hidden": 1, "templates.unknown": 2, "refs": 1, "files": 1}
    expected |= {"categories": 1, "interlanguage": 1, "brackets.emptied": 1, "tables": 1, "unclosed.links": 1}
    assert {name: extractor.tally[name] for name in expected} == expected


@pytest.mark.parametrize("tables", [False, True, "rows"])
def test_invisible_elements_are_counted(tables: object) -> None:
    extractor = Extractor(ExtractorConfig(tables=tables))
    hidden = '<span style="display:none">あ<b style="display:none">い</b></span>'
    assert extractor.extract(f"川{hidden}と{hidden}橋", "題") == "川と橋"
    assert extractor.tally["elements.hidden"] == 2


HIDE = '<span style="display:none">'


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (f"{{|\n|{HIDE}a\n|}}\n本文。\n{{|\n|b</span>\n|}}\n後文。", "本文。\n後文。"),
        (f"{{{{small|川{HIDE}あ}}}}い{{{{small|う</span>え}}}}橋", "川あいうえ橋"),
        (f"[[A|{HIDE}あ]]い[[B|う</span>え]]橋", "あいうえ橋"),
        (f"{HIDE}あ\n\n本文一。<span>二</span>\n\n== 章 ==\n本文三</span>。四。", "あ\n本文一。二\n章\n本文三。四。"),
        (f"川{HIDE}{{{{{{1|}}}}}}い</span>橋", "川橋"),
        (f"]]川{HIDE}あ</span>橋", "川橋"),
        ('川<span style="display:None">あ</span>橋', "川橋"),
        ('川<span data-style="display:none">あ</span>橋', "川あ橋"),
    ],
)
def test_only_elements_that_are_closed_where_they_are_opened_are_invisible(source: str, text: str) -> None:
    assert Extractor(ExtractorConfig()).extract(source, "題") == text


def test_no_sign_of_a_long_or_doubled_link_is_left() -> None:
    extractor = Extractor(ExtractorConfig())
    assert "]]" not in extractor.extract("[http://a " + "川" * 200 + "[" + "橋" * 200 + "]]後", "題")
    assert extractor.extract("[[http://a [c]] d]", "題") == "c] d]"


@pytest.mark.parametrize(
    ("source", "text"),
    [("{{#switch:z|{{未知}}=X|D}}です。川。", "川。"), ("{{#switch:a|a=X|{{未知}}=Y}}川", "X川"),
     ("{{#switch:z|#Default=D|a=X}}川", "D川"), ("{{#switch:z|#既定=D|a=X}}川", "D川")],
)  # fmt: skip
def test_an_unknown_key_leaves_a_choice_open(source: str, text: str) -> None:
    assert Extractor(ExtractorConfig()).extract(source, "題") == text


def test_signs_that_close_nothing_are_counted() -> None:
    extractor = Extractor(ExtractorConfig())
    assert extractor.extract("川]]の[[橋]]は}}長い。\n|}\n{{small|鴨]]}}", "題") == "川の橋は長い。\n鴨"
    counts = {name: count for name, count in extractor.tally.items() if name.startswith("unopened.") and count}
    assert counts == {"unopened.links": 2, "unopened.templates": 1, "unopened.tables": 1}


def test_incomplete_sentences_are_counted() -> None:
    extractor = Extractor(ExtractorConfig())
    source = "人口は{{未知}}人である。川（面積は{{未知}}km²）は{{注意}}長い。{{未知}}は橋である。"
    assert extractor.extract(source, "題") == "川は長い。"
    found = {
        name: extractor.tally[name] for name in ("incomplete.sentences", "incomplete.brackets", "templates.unknown")
    }
    assert found == {"incomplete.sentences": 2, "incomplete.brackets": 1, "templates.unknown": 4}


def test_coordinates_are_no_unknown_templates() -> None:
    extractor = Extractor(ExtractorConfig())
    source = "駅{{coord|35|N|139|E}}は町の駅。駅は{{coord|35|N|139|E}}に位置する。{{coord|35|N|139|E|display=t}}"
    assert extractor.extract(source, "題") == "駅は町の駅。"
    assert extractor.tally["templates.hidden"] == 3
    assert extractor.tally["templates.unknown"] == 0
    assert extractor.tally["incomplete.sentences"] == 1


def test_a_table_of_ones_own_completes_a_sentence(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        '[[show]]\nformat = "31"\nnames = ["長さ"]\n[[show]]\nformat = ""\nnames = ["注意"]\n', encoding="utf-8"
    )
    source = "川は{{長さ}}kmである。橋は{{注意}}kmである。"
    assert extract(source, templates=[str(mine)]) == "川は31kmである。橋はkmである。"


def test_rows_of_tables_are_no_sentences() -> None:
    assert extract("{|\n|人口は\n|{{未知}}人である。\n|}", tables=True) == "人口は\t人である。"


def test_years_in_eras_follow_each_other() -> None:
    eras: list[str] = []
    for year in range(645, 2020):
        shown, _, rest = format_year_with_era(str(year)).partition("年（")
        found = re.fullmatch(r"(\D+?)(元|\d+)年(?:/.*)?）", rest)
        assert found
        era, count = found[1], 1 if found[2] == "元" else int(found[2])
        assert shown == str(year)
        assert (count == 1) == (era not in eras[-1:]) or era == "明徳"  # 1393 is its fourth year for the southern court
        assert count == 1 or era == "明徳" or count == eras.count(era) + 1
        eras.append(era)
    assert len(set(eras)) == 236
    assert [format_year_with_era(other) for other in ("644", "昭和", "12345")] == ["644年", "昭和", "12345"]


def test_pages_are_independent() -> None:
    extractor = Extractor(ExtractorConfig())
    extractor.extract("<nowiki>x</nowiki>[[{{{|", "一")
    assert extractor.extract("{{PAGENAME}}<nowiki>y</nowiki>", "二") == "二y"


def test_user_table_extends_and_overrides(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'labels = ["川名"]\n[lookup.language]\nxx = "某語"\n'
        '[[show]]\nformat = "<{1}>"\nnames = ["small"]\n[[show]]\nformat = "{1:river}"\nnames = ["川名"]\n'
        '[lookup.river]\nkamo = "鴨川"\n',
        encoding="utf-8",
    )
    source = "{{small|a}}、{{川名|kamo}}、{{lang-xx|b}}、川（川名: {{未知}}）"
    assert extract(source, templates=[str(mine)]) == "<a>、鴨川、某語: b、川"


def test_the_longest_pattern_of_a_file_is_used_and_the_last_file_comes_first(tmp_path: Path) -> None:
    source = "{{lang-el-Latn|el|kinein}}、{{lang-de-short|Fluss}}、{{lang-en|river}}"
    assert extract(source) == "kinein、独: Fluss、英語: river"
    mine = tmp_path / "mine.toml"
    names = '["x-y-z-*", "*longest"]'
    mine.write_text(
        f'[[show]]\nformat = "<{{1}}>"\nnames = ["lang-*"]\n[[show]]\nformat = "{{*}}"\nnames = {names}',
        encoding="utf-8",
    )
    assert extract("{{x-y-z-longest}}", templates=[str(mine)]) == "X-y-z-"
    assert extract(source, templates=[str(mine)]) == "<el>、<Fluss>、<river>"


def test_provenance_names_every_table(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("", encoding="utf-8")
    names = Extractor(ExtractorConfig(templates=[str(mine)])).provenance()
    assert set(names) == {"templates.templates.toml", "templates.names.toml", f"templates.{mine}"}
    assert all(len(digest) == 64 for digest in names.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[show]]\nnames = []", "format"),
        ('[[show]]\nformat = "{1"\nnames = ["a"]', "syntax error|unexpected end"),
        ('[[show]]\nformat = "{1:nowhere}"\nnames = ["a"]', "nowhere"),
        ('[[show]]\nformat = "[{1}"\nnames = ["a"]', "unexpected end"),
        ('[[show]]\nformat = ""\nnames_from = "nowhere"', "nowhere"),
        ('[[shows]]\nformat = ""', "shows"),
        ("= 1", "invalid template table"),
    ],
)
def test_invalid_table_error_names_the_entry(tmp_path: Path, text: str, message: str) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as raised:
        TemplateTable([str(mine)])
    assert str(mine) in raised.value.where


def test_missing_table_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        TemplateTable([str(tmp_path / "none.toml")])


@pytest.mark.parametrize(
    ("source", "arguments", "shown"),
    [
        ("{1}", {"1": "a"}, "a"),
        ("{1}", {}, ""),
        ("{1|2}", {"2": "b"}, "b"),
        ("{1}（{2}）", {"1": "a"}, ""),
        ("{1}[（{2}）]", {"1": "a"}, "a"),
        ("{1}[（{2}）]", {"1": "a", "2": "b"}, "a（b）"),
        ("{2+、}", {"1": "a", "2": "b", "3": "c", "x": "y"}, "b、c"),
        (r"\[{1}\]", {"1": "a"}, "[a]"),
        ("{1:up}", {"1": "a"}, "A"),
        ("{1:up:twice}", {"1": "a"}, "AA"),
        ("–", {}, "–"),
        ("（{1|2}）", {"1": LOST, "2": "b"}, LOST),
        ("{1}（{2}）", {"1": "a", "2": LOST}, ""),
        ("{1}[（{2}）]", {"1": "a", "2": LOST}, "a"),
    ],
)
def test_formats(source: str, arguments: dict[str, str], shown: str) -> None:
    assert TemplateFormat(source, {"up": str.upper, "twice": lambda value: value * 2}).fill(arguments) == shown


def test_built_in_tables_have_no_duplicate_entries() -> None:
    shown = tomllib.loads(BUILTIN_FILES[0].read_text(encoding="utf-8"))["show"]
    names = [name for entry in shown for name in entry.get("names", [])]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_every_feature_of_a_table_is_documented() -> None:
    docs = DOCS.read_text(encoding="utf-8")
    words = ("[[show]]", "format", "names", "names_from", "[lookup.", "labels", "{1}", "{*}", "{@title}", "{2+", "\\[")
    for word in words:
        assert word in docs, f"{word} is not in docs/wikitext.md"
    for lookup in TemplateTable().lookups:
        assert f"`{lookup}`" in docs
    for option in ExtractorConfig.__struct_fields__:
        assert f"`{option}`" in docs
