"""Open pages in a browser, and what every page must be: offline, without errors, accessible, as wide as the window."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

WIDTHS = (1400, 390)
SCHEMES = ("light", "dark")
LIGHT = ("light",)
"""The schemes of pages whose colours are those of other pages, which are checked in all."""

_HEIGHT = 900
_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
_WIDE = """() => [...document.querySelectorAll("body *")].filter(
  each => each.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !each.closest(".scroll"))
  .slice(0, 5).map(each => each.outerHTML.slice(0, 120))"""


class Browser:
    """A running Chromium.

    Args:
        launched: Playwright's browser.
    """

    def __init__(self, launched: Any) -> None:
        self._launched = launched

    @contextmanager
    def open(self, address: str | Path, width: int = 1400, scheme: str = "light", **options: Any) -> Iterator[Any]:
        """Open a page, and check at the end of the block that it made no error and asked no other host.

        Args:
            address: a file or a URL.
            width: width of the window in pixels.
            scheme: preferred color scheme: `light` or `dark`.
            options: further options of Playwright's `new_context`.
        """
        url = address.absolute().as_uri() if isinstance(address, Path) else address
        size = {"width": width, "height": _HEIGHT}
        context = self._launched.new_context(viewport=size, color_scheme=scheme, **options)
        problems: list[str] = []
        context.on(
            "console", lambda m: problems.append(f"{m.type}: {m.text}") if m.type in ("error", "warning") else None
        )
        context.on("weberror", lambda error: problems.append(f"exception: {error.error}"))
        context.on("dialog", lambda dialog: (problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        context.on("request", lambda request: problems.extend(_foreign(request.url, url)))
        try:
            page = context.new_page()
            page.goto(url)
            yield page
            assert not problems, "\n".join(problems)
        finally:
            context.close()


def _foreign(url: str, page: str) -> list[str]:
    """Return the request as a problem if it leaves the page's host."""
    asked, own = urlsplit(url), urlsplit(page)
    if asked.scheme in ("data", "blob", "about") or (asked.scheme, asked.netloc) == (own.scheme, own.netloc):
        return []
    return [f"request to {url}"]


def open_details(page: Any) -> None:
    """Open everything that is folded."""
    page.evaluate('document.querySelectorAll("details").forEach(each => { each.open = true })')


def check_accessible(page: Any) -> None:
    """Assert that axe finds no violation of WCAG 2.2 AA and of its best practices."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options=_RULES).response["violations"]
    assert not found, "\n".join(map(_violation, found))


def _violation(found: dict[str, Any]) -> str:
    nodes = [f"{node['target']} {node['html'][:160]} {_why(node)}" for node in found["nodes"][:3]]
    return f"{found['id']} ({found['impact']}, {len(found['nodes'])} times): {found['help']}: " + "; ".join(nodes)


def _why(node: dict[str, Any]) -> str:
    return " ".join(check["message"] for check in (*node["any"], *node["all"], *node["none"]))[:200]


def check_fits(page: Any) -> None:
    """Assert that the page does not scroll sideways, and nothing but what scrolls by itself sticks out of it."""
    wide = page.evaluate("document.scrollingElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{wide} pixels too wide: {page.evaluate(_WIDE)}"


def check_prints(page: Any) -> None:
    """Assert that the page becomes a PDF."""
    page.emulate_media(media="print")
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.emulate_media(media="screen")


def check_everywhere(
    browser: Browser, address: str | Path, screenshots: Path, name: str, schemes: tuple[str, ...] = SCHEMES
) -> None:
    """Check a page at all widths, in light and dark and on paper, with everything unfolded, and take screenshots.

    Whether it is accessible is checked at one width, and in `schemes` only: this takes a minute on a long page.
    """
    for width in WIDTHS:
        with browser.open(address, width) as page:
            check_fits(page)
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                page.screenshot(path=screenshots / f"{name}-{width}-{scheme}.png", full_page=True)
            open_details(page)
            check_fits(page)
            if width == WIDTHS[0]:
                for scheme in schemes:
                    page.emulate_media(color_scheme=scheme)
                    check_accessible(page)
                check_prints(page)


def tab_stops(page: Any, presses: int) -> list[str]:
    """Return the elements that Tab reaches from the beginning of the page, as `name:text`."""
    found = []
    for _ in range(presses):
        page.keyboard.press("Tab")
        found.append(
            page.evaluate(
                "(e => e.tagName.toLowerCase() + ':' + (e.ariaLabel || e.name || e.innerText || '').slice(0, 60))"
                "(document.activeElement)"
            )
        )
    return found


def assert_inert(page: Any) -> None:
    """Assert that nothing of what comes from outside has run, or can be run by a click."""
    assert page.evaluate("window.hostile") is None
    assert page.locator("main script, main img, main [onerror], main [onload]").count() == 0
    links = page.locator("a").evaluate_all("links => links.map(link => link.href)")
    assert [link for link in links if link.startswith(("javascript:", "data:"))] == []
