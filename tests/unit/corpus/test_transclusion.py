"""Templates that are expanded from pages of the dump, with one case per construct in `tests/golden/transclusion`."""

from __future__ import annotations

import decimal
import math
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jprep.corpus.readers.wikitext import Extractor, ExtractorConfig
from jprep.corpus.readers.wikitext.transclusion import limits
from jprep.corpus.readers.wikitext.transclusion.hidden import remove_hidden
from jprep.corpus.readers.wikitext.transclusion.inclusion import transcluded_part
from jprep.corpus.readers.wikitext.transclusion.page_file import TemplatePage, write_template_pages
from jprep.corpus.readers.wikitext.transclusion.parser_functions.expressions import ExpressionError, evaluate_expression
from jprep.corpus.readers.wikitext.transclusion.parser_functions.functions import FUNCTIONS, FunctionCall
from jprep.corpus.readers.wikitext.transclusion.parser_functions.page_names import PageNames
from jprep.corpus.readers.wikitext.transclusion.syntax import (
    MAX_NESTING,
    Argument,
    Call,
    Node,
    Nodes,
    Parameter,
    outermost_braces,
    parse,
    source_of,
)
from jprep.errors import ConfigError

GOLDEN = Path(__file__).parents[2] / "golden" / "transclusion"
REDIRECTS = {"あいさつ": "挨拶", "英": "Lang", "堂々巡り": "堂々巡り二", "堂々巡り二": "堂々巡り"}


def parts(name: str) -> list[tuple[str, str]]:
    found = (GOLDEN / name).read_text(encoding="utf-8").rstrip("\n").removeprefix("@ ").split("\n@ ")
    return [(head, body) for head, _, body in (each.partition("\n") for each in found)]


def make_pages(path: Path, templates: dict[str, str], redirects: dict[str, str] | None = None) -> Path:
    pages = [TemplatePage(name, "", transcluded_part(text), "") for name, text in templates.items()]
    pages += [TemplatePage(name, target, "", "") for name, target in (redirects or {}).items()]
    write_template_pages(path, pages, {})
    return path


def make(path: Path, **templates: str) -> Extractor:
    return Extractor(ExtractorConfig(template_pages=str(make_pages(path / "templates.sqlite", templates))))


@pytest.fixture(scope="module")
def extractor(tmp_path_factory: pytest.TempPathFactory) -> Extractor:
    path = tmp_path_factory.mktemp("templates") / "templates.sqlite"
    make_pages(path, dict(parts("templates.txt")), REDIRECTS)
    return Extractor(ExtractorConfig(template_pages=str(path)))


@pytest.fixture(scope="module")
def plain() -> Extractor:
    return Extractor(ExtractorConfig())


@pytest.fixture(scope="module")
def without_pages(tmp_path_factory: pytest.TempPathFactory) -> Extractor:
    path = tmp_path_factory.mktemp("templates") / "empty.sqlite"
    return Extractor(ExtractorConfig(template_pages=str(make_pages(path, {}))))


@pytest.mark.parametrize(
    ("source", "shown"), [pytest.param(*body.split("\n---\n"), id=name) for name, body in parts("cases.txt")]
)
def test_construct(extractor: Extractor, source: str, shown: str) -> None:
    assert extractor.extract(source, "鴨川") == shown.strip("\n")


_WORDS = """{{ }} {{{ }}} [[ ]] | = <!-- --> <ref> </ref> <nowiki> </nowiki> {| |} 挨拶 lang #if: 川は長い。 1 '''"""
SIGNS = st.lists(st.sampled_from((*_WORDS.split(), " ", "\n", "<b class='noprint'>")), max_size=40).map("".join)


@given(source=SIGNS)
@settings(max_examples=100, deadline=None)
def test_a_file_without_pages_changes_nothing(without_pages: Extractor, plain: Extractor, source: str) -> None:
    assert without_pages.extract(source, "鴨川") == plain.extract(source, "鴨川")
    assert without_pages.tally == plain.tally
    for each in (without_pages, plain):
        each.tally.clear()


@given(source=SIGNS)
@settings(max_examples=100, deadline=None)
def test_parts_of_a_source_are_the_source(source: str) -> None:
    def flat(node: Node) -> str:
        return "".join(map(flat, source_of(node))) if isinstance(node, tuple) else node

    assert "".join(map(flat, parse(source))) == source
    ranges = list(outermost_braces(source))
    assert all(source.startswith("{{", start) and start < end for start, end in ranges)
    assert all(before[1] <= after[0] for before, after in pairwise(ranges))


