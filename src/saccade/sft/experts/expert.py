"""An expert as a model: made for one task, seed and dialect, asked by the loop as any other.

    expert = Expert.of(Plan(task, dialect), notes=sample.notes, settings=ExpertSettings(), seed=7)
    trajectory = await run_episode(plan, expert, sandbox, store)

It knows the gold answer, the evidence and the program of its task, and plays its part over real observations: it reads
what came back before each move, and stops (`ExpertStopped`) where it did not get what it needs. The same plan and seed
give the same texts. It counts no tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

from saccade.dialects.base import Dialect
from saccade.dialects.thyme import ThymeDialect
from saccade.episode.plan import Plan
from saccade.models.base import Completion, MediaReader, Request
from saccade.record.action import Action, Code, ToolCall
from saccade.record.content import Message
from saccade.record.turn import FinishReason
from saccade.sft.experts.consult import consult
from saccade.sft.experts.plays import ExpertPart, Move, Play, compute, crop, direct
from saccade.sft.experts.scene import ExpertScene
from saccade.sft.experts.seen import Seen, observed, read
from saccade.sft.experts.settings import ExpertSettings, Style
from saccade.sft.experts.slips import mistake
from saccade.sft.experts.styles import choose
from saccade.tasks.worlds.rng import Rng

_PLAYS: Mapping[Style, Callable[[ExpertPart, int], Play]] = {
    "crop": crop,
    "compute": compute,
    "consult": consult,
    "mistake": mistake,
    "direct": direct,
}


class Expert:
    """Plays one style through one episode."""

    def __init__(self, part: ExpertPart, style: Style) -> None:
        self.name = f"expert:{style}@1"
        self.style = style
        self._dialect = part.scene.dialect
        self._play = _PLAYS[style](part, part.scene.turns)
        self._shown = part.scene.opening.pictures
        self._begun = False

    @classmethod
    def of(
        cls,
        plan: Plan,
        *,
        notes: Mapping[str, str] | None = None,
        settings: ExpertSettings | None = None,
        seed: int = 0,
        style: Style | None = None,
    ) -> Self:
        """The expert for a plan; its style is drawn among those that fit, unless it is given.

        Raises:
            SettingsError: the dialect cannot show the task.
            UnfitSampleError: it can, but no style fits.
        """
        chosen, turns = settings or ExpertSettings(), plan.limits.turns
        scene = ExpertScene(plan.task, plan.dialect, plan.opening, Rng(seed), chosen, notes or {}, turns)
        part = ExpertPart.of(scene)
        return cls(part, choose(part) if style is None else style)

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The next turn. Raises `ExpertStopped` if the last one did not bring what was needed."""
        move = self._next(request.messages)
        turn = completion(self._dialect, move.action, move.thought, first=not self._begun, model=self.name)
        self._begun = True
        if on_text is not None and turn.text:
            on_text(turn.text)
        return turn

    async def close(self) -> None:
        """Holds nothing that needs closing."""

    def _next(self, messages: tuple[Message, ...]) -> Move:
        if not self._begun:
            return next(self._play)
        return self._play.send(self._seen(messages))

    def _seen(self, messages: tuple[Message, ...]) -> Seen:
        shown = sum(len(message.media) for message in messages)
        seen = read(self._dialect, observed(self._dialect, messages).text, shown - self._shown, self._shown)
        self._shown = shown
        return seen


def completion(dialect: Dialect, action: Action, thought: str, *, first: bool, model: str) -> Completion:
    """The turn that thinks `thought` and does `action`; `first` tells whether it is the episode's first.

    Raises:
        ValueError: the dialect cannot say this.
    """
    if dialect.functions and isinstance(action, Code | ToolCall):
        call = ToolCall(name="python", arguments={"code": action.code}) if isinstance(action, Code) else action
        return Completion(thought, FinishReason.TOOL_CALL, (call,), model=model)
    # There alone, a later turn continues a message that is open already.
    text = (
        dialect.write(action, thought, first=first)
        if isinstance(dialect, ThymeDialect)
        else dialect.write(action, thought)
    )
    ended = any(text.endswith(mark) for mark in dialect.stop)
    return Completion(text, FinishReason.STOP_STRING if ended else FinishReason.STOP, model=model)
