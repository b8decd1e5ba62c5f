"""`jprep view` in a browser: search, filters, documents and rejects, by keyboard, and with hostile text."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jprep import Corpus
from tests.browser.hostile_corpus import IMAGE, LONG, SCRIPT, write_hostile_corpus
from tests.browser.pages import LIGHT, Browser, assert_inert, check_everywhere, check_fits, open_details
from tests.conftest import COMMAND, environment

pytestmark = [pytest.mark.backends, pytest.mark.xdist_group("browser")]


@contextmanager
def served(corpus: Path, *options: object) -> Iterator[str]:
    """Serve a corpus; gives the address."""
    command = [COMMAND, "view", str(corpus), "--port", "0", "--json", *map(str, options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(600)


@pytest.fixture(scope="module")
def address(corpus: Path, sample: Path) -> Iterator[str]:
    with served(corpus, "--inputs", sample) as url:
        yield url


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return write_hostile_corpus(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def hostile_address(hostile: Corpus) -> Iterator[str]:
    with served(hostile.folder) as url:
        yield url


def links(page: Any) -> list[str]:
    """Addresses of the documents on a page with hits."""
    found: list[str] = page.locator("ol.hits h2 a").evaluate_all("links => links.map(link => link.href)")
    return found


def with_original(link: str) -> str:
    """Return the address at which the input is read again, however large it is."""
    return f"{link}{'&' if '?' in link else '?'}original=1"


def search(page: Any, words: str) -> None:
    """Search as a reader does: type, press Enter."""
    page.get_by_role("searchbox").fill(words)
    with page.expect_navigation():
        page.keyboard.press("Enter")


class TestLists:
    def test_everywhere(self, browser: Browser, address: str, screenshots: Path) -> None:
        check_everywhere(browser, address, screenshots, "view-list")
        check_everywhere(browser, f"{address}rejects", screenshots, "view-rejects")

    def test_all_documents_can_be_reached(self, browser: Browser, address: str, corpus: Path) -> None:
        found: list[str] = []
        with browser.open(address) as page:
            found += links(page)
            while page.locator("a[rel=next]").count():
                page.locator("a[rel=next]").first.click()
                page.wait_for_load_state()
                found += links(page)
        assert len(found) == len(set(found)) == len(Corpus(corpus))

    def test_search_by_keyboard_finds_and_marks(self, browser: Browser, address: str, corpus: Path) -> None:
        [first, *_] = Corpus(corpus)
        word = first.text[:4]
        expected = [doc.id for doc in Corpus(corpus) if word in doc.text or word in doc.title]
        with browser.open(address) as page:
            search(page, word)
            assert page.get_by_role("searchbox").input_value() == word
            assert page.locator("ol.hits > li").count() == min(25, len(expected))
            assert word in page.locator("mark").first.inner_text()

    def test_a_search_without_hits(self, browser: Browser, address: str, screenshots: Path) -> None:
        with browser.open(address) as page:
            search(page, "この語はどこにもない")
            assert "Nothing matches" in page.locator("main").inner_text()
            check_everywhere(browser, page.url, screenshots, "view-nothing", LIGHT)

    def test_filter_by_source(self, browser: Browser, address: str, corpus: Path) -> None:
        number = sum(doc.source == "web" for doc in Corpus(corpus))
        with browser.open(address) as page:
            page.locator("select[name=source]").select_option("web")
            page.get_by_role("button", name="Search").click()
            page.wait_for_load_state()
            assert page.locator("ol.hits > li").count() == number

    def test_filter_by_reason(self, browser: Browser, address: str) -> None:
        with browser.open(f"{address}rejects") as page:
            choices = page.locator("select[name=reason] option")
            value = next(v for v in choices.evaluate_all("all => all.map(each => each.value)") if "redirect" in v)
            page.locator("select[name=reason]").select_option(value)
            page.get_by_role("button", name="Search").click()
            page.wait_for_load_state()
            assert page.locator("ol.hits > li").count() == 3


class TestDocuments:
    @pytest.fixture
    def document(self, browser: Browser, address: str) -> str:
        with browser.open(address) as page:
            return links(page)[0]

    def test_everywhere(self, browser: Browser, document: str, screenshots: Path) -> None:
        check_everywhere(browser, with_original(document), screenshots, "view-document")

    def test_a_document_s_way(self, browser: Browser, document: str, corpus: Path) -> None:
        [first, *_] = Corpus(corpus)
        with browser.open(with_original(document)) as page:
            words = page.locator("section[aria-labelledby=words] .word").all_inner_texts()
            assert "".join(words).replace("\n", "")[:50] == first.text.replace("\n", "")[:50]
            open_details(page)
            assert "[[" in page.locator("pre").first.inner_text()  # wikitext
            assert page.locator("section[aria-labelledby=text] .changes").count() == 1

    def test_a_rejected_document_is_shown_whole(self, browser: Browser, address: str) -> None:
        with browser.open(f"{address}rejects?reason=filter.symbols/symbols") as page:
            found = links(page)
        with browser.open(with_original(found[0])) as page:
            assert "symbols" in page.locator("main").inner_text()
            assert len(page.locator("pre").first.inner_text()) > 20

    def test_back_and_forth(self, browser: Browser, document: str) -> None:
        with browser.open(document) as page:
            page.locator("a[rel=next]").first.click()
            page.wait_for_load_state()
            assert page.url != document
            page.locator("a[rel=prev]").first.click()
            page.wait_for_load_state()
            assert page.url.split("?")[0] == document.split("?")[0]

    def test_tab_leads_to_the_content(self, browser: Browser, document: str) -> None:
        with browser.open(document) as page:
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            assert page.evaluate("document.activeElement.id") == "content"


class TestHostile:
    def test_lists_show_text(self, browser: Browser, hostile_address: str, screenshots: Path) -> None:
        for path, name in (("", "list"), ("rejects", "rejects")):
            check_everywhere(browser, hostile_address + path, screenshots, f"view-hostile-{name}", LIGHT)
            with browser.open(hostile_address + path) as page:
                assert_inert(page)
                assert SCRIPT in page.locator("main").inner_text()
                assert "\u202e" not in page.locator("body").inner_text()

    def test_every_document_shows_text(self, browser: Browser, hostile_address: str) -> None:
        found: list[str] = []
        for path in ("", "rejects"):
            with browser.open(hostile_address + path) as page:
                found += links(page)[:12]
        for link in found:
            with browser.open(with_original(link)) as page:
                assert_inert(page)

    @pytest.mark.parametrize(
        "words", [SCRIPT, IMAGE, "\u202e", "\"' onload=x", "%_\\", "a" * 900, "'; DROP TABLE x; --", "\x00"]
    )
    def test_searches_are_text(self, browser: Browser, hostile_address: str, words: str) -> None:
        with browser.open(hostile_address) as page:
            search(page, words)
            assert_inert(page)
            assert page.get_by_role("searchbox").count() == 1

    def test_a_long_line_is_shown_in_parts(self, browser: Browser, hostile_address: str) -> None:
        with browser.open(f"{hostile_address}?id=web:long") as page:
            [link] = links(page)
        with browser.open(with_original(link), width=390) as page:
            assert len(page.content()) < len(LONG)
            page.locator("a[rel=next]", has_text="Next part").first.click()
            page.wait_for_load_state()
            assert "Part 2 of" in page.locator("main").inner_text()
            open_details(page)
            check_fits(page)

    @pytest.mark.parametrize("path", ["documents/99/0", "documents/0/999999", "x", "rejects/0/99", "documents/-1/0"])
    def test_what_does_not_exist_is_a_page(self, browser: Browser, address: str, path: str) -> None:
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(address + path)
        assert error.value.code == 404
        assert b"<h1>" in error.value.read()

    def test_other_hosts_are_refused(self, address: str) -> None:
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(urllib.request.Request(address, headers={"Host": "evil.example"}))
        assert error.value.code == 403
