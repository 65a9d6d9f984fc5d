"""The second half of the demo: the model that comes with Saccade answers generated questions that it has never seen.

Nothing is written beforehand here: the model reads the question, writes the program, and answers from what it printed.
docs/tiny.md says how often that goes well, and in which families.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from saccade.record.action import Code
from saccade.record.score import CORRECT
from saccade.record.trajectory import Trajectory

if TYPE_CHECKING:
    from saccade.episode.run_folder import RunFolder

WORLDS = ("line-crossings", "shape-count", "touching-circles")
INDEX = 1000
"""Number of the tasks in the test split: far from every one that the model was trained or examined on."""


async def play_tiny(folder: RunFolder) -> list[Trajectory]:
    """One task of each world, played and scored.

    Raises:
        UnavailableError: torch or transformers, or the weights, are not there.
    """
    from saccade.dialects.registry import load_dialect
    from saccade.env.rubric import ExactMatch
    from saccade.episode.drive import run_episode
    from saccade.episode.plan import Plan
    from saccade.models.registry import load_model
    from saccade.sandbox.local import LocalSandbox
    from saccade.tasks.worlds.base import make_task
    from saccade.tasks.worlds.registry import load_world

    dialect = load_dialect("tiny")
    model = load_model("tiny")
    played = []
    async with LocalSandbox(limits=dialect.sandbox) as box:
        for name in WORLDS:
            task = make_task(load_world(name), "test", INDEX, folder.store)
            plan = Plan(task, dialect, rollout=folder.next_rollout(task.id))
            trajectory = await run_episode(plan, model, box, folder.store)
            trajectory = trajectory.with_scores(ExactMatch()(trajectory))
            folder.append(trajectory)
            played.append(trajectory)
    await model.close()
    return played


def print_tiny(console: Console, played: list[Trajectory]) -> None:
    """What was asked, what the model's program printed, and what it answered."""
    table = Table(title="saccade-tiny on generated questions (it wrote the programs itself)", title_justify="left")
    for column in ("question", "lines of code", "printed last", "answer", "gold", ""):
        table.add_column(column)
    for item in played:
        runs = [turn.execution for turn in item.turns if turn.execution is not None]
        programs = [turn.action.code for turn in item.turns if isinstance(turn.action, Code)]
        printed = runs[-1].stdout.rstrip().rpartition("\n")[2] if runs else ""
        right = any(score.name == CORRECT and score.value == 1.0 for score in item.scores)
        table.add_row(
            item.task.question,
            str(sum(program.count("\n") + 1 for program in programs)),
            printed,
            item.answer if item.answer is not None else f"({item.stop})",
            item.task.answer or "",
            "right" if right else "wrong",
        )
    console.print(table)
