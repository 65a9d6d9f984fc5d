"""Where one episode's actions are carried out: its session in a sandbox, and its typed tools.

The session is opened by the first call that needs it, so an episode without code costs none; `prepare` opens it while
the model still writes. Nothing of a workbench stays when it is closed but the pictures in the media store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from saccade.dialects.base import Dialect
from saccade.dialects.prompt_texts import SYSTEM, TOOL
from saccade.dialects.question import question_text
from saccade.episode.flow import Call, Plan, Run
from saccade.errors import OwnCodeError, SettingsError, ToolLostError
from saccade.media.store import MediaStore
from saccade.models.base import ToolSpec
from saccade.record.content import ImagePart, VideoPart, clean_text
from saccade.record.execution import (
    Execution,
    ExecutionFile,
    ExecutionPicture,
    ExecutionRepair,
    ExecutionTimings,
    Status,
)
from saccade.sandbox.base import Binding, Sandbox, Session, VideoFile
from saccade.sandbox.result import RunResult
from saccade.tools.setup import DEFAULT_CALLS, ToolCallSettings

if TYPE_CHECKING:
    from PIL.Image import Image

    from saccade.tools.context import ToolResult
    from saccade.tools.toolbox import Toolbox


# What a sandbox or a tool gave back, as it is recorded: pixels go into the media store, the record names them.


async def of_run(result: RunResult, store: MediaStore) -> Execution:
    """Return the record of a sandbox's call. Its pictures are stored, and on the disk, when this returns."""
    parts = await _stored([picture.image() for picture in result.pictures], store)
    return Execution(
        status=result.status,
        stdout=clean_text(result.stdout),
        stderr=clean_text(result.stderr),
        value=None if result.value is None else clean_text(result.value),
        traceback=None if result.traceback is None else clean_text(result.traceback),
        pictures=tuple(
            ExecutionPicture(image=part, source=picture.source, path=_path(picture.path))
            for picture, part in zip(result.pictures, parts, strict=True)
        ),
        files=tuple(ExecutionFile(path=clean_text(file.path), size=file.size) for file in result.files),
        repairs=tuple(ExecutionRepair(name=repair.name, note=clean_text(repair.note)) for repair in result.repairs),
        notes=tuple(clean_text(note) for note in result.notes),
        committed=result.committed,
        timings=ExecutionTimings(
            wall=result.timings.wall, run=result.timings.run, cpu=result.timings.cpu, capture=result.timings.capture
        ),
        layers=result.layers,
    )


async def of_tool(result: ToolResult, store: MediaStore) -> Execution:
    """Return the record of a tool's call. What the model may read of a failure stands where a traceback would."""
    parts = await _stored([picture.image for picture in result.pictures], store)
    failed = result.status is not Status.OK
    text = clean_text(result.text)
    return Execution(
        status=result.status,
        value=None if failed else text,
        traceback=f"ToolError: {text}" if failed and text else None,
        problem=None if result.problem is None else result.problem.kind.value,
        repairs=result.repairs,
        pictures=tuple(ExecutionPicture(image=part, source="tool") for part in parts),
        committed=not failed,
    )


async def _stored(images: Sequence[Image], store: MediaStore) -> list[ImagePart]:
    if not images:
        return []
    # Encoding and waiting for the disk would hold up every other episode of this loop.
    return await asyncio.to_thread(lambda: [store.put_image(image) for image in images])


def _path(path: str | None) -> str | None:
    return None if path is None else clean_text(path)


class Workbench:
    """Carries out `Run` and `Call` for one plan. Not for two episodes, nor for two calls at once."""

    def __init__(self, plan: Plan, sandbox: Sandbox | None, store: MediaStore, tools: Toolbox | None = None) -> None:
        """Without a `sandbox` code is refused, without `tools` every call of a tool is."""
        self._plan = plan
        self._sandbox = sandbox
        self._store = store
        self._tools = tools
        self._opening: asyncio.Task[Session] | None = None
        self._episode = uuid4().hex

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

        Raises `ToolLostError`: the tool's process or server failed, or a picture of the task cannot be decoded;
        `OwnCodeError`: a tool of a user's own gave what no tool may give.
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
            question=question_text(self._plan.task),
            episode=self._episode,
        )
        tools = self._tools or Toolbox(())
        result = await tools.call_async(effect.call.name, dict(effect.call.arguments), context)
        if result.problem is not None and result.problem.own_code:
            raise OwnCodeError(result.problem.detail)
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
        if self._plan.dialect.code_sees_shown:
            shown = self._plan.shown_part
            media = {name: shown(part) if isinstance(part, ImagePart) else part for name, part in media.items()}
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
    """Return a free path in the workspace for the video bound to `variable`."""
    path = f"{variable}.{part.mime.rpartition('/')[2]}"
    while path in files:
        path = f"_{path}"
    return path


# Which typed tools an episode offers: described to the dialect in its own way, and put together to be called.


def equipped(
    dialect: Dialect, names: Sequence[str] = (), calls: ToolCallSettings = DEFAULT_CALLS
) -> tuple[Dialect, Toolbox | None]:
    """Return the dialect that offers the tools of these names, and the toolbox that answers its calls.

    Without names: what the dialect offers by itself (DeepEyes its zoom, `native` its Python only); a dialect that
    offers nothing by itself (`vista`) gets every tool that lacks nothing here. A dialect that writes code
    alone has no toolbox.

    Raises `SettingsError`: names are given, and the dialect knows no typed tools, or one needs what is not installed;
    `RegistryError`: there is no tool of such a name.
    """
    if not dialect.offers_tools:
        return (dialect.with_tools(()) if names else dialect), None
    from saccade.tools.toolbox import Toolbox  # and the tools, which most episodes do without

    if not names and dialect.tools:
        return dialect, Toolbox.of(*(tool.name for tool in dialect.tools), calls=calls)
    if not names and dialect.functions:
        return dialect, None
    if names and TOOL in dialect.prompts.templates:
        prompts = dialect.prompts
        if SYSTEM in prompts.templates and not prompts.has_field(SYSTEM, "tools"):
            raise SettingsError(
                f"tools are named, and the system message of {prompts.source} has no {{tools}} where they could be "
                "listed. Add it, or leave tools out."
            )
    tools = Toolbox.of(*names, calls=calls)
    if names and (missing := tools.missing()):
        listed = "; ".join(f"{name} ({need})" for name, need in missing.items())
        raise SettingsError(f"not available here, so no model could call it: {listed}. Or do not name it.")
    if missing := tools.missing():
        tools = Toolbox.of(*(tool.name for tool in tools.definitions if tool.name not in missing), calls=calls)
    specs = tuple(ToolSpec(tool.name, tool.description, dict(tool.parameters)) for tool in tools.definitions)
    return dialect.with_tools(specs), tools


def missing_words(tools: Toolbox | None) -> str:
    """Return what a person should know of tools that lack something here, where all others are offered.

    Empty for none.
    """
    if tools is None:
        return ""  # and no tool is imported, which takes a second
    from saccade.tools.toolbox import Toolbox

    everything = Toolbox.of()
    missing = everything.missing()
    ready = {tool.name for tool in everything.definitions if tool.name not in missing}
    if not missing or {tool.name for tool in tools.definitions} != ready:
        return ""
    return f"Not available here, so not offered: {', '.join(missing)}. `saccade tools list` says why."