@given(source=SIGNS)
@example(source="<nowiki><b class='noprint'></nowiki>")
@settings(max_examples=100, deadline=None)
def test_no_input_fails_or_leaves_placeholders(extractor: Extractor, source: str) -> None:
    shown = extractor.extract(f"{{{{挨拶|{source}}}}}{source}", "鴨川")
    assert not set(shown) & set("\x01\x02\x03\x04\x05\x06\x0e\x0f")


@given(source=SIGNS)
@settings(max_examples=50, deadline=None)
def test_pages_of_any_text_are_expanded(tmp_path_factory: pytest.TempPathFactory, source: str) -> None:
    shown = make(tmp_path_factory.mktemp("any"), 甲=source, 挨拶="{{{1}}}").extract("{{甲|川}}", "鴨川")
    assert not set(shown) & set("\x01\x02\x03\x04\x05\x06\x0e\x0f")
    assert len(remove_hidden(source)) <= len(source) + source.count("<")


def test_expansions_are_counted(extractor: Extractor) -> None:
    extractor.tally.clear()
    extractor.extract("{{挨拶}}{{輪}}{{未知}}{{lang|en|a}}", "鴨川")
    counts = {name.partition(".")[2]: count for name, count in extractor.tally.items() if name.startswith("templates.")}
    assert counts == {"from_pages": 2, "loops": 1, "unknown": 1, "expanded": 1}


def test_hashes_of_pages_are_recorded(tmp_path: Path) -> None:
    one, two = make(tmp_path / "a", 甲="一"), make(tmp_path / "b", 甲="二")
    assert one.provenance()["template_pages"] != two.provenance()["template_pages"]
    assert "template_pages" not in Extractor(ExtractorConfig()).provenance()
    same = make(tmp_path / "c", 甲="一").provenance()
    assert same == one.provenance()


def test_other_files_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "x.sqlite"
    with pytest.raises(ConfigError, match="cannot read the template pages"):
        Extractor(ExtractorConfig(template_pages=str(other)))
    other.write_bytes(b"x" * 4096)
    with pytest.raises(ConfigError, match="not a file of template pages"):
        Extractor(ExtractorConfig(template_pages=str(other)))


# --- Hostile dumps ----------------------------------------------------------------------------------------------------


def test_a_template_that_doubles_itself_ends(tmp_path: Path) -> None:
    templates = {f"D{n}": f"{{{{D{n + 1}|{{{{{{1}}}}}}{{{{{{1}}}}}}}}}}" for n in range(39)} | {"D39": "{{{1}}}"}
    extractor = make(tmp_path, **templates)
    assert extractor.extract("{{D0|" + "鴨" * 10 + "}}川は長い。", "鴨川") == "川は長い。"
    assert extractor.tally["templates.over_limit"] == 1


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_STEPS", 20_000)


@pytest.mark.usefixtures("few_steps")
def test_a_billion_laughs_end(tmp_path: Path) -> None:
    templates = {f"L{n}": f"{{{{L{n + 1}}}}}" * 10 for n in range(12)} | {"L12": "笑"}
    extractor = make(tmp_path, **templates)
    assert extractor.extract("{{L0}}" * 50 + "川は長い。", "鴨川") == "川は長い。"
    assert extractor.tally["templates.over_limit"] == 50


@pytest.mark.usefixtures("few_steps")
def test_empty_laughs_end_as_well(tmp_path: Path) -> None:
    templates = {f"L{n}": f"{{{{#if:{{{{L{n + 1}}}}}|}}}}" * 10 for n in range(12)} | {"L12": "笑"}
    extractor = make(tmp_path, **templates)
    assert extractor.extract("{{L0}}川は長い。", "鴨川") == "川は長い。"
    assert extractor.tally["templates.over_limit"] == 1


@pytest.mark.usefixtures("few_steps")
def test_conditions_of_long_arguments_are_limited(tmp_path: Path) -> None:
    extractor = make(tmp_path, 甲="{{#if:x{{{1}}}|}}" * 5_000)
    assert extractor.extract("{{甲|" + "長" * 100_000 + "}}川は長い。", "鴨川") == "川は長い。"
    assert extractor.tally["templates.over_limit"] == 1


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize(
    "body",
    [
        "{{#switch:{{{1}}}" + "|a" * 200 + "}}",
        "{{#ifeq:a|{{{1}}}|}}",
        "{{#ifeq:a|{{{1|}}}|}}{{lc:}}",
        "{{#if:{{{1}}}|}}",
    ],
)
def test_cheap_calls_of_long_arguments_are_limited(tmp_path: Path, body: str) -> None:
    extractor = make(tmp_path, 甲=body * 500)
    assert extractor.extract("{{甲|" + "長" * 5_000 + "}}川は長い。", "鴨川") == "川は長い。"
    assert extractor.tally["templates.over_limit"] == 1


