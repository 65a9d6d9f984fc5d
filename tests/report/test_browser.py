"""The page in a real browser. One Chromium for the module; skipped where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image
from tests.report.cases import Scene, answered, filled, noise
from tests.report.chromium import CONTRAST, NEEDED, Watched

from saccade.record.task import EvidenceBox
from saccade.report.episodes import write_pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BOX = (100, 60, 300, 180)

pytestmark = NEEDED


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("browser"), picture=noise((800, 600)).resize((800, 600)))


@pytest.fixture(scope="module")
def page_file(scene: Scene) -> Path:
    task = scene.task(evidence=(EvidenceBox(image="photo", xyxy=(400, 300, 500, 400)),))
    looks = scene.ran(f"image_clue_0.crop({BOX}).show()", scene.picture.crop(BOX))
    long_line = scene.ran("x = '" + "wide" * 200 + "'", Image.new("RGB", (2600, 30), "red"))
    episode = scene.episode(looks, long_line, answered(), task=task)
    return write_pages([episode], scene.store, scene.root / "page.html").page


@pytest.fixture(scope="module")
def many_file(scene: Scene) -> Path:
    episodes = [scene.episode(answered(f"answer {number}"), id=f"noise#{number}") for number in range(3)]
    return write_pages(episodes, scene.store, scene.root / "many.html").page


def test_pictures_are_there_and_boxes_lie_where_they_should(watched: Watched, page_file: Path) -> None:
    page = watched.open(page_file)
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    image = page.locator(".originals img").bounding_box()
    assert image is not None
    scale = image["width"] / 800
    for name, box in ((".box.hue0 .edge", BOX), (".box.evidence .edge", (400, 300, 500, 400))):
        edges = page.locator(f".originals {name}").evaluate(
            "(rect) => { const b = rect.getBBox(), m = rect.getScreenCTM();"
            " return [m.e + b.x * m.a, m.f + b.y * m.d, m.e + (b.x + b.width) * m.a, m.f + (b.y + b.height) * m.d]; }"
        )
        x, y = image["x"], image["y"]
        wanted = [x + box[0] * scale, y + box[1] * scale, x + box[2] * scale, y + box[3] * scale]
        assert edges == pytest.approx(wanted, abs=1)


@pytest.mark.slow
def test_a_turn_and_its_boxes_light_up_together(watched: Watched, page_file: Path) -> None:
    page = watched.open(page_file)
    page.hover("article[data-turn='1'] h3")
    assert "on" in (page.get_attribute(".originals g.box.hue0", "class") or "").split()
    page.hover("h1")
    assert "on" not in (page.get_attribute(".originals g.box.hue0", "class") or "").split()
    page.hover(".legend li.hue0")
    assert "on" in (page.get_attribute("article[data-turn='1']", "class") or "").split()


@pytest.mark.slow
def test_the_lightbox_by_mouse(watched: Watched, page_file: Path) -> None:
    page = watched.open(page_file)
    page.click(".originals .frame", position={"x": 5, "y": 5})
    assert page.locator("dialog").is_visible()
    picture, drawn = page.locator(".stage img").bounding_box(), page.locator(".stage svg").bounding_box()
    assert picture == drawn, "boxes are drawn in the lightbox too"
    assert "800×600" in page.inner_text("dialog .caption")
    page.click("dialog .next")
    assert "1 of" not in page.inner_text("dialog .caption")
    page.click("dialog .close")
    assert page.locator("dialog").is_hidden()
    page.click(".originals .frame", position={"x": 5, "y": 5})
    page.mouse.click(5, 300)
    assert page.locator("dialog").is_hidden(), "a click beside the picture closes it"


@pytest.mark.slow
def test_the_lightbox_by_keyboard(watched: Watched, page_file: Path) -> None:
    page = watched.open(page_file)
    page.focus(".originals .frame")
    page.keyboard.press("Enter")
    captions = [page.inner_text("dialog .caption")]
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "Home", "End"):
        page.keyboard.press(key)
        captions.append(page.inner_text("dialog .caption"))
    places = [caption.rpartition(" — ")[2] for caption in captions]
    assert places == [f"{number} of 3" for number in (1, 2, 3, 1, 3, 1, 3)]
    page.keyboard.press("Escape")
    assert page.locator("dialog").is_hidden()
    assert page.evaluate("document.activeElement.matches('.originals .frame')"), "the focus is back where it was"


@pytest.mark.slow
def test_what_the_model_saw_can_be_unfolded(watched: Watched, page_file: Path) -> None:
    page = watched.open(page_file)
    message = page.locator("article[data-turn='1'] details.seen")
    assert message.locator("img").is_hidden()
    message.locator("summary").click()
    assert message.locator("img").is_visible()
    message.locator("summary").press("Enter")
    assert message.locator("img").is_hidden()


@pytest.mark.slow
def test_the_dark_mode_is_dark_and_legible(watched: Watched, page_file: Path) -> None:
    page = watched.open(page_file)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for selector in ("h1", ".legend .dim", ".code .label", ".status", ".said p", ".code code .s1", ".note, .end"):
            assert page.locator(selector).first.evaluate(CONTRAST) >= 4.5, f"{selector} in the {scheme} mode"
    red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(red, green, blue) < 60


@pytest.mark.slow
def test_paper_is_white_and_shows_everything(watched: Watched, page_file: Path) -> None:
    page = watched.open(page_file)
    page.emulate_media(media="print", color_scheme="dark")
    for selector in ("h1", ".legend .dim", ".code .label", ".said p"):
        assert page.locator(selector).first.evaluate(CONTRAST) >= 4.5, selector
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".originals").evaluate("(aside) => getComputedStyle(aside).position") == "static"
    assert page.locator("details.exact").first.is_hidden()


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.few(1)
def test_nothing_is_wider_than_the_screen(watched: Watched, page_file: Path, many_file: Path, width: int) -> None:
    watched.page.set_viewport_size({"width": width, "height": 800})
    for file in (page_file, many_file):
        page = watched.open(file)
        for details in page.locator("details").all():
            details.evaluate("(fold) => { fold.open = true; }")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_an_index_opens_each_episode_and_the_way_back(watched: Watched, many_file: Path) -> None:
    page = watched.open(many_file)
    assert page.locator(".card").count() == 3
    assert page.locator("section.episode:visible").count() == 0
    page.click(".card >> nth=1")
    page.locator("#e2").wait_for(state="visible")
    assert page.locator("#index, #e1, #e3").filter(visible=True).count() == 0
    page.click("section.episode:visible nav a")
    page.locator("#index").wait_for(state="visible")
    page.go_back()
    page.locator("#e2").wait_for(state="visible")
    direct = watched.open(many_file, "#e3")
    direct.reload()
    assert direct.locator("section.episode:visible").get_attribute("id") == "e3"


def test_injected_text_never_runs(watched: Watched, scene: Scene) -> None:
    attacks = (
        "</script><script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>'><svg onload=alert(1)>",
        "<iframe src='javascript:alert(1)'></iframe><base href=//example.org><meta http-equiv=refresh content=0>",
        "<!--<script>alert(1)</script><style>*{background:url(//example.org)}</style>",
    )
    file = scene.root / "attacks.html"
    write_pages([filled(scene, attack) for attack in attacks], scene.store, file)
    for number, attack in enumerate(attacks, 1):
        page = watched.open(file, f"#e{number}")
        for details in page.locator("section.episode:visible details").all():
            details.evaluate("(fold) => { fold.open = true; }")
        page.click("section.episode:visible .frame >> nth=0", position={"x": 3, "y": 3})
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Escape")
        assert page.locator("h1:visible").inner_text().strip() == attack
    assert page.evaluate("document.querySelectorAll('iframe, base, script[src], [onerror], [onload]').length") == 0


def test_the_policy_holds_even_if_something_got_in(browser: Browser, page_file: Path) -> None:
    """The second guard alone: script and style that are put into the page do not act."""
    page = browser.new_page()
    blocked: list[str] = []
    page.on("console", lambda message: blocked.append(message.text))
    page.on("dialog", lambda dialog: (blocked.append("ran"), dialog.dismiss()))
    page.goto(page_file.as_uri())
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"alert(1)\"><b style=\"color:red\">b</b>')"
    )
    page.wait_for_function("() => true")
    page.evaluate("new Promise((done) => setTimeout(done, 50))")
    assert "ran" not in blocked
    assert sum("Content Security Policy" in text for text in blocked) >= 2
    page.close()
