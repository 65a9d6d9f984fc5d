"""Where one episode's actions are carried out: its session in a sandbox, and its typed tools.

The session is opened by the first call that needs it, so an episode without code costs none; `prepare` opens it while
the model still writes. Nothing of a workbench stays when it is closed but the pictures in the media store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from saccade.episode.effects import Call, Run
from saccade.episode.executions import of_run, of_tool
from saccade.episode.plan import Plan
from saccade.errors import SettingsError, ToolLostError
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, VideoPart
from saccade.record.execution import Execution
from saccade.record.status import Status
from saccade.sandbox.base import Binding, Sandbox, Session, VideoFile

if TYPE_CHECKING:
    from saccade.tools.toolbox import Toolbox


class Workbench:
    """Carries out `Run` and `Call` for one plan. Not for two episodes, nor for two calls at once."""

    def __init__(self, plan: Plan, sandbox: Sandbox | None, store: MediaStore, tools: Toolbox | None = None) -> None:
        """Without a `sandbox` code is refused, without `tools` every call of a tool is."""
        self._plan = plan
        self._sandbox = sandbox
        self._store = store
        self._tools = tools
        self._opening: asyncio.Task[Session] | None = None

    def prepare(self) -> None:
        """Begin to open the session, if the dialect has something for code to find; `run` tells of a failure."""
        opening = self._plan.opening
        if self._sandbox is not None and (opening.bindings or opening.files or opening.strings):
            self._opening = self._opening or asyncio.ensure_future(self._open())

    async def run(self, effect: Run) -> Execution:
        """Run code.

        Raises:
            SandboxError: the sandbox itself failed.
            MediaError: media of the task are not in the store.
            SettingsError: there is no sandbox.
        """
        opening = self._opening = self._opening or asyncio.ensure_future(self._open())
        try:
            session = await opening
        except BaseException:
            # What opened in the very moment in which this was cancelled is there, for `close` to end.
            if opening.cancelled() or opening.exception() is not None:
                self._opening = None  # another call opens anew
            raise
        session.bind({name: self._store.open(part) for name, part in effect.bindings.items()})
        # The dialect's limit holds also where the sandbox allows more, such as another host's.
        wall_seconds = self._plan.dialect.sandbox.wall_seconds
        return await of_run(await session.run(effect.code, wall_seconds=wall_seconds), self._store)

    async def call(self, effect: Call) -> Execution:
        """Call a typed tool; a wrong call is an execution too.

        Raises:
            ToolLostError: the tool's process or server failed, or a picture of the task cannot be decoded.
        """
        from saccade.tools.context import Numbering, ToolContext
        from saccade.tools.toolbox import Toolbox

        opening = self._plan.opening
        videos = {
            item.name: self._store.path(item.part.sha256)
            for item in self._plan.task.media
            if isinstance(item.part, VideoPart)
        }
        context = ToolContext(
            {name: self._store.open(part) for name, part in effect.pictures.items()},
            videos,
            numbering=Numbering(opening.label, effect.shown),
        )
        tools = self._tools or Toolbox(())
        result = await tools.call_async(effect.call.name, dict(effect.call.arguments), context)
        if result.status is Status.LOST:
            raise ToolLostError("" if result.problem is None else result.problem.detail)
        return await of_tool(result, self._store)

    async def close(self) -> None:
        """End the session; idempotent."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        await asyncio.wait([opening])
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().close()

    async def _open(self) -> Session:
        if self._sandbox is None:
            raise SettingsError(
                f"dialect {self._plan.dialect.id} asked to run code, but this episode has no sandbox. Give it one."
            )
        opening = self._plan.opening
        media = {item.name: item.part for item in self._plan.task.media}
        files = {path: self._store.get_bytes(media[name].sha256) for path, name in opening.files.items()}
        bindings: dict[str, Binding] = dict(opening.strings)
        for variable, name in opening.bindings.items():
            part = media[name]
            if isinstance(part, ImagePart):
                bindings[variable] = self._store.open(part)
            else:
                path = _video_path(variable, part, files)
                files[path] = self._store.get_bytes(part.sha256)
                bindings[variable] = VideoFile(path)
        return await self._sandbox.open(bindings, files=files, options=self._plan.dialect.session)


def _video_path(variable: str, part: VideoPart, files: Mapping[str, bytes]) -> str:
    """A free path in the workspace for the video bound to `variable`."""
    path = f"{variable}.{part.mime.rpartition('/')[2]}"
    while path in files:
        path = f"_{path}"
    return path
