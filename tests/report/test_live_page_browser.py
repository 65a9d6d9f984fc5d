"""The live page in a real browser, through whole episodes."""

from __future__ import annotations

import base64
import io
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from tests.plugins.serve.agents import TOKEN
from tests.plugins.serve.live_pages import Typing, live, watched
from tests.report.chromium import CONTRAST, NEEDED

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [
    NEEDED,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux"),
]
SPEC = "compatible:slow@http://127.0.0.1:8911/v1"
FILES = """([data, type, kind, name]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const files = new DataTransfer();
  files.items.add(new File([bytes], name, { type }));
  const target = document.getElementById("drop");
  const event = kind === "paste"
    ? new ClipboardEvent("paste", { clipboardData: files, bubbles: true, cancelable: true })
    : new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true });
  target.dispatchEvent(event);
}"""
"""Drops or pastes a file, as a browser tells a page of it."""


def picture() -> bytes:
    image = Image.effect_noise((300, 200), 60).convert("RGB")
    image.paste((20, 40, 200), (100, 50, 200, 130))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def give(page: Page, data: bytes, kind: str = "drop", mime: str = "image/png", name: str = "street.png") -> None:
    page.evaluate(FILES, [base64.b64encode(data).decode(), mime, kind, name])


def width(page: Page) -> int:
    found: int = page.evaluate("document.documentElement.scrollWidth")
    return found


def test_drop_ask_watch_share_and_history(browser: Browser, tmp_path: Path) -> None:
    with live({SPEC: Typing(seconds=0.1)}) as url, watched(browser, url, expected=("400",)) as page:
        give(page, picture())
        page.wait_for_selector("#media figcaption:has-text('street.png 300×200')")
        for name, said in (("notes.txt", "neither a picture"), ("holiday.png", "no picture that can be used")):
            give(page, b"text", mime="text/plain", name=name)
            page.wait_for_selector(f"#problem:has-text('{name} is {said}')")
        assert page.locator("#media li").count() == 1
        page.fill("#question", "Which colour has the sign?")
        held: list[Route] = []
        page.route("**/live/ask", lambda route: held.append(route))
        page.keyboard.press("Enter")
        shown = page.wait_for_selector(".run .early img")
        assert shown is not None
        assert shown.evaluate("(image) => image.naturalWidth") == 300, "before the server has opened it"
        assert page.inner_text(".state") == "sending the picture"
        place = page.locator(".stop-button").bounding_box()
        page.wait_for_timeout(50)
        held[0].continue_()
        page.wait_for_selector(".writing:has-text('I cut')")
        page.wait_for_selector(".state:text-is('the model writes')")
        page.wait_for_selector(".turn:has-text('runs code'), .turn:has-text('ran code')")
        assert page.locator(".early").count() == 0
        assert page.locator(".stop-button").bounding_box() == place
        page.wait_for_selector(".playing .box.hue0")  # drawn while the episode goes on
        box, image = page.locator(".box .edge").bounding_box(), page.locator(".originals img").bounding_box()
        assert box is not None
        assert image is not None
        assert abs((box["x"] - image["x"]) / image["width"] - 1 / 3) < 0.02
        assert abs(box["width"] / image["width"] - 1 / 3) < 0.02
        page.wait_for_selector(".save:not([hidden])")
        assert page.locator("#runs .turn:not(.writing)").count() == 3
        assert page.locator(".writing, .stop-button, .playing").count() == 0
        assert "ZeroDivisionError" in page.inner_text("#runs")
        assert "blue after 3 turns" in page.inner_text(".state")
        assert (page.inner_text(".bar .name"), page.inner_text(".bar .dialect")) == ("slow", "pyvision@1:repo")
        assert page.get_attribute(".bar .name", "title") == SPEC, "its owner may know where it is"
        times = page.locator("#runs :is(.bar, .head, .turn > header) :text-matches('^[0-9.]+ m?s$') >> visible=true")
        assert times.count() == 1, "one time in a card"
        page.click(".turn .frame")
        page.wait_for_selector("#lightbox[open] img")
        page.keyboard.press("Escape")
        with page.expect_download() as saving:
            page.click(".save")
        saving.value.save_as(tmp_path / "shared.html")

        page.click("#anew")
        assert page.input_value("#question") == "Which colour has the sign?"
        page.wait_for_selector("#history .tile img")
        page.reload()  # the history outlives the page
        page.click("#history .tile")
        page.wait_for_selector("#runs .box.hue0")
        assert page.locator("#runs .turn").count() == 3
        assert page.locator("#runs .pictures img").evaluate("(image) => image.naturalWidth") == 100
        page.click("#anew")
        page.click("#forget")
        page.wait_for_selector("#history", state="hidden")

        shared = page.context.new_page()
        shared.goto((tmp_path / "shared.html").as_uri())
        assert shared.locator(".turn").count() == 3
        assert shared.locator(".chips div").all_inner_texts()[:2] == ["model\ntyping", "dialect\npyvision@1:repo"]
        assert shared.inner_text(".originals figcaption").startswith("street.png")
        assert shared.locator(".box.hue0").count() == 1
        assert shared.locator(".originals img").evaluate("(image) => image.naturalWidth") == 300