@pytest.mark.usefixtures("few_steps")
def test_parsing_is_limited_once_per_template_of_a_page(tmp_path: Path) -> None:
    extractor = make(tmp_path, **{name: f"{name}。{{{{#if:{'長' * 48_000}|}}}}" for name in "甲乙丙"})
    for _ in range(2):  # the second page has the templates in the cache
        assert extractor.extract("{{甲}}" * 5 + "{{乙}}{{丙}}川は長い。", "鴨川") == "甲。" * 5 + "川は長い。"
    assert extractor.tally["templates.over_limit"] == 4


def test_names_longer_than_those_of_pages_are_unknown(tmp_path: Path) -> None:
    extractor = make(tmp_path, **{"甲" * 85: "短い。", "甲" * 86: "長い。", "a" * 256: "長い。"})
    source = f"{{{{{'甲' * 85}}}}}{{{{{'甲' * 86}}}}}{{{{{'a' * 256}}}}}{{{{lang:{'a' * 300}}}}}"
    assert extractor.extract(source, "鴨川") == "短い。"


@pytest.mark.parametrize("before", ["\n", "\n \t", "a", "\na "])
def test_comments_of_one_line_are_removed_in_linear_time(before: str) -> None:
    class Counted(str):
        __slots__ = ()

        def rfind(self, *args: object) -> int:
            raise AssertionError("a line is searched for each of its comments")

    shown = transcluded_part(Counted(f"x{before}" + "<!---->" * 1_000))
    assert shown == f"x{before}"


def test_templates_nested_too_deep_are_lost(tmp_path: Path) -> None:
    extractor = make(tmp_path, **{f"N{n}": f"{{{{N{n + 1}}}}}" for n in range(200)})
    assert extractor.extract("{{N0}}川は長い。", "鴨川") == "川は長い。"
    assert extractor.tally["templates.too_deep"] == 1


@pytest.mark.parametrize("unit", ["{{#if:1|", "{{{1|", "{{甲|", "[[", "{{乙|{{{", "{{{{{"])
def test_deep_nesting_of_one_page_ends(tmp_path: Path, unit: str) -> None:
    extractor = make(tmp_path, 甲="{{{1}}}", 乙=unit * 10_000 + "}}" * 20_000)
    extractor.extract("{{乙}}" + unit * 10_000 + "}}" * 20_000, "鴨川")
    assert extractor.extract("{{甲|川は長い。}}", "鴨川") == "川は長い。"


@pytest.mark.parametrize("count", [90, 200, 3_000])
def test_long_runs_of_braces_end(tmp_path: Path, count: int) -> None:
    braces = "{" * count + "甲" + "}" * count
    extractor = make(tmp_path, 甲="{{{1}}}", 乙=braces)
    assert extractor.extract(braces + "川は長い。{{乙}}", "鴨川").endswith("川は長い。")
    assert extractor.extract("{{" + "{{甲|" * 40 + braces * 3, "鴨川") is not None


@pytest.mark.parametrize("run", [2, 3, 5, 6, 50, 500])
def test_nesting_of_the_tree_is_limited(run: int) -> None:
    def depth(nodes: Nodes) -> int:
        return max((1 + depth(source_of(node)) for node in nodes if isinstance(node, Call | Parameter)), default=0)

    source = ("{" * run + "a|") * 300 + "}" * run * 300
    assert 30 <= depth(parse(source)) <= MAX_NESTING


def test_nesting_of_page_and_templates_together_is_limited(tmp_path: Path) -> None:
    extractor = make(tmp_path, 甲="{{#if:1|" * 99 + "深い" + "}}" * 99)
    extractor.extract("{{未知|" * 99 + "{{甲}}" + "}}" * 99, "鴨川")
    assert extractor.tally["templates.too_deep"] == 1


@pytest.mark.parametrize(("number", "name"), [("--5", ""), ("-1", "Special"), ("²", ""), ("0", ""), ("999999", "")])
def test_names_of_namespaces(tmp_path: Path, number: str, name: str) -> None:
    assert make(tmp_path, 甲=f"[{{{{ns:{number}}}}}]。").extract("{{甲}}", "鴨川") == f"[{name}]。"


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "asin", "acos", "atan"])
@given(number=st.decimals("-0.9", "0.9", places=12))
@settings(deadline=None, max_examples=30)
def test_trigonometry_is_that_of_floats(name: str, number: decimal.Decimal) -> None:
    shown = float(evaluate_expression(f"{name}({number:f})"))
    assert math.isclose(shown, getattr(math, name)(float(number)), rel_tol=1e-13, abs_tol=1e-15)


