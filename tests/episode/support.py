"""Plans and scripts that the tests of the loop share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.flow import (
    Ask,
    Call,
    Effect,
    EpisodeOutcome,
    Plan,
    Ran,
    Reply,
    Run,
    Said,
    Stopped,
    flow,
    limits_with,
)
from saccade.media.store import MediaStore
from saccade.models.base import Completion, Usage
from saccade.record.content import ImagePart
from saccade.record.execution import Execution, ExecutionPicture, Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import FinishReason, Trajectory

CODE = "<code>\n```python\nprint(1)\n```\n</code>"
ANSWER = "<answer>\n\\boxed{cat}\n</answer>"
NOTHING = "I am not sure."
OK = Execution(status=Status.OK, stdout="1\n", committed=True)
FAILED = Execution(status=Status.ERROR, traceback="ValueError: no")
LOST = Execution(status=Status.LOST)
PART = ImagePart(sha256="a" * 64, width=100, height=50)


def task(part: ImagePart = PART, question: str = "What is it?") -> Task:
    return Task(id="t", question=question, media=(NamedMedia(name="photo", part=part),), answer="gold")


def stored_task(store: MediaStore, size: tuple[int, int] = (60, 40)) -> Task:
    return task(store.put_image(Image.radial_gradient("L").convert("RGB").resize(size)))


def plan(dialect: str | Dialect = "pyvision", of: Task | None = None, **limits: Any) -> Plan:
    chosen = load_dialect(dialect) if isinstance(dialect, str) else dialect
    return Plan(of or task(), chosen, given_limits=limits_with(chosen.limits, **limits))


def picture(number: int, width: int = 100, height: int = 50) -> ExecutionPicture:
    part = ImagePart(sha256=f"{number:064x}", width=width, height=height)
    return ExecutionPicture(image=part, source="figure")


def shows(*pictures: ExecutionPicture) -> Execution:
    return OK.model_copy(update={"pictures": pictures})


def said(text: str, finish: FinishReason = FinishReason.STOP, **usage: Any) -> Said:
    return Said(Completion(text, finish, usage=Usage(**usage)))


def by_hand(what: Plan, replies: Sequence[Reply | Execution | str]) -> tuple[list[Effect], EpisodeOutcome]:
    """Play a plan with these replies; texts are what the model says, executions what is run gives back."""
    play = flow(what)
    effects = [next(play)]
    for reply in replies:
        try:
            effects.append(play.send(_reply(reply)))
        except StopIteration as stop:
            return effects, stop.value
    raise AssertionError(f"the loop goes on with {effects[-1]}")


def _reply(reply: Reply | Execution | str) -> Reply:
    if isinstance(reply, str):
        return said(reply)
    return Ran(reply) if isinstance(reply, Execution) else reply


def timeless(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as data, without its times."""
    data = trajectory.model_dump(mode="json")
    del data["created"], data["seconds"]
    for turn in data["turns"]:
        del turn["model_seconds"], turn["execution_seconds"]
        if turn["execution"]:
            del turn["execution"]["timings"]
    return data


def photo(name: str) -> Path:
    """A real photo beside the repository; the test is skipped where there is none."""
    import pytest

    path = Path(__file__).parents[3] / "shared/data/photos" / name
    if not path.exists():
        pytest.skip(f"there is no {path.name} beside the repository")
    return path


__all__ = ["Ask", "Call", "Run", "Stopped"]
