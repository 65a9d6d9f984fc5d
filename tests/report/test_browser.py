"""The page in a real browser. One Chromium for the module; skipped where there is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image
from tests.media import clips
from tests.plugins.serve.review_folders import HOSTILE, TOKEN, reviewing, run_folder, task_folder
from tests.report.cases import Scene, answered, filled, noise
from tests.report.chromium import CONTRAST, NEEDED, Watched
from tests.report.played_runs import training_run

from saccade.record.codec import write_lines
from saccade.record.task import EvidenceBox, NamedMedia
from saccade.record.trajectory import Score, Trajectory
from saccade.report.page import write_pages
from saccade.report.runs import open_runs
from saccade.report.write import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BOX = (100, 60, 300, 180)


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


@NEEDED
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


@NEEDED
@pytest.mark.slow
def test_a_turn_and_its_boxes_light_up_together(watched: Watched, page_file: Path) -> None:
    page = watched.open(page_file)
    page.hover("article[data-turn='1'] h3")
    assert "on" in (page.get_attribute(".originals g.box.hue0", "class") or "").split()
    assert "lit" in (page.get_attribute("section.episode", "class") or "")
    page.hover("article[data-turn='3'] h3")
    assert "lit" not in (page.get_attribute("section.episode", "class") or ""), "a turn without a box dims no other"
    page.hover("h1")
    assert "on" not in (page.get_attribute(".originals g.box.hue0", "class") or "").split()
    page.hover(".legend li.hue0")
    assert "on" in (page.get_attribute("article[data-turn='1']", "class") or "").split()


@NEEDED
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


@NEEDED
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


@NEEDED
@pytest.mark.slow
def test_what_the_model_saw_can_be_unfolded(watched: Watched, page_file: Path) -> None:
    page = watched.open(page_file)
    message = page.locator("article[data-turn='1'] details.seen")
    assert message.locator("img").is_hidden()
    message.locator("summary").click()
    assert message.locator("img").is_visible()
    message.locator("summary").press("Enter")
    assert message.locator("img").is_hidden()


@NEEDED
@pytest.mark.slow
def test_the_dark_mode_is_dark_and_legible(watched: Watched, page_file: Path) -> None:
    page = watched.open(page_file)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for selector in ("h1", ".legend .dim", ".code .label", ".status", ".said p", ".code code .s1", ".note, .end"):
            assert page.locator(selector).first.evaluate(CONTRAST) >= 4.5, f"{selector} in the {scheme} mode"
    red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(red, green, blue) < 60


@NEEDED
@pytest.mark.slow
def test_paper_is_white_and_shows_everything(watched: Watched, page_file: Path) -> None:
    page = watched.open(page_file)
    page.emulate_media(media="print", color_scheme="dark")
    for selector in ("h1", ".legend .dim", ".code .label", ".said p"):
        assert page.locator(selector).first.evaluate(CONTRAST) >= 4.5, selector
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".originals").evaluate("(aside) => getComputedStyle(aside).position") == "static"
    assert page.locator("details.exact").first.is_hidden()


@NEEDED
@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.few(1)
def test_nothing_is_wider_than_the_screen(watched: Watched, page_file: Path, many_file: Path, width: int) -> None:
    watched.page.set_viewport_size({"width": width, "height": 800})
    for file in (page_file, many_file):
        page = watched.open(file)
        for details in page.locator("details").all():
            details.evaluate("(fold) => { fold.open = true; }")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@NEEDED
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


@NEEDED
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


@NEEDED
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


ATTACK = "</script></template><img src=x onerror=alert(1)><svg onload=alert(1)>"


def episodes(scene: Scene, count: int, *, pictures: bool = False) -> Iterator[Trajectory]:
    """Every third one is wrong; the last one is full of hostile text. With `pictures` each has another one."""
    for number in range(count):
        wrong = number % 3 == 2
        if pictures:
            scene.part = scene.put(noise((24, 18), number).resize((240, 180)))
        task = scene.task(id=f"t{number}", question=f"Question {number}?", source="odd" if number % 2 else "even")
        turn = scene.ran("image_clue_0.crop((0, 0, 40, 30)).show()", noise((40, 30), number))
        episode = scene.episode(turn, answered(f"answer {number}"), id=f"t{number}#0", task=task)
        yield episode.with_scores([Score(name="correct", value=float(not wrong))])
    yield filled(scene, ATTACK)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    scene = Scene(folder / "run")
    write_lines(folder / "run" / "trajectories.jsonl", episodes(scene, 90))
    paths = [folder / "run", training_run(folder / "one"), training_run(folder / "two", lift=0.3)]
    return write_report(open_runs(paths), folder / "report.html").page


@NEEDED
@pytest.mark.slow
def test_the_gallery_grows_and_is_filtered(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    assert page.locator("#cards .card").count() == 60
    assert page.inner_text("#found") == "91 of 91 episodes"
    page.locator("#more").scroll_into_view_if_needed()
    page.locator("#cards .card >> nth=90").wait_for()
    page.click("#outcomes button:has-text('wrong')")
    assert page.inner_text("#found") == "30 of 91 episodes"
    page.select_option("#source", label="odd")
    assert page.inner_text("#found") == "15 of 91 episodes"
    page.fill("#find", "answer 5")
    assert page.inner_text("#found") == "3 of 91 episodes", "5, 53, 59"
    page.click("button[type=reset]")
    # A function: what is no function is tried with `eval`, which the page's policy forbids and reports.
    page.wait_for_function("() => document.getElementById('found').textContent.startsWith('91')")
    assert page.locator("[data-label][aria-pressed=true]").count() == 0


@NEEDED
@pytest.mark.slow
def test_an_episode_opens_with_its_pictures_and_the_way_back_leads_to_the_same_place(
    watched: Watched, report: Path
) -> None:
    page = watched.open(report)
    page.click("#outcomes button:has-text('wrong')")
    page.click("#cards .card >> nth=1")
    episode = page.locator("section.episode:visible")
    episode.wait_for()
    assert page.locator("#index").is_hidden()
    assert episode.locator("h1").inner_text() == "Question 5?"
    loaded = "(images) => images.every((image) => image.complete && image.naturalWidth > 0)"
    assert episode.locator("img:visible").evaluate_all(loaded)
    assert episode.locator(".originals .box").count() == 1
    page.go_back()
    page.locator("#index").wait_for(state="visible")
    assert page.inner_text("#found") == "30 of 91 episodes"
    page.reload()
    assert page.inner_text("#found") == "30 of 91 episodes", "who comes back finds what was asked for"


@NEEDED
@pytest.mark.slow
def test_the_table_sorts_by_any_column_and_the_address_keeps_it(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    page.click("#views button:has-text('Table')")
    assert page.locator("#cards").is_hidden()
    first = page.locator("#samples tbody tr >> nth=0")
    heads = page.locator("#samples thead th").all_inner_texts()
    assert heads[0].startswith("sample"), heads
    page.click("#samples th button:has-text('answer')")
    answers = page.locator(f"#samples tbody td:nth-child({heads.index('answer') + 1})").all_inner_texts()
    plain = [answer for answer in answers if answer.startswith("answer ")]
    assert plain == sorted(plain, key=lambda text: int(text.split()[1])), "numbers in texts count as numbers"
    for name in (head.removesuffix(" ↑") for head in heads):
        page.click(f"#samples th button:text-is('{name}')")
        once = first.inner_text()
        page.click(f"#samples th button:text-is('{name}')")
        assert page.locator("#samples th[aria-sort$=ending]").inner_text().startswith(name)
        assert name in ("gold", "written") or first.inner_text() != once, f"{name} has two ends"
    page.click("#outcomes button:has-text('wrong')")
    page.fill("#find", "answer 5")
    address = page.evaluate("location.href")
    assert "is=wrong" in address
    assert "text=answer+5" in address
    rows = page.locator("#samples tbody tr").all_inner_texts()
    other = page.context.new_page()
    other.goto(address)
    assert other.locator("#samples tbody tr").all_inner_texts() == rows, "the address alone gives the same list"
    assert other.inner_text("#found") == page.inner_text("#found")
    other.close()


@NEEDED
@pytest.mark.slow
def test_the_way_back_leads_through_what_was_asked_for(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    page.click("#outcomes button:has-text('wrong')")
    page.click("#outcomes button:has-text('right')")
    assert page.inner_text("#found") == "91 of 91 episodes"
    page.go_back()
    assert page.inner_text("#found") == "30 of 91 episodes"
    page.go_back()
    assert page.inner_text("#found") == "91 of 91 episodes"
    assert page.locator("[data-label][aria-pressed=true]").count() == 0
    page.go_forward()
    assert page.inner_text("#found") == "30 of 91 episodes"


@NEEDED
@pytest.mark.slow
def test_keys_lead_to_the_next_and_the_previous_sample_of_the_list(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    page.click("#outcomes button:has-text('wrong')")
    page.click("#cards .card >> nth=1")
    asked = page.locator("section.episode:visible h1")
    assert asked.inner_text() == "Question 5?"
    assert page.locator("section.episode:visible .place").inner_text() == "2 of 30"
    for key, question in (("j", 8), ("n", 11), ("k", 8), ("p", 5), ("k", 2), ("k", 2)):
        page.keyboard.press(key)
        page.wait_for_function(
            "(wanted) => document.querySelector('section.episode:not([hidden]) h1')?.textContent === wanted",
            arg=f"Question {question}?",
        )
    page.keyboard.press("u")
    page.locator("#index").wait_for(state="visible")
    assert page.inner_text("#found") == "30 of 91 episodes"
    page.focus("#find")
    page.keyboard.type("jk")
    assert page.locator("#index").is_visible(), "letters in a field are letters"


@NEEDED
@pytest.mark.slow
def test_contents_lead_to_sections(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    for name in ("runs", "results", "training", "gallery"):
        page.click(f".contents a[href='#{name}']")
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None
        assert -2 <= box["y"] <= 900


@NEEDED
@pytest.mark.slow
def test_a_report_reads_from_its_verdict_to_its_tables_to_its_figures(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    boxes = [page.locator(kind).first.bounding_box() for kind in (".lead", ".sheet", ".plot")]
    lead, table, figure = (box["y"] for box in boxes if box is not None)
    assert lead < table < figure
    assert table < 450, "on the first screen"
    assert page.inner_text(".lead").startswith("run is 67.0% right, 56.9 to 75.8, of 91 tasks.")
    assert page.locator("#protocols .sheet:visible, #protocols .plot:visible").count() == 0
    panel = page.locator("#protocols details.panel:has(> summary h3:text-is('Tool use'))")
    panel.locator("> summary").press("Enter")
    assert panel.locator(".sheet").first.is_visible()
    flat = panel.locator(".flat").first
    assert flat.locator("summary").inner_text().endswith(" everywhere")
    assert flat.locator(".plot").is_hidden()
    flat.locator("summary").press("Enter")
    assert flat.locator(".plot").is_visible()


@NEEDED
@pytest.mark.slow
def test_a_table_says_that_it_scrolls_where_it_does(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    told = "(room) => [room.classList.contains('wider'), getComputedStyle(room, '::before').content]"
    for width, wider in ((1440, False), (390, True), (1440, False)):
        page.set_viewport_size({"width": width, "height": 800})
        wanted = (
            f"() => document.querySelector('#results .scroll').classList.contains('wider') === {str(wider).lower()}"
        )
        page.wait_for_function(wanted)
        assert ("goes on" in page.locator("#results .scroll").first.evaluate(told)[1]) is wider


@NEEDED
@pytest.mark.slow
def test_charts_and_tables_are_legible_in_dark_and_light(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    fills = CONTRAST.replace("getComputedStyle(element).color", "getComputedStyle(element).fill")
    strokes = CONTRAST.replace("getComputedStyle(element).color", "getComputedStyle(element).stroke")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for selector in (".chart .tick", ".chart .unit", ".chart .name"):
            assert page.locator(selector).first.evaluate(fills) >= 4.5, f"{selector} in the {scheme} mode"
        for selector in ("#training g.hue1 .curve", "#training g.hue3 .curve"):
            assert page.locator(selector).first.evaluate(strokes) >= 3, f"{selector} in the {scheme} mode"
        for selector in (".sheet td", ".sheet th", ".says", ".chipset button", "#found"):
            assert page.locator(selector).first.evaluate(CONTRAST) >= 4.5, f"{selector} in the {scheme} mode"


@NEEDED
@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 768, 1280])
def test_no_report_is_wider_than_the_screen(watched: Watched, report: Path, width: int) -> None:
    watched.page.set_viewport_size({"width": width, "height": 800})
    page = watched.open(report)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@NEEDED
@pytest.mark.slow
def test_hostile_text_is_text_on_cards_and_in_episodes(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    page.fill("#find", "onerror")
    card = page.locator("#cards .card")
    assert card.count() == 1
    assert card.locator(".question").inner_text() == ATTACK
    card.click()
    page.locator("section.episode:visible").wait_for()
    assert page.locator("section.episode:visible h1").inner_text().strip() == ATTACK
    assert page.evaluate("document.querySelectorAll('[onerror], [onload], script[src]').length") == 0


@NEEDED
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_thousand_episodes_open(watched: Watched, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints how long the page took until it could be used; times are no part of the check."""
    scene = Scene(tmp_path / "run")
    write_lines(tmp_path / "run" / "trajectories.jsonl", episodes(scene, 1999, pictures=True))
    written = write_report(open_runs([tmp_path / "run"]), tmp_path / "report.html")
    assert written.folder is not None
    assert len(list(written.folder.iterdir())) == 2000
    page = watched.open(written.page)
    assert page.inner_text("#found") == "2,000 of 2,000 episodes"
    assert page.locator("#cards .card").count() == 60, "cards are made when they come near"
    took = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    with capsys.disabled():
        print(f"\n2,000 episodes, {written.page.stat().st_size / 1e6:.1f} MB: ready after {took:.0f} ms")
    card = page.locator("#cards .card >> nth=7")
    asked = card.locator(".question").inner_text()
    card.click()
    assert page.locator("section.episode h1").inner_text() == asked
    assert page.url.endswith("/report_episodes/e8.html")
    page.keyboard.press("j")
    page.wait_for_url("**/report_episodes/e9.html")
    assert page.locator(".steps .place").inner_text() == "9 of 2000"


