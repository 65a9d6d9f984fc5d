"""The page of a review in a browser: with keys alone, on a small screen, and nothing asked of other hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.plugins.serve.review_folders import HOSTILE, TOKEN, reviewing, run_folder, task_folder
from tests.report.chromium import NEEDED

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [NEEDED, pytest.mark.slow]


def decided(folder: Path) -> list[tuple[str, str, str | None]]:
    rows = [json.loads(line) for line in (folder / "review.jsonl").read_text().splitlines()]
    return [(row["id"], row["verdict"], row.get("answer")) for row in rows]


def test_a_run_is_reviewed_with_the_keyboard(tmp_path: Path, browser: Browser) -> None:
    folder = run_folder(tmp_path)
    with reviewing(folder) as port:
        page = browser.new_context(viewport={"width": 400, "height": 800}).new_page()
        page.set_default_timeout(60_000)
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text))
        page.on("dialog", lambda dialog: faults.append(dialog.message))
        page.on("request", lambda one: faults.append(one.url) if f"127.0.0.1:{port}" not in one.url else None)
        page.goto(f"http://127.0.0.1:{port}/?token={TOKEN}")
        page.wait_for_function("() => document.querySelector('#media img')?.naturalWidth === 96")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.keyboard.press("k")
        page.wait_for_function("() => document.getElementById('number').value === '2'")
        assert page.input_value("#question") == HOSTILE
        page.keyboard.press("c")
        page.keyboard.type("5kd")  # letters in a field are no keys
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.getElementById('number').value === '3'")
        page.keyboard.press("d")
        page.wait_for_function("() => document.getElementById('verdict').textContent === 'Dropped'")
        page.keyboard.press("u")
        page.wait_for_function("() => document.getElementById('verdict').textContent === 'Open'")
        page.keyboard.press("ArrowLeft")
        page.wait_for_function("() => document.getElementById('verdict').textContent === 'Kept, corrected'")
        page.keyboard.press("n")
        page.wait_for_function("() => document.getElementById('number').value === '3'")
        assert page.inner_text("#progress") == "2 of 3 decided: 2 kept, 0 dropped"
        assert faults == []
        page.reload()
        page.wait_for_function("() => document.getElementById('number').value === '3'")
        page.context.close()
    assert decided(folder) == [("a", "keep", None), ("b", "keep", "5kd"), ("c", "drop", None), ("c", "open", None)]


def test_tasks_are_reviewed_with_the_mouse_and_boxes_are_drawn(tmp_path: Path, browser: Browser) -> None:
    folder = task_folder(tmp_path)
    with reviewing(folder) as port:
        page = browser.new_context().new_page()
        page.set_default_timeout(60_000)
        page.goto(f"http://127.0.0.1:{port}/?token={TOKEN}")
        page.wait_for_selector("svg rect", state="attached")
        box, image = page.locator("svg rect").bounding_box(), page.locator("#media img").bounding_box()
        assert box is not None
        assert image is not None
        assert abs((box["x"] - image["x"]) / image["width"] - 10 / 96) < 0.03
        page.fill("#question", "Which colour?")
        page.click("#keep")
        page.wait_for_function("() => document.getElementById('number').value === '2'")
        page.fill("#answer", "q")
        page.click("#keep")
        page.wait_for_function("() => document.getElementById('problem').textContent.includes('none of the choices')")
        page.goto(f"http://127.0.0.1:{port}/?token=wrong")
        assert "token" in page.inner_text("body")
        page.context.close()
    assert decided(folder) == [("t1", "keep", None)]
