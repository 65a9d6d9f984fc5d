"""Every row gives a task or a problem that names row and field, whatever stands in it; nothing else comes out."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tasks.benchmarks.cases import base64_png, card_of, only_tasks, place_of, read, write_jsonl, write_png

from saccade.errors import DataError
from saccade.grading.registry import load_grader
from saccade.media.store import MediaStore
from saccade.record.task import AnswerType, Task
from saccade.tasks.benchmarks.benchmark import open_benchmark, tasks_of_rows
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.registry import card_ids, load_card
from saccade.tasks.benchmarks.row_files import RowProblem

SOUND = base64_png()
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=8),
    st.sampled_from([SOUND, "A", "B", "[1, 2]", "['a', 'b']", "A. x; B. y", "../x", "\ud800", "data:,", "[" * 500]),
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def fields_of(card: Card) -> list[str]:
    fields = card.fields
    named = [
        *fields.id,
        *fields.question,
        *fields.images,
        *fields.choices,
        *fields.answer,
        *fields.boxes,
        *fields.split,
    ]
    named += [name for names in fields.tags.values() for name in names]
    plain = [name.replace("#", "1").partition(".")[0] for name in named if "{" not in name and not name.startswith("_")]
    return sorted({*plain, "A", "B", "C", "conversations", "prompt", "extra_info", "bbox"})


@given(st.data())
def test_any_row_of_any_card(data: st.DataObject) -> None:
    card = load_card(data.draw(st.sampled_from(card_ids())))
    row = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(fields_of(card), values)))
    with TemporaryDirectory() as folder:
        items = list(tasks_of_rows([row, row], card, Path(folder), MediaStore(Path(folder) / "store")))
    assert all(isinstance(item, Task | RowProblem) for item in items)
    assert len(items) == 2 or card.only
    tasks = [item for item in items if isinstance(item, Task)]
    assert len({task.id for task in tasks}) == len(tasks)


@given(suffix=st.sampled_from([".tsv", ".jsonl", ".json", ".parquet"]), content=st.binary(max_size=80))
def test_any_file(suffix: str, content: bytes) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"data{suffix}"
        file.write_bytes(content)
        benchmark = open_benchmark(card_of(loader={"files": file.name}), Path(folder))
        with suppress(DataError):
            items = list(benchmark.tasks(MediaStore(Path(folder) / "store")))
            assert all(isinstance(item, RowProblem) for item in items)
            assert benchmark.count() == len(items)


@given(
    loader=st.sampled_from(["llava@1", "verl@1", "vlmevalkit@1"]),
    row=st.dictionaries(
        st.sampled_from(["conversations", "images", "prompt", "extra_info", "reward_model", "image", "id"]), values
    ),
)
def test_any_row_of_loaders_with_a_format_of_their_own(loader: str, row: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "data.jsonl"
        file.write_text(json.dumps(row, default=repr) + "\n", encoding="utf-8")
        items = read(card_of(loader={"id": loader, "files": file.name}), Path(folder), Path(folder) / "store")
    assert len(items) == 1
    assert isinstance(items[0], Task | RowProblem)


@given(content=st.binary(max_size=40) | st.sampled_from([b"{}", b"[]", b'{"id": 1}']), named=st.booleans())
def test_any_folder(content: bytes, named: bool) -> None:
    with TemporaryDirectory() as folder:
        place = Path(folder) / "7"
        write_png(place / "img_diagram.png")
        (place / "data.json").write_bytes(b'{"problem_text": "x"}' if named else content)
        (place / "logic_form.json").write_bytes(content)
        write_png(Path(folder) / "direct_attributes/a.jpg")
        (Path(folder) / "direct_attributes/a.json").write_bytes(content)
        (Path(folder) / "direct_attributes/no_picture.json").write_bytes(b"{}")
        for name, rows in (("geometry3k", 1), ("vstar", 2)):
            items = read(name, Path(folder), Path(folder) / "store")
            assert len(items) <= rows
            assert all(isinstance(item, RowProblem) for item in items)
            assert name == "geometry3k" or "images" in [item.field for item in items if isinstance(item, RowProblem)]


SOUND_ROW = {"id": "1", "question": "Which?", "image": "1.png", "answer": "B", "options": ["x", "y"]}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": None}, "id"),
        ({"id": {"a": 1}}, "id"),
        ({"question": ""}, "question"),
        ({"question": 5e400}, "question"),
        ({"image": "absent.png"}, "images"),
        ({"image": "broken.png"}, "images"),
        ({"image": "../1.png"}, "images"),
        ({"image": {"bytes": None, "path": None}}, "images"),
        ({"answer": None}, "answer"),
        ({"answer": "E"}, "answer"),
        ({"answer": "yes and no"}, "answer"),
        ({"options": 7}, "choices"),
        ({"options": None}, "choices"),
        ({"options": [["x"], {"y": 1}]}, "choices"),
        ({"box": [1, 2, 3]}, "boxes"),
        ({"box": [50, 50, 60, 60]}, "boxes"),
        ({"box": [0, 0, 10**400, 5]}, "boxes"),
    ],
)
def test_problem_names_row_and_field(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    write_png(tmp_path / "images/1.png")
    write_png(tmp_path / "1.png")
    (tmp_path / "images/broken.png").write_bytes(b"\x89PNG, but no more")
    write_jsonl(tmp_path / "data.jsonl", [SOUND_ROW, {**SOUND_ROW, "id": "2", **change}])
    card = card_of(answer_type="choice", fields={"choices": "options", "answer_is": "letter", "boxes": "box"})
    good, bad = read(card, tmp_path, tmp_path / "store")
    assert isinstance(good, Task)
    assert isinstance(bad, RowProblem)
    assert (bad.file, bad.row, bad.field) == ("data.jsonl", 1, field)
    assert str(bad).startswith(f"data.jsonl, row 2, {field}: ")


def test_a_repeated_id_is_a_problem_and_rows_of_others_are_none(tmp_path: Path) -> None:
    write_png(tmp_path / "images/1.png")
    rows = [{**SOUND_ROW, "set": name} for name in ("mine", "mine", "theirs")]
    write_jsonl(tmp_path / "data.jsonl", rows)
    first, second = read(card_of(only={"set": "mine"}), tmp_path, tmp_path / "store")
    assert isinstance(first, Task)
    assert place_of(second)[1] == "id"


def test_lines_that_are_no_rows_keep_their_numbers(tmp_path: Path) -> None:
    write_png(tmp_path / "images/1.png")
    (tmp_path / "data.jsonl").write_text("[1]\n" + json.dumps(SOUND_ROW) + "\n{\n", encoding="utf-8")
    first, task, last = read(card_of(), tmp_path, tmp_path / "store")
    assert isinstance(task, Task)
    assert [item.row for item in (first, last) if isinstance(item, RowProblem)] == [0, 2]


def test_reading_twice_gives_equal_tasks(tmp_path: Path) -> None:
    write_png(tmp_path / "images/1.png")
    write_jsonl(tmp_path / "data.jsonl", [{**SOUND_ROW, "id": "long " * 60}])
    first, again = (read(card_of(), tmp_path, tmp_path / store) for store in ("one", "two"))
    assert first == again
    assert isinstance(first[0], Task)


@pytest.mark.parametrize("cells", ["a\tb\n1\t2\t3\n", "a\tb\n1\n"])
def test_tsv_rows_of_another_width(tmp_path: Path, cells: str) -> None:
    (tmp_path / "data.tsv").write_text(cells, encoding="utf-8")
    (item,) = read(card_of(loader={"files": "data.tsv"}), tmp_path, tmp_path / "store")
    assert isinstance(item, RowProblem)
    assert "cells" in item.reason


DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


def tasks_of(name: str, tmp_path: Path) -> list[Task]:
    if not (DATA / name).is_dir():
        pytest.skip(f"{DATA / name} is not there")
    tasks = only_tasks(read(name, DATA, tmp_path))
    assert len(tasks) == open_benchmark(load_card(name), DATA).count()
    return tasks


def accepted(name: str, tasks: list[Task]) -> float:
    """Share of tasks whose gold answer is right for the card's own grader, given as a model would give it."""
    card = load_card(name)
    verdicts = [
        load_grader(card.grader_of(task).spec).grade(f"<answer>{task.answer}</answer>", task).correct for task in tasks
    ]
    return sum(verdicts) / len(verdicts)


