"""verl's data set: a row for each task that a step may take, in our order; the task is made where it is played."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from saccade.rl.train.settings import RlSettings
from saccade.rl.train.tasks import TaskList
from saccade.rl.verl.mapping import PART
from saccade.tasks.benchmarks.row_files import load_pyarrow

ROWS: Final = "train.parquet"
"""In OUT/verl."""


def training_rows(settings: RlSettings, tasks: TaskList) -> list[dict[str, Any]]:
    """As many as all steps take if each needs all of its rounds; epochs and shares are those of our own trainer."""
    recipe = settings.recipe
    most = recipe.steps * recipe.rounds.tasks * recipe.rounds.rounds
    return [_row(tasks.at(place, recipe.seed), place, validation=False) for place in range(most)]


def validation_rows(tasks: TaskList | None) -> list[dict[str, Any]]:
    """The held-out tasks. verl wants a row even where nothing is validated: it is never played."""
    names = ("none",) if tasks is None else tasks.ids
    return [_row(name, place, validation=True) for place, name in enumerate(names)]


def write_rows(rows: list[dict[str, Any]], path: Path) -> None:
    """Write parquet. Raises `UnavailableError` without pyarrow."""
    pyarrow, parquet = load_pyarrow()
    parquet.write_table(pyarrow.Table.from_pylist(rows), str(path))


def read_names(path: Path) -> list[str]:
    """The tasks of rows that were written, in their order. Raises `UnavailableError` without pyarrow."""
    _, parquet = load_pyarrow()
    return [row["extra_info"]["task"] for row in parquet.read_table(str(path), columns=["extra_info"]).to_pylist()]


def _row(task: str, place: int, *, validation: bool) -> dict[str, Any]:
    return {
        "data_source": "held-out" if validation else "trained-on",
        "agent_name": PART,
        "prompt": [{"role": "user", "content": task}],
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": {"index": place, "task": task, "validation": validation},
    }
