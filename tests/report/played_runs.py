"""Runs to report: evaluations played by the real loop, and the journal of a training run.

    python -m tests.report.played_runs runs/demo && saccade report runs/demo/one runs/demo/two

The picture docs/images/report.png is a part of that page; its curves are invented.
"""

from __future__ import annotations

import asyncio
import math
import sys
from pathlib import Path

from tests.evals.support import LostModel, write_tasks

from saccade.episode.flow import Plan
from saccade.errors import ModelLostError
from saccade.evals.run import evaluate
from saccade.evals.settings import EvalSettings
from saccade.models.base import Model
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Answer
from saccade.training.run import TrainingJournal
from saccade.training.settings import KeepSettings

HOSTILE = "</script></template><img src=x onerror=alert(1)>\u202e"
LOOK = "I look.\n\n<code>\n```python\npart = image_clue_0.crop((0, 0, 60, 50))\npart.show()\n```\n</code>"
BROKEN = "<code>\n```python\nprint(nothing_of_that_name)\n```\n</code>"


def eval_run(folder: Path, name: str, *, right: bool) -> Path:
    """Three sums that are taken for V*, and three generated pictures, which are looked at and answered rightly.

    The first sum is `right` or wrong, the second answered with hostile text, the third lost to an outage; a call fails.
    """
    tasks = folder / "tasks"
    if not tasks.exists():
        write_tasks(tasks, 3, source="vstar@1")
    settings = EvalSettings(model=name, dialect="pyvision", sources=(str(tasks), "circled-letter"), n=3, seeded=False)

    def player(plan: Plan) -> Model:
        task = plan.task
        if task.id == "t2":
            return LostModel(ModelLostError("the server went away"))
        if task.id == "t1":
            return ScriptedModel([plan.dialect.write(Answer(text=HOSTILE))], name=name)
        answer = plan.dialect.write(Answer(text=str(task.answer) if right or task.media else "99"))
        if not task.media:
            return ScriptedModel([answer], name=name)
        return ScriptedModel([LOOK, *([BROKEN] if task.id.endswith("/0") else []), answer], name=name)

    asyncio.run(evaluate(settings, folder / name, workers=2, player=player))
    return folder / name


def training_run(folder: Path, steps: int = 80, *, lift: float = 0.5) -> Path:
    """A run whose accuracy rises to `lift` above its beginning, written by the trainers' own journal."""
    folder.mkdir(parents=True)
    (folder / "settings.toml").write_text(
        f'[model]\nsource = "/somewhere/checkpoint"\n[tasks]\nsource = "maze"\n[recipe]\nlift = {lift}\n'
    )
    journal = TrainingJournal(folder, KeepSettings(tensorboard=False), 0, {})
    for step in range(steps + 1):
        right = 0.3 + lift * step / steps
        if step:
            journal.metrics(
                step,
                {
                    "reward": right + 0.1 * math.sin(step),
                    "reward/accuracy": right,
                    "accuracy": right,
                    "tool_calls": 1.5,
                    "entropy": math.nan if step == 3 else 1.0 - right,
                    "broken/timeout": 0.0,
                    "broken/execution_error": 0.1,
                    "seconds/decoding": 4.0,
                    "seconds/sandbox": 1.0,
                    "seconds/scoring": 0.0,
                    "seconds/update": 2.0,
                },
            )
        if step % 40 == 0:
            journal.metrics(step, {"validation/accuracy": right})
    journal.close()
    return folder


if __name__ == "__main__":
    training_run(Path(sys.argv[1]) / "one", 200)
    training_run(Path(sys.argv[1]) / "two", 200, lift=0.35)
