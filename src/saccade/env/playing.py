"""One episode of the environment under way: the same generator as the drivers play, with the agent as its model.

`say` is given what the agent wrote, and plays on until the next text is asked for or the episode is over. What lies
between two texts of the agent counts as its time, so a wall limit ends an episode whose agent thinks too long.
"""

from __future__ import annotations

from typing import Final

from saccade.env.observations import RolePart, flat
from saccade.env.stage import EnvResources
from saccade.episode.drive import within
from saccade.episode.effects import Ask, Effect, Ran, Reply, Run, Said, Stopped
from saccade.episode.flow import EpisodeOutcome, flow
from saccade.episode.performer import Performer
from saccade.episode.plan import Plan
from saccade.episode.trajectories import trajectory
from saccade.episode.workbench import Workbench
from saccade.models.base import Request
from saccade.models.scripted import speak
from saccade.record.content import Message
from saccade.record.conversation import conversation
from saccade.record.status import Status
from saccade.record.trajectory import StopReason, Trajectory
from saccade.tools.toolbox import Toolbox

MODEL: Final = "env"
"""The model's name in a trajectory of the environment, which does not know who writes the texts."""


class Playing:
    """Plays one plan. After `outcome` is there, or an exception, nothing more can be said."""

    def __init__(self, plan: Plan, stage: EnvResources, tools: Toolbox | None) -> None:
        """Raises `SettingsError` for a task that the dialect cannot show."""
        self.plan = plan
        self.outcome: EpisodeOutcome | None = None
        self.turns = 0
        self.action: str | None = None
        """Kind of the last text's action; None if the episode ended before it was read."""
        self.status: Status | None = None
        """How the last text's call ended; None if nothing was run."""
        self._stage = stage
        self._workbench = Workbench(plan, stage.sandbox, stage.store, tools)
        self._performer = Performer(None, self._workbench, stage.store)
        self._flow = flow(plan)
        self._request = _request(next(self._flow))
        self._start = self._asked = self._performer.clock()
        allowed = plan.limits.wall_seconds
        self._end = None if allowed is None else self._start + allowed
        self._seen = 0

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far."""
        if self.outcome is None:
            return self._request.messages
        return conversation(self.outcome.prompt, self.outcome.turns)

    def new_parts(self) -> tuple[RolePart, ...]:
        """What was said since the last call of this, the agent's own text left out."""
        parts = flat(self.messages)
        fresh, self._seen = parts[self._seen :], len(parts)
        return fresh

    def say(self, text: str) -> EpisodeOutcome | None:
        """Play on with what the agent wrote, up to a stop string of the dialect; the outcome, if that was the end.

        Raises:
            IsolationError: the sandbox refuses to start on this machine.
            MediaError: media of the task are not in the store.
        """
        self.action = self.status = None
        now = self._performer.clock()
        reply: Reply = Stopped(StopReason.WALL_LIMIT)
        if self._end is None or now < self._end:
            completion = speak(text, self._request, MODEL)
            reply = Said(completion, now - self._asked)
            self.turns += 1
            self._seen += bool(completion.text)
        try:
            self._play(reply)
        except BaseException:
            self.close()
            raise
        return self.outcome

    def trajectory(self) -> Trajectory:
        """The episode's record, once it is over."""
        if self.outcome is None:
            raise RuntimeError("the episode is not over")
        return trajectory(self.plan, self.outcome, model=MODEL, seconds=self._performer.clock() - self._start)

    def close(self) -> None:
        """End the session; idempotent."""
        self._flow.close()
        self._stage.wait(self._workbench.close())

    def _play(self, reply: Reply) -> None:
        ran = False
        try:
            effect = self._flow.send(reply)
            while not isinstance(effect, Ask):
                ran, self.action = True, "code" if isinstance(effect, Run) else "tool_call"
                work = self._performer.perform(effect)
                reply = self._stage.wait(within(work, self._end, None, self._performer.clock))
                self.status = _status(reply)
                effect = self._flow.send(reply)
            self._request, self._asked = effect.request, self._performer.clock()
            if not ran:
                self.action = "parse_error"
        except StopIteration as stop:
            self.outcome = stop.value
            if len(stop.value.turns) == self.turns and isinstance(reply, Said):
                self.action = stop.value.turns[-1].action.kind
            self.close()


def _request(effect: Effect) -> Request:
    if not isinstance(effect, Ask):
        raise TypeError(f"an episode begins with Ask, not with {type(effect).__name__}")
    return effect.request


def _status(reply: Reply) -> Status | None:
    if isinstance(reply, Ran):
        return reply.execution.status
    lost = isinstance(reply, Stopped) and reply.reason in (StopReason.SANDBOX_LOST, StopReason.TOOL_LOST)
    return Status.LOST if lost else None