EXISTING = {
    "Template:挨拶": "有", "テンプレート: 挨拶#節": "有", ":template:転送": "有",
    "Template:無い": "無", "挨拶": "無", "": "無", "Template:" + "長" * 100: "無", "Template:": "無",
}  # fmt: skip


@pytest.mark.parametrize(("title", "shown"), EXISTING.items())
def test_only_templates_of_the_dump_exist(tmp_path: Path, title: str, shown: str) -> None:
    pages = {"挨拶": "やあ。", "転送": "#REDIRECT [[Template:挨拶]]", "甲": "{{#ifexist:{{{1}}}|有|無}}る。"}
    assert make(tmp_path, **pages).extract(f"{{{{甲|1={title}}}}}", "鴨川") == f"{shown}る。"


def test_whether_an_unknown_page_exists_is_unknown(tmp_path: Path) -> None:
    extractor = make(tmp_path, 甲="川が{{#ifexist:{{未知の雛形}}|有|無}}る。")
    assert extractor.extract("{{甲}}", "鴨川") == "川がる。"


def test_long_paddings_need_little_memory() -> None:
    arguments = [Argument(None, ["400"]), Argument(None, ["a" * 1_000_000])]
    call = FunctionCall(lambda nodes: "".join(map(str, nodes)), "7", arguments, PageNames("", {}), lambda title: False)
    tracemalloc.start()
    padded, peak = FUNCTIONS["padleft"](call), tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert padded == "a" * 399 + "7"
    assert peak < 10_000_000


@pytest.mark.parametrize(
    "unit",
    [
        "<!--",
        "<ref>",
        "<nowiki>",
        "<noinclude>",
        "<div class=navbox>",
        '<b class="',
        "{|class=navbox\n",
        "\n ",
        "{{!}}",
    ],
)
def test_repeated_openers_end(tmp_path: Path, unit: str) -> None:
    extractor = make(tmp_path, 甲=unit * 20_000)
    extractor.extract("{{甲}}川は長い。", "鴨川")
    assert extractor.tally["templates.from_pages"] + extractor.tally["templates.over_limit"] == 1


def test_repeated_attributes_end(tmp_path: Path) -> None:
    extractor = make(tmp_path, 甲=f"<b {'style=' * 100_000}>{{{{{{1}}}}}}</b>")
    assert extractor.extract("{{甲|川は長い。}}", "鴨川") == "川は長い。"


def test_limits_are_those_of_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_SIZE", 100)
    extractor = make(tmp_path, 甲="鴨川" * 30)
    for _ in range(2):
        assert extractor.extract("{{甲}}\n{{甲}}", "鴨川") == "鴨川" * 30


EXPRESSIONS = {"": "", "1": "1", "0.5 + .5": "1", "-2 ^ 2": "4", "1e3": "1000", "2 * (3 + 4)": "14", "5 round -1": "10"}
EXPRESSIONS |= {
    "1 = 1 and 2 <> 3": "1",
    "10 fmod 4": "2",
    "abs -1": "1",
    "-123456 round 1": "-123456",
    "abs -123456": "123456",
    "10^13": "10000000000000",
    "10^14": "1.0E+14",
    "123456789 * 10^7": "1.23456789E+15",
    "sin pi": "0",
    "cos (pi / 2)": "0",
    "cos -pi": "-1",
    "sin (30 * pi / 180)": "0.5",
    "tan (pi / 4)": "1",
    "tan 0": "0",
    "2 * asin 1 - pi round 20": "0",
    "acos -1": "3.1415926535898",
    "acos 1": "0",
    "atan 1 * 4": "3.1415926535898",
    "atan (10^300)": "1.5707963267949",
    "cos (10^-300)": "1",
    "sin (10^-300)": "1.0E-300",
    "sin (10^25) round 9": "-0.744789849",
    "6371 * acos(sin(35 * pi / 180) ^ 2 + cos(35 * pi / 180) ^ 2 * cos(1 * pi / 180)) round 1": "91.1",
}


@pytest.mark.parametrize(("source", "shown"), EXPRESSIONS.items())
def test_expressions(source: str, shown: str) -> None:
    assert evaluate_expression(source) == shown
    with decimal.localcontext(decimal.Context(prec=3)):
        assert evaluate_expression(source) == shown


@pytest.mark.parametrize(
    "source", ["1 +", "(1", "1)", "a", "1 / 0", "9^9^9^9", "1" * 2000, "(" * 50 + "1" + ")" * 50, "0^-1",
     "asin 2", "acos -1.1", "sin (10^40)", "tan (pi / 2)", "atan"]
)  # fmt: skip
def test_wrong_expressions_are_refused(source: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate_expression(source)
