"""The loop as a harness of verifiers: one rollout is one episode, with code in our sandbox.

Every turn of the model is asked of the rollout's own endpoint, so verifiers sees, limits and records it as it does any
program's. The loop runs in this process, and what the model writes runs in the sandbox and nowhere else: the rollout's
runtime is not used.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, Final

import verifiers.v1 as vf
from pydantic import Field
from verifiers.v1.errors import MODEL_TRANSPORT_ERROR_EXIT_CODE

from saccade.core.settings import load_settings, settings_toml
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan, limits_with
from saccade.episode.prepared import prepared_to_ask
from saccade.episode.settings import EpisodeSettings
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.models.endpoint import Endpoint
from saccade.models.providers.openai import OpenAIModel
from saccade.record.task import Task
from saccade.record.trajectory import StopReason, Trajectory
from saccade.rewards.reward import as_rubric
from saccade.tasks.sources.task_set import names_of, task_of

# Tasks of any source as a taskset of verifiers, scored by their own graders or by a reward preset.
#
# A task travels by name: its record and its pictures are made anew from the source where they are needed, so the data
# of a trace hold neither the pictures nor the gold answer. Scores come from the trajectory that the harness leaves in
# the trace (`trace.info["saccade"]`); without one there is nothing to score, and the trace says so.

TRAJECTORY: Final = "saccade"
"""Where in `trace.info` the harness leaves the trajectory."""


class LookTaskConfig(vf.TaskConfig):  # type: ignore[misc]
    """How a trace is scored."""

    rubric: str = ""
    """A reward preset; empty: right or wrong by the task's own grader."""


class LookTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Which tasks there are."""

    sources: list[str] = Field(default_factory=lambda: ["visual-search"], min_length=1)
    """Worlds, benchmarks, files and folders by name, each with a weight or none."""
    n: int | None = None
    """Most tasks; None: all. A world, which has no end, gives its first 4096."""
    task: LookTaskConfig = LookTaskConfig()


class LookData(vf.TaskData):  # type: ignore[misc]
    """Names one task."""

    sources: list[str] = Field(default_factory=list)
    """Those that have it."""


class LookTask(vf.Task[LookData, vf.State, LookTaskConfig]):  # type: ignore[misc]
    """A question about pictures."""

    def __init__(self, data: LookData, config: LookTaskConfig | None = None) -> None:
        """Raises `RegistryError` or `SettingsError` for a rubric that there is not, or that needs a judge."""
        super().__init__(data, config)
        self._rubric = as_rubric(self.config.rubric or None)

    @property
    def key(self) -> str:
        """The task's id, which every source keeps."""
        return str(self.data.id)

    @vf.reward  # type: ignore[untyped-decorator]
    async def reward(self, trace: vf.Trace) -> Mapping[str, float]:
        """Return the parts of the reward that have a value, weighted."""
        scores = self._rubric(_trajectory(trace))
        return {score.name: score.value * score.weight for score in scores if score.value is not None}

    @vf.metric  # type: ignore[untyped-decorator]
    async def episode(self, trace: vf.Trace) -> Mapping[str, float]:
        """Return turns, calls that did not end well, and whether there is an answer."""
        trajectory = _trajectory(trace)
        statuses = [turn.execution.status.value for turn in trajectory.turns if turn.execution is not None]
        return {
            "turns": float(len(trajectory.turns)),
            "failed_calls": float(sum(status != "ok" for status in statuses)),
            "answered": float(trajectory.answer is not None),
        }


class LookTaskset(vf.Taskset[LookTask, LookTasksetConfig]):  # type: ignore[misc]
    """The tasks of some sources."""

    def load(self) -> Iterator[LookTask]:
        """Yield one task after the other, each made when it is asked for.

        Its prompt is the question only: what the model is shown is made by the harness, in its dialect.

        Raises:
            SettingsError: a source's name means nothing; suggests the nearest.
            DataError, RecordError: the data of a source are not there, or cannot be read.
        """
        config: LookTasksetConfig = self.config
        with tempfile.TemporaryDirectory(prefix="saccade-verifiers-") as folder:
            store = MediaStore(folder)
            for name in names_of(tuple(config.sources), config.n):
                data = LookData(id=name, sources=config.sources)
                question = made(data, store).question
                yield LookTask(data.model_copy(update={"prompt": question}), config.task)


