"""Demonstrations for a start that is to be weak: good ones, and ones that go wrong in a known way.

right: as `saccade.sft.tiny.demonstrator` plays it. known: the gold answer at once. guess: some answer at once.
astray: a crop somewhere else, and some answer. again: the good call several times over, then the answer.
stumble: the good program with a wrong name in it, then the good one, then the answer.

What is done depends on the plan, the kind of play and a random stream alone.
"""

from __future__ import annotations

from collections.abc import Callable

from saccade.episode.plan import Plan
from saccade.errors import SettingsError
from saccade.models.base import Completion, MediaReader, Request
from saccade.record.action import Action, Answer, Code
from saccade.record.content import ImagePart
from saccade.record.task import AnswerType, EvidenceBox, Task
from saccade.record.turn import FinishReason
from saccade.reproduce.settings import Lesson
from saccade.sft.experts.plays import ExpertStopped
from saccade.sft.experts.seen import Seen, read
from saccade.sft.tiny.demonstrator import first_action, gold, is_looked_for, look_code
from saccade.tasks.worlds.rng import Rng

_NUMBERS = 9
"""Largest number that is guessed."""


class Player:
    """A `Model` that plays one plan as a lesson says."""

    name = "weak-demonstrator@1"

    def __init__(self, plan: Plan, lesson: Lesson, rng: Rng) -> None:
        """Raises `SettingsError` if the lesson's play does not fit the task."""
        self._plan = plan
        self._calls, self._answer = script(plan, lesson, rng)

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The next turn.

        Raises:
            ExpertStopped: the program that was to find the answer failed, or printed nothing.
        """
        done = len(request.messages) // 2
        action: Action = self._calls[done] if done < len(self._calls) else self._last(request)
        text = self._plan.dialect.write(action)
        ended = any(text.endswith(mark) for mark in request.stop)
        return Completion(text, FinishReason.STOP_STRING if ended else FinishReason.STOP, model=self.name)

    async def close(self) -> None:
        """Nothing to give back."""

    def _last(self, request: Request) -> Answer:
        if self._answer is not None:
            return self._answer
        seen = self._seen(request)
        if seen.error is not None or not seen.last:
            told = seen.error or "it printed nothing"
            raise ExpertStopped(f"the program of {self._plan.task.id} gave no answer: {told}")
        return Answer(text=seen.last)

    def _seen(self, request: Request) -> Seen:
        message, shown = request.messages[-1], self._plan.opening.pictures
        before = sum(len(item.media) for item in request.messages[:-1])
        return read(self._plan.dialect, message.text, len(message.media), max(before, shown))


def script(plan: Plan, lesson: Lesson, rng: Rng) -> tuple[tuple[Code, ...], Answer | None]:
    """The calls of a play, and its answer; None for the one that the last program prints.

    Raises:
        SettingsError: the play does not fit the task.
    """
    task = plan.task
    if lesson.play == "known":
        return (), Answer(text=gold(task))
    if lesson.play == "guess":
        return (), Answer(text=guessed(task, rng))
    looked = is_looked_for(task)
    if lesson.play == "astray":
        if not looked:
            raise SettingsError(f"{task.id} is answered by a program, so no crop of it can go astray; use another play")
        return (Code(code=look_code(_elsewhere(task, rng))),), Answer(text=guessed(task, rng))
    good = first_action(task, plan.dialect, plan.opening)
    if not isinstance(good, Code):
        raise SettingsError(f"play {lesson.play} needs a dialect with code, and {plan.dialect.id} has none")
    answer = Answer(text=gold(task)) if looked else None
    if lesson.play == "again":
        return (good,) * lesson.calls, answer
    return ((_misnamed(good, plan), good) if lesson.play == "stumble" else (good,)), answer


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


def _elsewhere(task: Task, rng: Rng) -> Task:
    """The task as if its evidence lay at a random place."""
    box = task.evidence[0]
    part = next(item.part for item in task.media if item.name == box.image)
    assert isinstance(part, ImagePart)
    x, y = rng.integer(1, part.width - 2), rng.integer(1, part.height - 2)
    return task.model_copy(update={"evidence": (EvidenceBox(image=box.image, xyxy=(x - 1, y - 1, x + 1, y + 1)),)})


def _misnamed(good: Code, plan: Plan) -> Code:
    """The program with the name of its picture cut short, which is no name."""
    name = next(iter(plan.opening.bindings))
    return Code(code=good.code.replace(name, name.rpartition("_")[0]))
