"""Who shows a tiny model how it is done: a `Model` that plays one task in the plainest form, always the same.

Three plays. A task that is asked directly gets its gold answer. A detail to be looked for gets two looks, each a crop
around a place that is named in twentieths of what was shown last: first in the picture, then in the crop; then the gold
answer. Now and then the first place is a step off, so that the second look has something to mend. Anything else gets
the program that its wording asks for (`tasks.solvers` where a family of those fits, else the world's own), and the
answer that the program printed: the gold answer is not looked at.
So what is learned from these turns can be done without knowing the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256

from saccade.dialects.base import Opening
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
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.twentieths import STEPS, twentieth

DIRECT = "tiny@1:direct"
"""The dialect in which questions are answered without code."""
LOOKED_FOR = "visual-search"
"""The world whose details are found by eye."""
LOOKS = ((5, 140), (4, 84))
"""Of each look: what part of the side of the view is cut out, and how many pixels wide it is shown."""
_OFF_PERCENT = 25
"""First looks that are a step off."""

_LOOK = """\
x, y = {place}
{opened}side = int((view.width * view.height) ** 0.5 / {part})
left, top = int(x * view.width) - side // 2, int(y * view.height) - side // 2
view = view.crop((left, top, left + side, top + side))
view.resize(({shown}, {shown})).show()"""
_OPENED = "view = image_clue_0\n"


class Demonstrator:
    """Plays one plan; what it writes depends on nothing else."""

    name = "demonstrator@1"

    def __init__(self, plan: Plan, notes: Mapping[str, str]) -> None:
        """`notes` are those of the world's sample."""
        self._task = plan.task
        self._dialect = plan.dialect
        looked = is_looked_for(plan.task) and plan.dialect.id != DIRECT
        self._plays = looks(plan.task, notes["plate"]) if looked else [first_action(plan)]

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The next turn.

        Raises:
            ExpertStopped: the program printed nothing, or failed.
        """
        done = sum(message.role == "assistant" for message in request.messages)
        seen = self._seen(request.messages)
        if seen is not None and seen.error is not None:
            raise ExpertStopped(f"the program of {self._task.id} failed: {seen.error}")
        action = self._plays[done] if done < len(self._plays) else self._answer(seen)
        text = self._dialect.write(action, "")
        ended = any(text.endswith(mark) for mark in request.stop)
        return Completion(text, FinishReason.STOP_STRING if ended else FinishReason.STOP, model=self.name)

    async def close(self) -> None:
        """Nothing to give back."""

    def _seen(self, messages: tuple[Message, ...]) -> Seen | None:
        if len(messages) == 1:
            return None
        shown, new = sum(len(message.media) for message in messages), len(messages[-1].media)
        return read(self._dialect, messages[-1].text, new, shown - new)

    def _answer(self, seen: Seen | None) -> Answer:
        if is_looked_for(self._task):
            return Answer(text=gold(self._task))
        if seen is None or not seen.last:
            raise ExpertStopped(f"the program of {self._task.id} printed nothing")
        return Answer(text=seen.last)


def first_action(plan: Plan) -> Action:
    """What is done with a task that is not looked for."""
    if plan.dialect.id == DIRECT:
        return Answer(text=gold(plan.task))
    return Code(code=program_code(plan.task, plan.opening))


def is_looked_for(task: Task) -> bool:
    """Whether the task is to be answered by eye, from a crop."""
    return task.source.partition("@")[0] == LOOKED_FOR and len(task.evidence) == 1


def looks(task: Task, colour: str) -> list[Code]:
    """The two crops around the evidence, a sign of that colour; each place in twentieths of the view before it."""
    box = task.evidence[0]
    part = next(item.part for item in task.media if item.name == box.image)
    assert isinstance(part, ImagePart)
    rng = Rng(int.from_bytes(sha256(task.id.encode()).digest()[:8], "little"))
    size, corner = (part.width, part.height), (0.0, 0.0)
    made = []
    for number, (smaller, shown) in enumerate(LOOKS):
        x, y = (twentieth(((box.xyxy[axis] + box.xyxy[axis + 2]) / 2 - corner[axis]) / size[axis]) for axis in (0, 1))
        if number == 0 and rng.chance(_OFF_PERCENT):
            x, y = (twentieth(value + rng.choice((-1, 0, 1)) / STEPS) for value in (x, y))
        place = f"{colour}_sign = {x:.2f}, {y:.2f}"
        code = _LOOK.format(place=place, opened="" if number else _OPENED, part=smaller, shown=shown)
        made.append(Code(code=code))
        side = int((size[0] * size[1]) ** 0.5 / smaller)
        corner = corner[0] + int(x * size[0]) - side // 2, corner[1] + int(y * size[1]) - side // 2
        size = (side, side)
    return made


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
