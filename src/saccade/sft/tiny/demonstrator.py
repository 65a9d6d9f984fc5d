"""Who shows a tiny model how it is done: a `Model` that plays one task in the plainest form, always the same.

Three plays. A task that is asked directly gets its gold answer. A detail to be looked for is closed in on: the
picture is looked over in nine overlapping parts, one after the other, until one shows the asked sign; then that part
in the same way, and a part of that again, in which the sign is read. Of every part it is said whether it shows the
sign, and then gone on or closer. Anything else gets the program that its wording asks for (`tasks.solvers` where a
family of those fits, else the world's own), and the answer that the program printed: the gold answer is not looked
at.
So what is learned from these turns can be done without knowing the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

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
from saccade.sft.tiny.given import given_first
from saccade.tasks.solvers.questions import solver_for
from saccade.tasks.worlds.parts import PARTS, View, best_part, parts
from saccade.tasks.worlds.sign_colours import found_line

DIRECT = "tiny@1:direct"
"""The dialect in which questions are answered without code."""
LOOKED_FOR = "visual-search"
"""The world whose details are found by eye."""
LEVELS = ("first", "second", "third")
"""The parts of the picture, of one of them, and of one of those again, as they are called in the code."""
GLANCE = 112
"""Side in pixels of the square of the area at which parts are shown."""


class Look(NamedTuple):
    """A turn of looking."""

    thought: str
    action: Action


class Demonstrator:
    """Plays one plan; what it writes depends on nothing else."""

    name = "demonstrator@1"

    def __init__(self, plan: Plan, notes: Mapping[str, str]) -> None:
        """`notes` are those of the world's sample."""
        self._task = plan.task
        self._dialect = plan.dialect
        looked = is_looked_for(plan.task) and plan.dialect.id != DIRECT
        self._plays = looks(plan.task, notes) if looked else [Look("", first_action(plan))]

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
        play = self._plays[done] if done < len(self._plays) else Look("", self._answer(seen))
        text = self._dialect.write(play.action, play.thought)
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


def looks(task: Task, notes: Mapping[str, str]) -> list[Look]:
    """What is said and done to close in on the evidence; `notes` name its plate's colour."""
    evidence, colour = task.evidence[0], notes["plate"]
    part = next(item.part for item in task.media if item.name == evidence.image)
    assert isinstance(part, ImagePart)
    missing, there = found_line([colour], []), found_line([colour], [colour])
    view: View = (0, 0, part.width, part.height)
    thought, start = "", f"{PARTS}\n{{}} = parts(image_clue_0)"
    made: list[Look] = []
    for level in LEVELS:
        seen = parts(view)
        view = best_part(seen, evidence.xyxy)
        following = f"view = next({level})\nshow(view, {GLANCE})"
        made.append(Look(thought, Code(code=f"{start.format(level)}\n{following}")))
        made += [Look(missing, Code(code=following))] * seen.index(view)
        thought, start = there, "{} = parts(view)"
    return [*made, Look(there, Answer(text=gold(task)))]


def program_code(task: Task, opening: Opening) -> str:
    """The program over the names that the media have in the dialect; what it takes from the question comes first."""
    names = {medium: variable for variable, medium in opening.bindings.items()}
    solver = solver_for(task.question)
    if solver is not None and len(names) == 1:
        return solver.program(next(iter(names.values()))).strip("\n")
    renamed = {medium: variable for medium, variable in names.items() if medium != variable}
    return given_first(rename(task.program or "", renamed), task.question, task.choices).strip("\n")


def gold(task: Task) -> str:
    """The gold answer; a generated task always has one."""
    assert task.answer is not None
    return task.answer
