"""From the loop and the sandbox to the page, with nothing in between replaced but the model."""

import sys
from pathlib import Path

import pytest
from tests.report.demo_run import make

from saccade.cli.main import main
from saccade.episode.regions import regions
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory
from saccade.report.picture_book import PictureBook
from saccade.report.stored_run import open_run


@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
@pytest.mark.slow
def test_an_episode_that_was_really_played(tmp_path: Path) -> None:
    run = open_run(make(tmp_path))
    [episode] = read_lines(run.file, Trajectory)
    found = [(region.turn, region.box, region.seen) for region in regions(episode, PictureBook(run.store))]
    assert found == [
        (0, (2020, 1040, 2520, 1360), True),
        (1, (2156, 1200, 2416, 1328), False),
        (3, (2224, 1240, 2344, 1288), True),
        (3, (620, 1810, 1140, 2104), True),
    ]
    assert main(["show", str(tmp_path), "--no-open"]) == 0
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "IndexError: image index out of range" in page
    assert page.count('class="turn hue') == 5
    assert len(page) < 400_000
