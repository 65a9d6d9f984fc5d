"""One Chromium for a module of tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.report.chromium import ARGUMENTS, CHROMIUM, Watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Not for the whole session: Playwright's loop would be in the way of asynchronous tests of other modules.
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, color_scheme="light", reduced_motion="reduce"
    )
    context.set_default_timeout(60_000)  # a machine may be ten times slower than usual
    seen = Watched(context.new_page())
    yield seen
    context.close()
    assert seen.faults == []
