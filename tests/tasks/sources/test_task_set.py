"""Several sources at once: names, weights, limits, filters, and what a source gives beside the question."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from tests.tasks.sources.files import jsonl, picture

from saccade.errors import DataError, MissingMediaError, RecordError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import append_line
from saccade.record.task import Task
from saccade.record.trajectory import Provenance, Trajectory
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.settings import SourceSettings, Turns, most_in_shares, parse_source
from saccade.tasks.sources.survey import LEFT_OUT, write_tasks
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.rl.tasks import as_list


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """40 questions about one picture; every fourth is about text."""
    picture(tmp_path / "photos" / "a.png")
    rows = [
        {
            "id": number,
            "image": "a.png",
            "question": f"{number}?",
            "answer": "x",
            "category": "text" if number % 4 == 0 else "count",
        }
        for number in range(40)
    ]
    jsonl(tmp_path / "photos" / "questions.jsonl", rows)
    return tmp_path / "photos"


def mix(path: Path, *tables: str) -> str:
    path.write_text("\n".join(f"[[source]]\n{table}" for table in tables), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "name", "weight"),
    [
        ("maze", "maze", None),
        ("maze=0.5", "maze", 0.5),
        ("chartqa:train=3", "chartqa:train", 3.0),
        ("maze=1e-2", "maze", 0.01),
        ("a=b", "a=b", None),
    ],
)
def test_a_source_as_a_command_line_writes_it(text: str, name: str, weight: float | None) -> None:
    assert parse_source(text) == SourceSettings(name=name, weight=weight)


@pytest.mark.parametrize("text", ["maze=0", "maze=-1", "maze=nan", "maze=-inf", "maze=inf", "maze=1e400", "=0.5"])
def test_a_weight_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="weight above 0"):
        parse_source(text)


def test_one_error_names_what_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, photos: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong, near in {"visual-serch": "visual-search", "blindtst": "blindtest", "photoss": "photos"}.items():
        with pytest.raises(SettingsError, match=f"{wrong}.*Did you mean '{near}"):
            open_tasks([wrong])
    with pytest.raises(SettingsError, match="no split 'trian'"):
        open_tasks(["visual-search:trian"])
    assert photos.exists()


def test_all_sets_of_a_mixture_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)^2 of 2 sources.*SpaceR-151k .*hf download.*LongVideo"):
        open_tasks(["pyvision-video-cold-start"], SourceDefaults(data=tmp_path))


def test_shares_hold_in_every_stretch() -> None:
    turns = Turns([0.7, 0.3])
    first = [turns.at(place)[0] for place in range(1000)]
    for start in range(0, 990, 7):
        assert abs(Counter(first[start : start + 10])[0] - 7) <= 1
    assert turns.counts(10) == (7, 3)
    assert [turns.at(place)[1] for place in range(1000) if first[place] == 1] == list(range(300))
    assert most_in_shares([0.5, 0.5], [3, 100]) == 6


def test_weights_divide_what_training_draws(photos: Path) -> None:
    pool = open_tasks([f"{photos}=0.25", "maze=0.75"], SourceDefaults(most=20))
    tasks = as_list(pool)
    drawn = [tasks.at(place, 3) for place in range(400)]
    assert Counter(name.partition("/")[0] for name in drawn) == {"photos": 100, "maze@1": 300}
    assert Counter(drawn[:80]).most_common(1)[0][1] <= 4  # each source in epochs of its own
    left = tasks.only([name for name in tasks.ids if name.startswith("photos")])
    assert {left.at(place, 3).partition("/")[0] for place in range(50)} == {"photos"}
    plain = as_list(open_tasks([str(photos), "maze"], SourceDefaults(most=20)))
    assert sorted(plain.at(place, 3) for place in range(40)) == sorted(plain.ids)


def test_some_weights_are_refused(photos: Path) -> None:
    with pytest.raises(SettingsError, match="maze has no weight"):
        open_tasks([f"{photos}=0.5", "maze"])


def test_tags_limits_and_seed(photos: Path, tmp_path: Path) -> None:
    pool = open_tasks([mix(tmp_path / "a.toml", f'name = "{photos}"\ntags = "category=te*"\nmost = 4\n')])
    assert (len(pool), pool.total) == (4, 40)
    assert pool.lines() == (f"{photos}: 4 tasks (left out: 6 more than the most that are wanted; 30 by their tags)",)
    more = open_tasks([mix(tmp_path / "b.toml", f'name = "{photos}"\ntags = "category=te*"\nmost = 7\n')])
    assert set(pool.ids) < set(more.ids)
    other = open_tasks([mix(tmp_path / "c.toml", f'name = "{photos}"\ntags = "category=te*"\nmost = 4\nseed = 5\n')])
    assert set(pool.ids) != set(other.ids)
    without = open_tasks([mix(tmp_path / "d.toml", f'name = "{photos}"\nwithout = "category=text"\n')])
    assert len(without) == 30
    with pytest.raises(SettingsError, match="category=count"):
        open_tasks([mix(tmp_path / "e.toml", f'name = "{photos}"\ntags = "none"\n')])


def test_what_a_source_says_travels_with_its_tasks(photos: Path, tmp_path: Path) -> None:
    table = (
        f'name = "{photos}"\nopen = true\ngrader = "relaxed@1"\nsearch = true\ncategory = "visual"\nprefix = "my-"\n'
        "reward = { weight_accuracy = 0.8 }\nmost = 1\n"
    )
    pool = open_tasks([mix(tmp_path / "a.toml", table)])
    task = pool.make(pool.ids[0], MediaStore(tmp_path / "store"))
    assert (task.id, task.grader, task.is_open, task.rule) == (pool.ids[0], "judge|relaxed@1", True, "relaxed@1")
    assert task.id.startswith("my-photos/")
    assert {"visual_search", "category=visual"} <= set(task.tags)
    assert [(own.name, own.value) for own in task.reward] == [("weight_accuracy", 0.8)]
    folder = tmp_path / "written"
    write_tasks(pool, pool.ids, folder)
    again = open_tasks([str(folder)])
    assert again.make(again.ids[0], MediaStore(tmp_path / "other")) == task
    assert again.parts[0].lights == pool.parts[0].lights


def test_two_tasks_of_one_id_are_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="prefix"):
        open_tasks([str(photos), str(photos / "questions.jsonl")])
    both = mix(tmp_path / "a.toml", f'name = "{photos}"\n', f'name = "{photos}"\nprefix = "b-"\n')
    assert len(open_tasks([both])) == 80


def test_two_rows_of_one_id_are_named_by_their_numbers(tmp_path: Path) -> None:
    rows = [{"id": name, "question": "q", "answer": "x"} for name in ("a", "b", "b")]
    jsonl(tmp_path / "q.jsonl", rows)
    with pytest.raises(SettingsError, match=r"two tasks with the id 'q/b' \(rows 2 and 3\)"):
        open_tasks([str(tmp_path / "q.jsonl")])


def test_settings_that_change_nothing_are_refused(tmp_path: Path, photos: Path) -> None:
    for table, message in {
        'name = "maze"\nquestion = "?"\n': "would change nothing",
        f'name = "{photos}"\nquestion = "?"\n': "questions of its own",
        f'name = "{photos}"\nknobs = {{ size = 3 }}\n': "would change nothing",
        'name = "maze"\nwieght = 1\n': "no such setting",
    }.items():
        with pytest.raises(SettingsError, match=re.escape(message)):
            open_tasks([mix(tmp_path / "a.toml", table)])


def test_a_run_folder_is_a_source_with_its_media(photos: Path, tmp_path: Path) -> None:
    pool = open_tasks([str(photos)], SourceDefaults(most=2))
    run = tmp_path / "run"
    for name in pool.ids:
        task = pool.make(name, MediaStore(run / "media"))
        for rollout in range(2):
            played = Trajectory(id=f"{name}#{rollout}", task=task, provenance=Provenance(dialect="direct@1"))
            append_line(run / "trajectories.jsonl", played)
    again = open_tasks([str(run)])
    assert again.ids == pool.ids
    assert again.make(again.ids[1], MediaStore(tmp_path / "s")) == task
    (run / "media").rename(tmp_path / "gone")
    with pytest.raises(MissingMediaError, match="lie in none of"):
        again.make(again.ids[0], MediaStore(tmp_path / "t"))


def test_a_folder_is_written_whole_and_says_what_it_lacks(photos: Path, tmp_path: Path) -> None:
    rows = photos / "questions.jsonl"
    rows.write_text(rows.read_text() + '{"image": "none.png", "question": "?", "answer": "x"}\n', encoding="utf-8")
    (photos / "b.png").write_bytes(b"none")
    rows.write_text(rows.read_text() + '{"image": "b.png", "question": "?", "answer": "x"}\n', encoding="utf-8")
    pool = open_tasks([str(photos)])
    written = write_tasks(pool, pool.ids, tmp_path / "out")
    assert written.tasks == 40
    assert ["none.png" in written.left_out[0], "row 42" in written.left_out[1]] == [True, True]
    assert len((tmp_path / "out" / LEFT_OUT).read_text().splitlines()) == 2
    with pytest.raises(RecordError, match="exists already"):
        write_tasks(pool, pool.ids, tmp_path / "out")


def test_a_broken_record_is_named(photos: Path, tmp_path: Path) -> None:
    pool = open_tasks([str(photos)])
    write_tasks(pool, pool.ids, tmp_path / "out")
    with (tmp_path / "out" / "tasks.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "cut')
    again = open_tasks([str(tmp_path / "out")])
    assert (len(again), str(again.problems[0])[:28]) == (40, "tasks.jsonl, row 41, record:")
    assert isinstance(again.make(again.ids[0], MediaStore(tmp_path / "s")), Task)
