"""Ratings from 1 to 5: blind sheets, the page over HTTP, what is kept, and the table against values worked by hand."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.serving import served
from tests.training.sft.curate.cases import Runs, blobs, ran, said

from saccade.cli.main import main
from saccade.errors import SettingsError
from saccade.report.ratings import krippendorff, rating_table, table_lines
from saccade.training.sft.review import Rating, RatingLog, ReviewItems, sheets
from saccade.training.sft.review_server import Raters, rating_app

TOKEN = "secret-token"
HOSTILE = "<script>alert(1)</script>"
NAMES = "abcdefgh"


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two runs over eight tasks of two sources; the second has one of its own."""
    folders = []
    for number, more in enumerate(("", "z")):
        made = Runs(tmp_path)
        picture = made.put(blobs(1), f"run{number}")
        folders.append(
            made.write(
                *(
                    made.trajectory(
                        name, ran(), said(f"run{number} says {name} {HOSTILE}"), picture=picture, correct=1.0,
                        task={"id": name, "source": "charts" if name < "e" else "maps", "question": HOSTILE},
                    )
                    for name in NAMES + more
                ),
                run=f"run{number}",
            )
        )  # fmt: skip
    return folders


def of(folders: list[Path], rater: str = "anna", count: int = 40, seed: int = 0) -> Raters:
    items = [ReviewItems.open(folder) for folder in folders]
    logs = [RatingLog(folder) for folder in folders]
    return Raters(items, logs, sheets(items, rater, count, seed), rater, TOKEN)


def call(port: int, path: str, form: dict[str, object] | None = None, host: str = "127.0.0.1") -> tuple[int, str, str]:
    connection = HTTPConnection("127.0.0.1", port)
    body = None if form is None else urlencode(form)
    connection.request("GET" if form is None else "POST", path, body, {"Host": f"{host}:{port}"})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode("utf-8", "replace"), answer.headers.get("location") or ""
    connection.close()
    return found


def test_everyone_rates_the_same_tasks_in_an_order_of_their_own(runs: list[Path]) -> None:
    anna, ben, again = (of(runs, rater, count=3).sheets for rater in ("anna", "ben", "anna"))
    assert {sheet.task for sheet in anna} == {sheet.task for sheet in ben}
    assert Counter(sheet.source for sheet in anna) == {"charts": 3, "maps": 3}
    assert anna == again
    assert anna != ben
    assert {sheet.task for sheet in of(runs, seed=1, count=3).sheets} != {sheet.task for sheet in anna}
    every = of(runs).sheets
    assert sorted(sheet.task for sheet in every) == sorted(NAMES), "the task of one run alone is left out"
    assert {sheet.entries[0].run for sheet in every} == {0, 1}, "neither run is always on top"


def test_a_sheet_names_no_run_and_no_score_and_its_ratings_are_kept_at_once(runs: list[Path]) -> None:
    raters = of(runs, count=2)
    with served(rating_app(raters)) as port:
        status, _, where = call(port, f"/?token={TOKEN}")
        assert (status, where) == (303, f"/sheet/0?token={TOKEN}")
        status, page, _ = call(port, where)
        assert status == 200
        assert HOSTILE not in page, "texts of a model are escaped"
        assert page.count("Trajectory A") == page.count("Trajectory B") == 1
        assert "run0/" not in page
        assert "correct" not in page
        (source, *_) = re.findall(r'src="(/media/[^"]+)"', page)
        assert call(port, source.replace("&amp;", "&"))[0] == 200
        assert call(port, "/sheet/0", {"token": TOKEN, "rating0": 5, "rating1": 2, "note1": "no proof"})[0] == 303
        first = raters.sheets[0]
        stored = {entry.run: RatingLog(runs[entry.run]).of("anna", entry.id) for entry in first.entries}
        kept = [stored[entry.run] for entry in first.entries]
        assert [(one.rating, one.note, one.source) for one in kept if one] == [
            (5, "", first.source), (2, "no proof", first.source)
        ]  # fmt: skip
        assert call(port, f"/?token={TOKEN}")[2].startswith("/sheet/1")
        assert call(port, f"/sheet/0?token={TOKEN}")[1].count(" checked>") == 2
        call(port, "/sheet/0", {"token": TOKEN, "rating0": 4, "rating1": 2})
        for number in range(1, 4):
            call(port, f"/sheet/{number}", {"token": TOKEN, "rating0": 3, "rating1": 3})
        assert "All 4 sheets are rated" in call(port, f"/?token={TOKEN}")[1]
    again = RatingLog(runs[first.entries[0].run]).of("anna", first.entries[0].id)
    assert again is not None
    assert again.rating == 4, "the later one counts"
    assert of(runs, count=2).next_open() is None, "and the rating resumes"


