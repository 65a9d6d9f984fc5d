r"""`LookAgainEnv`: the loop as a `gymnasium.Env`, whose actions are the texts that a model writes.

    env = LookAgainEnv(tasks, "pyvision", store)
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step("<code>\nprint(1 + 1)\n</code>")

It plays the generator that `saccade.episode` plays, so the same texts give the same trajectory. The reward is 0.0 until
the last step, which has the rubric's weighted sum. The gold answer is shown to nobody before that: neither observation
nor info holds the task, only its id.

An outage of ours does not raise, because in a vector environment that would end all the others: the episode is
truncated with reward 0.0 and `info["lost"]` True. Such an episode says nothing about the agent; never train on it. What
would fail in every episode (a machine that cannot isolate, media that are missing) raises.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import gymnasium
from gymnasium import spaces

from saccade.dialects.base import Dialect
from saccade.dialects.hosted import check_runs_here
from saccade.dialects.registry import load_dialect
from saccade.dialects.tool_list import ToolList
from saccade.env.example_turns import example_turns
from saccade.env.observations import EnvObservation, RolePart, as_text, flat, observation
from saccade.env.playing import Playing
from saccade.env.registration import spec_of
from saccade.env.spaces import PicturesSpace, TextSpace
from saccade.env.stage import EnvResources, SandboxSource, StoreSource
from saccade.env.tasks import task_source
from saccade.episode.plan import Plan
from saccade.episode.session_limits import SessionLimits
from saccade.episode.settings import SpeechSettings
from saccade.errors import SettingsError
from saccade.record.score import total
from saccade.record.suggest import did_you_mean
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, StopReason
from saccade.rewards.rubric import Rubric, as_rubric

_TERMINAL = frozenset({StopReason.ANSWERED, StopReason.NO_ACTION})
"""The agent ended the episode; every other end cuts it off."""


class StepInfo(dict[str, Any]):
    """What `reset` and `step` tell beside the observation."""

    def __missing__(self, key: str) -> Any:
        raise KeyError("info['news'] has another name now: info['new_parts']" if key == "news" else key)


class LookAgainOptions(TypedDict, total=False):
    """What `LookAgainEnv` may be given by name; None means the default."""

    sandbox: SandboxSource
    """A sandbox, which the environment then owns, or a function that makes one. Default: a `LocalSandbox` with the
    dialect's limits. Whoever lets Gymnasium copy the arguments (`make_vec`, `EnvSpec.make`) gives a function; with a
    sandbox itself an environment made by hand has no `spec`, since no second one could be made of it."""
    rubric: Rubric | str | None
    """What an episode is worth; a text names a reward preset. Default: right or wrong by the task's own grader."""
    limits: EpisodeLimits | None
    """Default: those of the dialect."""
    tools: Sequence[str] | None
    """Names of typed tools to offer. Default: the dialect's own; of `vista`, all."""
    tool_list: ToolList | None
    """How the prompt lists them, `short` or `schema`. Default: as the dialect, or the prompt file, has it."""
    prompt_file: str | os.PathLike[str] | None
    """Texts in place of the dialect's own, as `saccade.dialects.prompt_file` reads them."""
    prompt_names: Mapping[str, str] | None
    """Place of a text -> its name in the prompt file, where that has another."""
    session: SessionLimits | None
    """Limits of the sandbox's sessions in place of the dialect's; of a sandbox that is given the wall time alone."""
    render_mode: str | None
    """`ansi`, or None."""


@dataclass(frozen=True, slots=True)
class _Given:
    sandbox: SandboxSource = None
    rubric: Rubric | str | None = None
    limits: EpisodeLimits | None = None
    tools: Sequence[str] | None = None
    tool_list: ToolList | None = None
    prompt_file: str | os.PathLike[str] | None = None
    prompt_names: Mapping[str, str] | None = None
    session: SessionLimits | None = None
    render_mode: str | None = None


