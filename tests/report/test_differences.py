"""The gallery of two runs' differences: which episodes it holds, in which order, and how they are linked."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from html import unescape
from pathlib import Path

import pytest
from tests.evals.support import saying, settings, write_tasks

from saccade.episode.flow import Plan
from saccade.evals.compare import Comparison, compare
from saccade.evals.rows import read_rows
from saccade.evals.run import evaluate
from saccade.models.base import Model
from saccade.report.episodes import RunSide, write_differences
from saccade.report.stored_run import open_run


def _solving(right: Collection[str], otherwise: str) -> Callable[[Plan], Model]:
    return saying(lambda plan: str(plan.task.answer) if plan.task.id in right else otherwise)


@pytest.fixture
async def two(tmp_path: Path) -> tuple[Comparison, tuple[RunSide, RunSide]]:
    """Runs of six tasks, each twice: only a solves t1, only b solves t3 and t4, both or none the others."""
    tasks = write_tasks(tmp_path / "tasks", 6)
    for name, right in (("a", {"t0", "t1"}), ("b", {"t0", "t3", "t4"})):
        player = _solving(right, otherwise=f"no {name}")
        await evaluate(settings(tasks, k=2), tmp_path / name, player=player)
    found = compare(read_rows(tmp_path / "a"), read_rows(tmp_path / "b"))
    return found, (RunSide("a", open_run(tmp_path / "a")), RunSide("<b>", open_run(tmp_path / "b")))


def ids(page: str) -> list[str]:
    """What the cards of a page are called, in their order."""
    (index,) = re.findall(r'<section class="index".*?</section>', page, re.DOTALL)
    return [unescape(found) for found in re.findall(r'<span class="dim">([^<]*)</span></span></span>', index)]


async def test_the_pairs_stand_together_wins_first(
    two: tuple[Comparison, tuple[RunSide, RunSide]], tmp_path: Path
) -> None:
    written = write_differences(*two, tmp_path / "page.html")
    page = written.page.read_text(encoding="utf-8")
    assert (written.episodes, written.folder) == (12, None)
    wanted = [f"{side}: {task}#{n}" for task in ("t1", "t3", "t4") for n in (0, 1) for side in ("a", "<b>")]
    assert ids(page) == wanted
    assert "of 6 tasks in both, 1 are better in the first and 2 in the second" in unescape(page)
    assert "<b>: t1" not in page
    assert "What is 0 + 0" not in page
    for href in re.findall(r'href="#(e[0-9]+)"', page):
        assert f'id="{href}"' in page


async def test_beyond_the_budget_each_has_a_file_that_links_to_the_others(
    two: tuple[Comparison, tuple[RunSide, RunSide]], tmp_path: Path
) -> None:
    written = write_differences(*two, tmp_path / "page.html", budget=1)
    assert written.folder is not None
    pages = sorted(written.folder.iterdir())
    assert len(pages) == 12
    for page in pages:
        found = set(re.findall(r'href="(e[0-9]+\.html)"', page.read_text(encoding="utf-8")))
        assert len(found - {page.name}) == 3
        assert found < {other.name for other in pages}
    assert 'href="page_episodes/e1.html"' in written.page.read_text(encoding="utf-8")
