"""Reports in a browser: offline, accessible, readable at any width, and hostile text stays text."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep import Corpus
from tests.browser.hostile_corpus import IMAGE, SCRIPT, write_hostile_corpus
from tests.browser.pages import LIGHT, Browser, assert_inert, check_everywhere, open_details, tab_stops
from tests.conftest import Run

pytestmark = [pytest.mark.backends, pytest.mark.xdist_group("browser")]

LARGEST = 5_000_000


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return write_hostile_corpus(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def hostile_report(hostile: Corpus, tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> Path:
    path = tmp_path_factory.mktemp("report") / "hostile.html"
    done = jprep("report", hostile.folder, "-o", path)
    assert "\x1b" not in done.stdout + done.stderr and "\u202e" not in done.stdout + done.stderr
    return path


@pytest.fixture(scope="module")
def sample_report(corpus: Path, sample: Path, tmp_path_factory: pytest.TempPathFactory, jprep: Run) -> Path:
    path = tmp_path_factory.mktemp("report") / "sample.html"
    jprep("report", corpus, "--inputs", sample, "-o", path)
    return path


def test_a_report_of_a_corpus(browser: Browser, sample_report: Path, screenshots: Path) -> None:
    assert sample_report.stat().st_size < LARGEST
    check_everywhere(browser, sample_report, screenshots, "report-corpus", LIGHT)


def test_a_report_has_plots(browser: Browser, sample_report: Path) -> None:
    with browser.open(sample_report) as page:
        plots = page.locator("svg.plot")
        assert plots.count() >= 3
        for number in range(plots.count()):
            assert plots.nth(number).get_attribute("role") == "img"
        sizes = plots.evaluate_all("plots => plots.map(plot => plot.getBoundingClientRect().width)")
        assert min(sizes) > 100


def test_plots_follow_the_color_scheme(browser: Browser, sample_report: Path) -> None:
    fills = {}
    for scheme in ("light", "dark"):
        with browser.open(sample_report, scheme=scheme) as page:
            script = "text => getComputedStyle(text).fill"
            fills[scheme] = page.locator("svg.plot text").first.evaluate(script)
    assert fills["light"] != fills["dark"]


def test_links_of_the_contents_lead_to_sections(browser: Browser, sample_report: Path) -> None:
    with browser.open(sample_report) as page:
        targets = page.locator("a[href^='#']").evaluate_all("links => links.map(link => link.getAttribute('href'))")
        assert len(targets) > 3
        for target in targets:
            assert page.evaluate("id => document.getElementById(id) !== null", target[1:]), target


def test_the_keyboard_reaches_what_can_be_opened(browser: Browser, sample_report: Path) -> None:
    with browser.open(sample_report) as page:
        stops = tab_stops(page, 3)
        assert stops[0].startswith("a:Skip to the content")
        page.keyboard.press("Home")
        details = page.locator("summary").first
        details.focus()
        page.keyboard.press("Enter")
        assert page.locator("details").first.evaluate("each => each.open")


def test_without_scripts_a_report_is_complete(browser: Browser, sample_report: Path) -> None:
    with browser.open(sample_report, java_script_enabled=False) as page:
        plain = page.locator("main").text_content()
    with browser.open(sample_report) as page:
        assert page.locator("main").text_content() == plain


def test_hostile_text_stays_text(browser: Browser, hostile_report: Path, screenshots: Path) -> None:
    assert hostile_report.stat().st_size < LARGEST
    check_everywhere(browser, hostile_report, screenshots, "report-hostile", LIGHT)
    with browser.open(hostile_report) as page:
        open_details(page)
        assert_inert(page)
        text = page.locator("body").text_content()
        for shown in (SCRIPT, "\\u202e", IMAGE, "{{ 7*7 }}"):
            assert shown in text, shown
        assert not {"\x1b", "\u202e", "\u2066"} & set(text)
