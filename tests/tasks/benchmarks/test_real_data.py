"""Published data, where they lie beside the repository in `shared/data`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.tasks.benchmarks.cases import only_tasks, read

from saccade.grading.registry import load_grader
from saccade.record.task import AnswerType, Task
from saccade.tasks.benchmarks.benchmark import open_benchmark
from saccade.tasks.benchmarks.registry import load_card

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