@pytest.mark.slow
def test_blindtest(tmp_path: Path) -> None:
    tasks = tasks_of("blindtest", tmp_path)
    types = Counter(task.answer_type for task in tasks)
    assert types == {AnswerType.NUMBER: 120, AnswerType.YES_NO: 40, AnswerType.LIST: 40}
    assert accepted("blindtest", tasks) == 1
    assert tasks[0].id == "blindtest@1/counting_shapes_0000"
    assert tasks[0].tags == ("task=counting_shapes",)


def test_tabmwp(tmp_path: Path) -> None:
    tasks = tasks_of("tabmwp", tmp_path)
    assert Counter(task.answer_type for task in tasks) == {AnswerType.NUMBER: 109, AnswerType.CHOICE: 51}
    assert {task.split for task in tasks} == {"dev"}
    assert accepted("tabmwp", tasks) == 1


def test_geometry3k(tmp_path: Path) -> None:
    tasks = tasks_of("geometry3k", tmp_path)
    assert [task.id for task in tasks] == [f"geometry3k@1/{number}" for number in range(11, 21)]
    assert (tasks[0].choices, tasks[0].answer) == (("30", "40", "60", "80"), "80")
    assert {"goal=Angle", "graph=Circle"} <= set(tasks[0].tags)
    assert accepted("geometry3k", tasks) == 1