@NEEDED
@pytest.mark.slow
@pytest.mark.parametrize("budget", [24_000_000, 1], ids=["together", "apart"])
def test_strips_and_player(watched: Watched, tmp_path: Path, budget: int) -> None:
    pytest.importorskip("av")
    scene = Scene(tmp_path)
    part = scene.store.put_video(clips.vp9(40))
    task = scene.task(media=(NamedMedia(name="clip", part=part),), evidence=())
    episodes = [
        scene.episode(scene.ran("frame.show()", noise((40, 30), place)), answered(), id=f"t{place}#0", task=task)
        for place in range(2)
    ]
    written = write_pages(episodes, scene.store, tmp_path / "index.html", budget=budget)
    page = watched.open(written.page)
    page.click("a.card >> nth=0")
    episode = page.locator("section.episode:visible")
    episode.wait_for()
    assert episode.locator(".film .strip img").count() == 9
    loaded = "(images) => images.every((image) => image.complete && image.naturalWidth > 0)"
    assert episode.locator(".film img").evaluate_all(loaded)
    film = episode.locator("video")
    film.evaluate("(video) => new Promise((done) => video.readyState ? done() : video.onloadedmetadata = done)")
    assert film.evaluate("(video) => video.duration") > 0
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.screenshot(path=str(tmp_path / "film.png"), full_page=True)


def decided(folder: Path) -> list[tuple[str, str, str | None]]:
    rows = [json.loads(line) for line in (folder / "review.jsonl").read_text().splitlines()]
    return [(row["id"], row["verdict"], row.get("answer")) for row in rows]


@NEEDED
@pytest.mark.slow
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


@NEEDED
@pytest.mark.slow
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