def test_stop_keeps_what_was_done(browser: Browser) -> None:
    model = Typing(seconds=0.5)
    with live({"typing": model}) as url, watched(browser, url) as page:
        give(page, picture(), "paste")
        page.wait_for_selector("#media img")
        page.fill("#question", "Which colour?")
        page.click("#ask")
        page.wait_for_selector(".turn:has-text('ran code')")
        page.click(".stop-button")
        page.wait_for_selector(".save:not([hidden])")
        assert "no answer after" in page.inner_text(".state")
        assert page.locator(".turn:has-text('ran code')").count() >= 1
        page.click("#anew")
        page.wait_for_selector("#history .tile:has-text('no answer')")
    assert model.cancelled == 1


def test_side_by_side_in_the_dark_on_a_phone(browser: Browser) -> None:
    models = {"quick": Typing(), "slow": Typing(seconds=0.01), "third": Typing()}
    with live(models) as url, watched(browser, url, 390, "dark") as page:
        assert width(page) <= 390
        page.click(".tile:has-text('Medical')")
        page.wait_for_selector("#media img")
        assert len(page.input_value("#choices").split(";")) == 4
        page.check("#models input >> nth=1")
        page.click("#ask")
        for name in ("quick", "slow"):
            page.wait_for_selector(f".run[aria-label={name}] .save:not([hidden])")
        assert page.locator(".run").count() == 2
        assert width(page) <= 390
        boxes = [page.locator(".run").nth(number).bounding_box() for number in (0, 1)]
        assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]  # type: ignore[index]
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(ids) == len(set(ids))
        page.set_viewport_size({"width": 1280, "height": 800})
        boxes = [page.locator(".run").nth(number).bounding_box() for number in (0, 1)]
        assert boxes[0]["y"] == boxes[1]["y"]  # type: ignore[index]
        bars = [page.locator(".bar").nth(number).bounding_box() for number in (0, 1)]
        assert bars[0]["height"] == bars[1]["height"]  # type: ignore[index]
        assert page.locator(".numbers .scroll.wider").count() == 2, "a table that scrolls says so"
        assert page.evaluate("document.getAnimations().length") == 0, "less motion was asked for"
        for selector in (".state", ".clock", ".save", ".turn pre", ".asked", ".label", "#anew"):
            assert page.locator(f"#runs {selector}, {selector}").first.evaluate(CONTRAST) >= 4.5, selector
        page.click("#anew")
        page.wait_for_selector("#history .tile")
        assert page.locator("#history .tile").count() == 1
        page.wait_for_selector("#examples .time:has-text('took')")
        times = page.locator("#examples .time").all_inner_texts()
        assert len(times) == page.locator("#examples .tile").count()
        assert ("took" in times[-1], times[0]) == (True, "not timed yet")
        for selector in ("#question", "#ask", ".take .dim", ".tile b", ".tile .text span", "kbd", ".small"):
            assert page.locator(selector).first.evaluate(CONTRAST) >= 4.5, selector