def made(data: LookData, store: MediaStore) -> Task:
    """Return the task itself, its pictures put into `store`. Raises `SettingsError` if its sources do not have it."""
    return task_of(tuple(data.sources), data.id, store)


def _trajectory(trace: vf.Trace) -> Trajectory:
    kept: Any = trace.info.get(TRAJECTORY)
    if kept is None:
        raise SettingsError("this trace holds no trajectory: play these tasks with the harness `saccade-verifiers`")
    return Trajectory.model_validate(kept)


_log = logging.getLogger(__name__)
_DONE, _FAILED = 0, 1


class LookHarnessConfig(vf.HarnessConfig):  # type: ignore[misc]
    """How an episode is played."""

    dialect: str = "pyvision"
    """How the model is spoken to."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Further settings of an episode by name, as `saccade ask` takes them: `limits`, `tools`, `sandbox`, ..."""
    server: str = "compatible"
    """Provider whose parameters the endpoint knows, as `saccade.models.registry` names it."""


class LookHarness(vf.Harness[LookHarnessConfig]):  # type: ignore[misc]
    """Plays an episode for each rollout."""

    APPENDS_SYSTEM_PROMPT = False
    SUPPORTS_MCP = False
    SUPPORTS_RESUME = False
    EXECUTES_CODE = False
    """On the runtime: our sandbox executes it."""
    NEEDS_CONTAINER = False

    def __init__(self, config: LookHarnessConfig) -> None:
        """Everything that is wrong with the settings is said here, before a rollout begins.

        Raises:
            SettingsError, RegistryError: a setting is wrong, or a name is unknown.
        """
        super().__init__(config)
        given = {"model": "verifiers", "dialect": config.dialect, **config.settings}
        self._settings = load_settings(EpisodeSettings, None, (), given)
        self._dialect, self._tools = self._settings.spoken()

    async def launch(
        self, ctx: vf.ModelContext, trace: vf.Trace, runtime: vf.Runtime, endpoint: str, secret: str, *rest: Any
    ) -> vf.ProgramResult:
        """Play the episode, and leave its trajectory in the trace; an outage is a failed program.

        `rest` is what verifiers gives besides: addresses of tool servers, of which this harness takes none, and the
        task's data.
        """
        data: LookData = rest[1]
        with tempfile.TemporaryDirectory(prefix="saccade-verifiers-") as folder:
            store = MediaStore(folder)
            # Not a thread of its own: a task is small, and its source may be no thread's business.
            ready = prepared_to_ask(made(data, store), self._dialect, self._settings, store)
            plan = Plan(
                ready.task,
                ready.dialect,
                sampling=self._settings.sampling,
                given_limits=limits_with(self._dialect.limits, **self._settings.limits.model_dump()),
                settings=settings_toml(self._settings),
                shown=ready.shown,
                notes=ready.notes,
            )
            address = Endpoint(ctx.model, base_url=endpoint, retry=self._settings.retry)
            model = OpenAIModel(address, server=self.config.server, api_key=secret)
            try:
                async with self._settings.provider(plan.dialect) as sandbox:
                    trajectory = await run_episode(plan, model, sandbox, store, tools=self._tools)
            finally:
                await model.close()
        trace.info[TRAJECTORY] = trajectory.model_dump(mode="json")
        return _result(trajectory)


def _result(trajectory: Trajectory) -> vf.ProgramResult:
    if not trajectory.lost:
        return vf.ProgramResult(_DONE, trajectory.answer or "", "")
    _log.warning("%s: an outage ended the rollout: %s.", trajectory.id, trajectory.stop)
    code = MODEL_TRANSPORT_ERROR_EXIT_CODE if trajectory.stop is StopReason.MODEL_LOST else _FAILED
    return vf.ProgramResult(code, "", f"{trajectory.stop}: {trajectory.stop_detail}")
