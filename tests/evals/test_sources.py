"""Sources of an evaluation: shares, limits, rows that give no task, whose verdict counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.evals.support import oracle, settings
from tests.tasks.sources.files import jsonl, picture

from saccade.dialects.base import Dialect
from saccade.dialects.registry import load_dialect
from saccade.episode.task_media import Unshown
from saccade.errors import SettingsError
from saccade.evals.benchmarks import headline_of
from saccade.evals.failures import FAILURES, open_failures
from saccade.evals.run import evaluate
from saccade.evals.sources import check_shown
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.tasks.frames import FrameSettings
from saccade.tasks.sources.task_set import open_tasks


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    picture(tmp_path / "photos" / "a.png")
    rows = [
        {"image": "a.png", "question": f"{number}?", "answer": str(number), "grader": "text@1"} for number in range(9)
    ]
    rows.append({"image": "none.png", "question": "?", "answer": "x"})
    jsonl(tmp_path / "photos" / "questions.jsonl", rows)
    return tmp_path / "photos"


def sources_of(run: Path) -> Counter[str]:
    return Counter(item.task.source for item in read_lines(run / "trajectories.jsonl", Trajectory))


async def test_weights_divide_n_and_a_larger_n_adds_to_it(photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    given = settings("", n=5).model_copy(update={"sources": (f"{photos}=0.6", "circled-letter=0.4")})
    await evaluate(given, run, player=oracle)
    assert sources_of(run) == {"photos": 3, "circled-letter@1": 2}
    before = {item.id for item in read_lines(run / "trajectories.jsonl", Trajectory)}
    made = await evaluate(given.model_copy(update={"n": 10}), run, player=oracle)
    assert sources_of(run) == {"photos": 6, "circled-letter@1": 4}
    assert before < {item.id for item in read_lines(run / "trajectories.jsonl", Trajectory)}
    assert made.progress.played == 5


@pytest.mark.parametrize(
    ("n", "played"), [(2, {"photos": 1, "circled-letter@1": 1}), (1, {"photos": 1})], ids=["one each", "one"]
)
async def test_the_least_shares_are_one_task_and_none(
    photos: Path, tmp_path: Path, n: int, played: dict[str, int]
) -> None:
    given = settings("", n=n).model_copy(update={"sources": (f"{photos}=0.6", "circled-letter=0.4")})
    await evaluate(given, tmp_path / "run", player=oracle)
    assert sources_of(tmp_path / "run") == played


async def test_shares_without_a_number_are_kept(photos: Path, tmp_path: Path) -> None:
    other = jsonl(tmp_path / "other.jsonl", [{"question": f"{number}?", "answer": "1"} for number in range(100)])
    given = settings("").model_copy(update={"sources": (f"{photos}=0.75", f"{other}=0.25")})
    await evaluate(given, tmp_path / "run", player=oracle)
    assert sources_of(tmp_path / "run") == {"photos": 9, "other": 3}


async def test_a_share_that_a_source_cannot_fill_is_said(photos: Path, tmp_path: Path) -> None:
    given = settings("", n=40).model_copy(update={"sources": (f"{photos}=0.5", "circled-letter=0.5")})
    made = await evaluate(given, tmp_path / "run", player=oracle)
    assert any("its share would be 20" in notice for notice in made.progress.notices)


async def test_rows_that_give_no_task_are_failures_and_are_said(photos: Path, tmp_path: Path) -> None:
    made = await evaluate(settings(photos), tmp_path / "run", player=oracle)
    assert made.summary.broken_rows == 1
    assert any("1 broken row" in notice for notice in made.progress.notices)
    (failure,) = open_failures(tmp_path / "run", ()).values()
    assert "none.png" in failure.detail
    again = await evaluate(settings(photos), tmp_path / "run", player=oracle)
    assert (again.summary.broken_rows, again.progress.played) == (1, 0)
    assert len((tmp_path / "run" / FAILURES).read_bytes().splitlines()) == 1
    for number, broken in ((1, 1), (2, 0)):  # of shards the first tells it
        part = await evaluate(settings(photos, shard=f"{number}/2"), tmp_path / str(number), player=oracle)
        assert part.summary.broken_rows == broken


async def test_a_row_of_a_long_file_name_is_told_by_200_characters(tmp_path: Path) -> None:
    rows = [{"image": "none.png", "question": "?", "answer": "x"}, {"question": "?", "answer": "x", "id": "a"}]
    jsonl(tmp_path / "photos" / f"{'x' * 200}.jsonl", rows)
    made = await evaluate(settings(tmp_path / "photos"), tmp_path / "run", player=oracle)
    (failure,) = open_failures(tmp_path / "run", ()).values()
    assert (made.summary.broken_rows, made.progress.played, len(failure.id)) == (1, 1, 200)


async def test_a_file_of_sources_is_one_name_for_several(photos: Path, tmp_path: Path) -> None:
    mix = tmp_path / "mix.toml"
    mix.write_text(f'[[source]]\nname = "{photos}"\nmost = 2\n[[source]]\nname = "circled-letter"\n', encoding="utf-8")
    await evaluate(settings(mix, n=4), tmp_path / "run", player=oracle)
    assert sources_of(tmp_path / "run") == {"photos": 2, "circled-letter@1": 4}


async def test_the_split_of_a_card_has_ids_of_its_own(tmp_path: Path) -> None:
    card = tmp_path / "signs.toml"
    card.write_text(
        'id = "signs@1"\ntitle = "Signs"\nsplit = "test"\nmedia = "text"\nprompt = "short"\nanswer_type = "text"\n'
        'source = { name = "", url = "", get = "" }\nloader = { id = "rows@1", files = ["test-*.jsonl"] }\n'
        'fields = { id = "n", question = "ask", answer = "right" }\ngraders = { text = "relaxed@1" }\n',
        encoding="utf-8",
    )
    for split in ("train", "test"):
        rows = [{"n": number, "ask": f"{split}?", "right": "x"} for number in range(2)]
        jsonl(tmp_path / "data" / "signs" / f"{split}-0.jsonl", rows)
    given = settings("", data=str(tmp_path / "data")).model_copy(update={"sources": (str(card), f"{card}:train")})
    await evaluate(given, tmp_path / "run", player=oracle)
    tasks = [item.task for item in read_lines(tmp_path / "run" / "trajectories.jsonl", Trajectory)]
    assert sorted((task.id, task.question, task.split) for task in tasks) == [
        ("signs@1/0", "test?", "test"),
        ("signs@1/1", "test?", "test"),
        ("signs@1/train/0", "train?", "train"),
        ("signs@1/train/1", "train?", "train"),
    ]
    with pytest.raises(SettingsError, match=r"DataError|nothing in|no split"):
        await evaluate(given.model_copy(update={"sources": ("vstar:train",)}), tmp_path / "other", player=oracle)


def test_of_an_open_task_the_judges_verdict_counts() -> None:
    headline = headline_of(settings("maze", n=1))
    assert headline(Task(id="a", question="?", grader="judge|relaxed@1")) == "judge"
    assert headline(Task(id="a", question="?", grader="relaxed@1")) == "rule"


async def test_the_tasks_that_a_run_keeps_of_a_card_are_a_source_with_their_media(tmp_path: Path) -> None:
    picture(tmp_path / "data" / "signs" / "a.png")
    jsonl(tmp_path / "data" / "signs" / "rows.jsonl", [{"n": 1, "ask": "?", "right": "x", "shot": "a.png"}])
    card = tmp_path / "signs.toml"
    card.write_text(
        'id = "signs@1"\ntitle = "Signs"\nsplit = "test"\nmedia = "image"\nprompt = "short"\nanswer_type = "text"\n'
        'source = { name = "", url = "", get = "" }\nloader = { id = "rows@1", files = ["rows.jsonl"] }\n'
        'fields = { id = "n", question = "ask", images = "shot", answer = "right" }\n'
        'graders = { text = "relaxed@1" }\n',
        encoding="utf-8",
    )
    given = settings("", data=str(tmp_path / "data")).model_copy(update={"sources": (str(card),)})
    await evaluate(given, tmp_path / "run", player=oracle)
    (kept,) = (tmp_path / "run" / "tasks").glob("*.jsonl")
    for source in (kept, tmp_path / "run"):
        (task,) = open_tasks([str(source)]).tasks(MediaStore(tmp_path / "store"))
        assert (task.id, len(task.media)) == ("signs@1/1", 1)


class OfVideos:
    """A source of three tasks, of which `count` hold a video."""

    def __init__(self, count: int) -> None:
        self.problem = Unshown("mine", tuple("abc"[:count]), 3, "holds a video", "and direct@1 shows pictures only.")

    def unshown(self, dialect: Dialect, frames: FrameSettings) -> tuple[Unshown, ...]:
        return (self.problem,)


def test_tasks_that_cannot_be_shown_are_said_and_a_source_of_nothing_else_is_refused() -> None:
    dialect = load_dialect("direct")
    (notice,) = check_shown({"mine": OfVideos(2)}, settings(""), dialect)  # type: ignore[dict-item]
    assert notice.startswith("mine: 2 of 3 tasks hold videos (a, b)")
    assert notice.endswith("the others are played.")
    with pytest.raises(SettingsError, match="mine: 3 of 3 tasks hold videos"):
        check_shown({"mine": OfVideos(3)}, settings(""), dialect)  # type: ignore[dict-item]
