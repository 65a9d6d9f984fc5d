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

import asyncio
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypedDict, TypeVar, Unpack

import gymnasium
import numpy as np
from gymnasium import spaces

from saccade.core.registry import did_you_mean
from saccade.core.sync import CLOSE_SECONDS, LoopThread
from saccade.dialects.base import Dialect, ToolList, load_dialect
from saccade.dialects.direct import check_runs_here
from saccade.episode.drive import Performer, trajectory, within
from saccade.episode.flow import Ask, Effect, EpisodeOutcome, Plan, Ran, Reply, Run, Said, Stopped, flow
from saccade.episode.settings import SessionLimits, SpeechSettings
from saccade.episode.shown import scaled_down
from saccade.episode.task_media import check_listed, check_media
from saccade.episode.workbench import Workbench
from saccade.errors import SandboxClosedError, SettingsError
from saccade.media.decode import DEFAULT_LIMITS, DecodeLimits, MediaSettings
from saccade.media.store import MediaStore
from saccade.models.base import Request
from saccade.models.scripted import speak
from saccade.record.content import Action, Answer, Code, Message, ToolCall
from saccade.record.execution import Status
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, StopReason, Trajectory, conversation, total
from saccade.rewards.reward import Rubric, as_rubric
from saccade.sandbox.base import Limits, Sandbox
from saccade.sandbox.local import LocalSandbox
from saccade.tasks.sources.folder import WorldReader
from saccade.tasks.sources.settings import BrokenTasks
from saccade.tasks.sources.task_set import TaskPool, open_tasks
from saccade.tools.toolbox import Toolbox
from saccade.training.env.spaces import (
    EnvObservation,
    PicturesSpace,
    RolePart,
    TextSpace,
    as_text,
    flat,
    observation,
    spec_of,
)

T = TypeVar("T")
SandboxSource = Sandbox | Callable[[], Sandbox] | None
StoreSource = MediaStore | str | os.PathLike[str] | None


class EnvResources:
    """Sandbox, media store and event loop of one environment, started when first used.

    In a process forked from the one that made it, closing does nothing, as thread and processes are the other's.
    """

    def __init__(
        self, sandbox: SandboxSource, limits: Limits, store: StoreSource, decoding: DecodeLimits = DEFAULT_LIMITS
    ) -> None:
        """Take over a given sandbox, call a function that makes one, or make a local one with `limits`.

        Without a `store` pictures go into a temporary folder, which `close` deletes. `decoding` limits its pictures.
        """
        if sandbox is None:
            self.sandbox: Sandbox = LocalSandbox(limits=limits)
        else:
            self.sandbox = sandbox() if callable(sandbox) else sandbox
        self._folder = tempfile.mkdtemp(prefix="saccade-env-") if store is None else None
        self.store = (
            store if isinstance(store, MediaStore) else MediaStore(self._folder or store or "", limits=decoding)
        )
        self._loop = LoopThread()
        self._owner = os.getpid()
        self._closed = False

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and return its result; Ctrl-C cancels it first."""
        return self._loop.wait(work)

    def close(self) -> None:
        """End sandbox and thread, delete a temporary store; idempotent."""
        if self._closed or os.getpid() != self._owner:
            return
        if self._loop.is_current():  # called by the garbage collector, which may run anywhere
            threading.Thread(target=self.close, name="saccade-env-end").start()
            return
        self._closed = True
        try:
            with suppress(SandboxClosedError):
                self._loop.wait(asyncio.wait_for(self.sandbox.close(), CLOSE_SECONDS))
        finally:
            self._loop.stop()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)


MODEL: Final = "env"
"""The model's name in a trajectory of the environment, which does not know who writes the texts."""


class Playing:
    """Plays one episode with the agent as its model, by the generator that all drivers play.

    Time between two texts counts as the agent's, so a wall limit ends an episode whose agent thinks too long. After
    `outcome` is set, or an exception, `say` must not be called.
    """

    def __init__(self, plan: Plan, stage: EnvResources, tools: Toolbox | None) -> None:
        """Raise `SettingsError` for a task that the dialect cannot show."""
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
        if self.outcome is None:
            return self._request.messages
        return conversation(self.outcome.prompt, self.outcome.turns)

    def new_parts(self) -> tuple[RolePart, ...]:
        """Return what is new since the last call, without the agent's text."""
        parts = flat(self.messages)
        fresh, self._seen = parts[self._seen :], len(parts)
        return fresh

    def say(self, text: str) -> EpisodeOutcome | None:
        """Play what the agent wrote, up to a stop string of the dialect; return the outcome if the episode ended.

        Raises `IsolationError`: the sandbox refuses to start on this machine; `MediaError`: media of the task are not
        in the store.
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
        """Return the episode's record, once it is over."""
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


_SAMPLES = 2**31
"""Samples of a world that are drawn from; its indices have no end."""


