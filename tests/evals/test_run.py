"""Runs: what they hold, how they go on, what they refuse, and what an outage leaves."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.evals.support import LostModel, oracle, results, saying, settings, stored, write_tasks
from tests.tasks.sources.files import jsonl, picture

from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.flow import Plan
from saccade.episode.task_media import Unshown
from saccade.errors import ModelLostError, SaccadeError, SettingsError
from saccade.evals.benchmarks import headline_of
from saccade.evals.grades import BROKEN_TASK, FAILURES, open_failures
from saccade.evals.rows import read_rows
from saccade.evals.run import check_shown, chosen, evaluate, open_sources, samples
from saccade.grading.registry import grade_of
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.record.codec import read_lines
from saccade.record.task import Task
from saccade.record.trajectory import CORRECT, Trajectory
from saccade.tasks.media import FrameSettings
from saccade.tasks.sources.task_set import open_tasks


def five_first(plan: Plan) -> str:
    """Right where the sum is below ten."""
    return str(min(8, int(plan.task.answer or 0)))


async def test_a_run_is_graded_summed_up_and_in_order(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 12)
    made = await evaluate(settings(tasks), tmp_path / "run", workers=3, player=saying(five_first))
    assert (made.progress.played, made.progress.accuracy) == (12, 5 / 12)
    assert made.summary.total.avg == 5 / 12
    assert [row["task"] for row in results(tmp_path / "run")] == [f"t{number}" for number in range(12)]
    assert (made.summary.tags["odd"].tasks, made.summary.tags["odd"].avg) == (6, 2 / 6)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    low, high = summary["total"]["interval"]
    assert 0.1 < low < 5 / 12 < high < 0.75
    (first, *_) = read_lines(tmp_path / "run" / "trajectories.jsonl", Trajectory)
    (score,) = first.scores
    assert score.name == CORRECT
    assert grade_of(score.detail).grader == "number@1"
    assert 'dialect = "direct"' in first.provenance.settings


async def test_a_run_goes_on_and_only_grows(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 9)
    small, large = settings(tasks, n=3), settings(tasks, n=7, k=2)
    first = await evaluate(small, tmp_path / "a", player=oracle)
    assert (first.progress.played, first.progress.skipped) == (3, 0)
    again = await evaluate(small, tmp_path / "a", player=oracle)
    assert (again.progress.played, again.progress.skipped, again.summary) == (0, 3, first.summary)
    more = await evaluate(large, tmp_path / "a", player=oracle)
    assert (more.progress.played, more.progress.skipped) == (11, 3)
    await evaluate(large, tmp_path / "b", workers=1, player=oracle)
    for name in ("results.jsonl", "summary.json", "settings.toml"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    with pytest.raises(SettingsError, match="may grow"):
        await evaluate(small, tmp_path / "a", player=oracle)


async def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 2)
    await evaluate(settings(tasks), tmp_path / "run", player=oracle)
    before = stored(tmp_path / "run")
    for change, message in (
        ({"seed": 4}, "seed: 0 -> 4"),
        ({"dialect": "direct:short"}, "dialect: "),
        ({"split": "train"}, "split"),
    ):
        with pytest.raises(SettingsError, match=message):
            await evaluate(settings(tasks, **change), tmp_path / "run", player=oracle)
    assert stored(tmp_path / "run") == before
    patient = settings(tasks, retry={"tries": 2, "seconds": 600}, dialect="")
    assert (await evaluate(patient, tmp_path / "run", player=oracle)).progress.skipped == 2


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"grader": "nothing"}, "nothing"),
        ({"model": "scripted:a.json", "dialect": "hosted"}, "scripted has none"),
        ({"model": "compatible:m@http://127.0.0.1:9/v1", "sampling": {"top_k": 5}}, "not know sampling.top_k"),
        ({"model": "no-such-family:m"}, "no-such-family"),
    ],
)
async def test_what_cannot_work_is_refused_before_there_is_a_run(
    tmp_path: Path, changes: dict[str, Any], match: str
) -> None:
    named = settings(write_tasks(tmp_path / "tasks", 2), **changes)
    with pytest.raises(SaccadeError, match=match):
        await evaluate(named, tmp_path / "run", player=oracle if "grader" in changes else None)
    assert not (tmp_path / "run").exists()


async def test_a_grader_of_a_task_that_is_not_there_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 2, grader="nothing")
    with pytest.raises(SettingsError, match="2 tasks name the grader 'nothing'"):
        await evaluate(settings(tasks), tmp_path / "run", player=oracle)
    assert not (tmp_path / "run").exists()
    made = await evaluate(settings(tasks, grader="number"), tmp_path / "run", player=oracle)
    assert made.summary.total.avg == 1.0


async def test_places_may_change_and_nothing_else(tmp_path: Path) -> None:
    write_tasks(tmp_path / "a", 3)
    source = str(tmp_path / "a")
    here = settings(source, model="vllm:some@http://one:8000/v1", n=2)
    there = settings(source, model="vllm:some@https://two/v1", n=3, data=str(tmp_path / "a" / "media"))
    await evaluate(here, tmp_path / "run", player=oracle)
    made = await evaluate(there, tmp_path / "run", player=oracle)
    assert (made.progress.skipped, made.progress.played) == (2, 1)
    with pytest.raises(SettingsError, match="model: "):
        await evaluate(settings(source, model="vllm:other@http://one:8000/v1"), tmp_path / "run", player=oracle)


async def test_an_outage_is_no_wrong_answer_and_is_played_again(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 4)
    lost = LostModel(ModelLostError("the server is down"))

    def half(plan: Plan) -> Model:
        return lost if plan.task.id in ("t1", "t2") else oracle(plan)

    made = await evaluate(settings(tasks), tmp_path / "run", player=half)
    assert (made.progress.played, made.progress.failed) == (2, 2)
    assert (made.summary.total.avg, made.summary.total.tasks, made.summary.missing) == (1.0, 2, 2)
    (failure, _) = open_failures(tmp_path / "run", set()).values()
    assert (failure.kind, failure.detail) == ("model_lost", "the server is down")
    healed = await evaluate(settings(tasks), tmp_path / "run", player=oracle)
    assert (healed.progress.played, healed.summary.missing, healed.summary.total.tasks) == (2, 0, 4)


async def test_a_failure_that_a_kill_cut_short_is_cut_off(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 2)
    await evaluate(settings(tasks), tmp_path / "run", player=lambda plan: LostModel(ModelLostError("down")))
    file = tmp_path / "run" / FAILURES
    full = file.read_bytes()
    file.write_bytes(full[:-10])
    healed = await evaluate(settings(tasks), tmp_path / "run", player=oracle)
    assert (healed.progress.played, healed.summary.missing) == (2, 0)
    assert file.read_bytes() == full.splitlines(keepends=True)[0]


async def test_outages_that_do_not_end_end_the_run(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 30)
    with pytest.raises(ModelLostError, match=r"8 samples in a row.*no route.*same command again"):
        await evaluate(settings(tasks), tmp_path, workers=2, player=lambda plan: LostModel(ModelLostError("no route")))
    assert 8 <= len(open_failures(tmp_path, set())) < 30


async def test_a_task_that_cannot_be_shown_fails_alone(tmp_path: Path) -> None:
    part = {"sha256": "a" * 64, "width": 4, "height": 4}
    media = [{"name": "p", "part": {"kind": "image", **part}}]
    tasks = write_tasks(tmp_path / "tasks", 1, media=media)
    made = await evaluate(settings(tasks), tmp_path / "run", player=oracle)
    (failure,) = open_failures(tmp_path / "run", set()).values()
    assert (made.progress.failed, failure.kind) == (1, BROKEN_TASK)


async def test_a_task_without_gold_answer_is_counted_apart(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 2, answer=None)
    made = await evaluate(settings(tasks), tmp_path / "run", player=saying(lambda plan: "4"))
    assert (made.summary.ungraded, made.summary.total.tasks, made.summary.total.avg) == (2, 0, None)
    assert "no gold answer" in read_rows(tmp_path / "run")[0].reason


async def names(source: Path | str, out: Path, **changes: Any) -> list[str]:
    """Ids of the tasks of a run."""
    wanted = settings(source, **changes)
    return [item.id for item in await chosen(open_sources(wanted), wanted, out, MediaStore(out / "media"))]


async def test_which_tasks_are_chosen_depends_on_the_seed_alone(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 40)
    few, more = [await names(tasks, tmp_path, n=n) for n in (5, 11)]
    assert len(few) == 5 < len(more) == 11
    assert set(few) < set(more)
    assert more == sorted(more, key=lambda name: int(name[1:]))
    assert few != await names(tasks, tmp_path, n=5, seed=1)
    parts = [await names(tasks, tmp_path, n=11, shard=f"{number}/3") for number in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == sorted(more)
    assert all(parts)


async def test_every_sample_has_a_seed_of_its_own(tmp_path: Path) -> None:
    wanted = settings(write_tasks(tmp_path, 20))
    items = await chosen(open_sources(wanted), wanted, tmp_path, MediaStore(tmp_path / "media"))
    seeds = {sample.seed(0) for sample in samples(items, 5)}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert [sample.id for sample in samples(items[:2], 2)] == ["t0#0", "t1#0", "t0#1", "t1#1"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("visual-serch", "Did you mean 'visual-search'"),
        ("blindtst", "Did you mean 'blindtest'"),
        ("visual-search", "--n 100"),
        (".", r"holds no tasks: no tasks\.jsonl"),
    ],
)
def test_a_source_that_is_none(source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=message):
        open_sources(settings(source))


async def test_a_source_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("{}\n")
    with pytest.raises(SettingsError, match=r"tasks\.jsonl, row 1, question: there is none"):
        await names(tmp_path, tmp_path)
    write_tasks(tmp_path, 2, id="same")
    with pytest.raises(SettingsError, match="two tasks have the id same"):
        await names(tmp_path, tmp_path)
    write_tasks(tmp_path, 0)
    with pytest.raises(SettingsError, match="holds no tasks"):
        await names(tmp_path, tmp_path)


async def test_a_world_is_a_source(tmp_path: Path) -> None:
    made = await evaluate(settings("world:circled-letter", n=2), tmp_path / "run", player=oracle)
    assert made.summary.total.avg == 1.0
    assert [row["task"] for row in results(tmp_path / "run")] == ["circled-letter@1/test/0", "circled-letter@1/test/1"]
    assert len([path for path in (tmp_path / "run" / "media").rglob("*") if path.is_file()]) == 2


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