def test_the_keyboard_is_enough(browser: Browser) -> None:
    with live({"typing": Typing(seconds=2), "other": Typing()}) as url, watched(browser, url) as page:

        def focus_on(selector: str) -> None:
            for _ in range(40):
                if page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
                    return
                page.keyboard.press("Tab")
            raise AssertionError(f"{selector} cannot be reached")

        focus_on("#question")  # where one begins
        focus_on("#models input[value=other]")
        page.keyboard.press("Space")
        focus_on(".tile")
        page.keyboard.press("Enter")
        page.wait_for_selector("#media img")
        focus_on("#ask")
        page.keyboard.press("Enter")
        page.wait_for_selector(".run[aria-label=other] .save:not([hidden])")
        page.keyboard.press("Escape")
        page.wait_for_selector(".run[aria-label=typing] .save:not([hidden])")
        assert "no answer" in page.inner_text(".run[aria-label=typing] .state")
        focus_on(".save")
        focus_on(".turn summary")
        page.keyboard.press("Enter")
        assert page.locator("details[open]").count() == 1
        focus_on("#anew")
        page.keyboard.press("Enter")
        focus_on("#history .tile")
        focus_on("#media button")
        page.keyboard.press("Enter")
        assert page.locator("#media li").count() == 0


def test_a_token_is_asked_for_and_errors_are_told(browser: Browser) -> None:
    with live({SPEC: Typing()}, token=TOKEN, max_body_bytes=100_000) as url:
        with watched(browser, url, expected=("401", "400")) as page:
            page.fill("#token-field", TOKEN)
            page.keyboard.press("Enter")
            page.wait_for_selector("#examples .tile img")
            give(page, bytes(100_000))
            page.wait_for_selector("#problem:has-text('too large')")
            page.fill("#question", "What?")
            held: list[Route] = []
            page.route("**/live/check", lambda route: held.append(route))
            give(page, b"no picture")
            page.click("#ask")
            page.wait_for_selector(".run")
            held[0].continue_()
            page.wait_for_selector("#problem:has-text('street.png is no picture')")
            assert page.locator("#runs").is_hidden(), "nothing was asked"
            assert SPEC not in page.content()


@contextmanager
def other_site(html: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,)).start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


ATTACK = """async ([url, body]) => {
  const tried = {};
  for (const mode of ["cors", "no-cors"]) for (const type of ["application/json", "text/plain"]) {
    for (const path of ["/live/ask", "/v1/chat/completions"]) {
      const options = { method: "POST", mode, headers: { "content-type": type }, body };
      tried[mode + type + path] = await fetch(url + path, options)
        .then((answer) => answer.type === "opaque" ? "opaque" : `read ${answer.status}`, () => "refused");
    }
  }
  tried.models = await fetch(`${url}/live/about`).then(() => "read", () => "refused");
  const frame = document.createElement("iframe");
  frame.src = url;
  document.body.append(frame);
  await new Promise((resolve) => { frame.onload = resolve; setTimeout(resolve, 3000); });
  tried.frame = frame.contentDocument === null ? "apart" : "open";
  return tried;
}"""


def test_the_page_of_another_site_cannot_use_it(browser: Browser) -> None:
    model = Typing()
    body = json.dumps({"model": "typing", "messages": [{"role": "user", "content": "x"}]})
    form = '<form method=post enctype=text/plain><input name=\'{"model":"typing","a":"\' value=\'"}\'></form>'
    with live({"typing": model}) as url, other_site(f"<body>{form}</body>") as evil:
        page = browser.new_context().new_page()
        page.goto(evil)
        tried: dict[str, Any] = page.evaluate(ATTACK, [url, body])
        assert "read" not in " ".join(tried.values()), tried
        for path in ("/live/ask", "/v1/chat/completions"):
            page.goto(evil)
            with page.expect_navigation():
                page.evaluate(
                    "(to) => { const form = document.forms[0]; form.action = to; form.submit(); }", url + path
                )
            assert "error" in page.inner_text("body")
        page.context.close()
    assert model.asked == 0


@pytest.mark.parametrize(
    ("family", "answer"),
    [
        ("Visual search", "red"),
        ("Puzzle", "3"),
        ("Sketch", "39"),
        ("Spot the difference", "bottom left"),
        ("Video", "3, 2, 1"),
    ],
)
def test_the_bundled_model_answers_the_examples_that_it_learned(browser: Browser, family: str, answer: str) -> None:
    pytest.importorskip("torch")
    if family == "Video":
        pytest.importorskip("av")
    from saccade.models.registry import load_model

    with live({"tiny": load_model("tiny")}, base={"dialect": ""}) as url, watched(browser, url) as page:
        assert page.locator(".tile:has-text('did not learn')").count() == 1
        page.click(f".tile:has-text('{family}')")
        page.wait_for_selector("#media img, #media video")
        page.click("#ask")
        page.wait_for_selector(".save:not([hidden])", timeout=240_000)
        assert page.inner_text(".state b") == answer
