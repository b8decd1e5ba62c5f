"""The checks of pages find what they look for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.pages import Browser, check_accessible, check_fits, check_prints

pytestmark = [pytest.mark.backends, pytest.mark.xdist_group("browser")]

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><main><h1>A page</h1>{}</main></body></html>"""


def written(folder: Path, body: str = "") -> Path:
    path = folder / "page.html"
    path.write_text(PAGE.format(body), encoding="utf-8")
    return path


def test_a_good_page_passes(browser: Browser, tmp_path: Path) -> None:
    with browser.open(written(tmp_path, "<p>Text</p>"), width=390) as page:
        check_fits(page)
        check_accessible(page)
        check_prints(page)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("<script>console.error('wrong')</script>", "error: wrong"),
        ("<script>undefined_name</script>", "undefined_name is not defined"),
        ("<script>alert('hello')</script>", "dialog: hello"),
        ("<script src='http://127.0.0.2:9/a.js'></script>", "request to http://127.0.0.2:9/a.js"),
        ("<script>fetch('https://example.invalid/').catch(() => 0)</script>", "request to https://example.invalid/"),
    ],
)
def test_errors_and_requests_are_found(browser: Browser, tmp_path: Path, body: str, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem), browser.open(written(tmp_path, body)) as page:
        page.wait_for_timeout(200)


def test_what_is_too_wide_is_found(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path, "<p style='width: 500px'>Text</p>")
    with browser.open(path) as page:
        check_fits(page)
    with browser.open(path, width=390) as page, pytest.raises(AssertionError, match="width: 500px"):
        check_fits(page)


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("<p style='color: #bbb'>Text</p>", "color-contrast"),
        ("<button></button>", "button-name"),
        ("<h4>Too deep</h4>", "heading-order"),
    ],
)
def test_violations_are_found(browser: Browser, tmp_path: Path, body: str, rule: str) -> None:
    with browser.open(written(tmp_path, body)) as page, pytest.raises(AssertionError, match=rule):
        check_accessible(page)
