"""A page in a real browser that remembers what it must not do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
NEEDED = pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH (Debian: apt-get install chromium)")


class Watched:
    """A page that remembers what it must not do."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        page.on("console", lambda message: self.faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.on("popup", lambda popup: self.faults.append("popup"))

    def open(self, path: Path, anchor: str = "") -> Page:
        self.page.goto(path.as_uri() + anchor)
        return self.page

    def _dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if not request.url.startswith(("data:", "file:")):
            self.faults.append(f"request: {request.url}")


CONTRAST = """(element) => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const linear = (c) => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
    const [r, g, b] = channels(colour).map((c) => linear(c / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  let behind = element;
  const back = (node) => getComputedStyle(node).backgroundColor;
  while (behind && channels(back(behind))[3] === 0) behind = behind.parentElement;
  const both = [light(getComputedStyle(element).color), light(back(behind || document.body))];
  const [low, high] = both.sort((a, b) => a - b);
  return (high + .05) / (low + .05);
}"""
