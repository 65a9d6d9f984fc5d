"""Demonstrations for a start that is to be weak: good ones, and ones that go wrong in a known way.

right: as `saccade.sft.experts.demonstrator` plays it. known: the gold answer at once. guess: some answer at once.
glance: the picture once more as it is, one call or several, then the gold answer.
middle: the middle of the picture, cut out wherever the evidence lies, then the gold answer.
astray: looks as if the evidence lay somewhere else, then some answer. again: the first call several times over.
stumble: first the first call with a wrong name in it. consult: typed tools, as experts of `saccade synth` call them.

What is done depends on the plan, the kind of play and a random stream alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from saccade.episode.plan import Plan
from saccade.errors import SettingsError
from saccade.models.base import Completion, MediaReader, Request
from saccade.record.action import Action, Answer, Code
from saccade.record.content import ImagePart
from saccade.record.task import AnswerType, Task
from saccade.record.turn import FinishReason
from saccade.reproduce.settings import DemonstrationSet
from saccade.sft.experts.demonstrator import Demonstrator, gold, is_looked_for
from saccade.tasks.worlds.rng import Rng

_NUMBERS = 9
"""Largest number that is guessed."""
_MARGIN = 5
"""The play `middle` leaves out one in so many of the picture's pixels at each side: a third of its area remains."""


class WeakDemonstrator:
    """A `Model` that plays one plan as its kind says: the demonstrator, made weaker."""

    name = "weak-demonstrator@1"

    def __init__(self, plan: Plan, kind: DemonstrationSet, notes: Mapping[str, str], rng: Rng) -> None:
        """`notes` are those of the world's sample. Raises `SettingsError` if the play does not fit the task."""
        self._plan = plan
        self._kind = kind
        task, play = plan.task, kind.play
        self._answer = Answer(text=gold(task)) if play in ("known", "glance", "middle") else None
        if play in ("guess", "astray"):
            self._answer = Answer(text=guessed(task, rng))
        self._glances = {"glance": kind.calls, "middle": 1}.get(play, 0)
        """Calls that show the picture, or its middle, before the answer."""
        self._good = Demonstrator(plan, _elsewhere(task, notes, rng) if play == "astray" else notes)
        self._extra = {"again": kind.calls - 1, "stumble": 1}.get(play, 0)
        """Calls beyond those of the demonstrator, in front of them."""

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The next turn.

        Raises:
            ExpertStopped: the program that was to find the answer failed, or printed nothing.
            SettingsError: the play needs a call, and the dialect has none.
        """
        opening, rest = request.messages[:1], request.messages[1:]
        done = len(rest) // 2
        if done < self._glances:
            return self._written(_shown(self._plan, self._kind), request)
        if self._kind.play in ("known", "guess", "glance", "middle"):
            assert self._answer is not None
            return self._written(self._answer, request)
        # The demonstrator sees none of the calls that are not its own.
        seen = opening if done < self._extra else (*opening, *rest[2 * self._extra :])
        said = await self._good.complete(replace(request, messages=seen), media)
        action = self._plan.dialect.parse(said.text, said.finish)
        if not isinstance(action, Code):
            if not done:
                raise SettingsError(f"play {self._kind.play} needs code, and {self._plan.dialect.id} has none")
            return said if self._answer is None else self._written(self._answer, request)
        if self._kind.play == "stumble" and not done:
            return self._written(_misnamed(action, self._plan), request)
        return said

    async def close(self) -> None:
        """Holds nothing that needs closing."""

    def _written(self, action: Action, request: Request) -> Completion:
        text = self._plan.dialect.write(action)
        ended = any(text.endswith(mark) for mark in request.stop)
        return Completion(text, FinishReason.STOP_STRING if ended else FinishReason.STOP, model=self.name)


def guessed(task: Task, rng: Rng) -> str:
    """An answer of the right kind that knows nothing of the gold one.

    Raises:
        SettingsError: nothing can be guessed.
    """
    if task.choices:
        return rng.choice(task.choices)
    if task.answer_type is AnswerType.YES_NO:
        return rng.choice(("yes", "no"))
    if task.answer_type is AnswerType.NUMBER:
        return str(rng.integer(0, _NUMBERS))
    raise SettingsError(f"{task.id} asks for {task.answer_type}, which cannot be guessed; use another play")


def _elsewhere(task: Task, notes: Mapping[str, str], rng: Rng) -> Mapping[str, str]:
    """The notes as if the asked sign stood at a random place."""
    if not is_looked_for(task):
        raise SettingsError(f"{task.id} is answered by a program, so no crop of it can go astray; use another play")
    part = next(item.part for item in task.media if item.name == task.evidence[0].image)
    assert isinstance(part, ImagePart)
    x, y = rng.integer(1, part.width - 2), rng.integer(1, part.height - 2)
    others = [line for line in notes["signs"].splitlines() if line.split()[0] != notes["plate"]]
    return {**notes, "signs": "\n".join([f"{notes['plate']} {x - 1} {y - 1} {x + 1} {y + 1}", *others])}


def _shown(plan: Plan, kind: DemonstrationSet) -> Code:
    name = next(iter(plan.opening.bindings))
    if kind.play == "glance":
        return Code(code=f"{name}.show()")
    box = f"(w // {_MARGIN}, h // {_MARGIN}, w - w // {_MARGIN}, h - h // {_MARGIN})"
    return Code(code=f"w, h = {name}.size\n{name}.crop({box}).show()")


def _misnamed(good: Code, plan: Plan) -> Code:
    """The program with the name of its picture cut short, which is no name."""
    name = next(iter(plan.opening.bindings))
    return Code(code=good.code.replace(name, name.rpartition("_")[0]))