class LookAgainEnv(gymnasium.Env[EnvObservation, str]):
    """Questions about pictures; actions are turns of a model, observations what it reads in return."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  # Gymnasium's own way

    def __init__(
        self,
        tasks: Sequence[Task] | Sequence[str] | str = "visual-search",
        dialect: Dialect | str = "pyvision",
        store: StoreSource = None,
        **options: Unpack[LookAgainOptions],
    ) -> None:
        """An environment over `tasks`, or over sources by their names; nothing is started yet.

        Args:
            tasks: each episode draws one. Names are those of every command: worlds, benchmarks, files and folders, each
                with a weight or none (`["photos/=0.7", "visual-search=0.3"]`).
            dialect: how the agent is spoken to, or its id.
            store: the media store that holds the tasks' pictures, or its folder. None: a temporary one, for sources.
            options: see `LookAgainOptions`.

        Raises:
            SettingsError: there are no tasks, the dialect cannot show one of them, or it knows no typed tools but some
                were given.
            RegistryError: an id is unknown, that of the reward included.
        """
        given = _Given(**options)
        if given.render_mode not in (None, *self.metadata["render_modes"]):
            raise SettingsError(f"there is no render mode {given.render_mode!r}; use 'ansi' or None")
        chosen = load_dialect(dialect) if isinstance(dialect, str) else dialect
        check_runs_here(chosen, "the environment")
        speech = {
            "prompt_file": os.fspath(given.prompt_file or ""),
            "prompt_names": given.prompt_names or {},
            "tools": tuple(given.tools or ()),
            "tool_list": given.tool_list or "",
            "session": given.session or SessionLimits(),
        }
        self.dialect, self._tools = SpeechSettings.model_validate(speech).prepared(chosen)
        self.render_mode = given.render_mode
        self._rubric = as_rubric(given.rubric)
        self._limits = given.limits
        self._playing: Playing | None = None
        self._stage = EnvResources(given.sandbox, self.dialect.sandbox, store)
        self._finalizer = weakref.finalize(self, self._stage.close)
        if given.sandbox is None or callable(given.sandbox):
            self.spec = spec_of({"tasks": tasks, "dialect": dialect, "store": store, **options})
        self._tasks = task_source(tasks, self._stage.store, self.dialect)
        self.action_space = TextSpace(example_turns(self.dialect))
        self.observation_space = spaces.Dict(  # type: ignore[assignment]  # Gymnasium types it as a dict of Any
            text=TextSpace(), pictures=PicturesSpace(self._stage.store.limits.pixels)
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[EnvObservation, dict[str, Any]]:
        """Begin an episode with a random task, or the one that `options={"task": id or index}` names.

        Raises:
            SettingsError: there is no such task, or an option is unknown.
            MediaError: pictures of the task are not in the store.
            gymnasium.error.ClosedEnvironmentError: it was closed.
        """
        if not self._finalizer.alive:
            raise gymnasium.error.ClosedEnvironmentError("this environment was closed; make another one")
        super().reset(seed=seed)
        self._leave()
        plan = Plan(self._choose(options or {}), self.dialect, given_limits=self._limits)
        self._playing = Playing(plan, self._stage, self._tools)
        new_parts = self._playing.new_parts()
        return observation(new_parts, self._stage.store), self._info(self._playing, new_parts)

    def step(self, action: str) -> tuple[EnvObservation, float, bool, bool, dict[str, Any]]:
        """Play one turn with the text that the agent wrote.

        Returns what is new, the reward, whether the agent ended the episode, whether it was cut off, and the info.

        Raises:
            gymnasium.error.ResetNeeded: no episode is under way.
            gymnasium.error.InvalidAction: the action is no text.
            IsolationError: the sandbox refuses to start on this machine.
            MediaError: pictures of the task are not in the store.
        """
        playing = self._playing
        if playing is None or playing.outcome is not None:
            raise gymnasium.error.ResetNeeded("no episode is under way: call reset() before step()")
        if not self.action_space.contains(action):
            raise gymnasium.error.InvalidAction(f"an action is the text of a turn (str), not {type(action).__name__}")
        self._playing = None  # stays so if this raises: an episode that was interrupted cannot continue
        outcome = playing.say(action)
        self._playing = playing
        new_parts = playing.new_parts()
        seen = observation(new_parts, self._stage.store)
        info = self._info(playing, new_parts)
        if outcome is None:
            return seen, 0.0, False, False, info
        reward = self._end(playing, info)
        terminated = outcome.stop in _TERMINAL
        return seen, reward, terminated, not terminated, info

    def render(self) -> str | None:
        """The conversation so far as text in mode `ansi`, the agent's turns included; else None."""
        if self.render_mode is None:
            return None
        return "" if self._playing is None else as_text(flat(self._playing.messages))

    def close(self) -> None:
        """End the episode and every process of the sandbox; idempotent."""
        try:
            self._leave()
        finally:
            self._finalizer()

    def _choose(self, options: dict[str, Any]) -> Task:
        unknown = [name for name in options if name != "task"]
        if unknown:
            raise SettingsError(f"reset knows no option {unknown[0]!r}. {did_you_mean(unknown[0], ['task'])}".rstrip())
        wanted = options.get("task")
        return self._tasks.draw(self.np_random) if wanted is None else self._tasks.find(wanted)

    def _info(self, playing: Playing, new_parts: tuple[RolePart, ...]) -> dict[str, Any]:
        info = StepInfo(task=playing.plan.task.id, turns=playing.turns, messages=playing.messages, new_parts=new_parts)
        if playing.turns:
            info |= {"action": playing.action, "status": playing.status}
        return info

    def _end(self, playing: Playing, info: dict[str, Any]) -> float:
        """Fill in what only the end tells; the reward."""
        trajectory = playing.trajectory()
        scores = () if trajectory.lost else tuple(self._rubric(trajectory))
        trajectory = trajectory.with_scores(scores)
        info |= {
            "stop": trajectory.stop,
            "lost": trajectory.lost,
            "answer": trajectory.answer,
            "scores": {score.name: score.value for score in scores},
            "trajectory": trajectory,
        }
        return total(scores) or 0.0

    def _leave(self) -> None:
        """End an episode that is under way."""
        playing, self._playing = self._playing, None
        if playing is not None:
            playing.close()
