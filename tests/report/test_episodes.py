from pathlib import Path

import pytest
from tests.report.cases import Scene, answered

from saccade.record.codec import dumps
from saccade.record.trajectory import Trajectory
from saccade.report.episodes import Site, write_pages
from saccade.report.stored_run import open_run


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def episodes(scene: Scene, number: int) -> list[Trajectory]:
    return [scene.episode(answered(f"answer {index}"), id=f"noise#{index}") for index in range(number)]


def test_one_episode_is_a_page_without_an_index(scene: Scene) -> None:
    written = write_pages(episodes(scene, 1), scene.store, scene.root / "index.html")
    page = written.page.read_text(encoding="utf-8")
    assert 'id="index"' not in page
    assert "All episodes" not in page


def test_many_episodes_are_one_file_with_an_index(scene: Scene) -> None:
    written = write_pages(episodes(scene, 3), scene.store, scene.root / "out" / "index.html")
    assert (written.episodes, written.folder) == (3, None)
    page = written.page.read_text(encoding="utf-8")
    for number in (1, 2, 3):
        assert f'href="#e{number}"' in page
        assert f'<section class="episode" id="e{number}"' in page
    assert page.count("data:image/webp") == 2, "one picture as it is shown, and its thumbnail on the index"


def test_beyond_the_budget_each_episode_has_its_own_page(scene: Scene) -> None:
    written = write_pages(episodes(scene, 3), scene.store, scene.root / "index.html", budget=30_000)
    assert written.folder is not None
    page = written.page.read_text(encoding="utf-8")
    assert "each has its own" in page.replace("each episode", "each")
    for number in (1, 2, 3):
        assert f'href="index_episodes/e{number}.html"' in page
        alone = (written.folder / f"e{number}.html").read_text(encoding="utf-8")
        assert 'href="../index.html"' in alone
        assert f"answer {number - 1}" in alone
    assert not list(scene.root.rglob("*.part"))


def test_a_picture_that_episodes_share_counts_once(scene: Scene) -> None:
    alone = write_pages(episodes(scene, 1), scene.store, scene.root / "one.html").page.stat().st_size
    written = write_pages(episodes(scene, 6), scene.store, scene.root / "six.html", budget=2 * alone)
    assert written.folder is None


def test_a_run_without_episodes_says_so(scene: Scene) -> None:
    written = Site(scene.root / "index.html", scene.store).finish()
    assert "no episode to show" in written.page.read_text(encoding="utf-8")


def test_broken_lines_are_told_and_the_rest_is_shown(scene: Scene) -> None:
    lines = [dumps(episode) for episode in episodes(scene, 3)]
    file = scene.root / "trajectories.jsonl"
    file.write_text(f"{lines[0]}\n{{}}\n\n{lines[1]}\n{lines[2][:50]}", encoding="utf-8")
    run = open_run(scene.root)
    assert [episode.id for episode in run.trajectories()] == ["noise#0", "noise#1"]
    assert ["Line 2" in run.problems[0], "cut short" in run.problems[1]] == [True, True]
    assert run.count() == 5


def test_a_whole_last_line_without_its_break_is_shown(scene: Scene) -> None:
    (scene.root / "trajectories.jsonl").write_text(dumps(episodes(scene, 1)[0]), encoding="utf-8")
    run = open_run(scene.root)
    assert len(list(run.trajectories())) == 1
    assert not run.problems
