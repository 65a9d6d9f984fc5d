"""Tasks, an oracle that knows their programs, and runs without their times."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from saccade.episode.flow import Plan
from saccade.evals.settings import EvalSettings
from saccade.media.store import MediaStore
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.scripted import ScriptedModel
from saccade.record.codec import write_lines
from saccade.record.content import Answer
from saccade.record.task import AnswerType, Task

Say = Callable[[Plan], str]


def oracle(plan: Plan) -> ScriptedModel:
    """Answers with the gold answer."""
    assert plan.task.answer is not None
    return ScriptedModel([plan.dialect.write(Answer(text=plan.task.answer))], name="oracle")


def saying(say: Say) -> Callable[[Plan], ScriptedModel]:
    """Answers with what `say` gives for the plan."""
    return lambda plan: ScriptedModel([plan.dialect.write(Answer(text=say(plan)))], name="saying")


class LostModel:
    """Fails as a broken backend does."""

    name = "lost"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        raise self.error

    async def close(self) -> None:
        pass


def write_tasks(folder: Path, count: int = 6, **changes: Any) -> Path:
    """A folder of sums, `t0` on; every other one is tagged odd."""
    folder.mkdir(parents=True, exist_ok=True)
    MediaStore(folder / "media")
    tasks = [
        Task.model_validate(
            {
                "id": f"t{number}",
                "question": f"What is {number} + {number}?",
                "answer": str(2 * number),
                "answer_type": AnswerType.NUMBER,
                "source": "sums",
                "tags": ("odd" if number % 2 else "even",),
                **changes,
            }
        )
        for number in range(count)
    ]
    write_lines(folder / "tasks.jsonl", tasks)
    return folder


def settings(source: Path | str, **changes: Any) -> EvalSettings:
    return EvalSettings.model_validate({"model": "oracle", "dialect": "direct", "sources": (str(source),), **changes})


def stored(run: Path) -> list[dict[str, Any]]:
    """The trajectories of a run in the order of their ids, without times."""
    found = []
    for line in (run / "trajectories.jsonl").read_text(encoding="utf-8").splitlines():
        data = json.loads(line)
        del data["created"], data["seconds"]
        for turn in data["turns"]:
            del turn["model_seconds"], turn["execution_seconds"]
            if turn["execution"]:
                del turn["execution"]["timings"]
        found.append(data)
    return sorted(found, key=lambda data: str(data["id"]))


def results(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "results.jsonl").read_text(encoding="utf-8").splitlines()]
