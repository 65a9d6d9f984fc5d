"""Play a task in the plainest form, always the same, as a demonstration for a tiny model.

In one of three scripts. A task that is asked directly gets its gold answer. A detail to be looked for is closed in on:
a program shows the picture in overlapping parts, one after the other; of each the signs in it are named, and the
program goes closer where the asked one is; in the smallest part the sign is read. Anything else gets the program that
its wording asks for (`tasks.solvers` where a family of those fits, else the world's own), and the answer that the
program printed: the gold answer is not looked at.
So what is learned from these turns can be done without knowing the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from saccade.dialects.base import Opening
from saccade.episode.plan import Plan
from saccade.models.base import Completion, MediaReader, Request
from saccade.record.action import Action, Answer, Code
from saccade.record.content import ImagePart, Message
from saccade.record.task import Task
from saccade.record.turn import FinishReason
from saccade.sft.experts.given import given_first
from saccade.sft.experts.hand import rename
from saccade.sft.experts.seen import Seen, observed, read
from saccade.sft.synth.experts import ExpertStopped
from saccade.tasks.solvers.questions import solver_for
from saccade.tasks.worlds.canvas import Box
from saccade.tasks.worlds.parts import GRIDS, SEARCH, ViewBox, holds_middle, parts
from saccade.tasks.worlds.sign_colours import found_line
from saccade.tasks.worlds.signs import PLATES

DIRECT = "tiny@1:direct"
"""The dialect in which questions are answered without code."""
LOOKED_FOR = "visual-search"
"""The world whose details are found by eye."""


class Demonstrator:
    """Plays one plan; what it writes depends on nothing else."""

    name = "demonstrator@1"

    def __init__(self, plan: Plan, notes: Mapping[str, str]) -> None:
        """`notes` are those of the world's sample.

        Raises:
            ExpertStopped: there is no demonstration of this task, or a longer one than is allowed.
        """
        self._task = plan.task
        self._dialect = plan.dialect
        looked = is_looked_for(plan.task) and plan.dialect.id != DIRECT
        self._plays = looks(plan, notes) if looked else [first_action(plan)]
        most = plan.limits.turns
        if most is not None and len(self._plays) > most:
            raise ExpertStopped(f"{plan.task.id} takes {len(self._plays)} turns, and {most} are allowed")

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
        text = self._dialect.write(self._plays[done] if done < len(self._plays) else self._answer(seen))
        ended = any(text.endswith(mark) for mark in request.stop)
        return Completion(text, FinishReason.STOP_STRING if ended else FinishReason.STOP, model=self.name)

    async def close(self) -> None:
        """Holds nothing that needs closing."""

    def _seen(self, messages: tuple[Message, ...]) -> Seen | None:
        if len(messages) == 1:
            return None
        last = observed(self._dialect, messages)
        shown, new = sum(len(message.media) for message in messages), len(last.media)
        return read(self._dialect, last.text, new, shown - new)

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
    return is_search(task.source, len(task.evidence))


def is_search(world: str, boxes: int) -> bool:
    """The same of a task of `world` with so many boxes of evidence."""
    return world.partition("@")[0] == LOOKED_FOR and boxes == 1


def looks(plan: Plan, notes: Mapping[str, str]) -> list[Action]:
    """What is done to close in on the evidence; `notes` name its plate's colour, and where which signs are.

    Raises:
        ExpertStopped: signs of the asked colour are several, or not to be seen in any part.
    """
    task = plan.task
    image = task.evidence[0].image
    variable = next(name for name, medium in plan.opening.bindings.items() if medium == image)
    part = next(item.part for item in task.media if item.name == image)
    assert isinstance(part, ImagePart)
    made = [f"asked = {[notes['plate']]!r}\n{SEARCH}\nfound = search({variable}, asked[0])\nshow(next(found))"]
    for seen in seen_on_the_way((part.width, part.height), notes):
        made.append(f"seen = {found_line(PLATES, seen)!r}\nshow(found.send(seen))")
    return [*(Code(code=code) for code in made), Answer(text=gold(task))]


def turns_to_look(size: tuple[int, int], notes: Mapping[str, str]) -> int:
    """Turns that closing in takes in a picture of so many pixels: the first program, one for each part, the answer.

    Raises:
        ExpertStopped: as `looks`.
    """
    return len(seen_on_the_way(size, notes)) + 2


def seen_on_the_way(size: tuple[int, int], notes: Mapping[str, str]) -> list[set[str]]:
    """The colours of the signs in each part of the picture that is looked at, until the asked one is near.

    Raises:
        ExpertStopped: signs of the asked colour are several, or not to be seen in any part.
    """
    colour, signs = notes["plate"], sign_places(notes["signs"])
    if sum(name == colour for name, _ in signs) != 1:
        raise ExpertStopped(f"there are several {colour} signs, and only its colour names a sign")
    made = []
    view: ViewBox = (0, 0, *size)
    for n in GRIDS:
        for shown in parts(view, n):
            made.append({name for name, box in signs if holds_middle(shown, box)})
            if colour in made[-1]:
                view = shown
                break
        else:
            raise ExpertStopped(f"no part shows the {colour} sign well enough to read it")
    return made


def sign_places(note: str) -> list[tuple[str, Box]]:
    """Colours and plates of signs, out of note `signs` of world `visual-search`."""
    rows = [line.split() for line in note.splitlines()]
    return [(name, (int(x0), int(y0), int(x1), int(y1))) for name, x0, y0, x1, y1 in rows]


def program_code(task: Task, opening: Opening) -> str:
    """The program over the names that the media have in the dialect; what it takes from the question comes first."""
    names = {medium: variable for variable, medium in opening.bindings.items()}
    solver = solver_for(task.question)
    if solver is not None and len(names) == 1:
        given = solver.parameters.get("colours", ())
        assert isinstance(given, tuple)
        return given_first(solver.program(next(iter(names.values()))), " ".join(given), ()).strip("\n")
    renamed = {medium: variable for medium, variable in names.items() if medium != variable}
    return given_first(rename(task.program or "", renamed), task.question, task.choices).strip("\n")


def gold(task: Task) -> str:
    """The gold answer; a generated task always has one."""
    assert task.answer is not None
    return task.answer
