"""The report in a real browser: filters, search, episodes, charts in dark and light, and how long many episodes take.

Slow: `make test-slow` runs it; skipped where there is no Chromium.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.report.cases import Scene, answered, filled, noise
from tests.report.chromium import CONTRAST, NEEDED, Watched
from tests.report.played_runs import training_run

from saccade.record.codec import write_lines
from saccade.record.trajectory import Score, Trajectory
from saccade.report.runs import open_runs
from saccade.report.write import write_report

pytestmark = [NEEDED, pytest.mark.slow]

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


def test_contents_lead_to_sections(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    for name in ("runs", "results", "training", "gallery"):
        page.click(f".contents a[href='#{name}']")
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None
        assert -2 <= box["y"] <= 900


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


@pytest.mark.parametrize("width", [320, 768, 1280])
def test_nothing_is_wider_than_the_screen(watched: Watched, report: Path, width: int) -> None:
    watched.page.set_viewport_size({"width": width, "height": 800})
    page = watched.open(report)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


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
