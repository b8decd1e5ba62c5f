"""Pages of `jprep view`: lists, documents, rejects, errors, and what hostile texts do to them."""

from __future__ import annotations

import html
import re
import shutil
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from jprep.corpus.api import Corpus
from jprep.corpus.config import decode_recipe
from jprep.errors import MachineError
from jprep.view.document_page import web_address
from jprep.view.tokens import TokenizerView
from tests.unit.view.conftest import SCRIPT, document, write_corpus

PAGES = [
    "/", "/rejects", "/?q=東京", "/?q=%3Cscript%3E", f"/?q={SCRIPT}&id={SCRIPT}",
    "/rejects?reason=filter.length/too_short",
    *(f"/documents/0/{row}" for row in range(3)), *(f"/documents/1/{row}" for row in range(3)),
    "/rejects/0/0", "/rejects/0/1", "/documents/7/7", f"/?min.characters={SCRIPT}", f"/{SCRIPT}",
    f"/documents/0/0?q={SCRIPT}&passage=1&x={SCRIPT}",
]  # fmt: skip


class Elements(HTMLParser):
    """Collects the elements of a page and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def visible_text(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", page))


@pytest.mark.parametrize("path", PAGES)
def test_nothing_from_outside_becomes_an_element(client: TestClient, path: str) -> None:
    page = client.get(path)
    assert page.headers["content-type"].startswith("text/html")
    found = Elements()
    found.feed(page.text)
    assert not {"script", "img", "svg", "i", "b", "iframe", "object"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "style"]
    links = [value or "" for name, value in found.attributes if name in ("href", "action", "src")]
    assert all(link.startswith(("/", "#", "https://example.com/", "data:,")) for link in links), links
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.text)
    assert "http-equiv" not in page.text


def test_hostile_texts_are_shown_as_text(client: TestClient) -> None:
    page = visible_text(client.get("/documents/0/0").text)
    assert SCRIPT in page and "\\x1b[31m赤" in page and "javascript:alert(3)" in page
    assert "\\u202e逆さ" in visible_text(client.get("/documents/0/1").text)
    assert "{{ 7 * 7 }}" in visible_text(client.get("/documents/0/2").text)


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "JaVaScRiPt:x", "//x", "http://[x", "", "ftp://x"]
)
def test_only_web_addresses_are_links(url: str) -> None:
    assert web_address(url) == ""
    assert web_address("https://ja.wikipedia.org/wiki/東京") == "https://ja.wikipedia.org/wiki/東京"


def test_a_long_line_is_shown_in_parts(client: TestClient) -> None:
    page = client.get("/documents/1/0?passage=2")
    assert len(page.content) < 500_000
    assert "Part 2 of 851" in visible_text(page.text)
    found = client.get("/documents/1/0?q=針").text
    assert "Part 751 of 851" in visible_text(found) and "<mark>針</mark>" in found
    assert len(client.get("/").content) < 100_000


def test_a_document_shows_sentences_and_words(client: TestClient) -> None:
    page = client.get("/documents/0/2").text
    assert '<li dir="auto"><span class="word">東京</span><span class="word">の中</span>' in page
    assert page.count('<li dir="auto">') == 2
    assert "example.com/?a=1&amp;b=2" in page


def test_search_form_keeps_what_was_asked(client: TestClient) -> None:
    page = client.get("/", params={"q": '東京 "の中"', "source": '"><i>', "min.characters": "5"}).text
    assert 'value="東京 &#34;の中&#34;"' in page and 'value="&#34;&gt;&lt;i&gt;">' in page and 'value="5"' in page
    assert "<mark>東京</mark><mark>" not in page and "<mark>東京の中</mark>" in page
    assert "1 document<" in page


def test_links_lead_to_the_document_and_back(client: TestClient) -> None:
    page = client.get("/", params={"q": "大阪", "source": '"><i>'}).text
    [link] = re.findall(r'href="(/documents/[^"]*)"', page)
    opened = client.get(html.unescape(link))
    assert "<mark>大阪</mark>" in opened.text
    [back] = re.findall(r'href="([^"]*)">← Documents', opened.text)
    assert re.findall(r'href="(/documents/[^"]*)"', client.get(html.unescape(back)).text) == [link]


def test_rejects_by_reason(client: TestClient) -> None:
    page = visible_text(client.get("/rejects?reason=reader.wikipedia/redirect").text)
    assert "1 rejected document" in page and "転送" in page and "shorter than" in page and "too_short) (1)" in page
    reject = visible_text(client.get("/rejects/0/1").text)
    assert "pages that only lead to another page (reader.wikipedia/redirect)" in reject


def test_paging_reaches_every_document_once(tmp_path: Path, open_client: Callable[..., TestClient]) -> None:
    documents = [document(number, f"題{number}", f"本文{number}") for number in range(130)]
    client = open_client(write_corpus(tmp_path / "c", [documents[:60], documents[60:61], documents[61:]]))
    for extra in ("", "&q=本文"):
        titles = [re.findall("題\\d+", visible_text(client.get(f"/?page={page}{extra}").text)) for page in range(1, 8)]
        assert [title for page in titles for title in page] == [each.title for each in documents]
        assert [len(page) for page in titles] == [25, 25, 25, 25, 25, 5, 0]


@pytest.mark.parametrize("words", ["", "&q=本文"])
def test_a_page_beyond_the_last_leads_to_the_last(
    words: str, tmp_path: Path, open_client: Callable[..., TestClient]
) -> None:
    documents = [document(number, f"題{number}", f"本文{number}") for number in range(60)]
    client = open_client(write_corpus(tmp_path / "c", [documents]))
    page = client.get(f"/?page=9999{words}").text
    [address] = re.findall('rel="prev" href="([^"]*)">← Last page<', page)
    assert "page=3" in address and "The last page is 3." in page and "Nothing matches" not in page
    assert "題59" in client.get(address.replace("&amp;", "&")).text
    assert "← Previous<" in client.get(f"/?page=3{words}").text


def test_a_damaged_shard_is_reported(hostile: Path, tmp_path: Path, open_client: Callable[..., TestClient]) -> None:
    folder = shutil.copytree(hostile, tmp_path / "corpus")
    shard = folder / "documents/0000-source-000000.parquet"
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    client = open_client(folder)
    for path in ("/", "/?q=短い"):
        listed = client.get(path)
        assert listed.status_code == 200 and "1 file is damaged" in listed.text and "000000.parquet" in listed.text
    assert "短い" in client.get("/?q=短い").text
    page = client.get("/documents/0/1")
    assert page.status_code == 500
    assert "this file was changed or damaged" in page.text and "jprep corpus verify" in page.text
    shard.unlink()
    assert "this file is missing" in client.get("/documents/0/1").text
    shard.mkdir()  # a file that cannot be read
    for path in ("/", "/?q=短い", "/?q=長"):
        listed = client.get(path)
        assert listed.status_code == 200 and "1 file is damaged or missing" in listed.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/documents/0/999", 404), ("/documents/9/0", 404), ("/rejects/1/0", 404), ("/nothing", 404),
        ("/documents/0/99999999999999999999999", 404), ("/documents/x/0", 404),
        pytest.param(f"/documents/0/{'9' * 5000}", 404, id="a row of 5,000 digits"),
        ("/?max.characters=1e999", 400), ("/?q=" + "a+" * 99, 400),
    ],
)  # fmt: skip
def test_errors_are_pages(client: TestClient, path: str, status: int) -> None:
    page = client.get(path)
    assert page.status_code == status
    assert "Traceback" not in page.text and "<h1>" in page.text


def test_originals_and_changes_are_shown(corpus: Path, sample: Path, open_client: Callable[..., TestClient]) -> None:
    client = open_client(corpus, None, (str(sample),))
    pages = [client.get(f"/documents/0/{row}").text for row in range(Corpus(corpus).manifest.parts[0].rows)]
    assert all("The record as it stands in the input" in page for page in pages)
    assert any("<del>" in page and "<ins>" in page for page in pages)
    reject = client.get("/rejects/0/0").text
    assert "The record as it stands in the input" in reject


def test_items_of_test_sets_are_named(tmp_path: Path, open_client: Callable[..., TestClient]) -> None:
    items = ["湖の水面が夕方に赤く見えるのはなぜですか。", "駅前の時計台を建てた大工の名前は何ですか。"]
    texts = ["朝から雨が降っていた。", f"朝から雨が降っていた。{items[0]}", items[1]]
    for name, values in (("test", items), ("in", texts)):
        (tmp_path / f"{name}.csv").write_text("text\n" + "\n".join(values) + "\n", encoding="utf-8")
    test_set = {"name": "quiz", "paths": [str(tmp_path / "test.csv")], "fields": ["text"], "action": "cut"}
    source = {"name": "s", "paths": [str(tmp_path / "in.csv")], "reader": "csv"}
    raw = {"sources": [source], "decontaminate": [test_set], "segmenter": "none", "dedup": {"documents": False}}
    built = Corpus.build(decode_recipe({"name": "c", "corpus": raw}), tmp_path / "corpus")
    client = open_client(built.folder, None, (str(tmp_path),))
    named = "Decontamination found items of test sets in this text: "
    assert named not in client.get("/documents/0/0").text
    page = client.get("/documents/0/1").text
    assert f"{named}quiz:test.csv" in page and "cannot be shown: decontamination cut sentences" in page
    assert f"{named}quiz:test.csv" in client.get("/rejects/0/0").text
    (built.folder / built.manifest.test_items[0].path).write_bytes(b"")
    damaged = open_client(built.folder).get("/documents/0/1")
    assert damaged.status_code == 200 and named not in damaged.text


def test_missing_inputs_are_one_sentence(corpus: Path, open_client: Callable[..., TestClient]) -> None:
    page = open_client(corpus).get("/documents/0/0?original=1")
    assert page.status_code == 200 and "The original cannot be shown: " in page.text
    assert "Read the input again" in open_client(corpus).get("/documents/0/0?original=0").text


def test_a_broken_tokenizer_leaves_the_page_readable(
    hostile: Path, tmp_path: Path, open_client: Callable[..., TestClient]
) -> None:
    page = open_client(hostile, TokenizerView(tmp_path / "missing")).get("/documents/0/2")
    assert page.status_code == 200 and "No tokens: " in page.text and "東京" in page.text


def test_an_empty_corpus_has_pages(tmp_path: Path, open_client: Callable[..., TestClient]) -> None:
    client = open_client(write_corpus(tmp_path / "c", [], []))
    for path in ("/", "/rejects", "/?q=a"):
        assert client.get(path).status_code == 200
    assert "There is nothing here" in client.get("/").text


@pytest.mark.parametrize("library", ["duckdb", "jinja2"])
def test_a_missing_library_names_the_extra(hostile: Path, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    from jprep.html.page import environment
    from jprep.view.server import Viewer

    environment.cache_clear()
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MachineError) as error:
        Viewer(hostile)
    assert error.value.fix == "pip install 'jprep[view]'"


def test_stepping_through_documents_crosses_files_and_keeps_the_search(client: TestClient) -> None:
    seen, path = [], "/documents/0/0?q=東京&page=2"
    while path:
        seen.append(path.partition("?")[0])
        page = client.get(path).text
        assert 'href="/?q=%E6%9D%B1%E4%BA%AC&amp;page=2"' in page
        found = re.search(r'<a rel="next" href="([^"]*)">Next document', page)
        path = html.unescape(found[1]) if found else ""
    assert seen == [f"/documents/{part}/{row}" for part in range(2) for row in range(3)]
    assert 'rel="prev" href="/documents/0/2"' in client.get("/documents/1/0").text