def test_strangers_and_wrong_ratings_are_refused(runs: list[Path]) -> None:
    with served(rating_app(of(runs))) as port:
        for path in ("/", "/sheet/0", "/media/" + "0" * 64):
            assert call(port, path)[0] == 403, path
            assert call(port, f"{path}?token=secret-tokem")[0] == 403, path
        assert call(port, f"/?token={TOKEN}", host="attacker.example")[0] == 400
        assert call(port, f"/media/{'0' * 64}?token={TOKEN}")[0] == 404
        assert call(port, f"/sheet/99?token={TOKEN}")[0] == 404
        assert call(port, f"/sheet/0?token={TOKEN}", {"rating0": 3, "rating1": 3})[0] == 403, "not in the address"
        for form in (
            {},
            {"rating0": 3},
            {"rating0": 0, "rating1": 3},
            {"rating0": 6, "rating1": 3},
            {"rating0": "good", "rating1": 3},
        ):
            status, page, _ = call(port, "/sheet/0", {"token": TOKEN, **form})
            assert (status, "a rating from 1 to 5" in page) == (400, True), form
        assert call(port, "/sheet/0", {"token": TOKEN, "note0": "x" * 200_000})[0] == 413
    assert not (runs[0] / "ratings.jsonl").exists()


@pytest.mark.parametrize(
    ("units", "alpha"),
    [
        # Krippendorff 2011, data of part C: four observers, twelve units, missing values.
        ([(1, 1, 1), (2, 2, 3, 2), (3, 3, 3, 3), (3, 3, 3, 3), (2, 2, 2, 2), (1, 2, 3, 4), (4, 4, 4, 4), (1, 1, 2, 1),
          (2, 2, 2, 2), (5, 5, 5), (1, 1), (3,)], 0.849),
        # By hand: observed (1 + 0) and expected over 1, 2, 4, 4: 1 + 9 + 9 + 4 + 4 + 0 = 27; 1 - 3 * 1 / 27.
        ([(1, 2), (4, 4)], 8 / 9),
        # By hand: each says the reverse of the other; expected 16 + 0 + 16 + 16 + 0 + 16 = 64; 1 - 3 * 32 / 64.
        ([(1, 5), (5, 1)], -0.5),
        ([(3, 3), (3, 3)], None), ([(1,), (5,)], None), ([], None),
    ],
)  # fmt: skip
def test_alpha_against_published_and_hand_worked_values(units: list[tuple[int, ...]], alpha: float | None) -> None:
    assert krippendorff(units) == (None if alpha is None else pytest.approx(alpha, abs=5e-4))


def rated(folder: Path, **ratings: dict[str, int]) -> None:
    log = RatingLog(folder)
    for rater, given in ratings.items():
        for name, rating in given.items():
            source = "charts" if name < "e" else "maps"
            at = datetime(2026, 1, 1, tzinfo=UTC)
            log.add(Rating(id=name, task=name, source=source, rater=rater, rating=rating, rated=at))


def test_the_table_against_values_worked_by_hand(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    before, after = runs
    rated(before, anna={"a": 1, "b": 2, "e": 3}, ben={"a": 2})
    rated(after, anna={"a": 4, "b": 2, "e": 2}, ben={"a": 4})
    table = rating_table(runs)
    means = {(Path(one.run).name, one.source): (one.trajectories, one.ratings, one.mean) for one in table.means}
    # Trajectory a of the first run has 1 and 2, so 1.5 once: charts (1.5 + 2) / 2, all (1.5 + 2 + 3) / 3.
    first, second = before.name, after.name
    assert means[first, "charts"] == (2, 3, 1.75)
    assert means[first, "maps"] == (1, 1, 3.0)
    assert means[first, "all"] == (3, 4, pytest.approx(6.5 / 3))
    assert means[second, "all"] == (3, 4, pytest.approx(8 / 3))
    (preference,) = table.preferences
    assert (preference.left_more, preference.equal, preference.right_more) == (1, 1, 2)
    assert (table.raters, table.shared, table.exact, table.near) == (("anna", "ben"), 2, 0.5, 1.0)
    assert table.alpha == pytest.approx(8 / 9)
    assert "Krippendorff's alpha 0.89; the same 50%, at most one apart 100%" in table_lines(table)[-1]
    assert main(["review", *map(str, runs), "--ratings"]) == 0
    assert "mean (1-5)" in capsys.readouterr().out


def test_what_cannot_be_rated_is_said(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingsError, match="none of these runs was rated"):
        rating_table(runs)
    other = Runs(tmp_path)
    folder = other.write(other.trajectory("q", said("1"), correct=0.0, task={"id": "q"}), run="other")
    with pytest.raises(SettingsError, match="share no task"):
        of([runs[0], folder])
    assert main(["review", *map(str, runs)]) != 0
    assert "add --rate NAME" in capsys.readouterr().err
