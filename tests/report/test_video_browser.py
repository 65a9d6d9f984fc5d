"""A video on a page in a real browser: its strips are seen, and its player reads the file beside the page.

Slow: skipped where there is no Chromium.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.media import clips
from tests.report.cases import Scene, answered, noise
from tests.report.chromium import NEEDED, Watched

from saccade.record.task import NamedMedia
from saccade.report.episodes import write_pages

pytestmark = [NEEDED, pytest.mark.slow]


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
