"""One picture that is broken ends no run; a run goes on after rows were taken out, and says what changed."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from PIL import Image
from tests.training.rl.train.support import metrics, rl_settings, toy

from saccade.errors import DataError, TrainingError
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory
from saccade.tasks.sources.settings import LEFT_OUT, BrokenTasks
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.rl.run import train
from saccade.training.rl.tasks import TaskList, as_list, keep_tasks, resumed_tasks


def rows(
    folder: Path, count: int, *, broken: tuple[int, ...] = (), without: tuple[int, ...] = (), ids: bool = False
) -> Path:
    """A folder with a file of rows, some with a picture that was cut short, some taken out."""
    folder.mkdir(exist_ok=True)
    lines = []
    for number in range(count):
        Image.effect_noise((56, 56), 90).save(folder / f"{number}.png")
        if number in broken:
            (folder / f"{number}.png").write_bytes((folder / f"{number}.png").read_bytes()[:200])
        if number not in without:
            row = {"image": f"{number}.png", "question": f"Which colour has {number}?", "answer": "red"}
            lines.append(json.dumps(row | ({"id": f"r{number}"} if ids else {})))
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return folder


def listed(folder: Path) -> TaskList:
    return as_list(open_tasks([str(folder)]))


def test_a_broken_picture_is_left_out_counted_and_listed(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    toy(monkeypatch, talkative=True)
    many = rows(tmp_path / "many", 8, broken=(5,))
    out = tmp_path / "run"
    settings = rl_settings(tiny, many, recipe={"steps": 3}, validation={"every": 3, "source": str(many), "tasks": 8})
    with caplog.at_level(logging.WARNING, "saccade"):
        train(settings, out)
    steps = [line for line in metrics(out) if "rollouts" in line]
    assert sorted(line["rollouts"] for line in steps) == [4, 8, 8]
    for name in (LEFT_OUT, f"validation-{LEFT_OUT}"):
        (line,) = (out / name).read_text().splitlines()
        item = json.loads(line)
        assert item["id"] == "many/rows-5"
        assert "cannot be decoded" in item["reason"]
    assert caplog.text.count("many/rows-5 is left out") == 2, "once for training, once for validation"


def test_too_many_broken_pictures_end_a_run_and_the_setting_says_how_many(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    many = rows(tmp_path / "many", 8, broken=(1, 3, 5, 7))
    with pytest.raises(DataError, match=r"of 8 tasks cannot be made.*most_broken = 0\.2.*saccade tasks check"):
        train(rl_settings(tiny, many), tmp_path / "run")
    settings = rl_settings(tiny, many, recipe={"steps": 4})
    more = settings.tasks.model_copy(update={"most_broken": 0.5})
    train(settings.model_copy(update={"tasks": more}), tmp_path / "other")
    assert len((tmp_path / "other" / LEFT_OUT).read_text().splitlines()) == 4


def test_a_run_goes_on_after_rows_were_taken_out(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    toy(monkeypatch, talkative=True)
    many = rows(tmp_path / "many", 6)
    out = tmp_path / "run"
    train(rl_settings(tiny, many, recipe={"steps": 1}), out)
    played = {item.task.id for item in read_lines(out / "rollouts/trajectories.jsonl", Trajectory)}
    gone = next(number for number in range(6) if f"many/rows-{number}" not in played)
    rows(tmp_path / "many", 6, without=(gone,))
    with caplog.at_level(logging.WARNING, "saccade"):
        train(rl_settings(tiny, many, recipe={"steps": 3}), out, resume=True)
    assert f"without 1 of 6 tasks, which were taken out since it began: many/rows-{gone}" in caplog.text
    assert sum(line["rollouts"] for line in metrics(out)) == 4 * 5
    rows(tmp_path / "many", 7)
    with pytest.raises(TrainingError, match=r"begun with other tasks: 1 of today's.*many/rows-6"):
        train(rl_settings(tiny, many, recipe={"steps": 4}), out, resume=True)


@pytest.mark.parametrize("ids", [False, True])
def test_the_others_are_the_same_tasks_under_their_old_names(ids: bool, tmp_path: Path) -> None:
    before = listed(rows(tmp_path / "many", 6, ids=ids))
    keep_tasks(before, tmp_path)
    store = MediaStore(tmp_path / "media")
    asked = {name: before.make(name, store).question for name in before.ids}
    now = resumed_tasks(listed(rows(tmp_path / "many", 6, without=(0, 3), ids=ids)), tmp_path)
    assert now.ids == before.ids
    assert [now.at(place, 7) for place in range(12)] == [before.at(place, 7) for place in range(12)]
    made = {name: now.made(name, store) for name in now.ids}
    gone = [name for name, task in made.items() if task is None]
    assert gone == [before.ids[0], before.ids[3]]
    assert {name: task.question for name, task in made.items() if task is not None} == {
        name: asked[name] for name in asked if name not in gone
    }
    assert {name: task.id for name, task in made.items() if task is not None} == {n: n for n in asked if n not in gone}


def test_a_row_that_says_something_else_is_another_task(tmp_path: Path) -> None:
    folder = rows(tmp_path / "many", 4, ids=True)
    keep_tasks(listed(folder), tmp_path)
    text = (folder / "rows.jsonl").read_text()
    (folder / "rows.jsonl").write_text(text.replace('"answer": "red", "id": "r1"', '"answer": "blue", "id": "r1"'))
    with pytest.raises(TrainingError, match=r"1 of today's say something else or are new, many/r1 first"):
        resumed_tasks(listed(folder), tmp_path)
    (folder / "rows.jsonl").write_text(text)
    assert resumed_tasks(listed(folder), tmp_path).gone == frozenset()


def test_the_limit_counts_each_task_once_and_also_those_of_other_processes(tmp_path: Path) -> None:
    def fails(name: str) -> None:
        def make() -> None:
            raise DataError(f"{name} is broken.")

        assert one.made(name, make) is None  # type: ignore[arg-type]

    one = BrokenTasks(10, 0.2, tmp_path / LEFT_OUT)
    for name in ("a", "a", "b", "a"):
        fails(name)
    assert [json.loads(line)["id"] for line in (tmp_path / LEFT_OUT).read_text().splitlines()] == ["a", "b"]
    other = BrokenTasks(10, 0.2, tmp_path / LEFT_OUT)
    assert list(other.reasons) == ["a", "b"]
    one = other
    with pytest.raises(DataError, match="3 of 10 tasks"):
        fails("c")
    alone = BrokenTasks(2, 0.0)
    one = alone
    fails("a")  # one alone never ends a run
    with pytest.raises(DataError, match="2 of 2"):
        fails("b")
