"""Who shows a tiny model how it is done: a `Model` that plays one task in the plainest form, always the same.

Three plays. A task that is asked directly gets its gold answer, and first the shape of the sign if it is about one:
what is easy to see teaches where to look. A detail to be looked for gets a crop whose place is written in hundredths of
the picture, then the gold answer. Anything else gets the program that its wording asks for (`tasks.solvers` where a
family of those fits, else the world's own), and the answer that the program printed: the gold answer is not looked at.
So what is learned from these turns can be done without knowing the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from saccade.dialects.base import Dialect, Opening
from saccade.episode.plan import Plan
from saccade.models.base import Completion, MediaReader, Request
from saccade.record.action import Action, Answer, Code
from saccade.record.content import ImagePart, Message
from saccade.record.task import Task
from saccade.record.turn import FinishReason
from saccade.sft.experts.hand import rename
from saccade.sft.experts.plays import ExpertStopped
from saccade.sft.experts.seen import Seen, read
from saccade.tasks.solvers.questions import solver_for

DIRECT = "tiny@1:direct"
"""The dialect in which questions are answered without code."""
LOOKED_FOR = "visual-search"
"""The world whose details are found by eye."""
WINDOW, SHOWN = 64, 84
"""Sides in pixels of what is cut out of the picture, and of what is shown of it."""

_LOOK = """\
x, y = {x:.2f}, {y:.2f}
width, height = image_clue_0.size
left, top = int(x * width) - {half}, int(y * height) - {half}
image_clue_0.crop((left, top, left + {window}, top + {window})).resize(({shown}, {shown})).show()"""


class Demonstrator:
    """Plays one plan; what it writes depends on nothing else."""

    name = "demonstrator@1"

    def __init__(self, plan: Plan, notes: Mapping[str, str]) -> None:
        """`notes` are those of the world's sample."""
        self._task = plan.task
        self._shape = notes.get("shape", "") if plan.dialect.id == DIRECT else ""
        self._dialect = plan.dialect
        self._first = first_action(plan.task, plan.dialect, plan.opening)
        self._shown = plan.opening.pictures

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The next turn.

        Raises:
            ExpertStopped: the program printed nothing, or failed.
        """
        seen = self._seen(request.messages)
        action = self._first if seen is None else self._answer(seen)
        text = self._dialect.write(action, f"It is {self._shape}." if self._shape else "")
        ended = any(text.endswith(mark) for mark in request.stop)
        return Completion(text, FinishReason.STOP_STRING if ended else FinishReason.STOP, model=self.name)

    async def close(self) -> None:
        """Nothing to give back."""

    def _seen(self, messages: tuple[Message, ...]) -> Seen | None:
        if len(messages) == 1:
            return None
        shown = sum(len(message.media) for message in messages)
        return read(self._dialect, messages[-1].text, shown - self._shown, self._shown)

    def _answer(self, seen: Seen) -> Answer:
        if seen.error is not None:
            raise ExpertStopped(f"the program of {self._task.id} failed: {seen.error}")
        if is_looked_for(self._task):
            return Answer(text=gold(self._task))
        if not seen.last:
            raise ExpertStopped(f"the program of {self._task.id} printed nothing")
        return Answer(text=seen.last)


def first_action(task: Task, dialect: Dialect, opening: Opening) -> Action:
    """What is done before anything came back."""
    if dialect.id == DIRECT:
        return Answer(text=gold(task))
    return Code(code=look_code(task) if is_looked_for(task) else program_code(task, opening))


def is_looked_for(task: Task) -> bool:
    """Whether the task is to be answered by eye, from a crop."""
    return task.source.partition("@")[0] == LOOKED_FOR and len(task.evidence) == 1


def look_code(task: Task) -> str:
    """The crop around the evidence, its middle in hundredths of the picture."""
    box = task.evidence[0]
    part = next(item.part for item in task.media if item.name == box.image)
    assert isinstance(part, ImagePart)
    x, y = (box.xyxy[0] + box.xyxy[2]) / 2 / part.width, (box.xyxy[1] + box.xyxy[3]) / 2 / part.height
    return _LOOK.format(x=min(x, 0.99), y=min(y, 0.99), half=WINDOW // 2, window=WINDOW, shown=SHOWN)


def program_code(task: Task, opening: Opening) -> str:
    """The program over the names that the media have in the dialect."""
    names = {medium: variable for variable, medium in opening.bindings.items()}
    solver = solver_for(task.question)
    if solver is not None and len(names) == 1:
        return solver.program(next(iter(names.values()))).strip("\n")
    renamed = {medium: variable for medium, variable in names.items() if medium != variable}
    return rename(task.program or "", renamed).strip("\n")


def gold(task: Task) -> str:
    """The gold answer; a generated task always has one."""
    assert task.answer is not None
    return task.answer
