"""The loop as a harness of verifiers: one rollout is one episode, with code in our sandbox.

Every turn of the model is asked of the rollout's own endpoint, so verifiers sees, limits and records it as it does any
program's. The loop runs in this process, and what the model writes runs in the sandbox and nowhere else: the rollout's
runtime is not used.
"""

from __future__ import annotations

import logging
import tempfile
from typing import Any

import verifiers.v1 as vf
from pydantic import Field
from verifiers.v1.errors import MODEL_TRANSPORT_ERROR_EXIT_CODE

from saccade.episode.drive import run_episode
from saccade.episode.plan import Plan, limits_with
from saccade.episode.prepared import prepared_to_ask
from saccade.episode.settings import EpisodeSettings
from saccade.media.store import MediaStore
from saccade.models.endpoint import Endpoint
from saccade.models.providers.openai import OpenAIModel
from saccade.record.settings import settings_toml
from saccade.record.trajectory import StopReason, Trajectory
from saccade.serve.verifiers.tasks import TRAJECTORY, LookData, made

_log = logging.getLogger(__name__)
_DONE, _FAILED = 0, 1


class LookHarnessConfig(vf.HarnessConfig):  # type: ignore[misc]
    """How an episode is played."""

    dialect: str = "pyvision"
    """How the model is spoken to."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Further settings of an episode by name, as `saccade ask` takes them: `limits`, `tools`, `sandbox`, ..."""
    server: str = "compatible"
    """What the endpoint is asked for beyond what every server knows, as `saccade.models.registry` names it."""


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
        self._settings = _checked(given)
        self._dialect, self._tools = self._settings.spoken()

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        *rest: Any,
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


def _checked(given: dict[str, Any]) -> EpisodeSettings:
    from saccade.record.settings import load_settings

    return load_settings(EpisodeSettings, None, (), given)
