"""The embedded sample has the format of a Wikimedia dump and covers the documented features."""

from __future__ import annotations

import bz2
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jprep import samples
from jprep.corpus.config import make_step
from jprep.corpus.document import Document
from jprep.pipeline.recipe import load_recipe

SPACE = "{http://www.mediawiki.org/xml/export-0.11/}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    samples.write_dump(folder)
    return folder


@pytest.fixture(scope="module")
def tree(folder: Path) -> ElementTree.Element:
    return ElementTree.fromstring(bz2.decompress((folder / samples.DUMP).read_bytes()))


def streams(data: bytes) -> list[tuple[int, str]]:
    """Each bzip2 stream's offset and text."""
    found, offset = [], 0
    while offset < len(data):
        inflate = bz2.BZ2Decompressor()
        text = inflate.decompress(data[offset:]).decode()
        assert inflate.eof
        found.append((offset, text))
        offset = len(data) - len(inflate.unused_data)
    return found


def test_streams_hold_header_whole_pages_and_footer(folder: Path) -> None:
    (_, header), *middle, (_, footer) = streams((folder / samples.DUMP).read_bytes())
    assert header.startswith("<mediawiki ") and header.endswith("  </siteinfo>\n")
    assert footer == "</mediawiki>\n"
    assert len(middle) == 4
    for _, text in middle:
        assert re.fullmatch(r"(  <page>\n(?:(?!  </page>).)*  </page>\n){1,8}", text, re.DOTALL)


def test_index_names_the_stream_of_every_page(folder: Path) -> None:
    pages = [
        f"{offset}:{number}:{title}"
        for offset, text in streams((folder / samples.DUMP).read_bytes())
        for title, number in re.findall(r"<page>\n *<title>(.*)</title>\n.*\n *<id>(\d+)</id>", text)
    ]
    assert bz2.decompress((folder / samples.INDEX).read_bytes()).decode().splitlines() == pages


def test_the_same_bytes_every_time(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jprep.samples", str(tmp_path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert output == f"{tmp_path / samples.RECIPE}\n"
    for name in (samples.DUMP, samples.INDEX):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_the_xml_gives_the_pages_back(tree: ElementTree.Element) -> None:
    assert tree.get("version") == "0.11"
    given = [(page.findtext(f"{SPACE}title"), page.findtext(f".//{SPACE}text")) for page in tree.iter(f"{SPACE}page")]
    assert given == [(page.title, page.text) for page in samples.pages()]


def test_sizes_and_hashes_are_those_of_the_texts(tree: ElementTree.Element) -> None:
    revisions = list(tree.iter(f"{SPACE}revision"))
    for revision in revisions:
        text = revision.find(f"{SPACE}text")
        assert text is not None
        assert text.get("bytes") == str(len((text.text or "").encode()))
        assert text.get("sha1") == revision.findtext(f"{SPACE}sha1")
    empty = next(each for each in revisions if each.find(f"{SPACE}text").get("bytes") == "0")  # type: ignore[union-attr]
    assert empty.findtext(f"{SPACE}sha1") == "phoiac9h4m842xq45sp7s6u21eteeq1"  # MediaWiki's hash of nothing


def test_titles_and_ids_are_unique_and_sorted() -> None:
    pages = list(samples.pages())
    assert all(one.id < other.id for one, other in pairwise(pages))
    assert len({page.title for page in pages}) == len(pages) == 32
    assert {page.ns for page in pages} == {0, 4, 10, 14}
    assert sum(bool(page.redirect) for page in pages) == 3
    for page in pages:
        assert page.title.startswith(f"{samples.NAMESPACES[page.ns]}:") == (page.ns != 0)


@pytest.mark.parametrize(
    "feature",
    [
        r"\{\{[^{}]*\{\{", r"\{\|[^}]*\n\|?\{\|", r"<ref name=[^>]*/>", r"<ref>\{\{", r"<references />", r"<gallery",
        r"\[\[ファイル:[^\]]*\[\[", r"\[\[File:", r"\[\[画像:", r"\[\[Category:", r"\[\[en:", r"\[https?://\S+ ",
        r"<!--[^>]*\n", "<math>", "<nowiki>", "<syntaxhighlight", "<pre>", "<ruby>", "<poem>", "<includeonly>",
        r"\{\{PAGENAME\}\}", "DEFAULTSORT", "&nbsp;", "&amp;lt;", "&#12459;",
        r"(?m)^; ", r"(?m)^\*\*", r"(?m)^# ", r"(?m)^===", r"（\{\{Audio\|[^{}]*\}\}）", "-{",
        "〜", "ｶ", "Ａ", "[０-９]", "ーーー", "……", "！！",
    ],
)  # fmt: skip
def test_the_sample_has_each_wikitext_feature(feature: str) -> None:
    assert re.search(feature, "\n".join(page.text for page in samples.pages()))


TEMPLATES = [
    "lang",
    "lang-fr",
    "仮リンク",
    "ルビ",
    "読み仮名",
    "要出典範囲",
    "年月日",
    "和暦",
    "aimai",
    "Cite book",
    "作家",
]


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_sample_calls_each_template(template: str) -> None:
    call = rf"\{{\{{(Infobox )?{template}[|\n]"
    assert any(re.search(call, page.text) for page in samples.pages())


def test_the_crawl_holds_something_for_filters_and_dedup(tmp_path: Path) -> None:
    recipe = load_recipe(samples.write_sample(tmp_path))
    assert all((tmp_path / path).is_file() for source in recipe.corpus.sources for path in source.paths)
    documents = (tmp_path / samples.CRAWL).read_text(encoding="utf-8").split("\n\n")
    assert len(documents) == 13
    assert len(set(documents)) == 12


def test_every_filter_of_the_recipe_finds_something_in_the_crawl(tmp_path: Path) -> None:
    web = load_recipe(samples.write_sample(tmp_path)).corpus.sources[1]
    left = [Document("", "web", "", "", text) for text in (tmp_path / samples.CRAWL).read_text().strip().split("\n\n")]
    for ref in web.filters or ():
        step = make_step("filter", ref)
        kept = [doc for doc in left if step.judge(doc).keep]
        assert len(kept) < len(left), ref
        left = kept
    assert len(left) == 8