class TaskSource(Protocol):
    """Gives one task for each episode, drawn with the environment's seeded generator."""

    def draw(self, rng: np.random.Generator) -> Task:
        """Return a random task."""

    def find(self, wanted: str | int) -> Task:
        """Return the task of that id or index. Raises `SettingsError` if there is none."""


class ListedTasks:
    """The tasks of a list, each as likely as the others."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        if not tasks:
            raise SettingsError("the list of tasks is empty, so no episode can begin; give at least one task")
        self.tasks = tuple(tasks)
        self._by_id = {task.id: task for task in self.tasks}
        if len(self._by_id) < len(self.tasks):
            raise SettingsError("two of the tasks share an id; give each its own")

    def draw(self, rng: np.random.Generator) -> Task:
        return self.tasks[int(rng.integers(len(self.tasks)))]

    def find(self, wanted: str | int) -> Task:
        """Return the task of that id or index (from 0). Raises `SettingsError` if there is none."""
        if isinstance(wanted, str):
            if wanted not in self._by_id:
                raise SettingsError(f"no task has the id {wanted!r}. {did_you_mean(wanted, self._by_id)}".rstrip())
            return self._by_id[wanted]
        if not 0 <= wanted < len(self.tasks):
            raise SettingsError(f"there is no task {wanted}: there are {len(self.tasks)}, counted from 0")
        return self.tasks[wanted]


@dataclass(frozen=True, slots=True)
class WorldTasks:
    """Samples of a generated world, which never runs out."""

    reader: WorldReader
    store: MediaStore

    def draw(self, rng: np.random.Generator) -> Task:
        return self.find(int(rng.integers(_SAMPLES)))

    def find(self, wanted: str | int) -> Task:
        """Return the sample of that index, or of an id `world@version/split/index` of this world and split."""
        if isinstance(wanted, str):
            start = f"{self.reader.world.id}/{self.reader.split}/"
            number = wanted.removeprefix(start)
            if not wanted.startswith(start) or not (number.isascii() and number.isdecimal()):
                raise SettingsError(f"no task has the id {wanted!r}; those of this world are {start}0, {start}1, ...")
            wanted = int(number)
        return self.reader.make(wanted, self.store)


class SourceTasks:
    """Tasks of any sources; a source with a weight is drawn from that often, else every task is as likely."""

    def __init__(self, tasks: TaskPool, store: MediaStore) -> None:
        self._tasks, self._store = tasks, store
        self._broken = BrokenTasks(len(tasks))

    def draw(self, rng: np.random.Generator) -> Task:
        """Return a random task; one that cannot be made is left out. Raises `DataError` if these are too many."""
        while True:
            name = self._drawn(rng)
            task = self._broken.made(name, lambda name=name: self._tasks.make(name, self._store))  # type: ignore[misc]
            if task is not None:
                return task

    def _drawn(self, rng: np.random.Generator) -> str:
        shares = self._tasks.shares
        if shares is None:
            return self._tasks.ids[int(rng.integers(len(self._tasks)))]
        part = self._tasks.parts[int(rng.choice(len(shares), p=shares))]
        return part.lights[int(rng.integers(len(part.lights)))].id

    def find(self, wanted: str | int) -> Task:
        """Return the task of that id or index (from 0). Raises `SettingsError` if there is none."""
        ids = self._tasks.ids
        if isinstance(wanted, int):
            if not 0 <= wanted < len(ids):
                raise SettingsError(f"there is no task {wanted}: there are {len(ids)}, counted from 0")
            wanted = ids[wanted]
        if wanted not in self._tasks:
            raise SettingsError(f"no task has the id {wanted!r}. {did_you_mean(wanted, ids)}".rstrip())
        return self._tasks.make(wanted, self._store)


def task_source(tasks: Sequence[Task] | Sequence[str] | str, store: MediaStore, dialect: Dialect) -> TaskSource:
    """Return a list of tasks, or sources by their names, as a source; of worlds their training split.

    Raises `SettingsError`: the list is empty, two tasks share an id, a name means nothing (suggests the nearest), or
    the dialect cannot show a task; `RegistryError`: code of the user's own cannot be loaded; `DataError`,
    `RecordError`: the data of a source cannot be read.
    """
    if isinstance(tasks, str):
        tasks = (tasks,)
    named = [task for task in tasks if isinstance(task, str)]
    if not named:
        listed = ListedTasks([task for task in tasks if isinstance(task, Task)])
        check_listed(listed.tasks, dialect)
        return listed
    if len(named) < len(tasks):
        raise SettingsError("tasks and names of sources stand in one list. Give either tasks or names.")
    opened = open_tasks(named)
    check_media(opened.parts, dialect)
    only = opened.parts[0]
    if len(opened.parts) == 1 and isinstance(only.reader, WorldReader) and not only.settings.tags:
        return WorldTasks(only.reader, store)
    return SourceTasks(opened, store)


_THOUGHT: Final = "Let me look again."
_CODES: Final = (
    "print(sum(range(10)))",
    "import numpy as np\nprint(np.arange(6).reshape(2, 3))",
    "print(sorted(name for name in globals() if not name.startswith('_')))",
    "raise ValueError('nothing to see')",
)
_ANSWERS: Final = ("yes", "4")


def example_turns(dialect: Dialect) -> tuple[str, ...]:
    """Write whole turns as the dialect does, for samples of the action space: code, calls and answers."""
    actions: list[Action] = [Code(code=code) for code in _CODES]
    actions += [ToolCall(name=tool.name, arguments={}) for tool in dialect.tools]
    actions += [Answer(text=text) for text in _ANSWERS]
    turns = []
    for action in actions:
        with suppress(ValueError):  # the dialect has no such action
            turns.append(dialect.write(action, _THOUGHT))
    return tuple(turns)


_TERMINAL = frozenset(
    {StopReason.ANSWERED, StopReason.NO_ACTION, StopReason.EMPTY, StopReason.MODEL_DECLINED, StopReason.FILTERED}
)
"""The agent ended the episode; every other end cuts it off."""


class LookAgainOptions(TypedDict, total=False):
    """Keyword options of `LookAgainEnv`; None means the default."""

    sandbox: SandboxSource
    """A sandbox, which the environment then owns, or a function that makes one. Default: a `LocalSandbox` with the
    dialect's limits. Whoever lets Gymnasium copy the arguments (`make_vec`, `EnvSpec.make`) gives a function; with a
    sandbox itself an environment made by hand has no `spec`, since no second one could be made of it."""
    rubric: Rubric | str | None
    """Reward of an episode; a text names a preset. Default: right or wrong by the task's own grader."""
    limits: EpisodeLimits | None
    """Default: those of the dialect."""
    tools: Sequence[str] | None
    """Names of typed tools to offer. Default: the dialect's own; of `vista`, all."""
    tool_list: ToolList | None
    """How the prompt lists them, `short` or `schema`. Default: as the dialect, or the prompt file, has it."""
    prompt_file: str | os.PathLike[str] | None
    """Texts in place of the dialect's own, as `saccade.dialects.prompt_texts` reads them."""
    prompt_names: Mapping[str, str] | None
    """Place of a text -> its name in the prompt file, where that has another."""
    session: SessionLimits | None
    """Limits of the sandbox's sessions in place of the dialect's; of a sandbox that is given the wall time only."""
    media: MediaSettings | None
    """How large pictures may be, and how large they are shown; a store that is given has limits of its own."""
    render_mode: str | None
    """`ansi`, or None."""


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
        """Make an environment over `tasks`, or over sources by their names; nothing is started yet.

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
        if unknown := options.keys() - LookAgainOptions.__annotations__.keys():
            raise TypeError(f"LookAgainEnv has no option {min(unknown)!r}")
        self.render_mode = options.get("render_mode")
        if self.render_mode not in (None, *self.metadata["render_modes"]):
            raise SettingsError(f"there is no render mode {self.render_mode!r}; use 'ansi' or None")
        chosen = load_dialect(dialect) if isinstance(dialect, str) else dialect
        check_runs_here(chosen, "the environment")
        speech = {
            "prompt_file": os.fspath(options.get("prompt_file") or ""),
            "prompt_names": options.get("prompt_names") or {},
            "tools": tuple(options.get("tools") or ()),
            "tool_list": options.get("tool_list") or "",
            "session": options.get("session") or SessionLimits(),
            "media": options.get("media") or MediaSettings(),
        }
        settings = SpeechSettings.model_validate(speech)
        self.dialect, self._tools = settings.prepared(chosen)
        self._media = settings.media
        self._rubric = as_rubric(options.get("rubric"))
        self._limits = options.get("limits")
        self._playing: Playing | None = None
        sandbox = options.get("sandbox")
        self._stage = EnvResources(sandbox, self.dialect.sandbox, store, settings.media.limits)
        self._finalizer = weakref.finalize(self, self._stage.close)
        if sandbox is None or callable(sandbox):
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

        Raises `SettingsError`: there is no such task, or an option is unknown; `MediaError`: pictures of the task are
        not in the store. gymnasium.error.ClosedEnvironmentError: it was closed.
        """
        if not self._finalizer.alive:
            raise gymnasium.error.ClosedEnvironmentError("this environment was closed; make another one")
        super().reset(seed=seed)
        self._leave()
        task = self._choose(options or {})
        shown = scaled_down(task, self._media.shown_pixels, self._stage.store, self.dialect)
        plan = Plan(task, self.dialect, given_limits=self._limits, shown=shown)
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
        """Return the conversation so far as text in mode `ansi`, the agent's turns included; else None."""
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
        info = {
            "task": playing.plan.task.id,
            "turns": playing.turns,
            "messages": playing.messages,
            "new_parts": new_parts,
        }
        if playing.turns:
            info |= {"action": playing.action, "status": playing.status}
        return info

    def _end(self, playing: Playing, info: dict[str, Any]) -> float:
        """Add the entries of the last step to `info`, and return the reward."""
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
