"""A headless Chromium for the tests of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.pages import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium: the program that JPREP_CHROMIUM names, one on PATH, or Playwright's own download."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no Playwright: `make test-backends` installs it")
    pytest.importorskip("axe_playwright_python", reason="no axe: `make test-backends` installs it")
    found = os.environ.get("JPREP_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    with sync_api.sync_playwright() as playwright:
        if not found and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("no Chromium: install it (apt-get install chromium), or set JPREP_CHROMIUM to the program")
        # Chromium's sandbox does not start for root.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = playwright.chromium.launch(executable_path=found or None, args=arguments)
        yield Browser(launched)
        launched.close()


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    """Where screenshots are written: the folder that JPREP_SCREENSHOTS names, to look at them, or a temporary one."""
    folder = Path(os.environ.get("JPREP_SCREENSHOTS", tmp_path / "screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
