"""Play the loop with a model and a workbench, within the wall time, until it ends.

Any number of episodes can be driven in one event loop. Cancelling the task ends what is under way and closes the
session before `CancelledError` is raised further; to get the trajectory of an interrupted episode, with
the stop reason `cancelled`, set `cancel` instead.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from saccade.core.disk import disk_words
from saccade.core.registry import own_version
from saccade.core.seam import coming, fitting, told
from saccade.dialects.base import Dialect
from saccade.dialects.prompt_texts import SYSTEM, TOOL
from saccade.dialects.question import question_text
from saccade.episode.flow import (
    Ask,
    Call,
    Effect,
    EpisodeOutcome,
    Event,
    Notice,
    Plan,
    Ran,
    Reply,
    Run,
    Said,
    Stopped,
    Wrote,
    flow,
)
from saccade.errors import (
    ContextLimitError,
    IsolationError,
    ModelLostError,
    ModelRefusedError,
    OwnCodeError,
    RecordError,
    SaccadeError,
    SandboxError,
    SettingsError,
    ToolLostError,
)
from saccade.media.store import MediaStore
from saccade.models.base import Completion, MediaReader, Model, ToolSpec
from saccade.record.content import ImagePart, VideoPart, clean_text
from saccade.record.execution import (
    Execution,
    ExecutionFile,
    ExecutionPicture,
    ExecutionRepair,
    ExecutionTimings,
    Status,
)
from saccade.record.trajectory import Provenance, StopReason, Trajectory
from saccade.sandbox.base import Binding, Sandbox, Session, VideoFile
from saccade.sandbox.registry import sandbox_at as sandbox_at
from saccade.sandbox.result import RunResult
from saccade.tools.setup import DEFAULT_CALLS, ToolCallSettings

if TYPE_CHECKING:
    from PIL.Image import Image

    from saccade.episode.run_folder import EpisodeJournal, RunFolder
    from saccade.tools.context import ToolResult
    from saccade.tools.toolbox import Toolbox


# The session of an episode is opened by the first call that needs it, so one without code costs none; `prepare` opens
# it while the model still writes. Nothing of a workbench stays when it is closed but the pictures in the media store.


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

        Raises `SandboxError`: the sandbox itself failed; `MediaError`: media of the task are not in the store;
        `SettingsError`: there is no sandbox.
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


# Does what the loop asks for: one effect in, one reply out, with every failure of ours typed.
#
# Both drivers and the environment go through here, so an outage means the same to all of them.

_log = logging.getLogger(__name__)

EventCallback = Callable[[Event], None]
"""Hears what happens, in order, on the loop's own thread; it must be quick and must not raise."""
ReadClock = Callable[[], float]
"""Seconds since any moment."""


def unwatched(event: Event) -> None:
    """Hear nothing of an episode: the default where no one watches."""


class Performer:
    """Asks one model and uses one workbench."""

    def __init__(
        self,
        model: Model | None,
        workbench: Workbench,
        media: MediaReader,
        *,
        watch: EventCallback = unwatched,
        clock: ReadClock = time.monotonic,
        journal: EpisodeJournal | None = None,
    ) -> None:
        """Without a `model` only `Run` and `Call` can be done. A `journal` keeps the turns as they come."""
        self._model = model
        self._workbench = workbench
        self._media = media
        self.watch = watch
        self.clock = clock
        self._journal = journal

    def perform(self, effect: Effect) -> Coroutine[Any, Any, Reply]:
        """Return what does it when awaited. Outages and refusals are a `Stopped`.

        Raises `IsolationError`: the sandbox refuses to start on this machine, and would for every episode;
        `MediaError`: media of the task are not in the store.
        """
        if self._journal is not None:
            return self._noted(effect, self._journal)
        return self._ask(effect) if isinstance(effect, Ask) else self._act(effect)

    async def _noted(self, effect: Effect, journal: EpisodeJournal) -> Reply:
        journal.note(effect.turns)
        again = await self._again(effect, journal)
        if again is not None:
            return again
        return await (self._ask(effect) if isinstance(effect, Ask) else self._act(effect))

    async def _again(self, effect: Effect, journal: EpisodeJournal) -> Reply | None:
        """Return what came of it before the episode was broken off; code is run again, for the state that it leaves."""
        number = len(effect.turns) - (not isinstance(effect, Ask))
        turn = journal.before(number)
        if turn is None:
            return None
        if isinstance(effect, Ask):
            from saccade.models.replay import completion_of

            return Said(completion_of(turn), turn.model_seconds)
        if turn.execution is None:
            return None
        if isinstance(effect, Run):
            now = await self._act(effect)
            if isinstance(now, Stopped):
                return now
            journal.compare(number, turn.execution, now.execution)
        return Ran(turn.execution, turn.execution_seconds)

    async def _ask(self, effect: Ask) -> Reply:
        if self._model is None:
            raise TypeError("this performer has no model; answer `Ask` yourself")
        start = self.clock()
        on_text = None if self.watch is unwatched else self._wrote
        try:
            ask = self._model.complete
            with told(ask):
                completion = await coming(ask(effect.request, self._media, on_text=on_text), ask)
            fitting(completion, ask, (Completion,))
        except ContextLimitError as error:
            return Stopped(StopReason.CONTEXT_LIMIT, str(error))
        except ModelRefusedError as error:
            return Stopped(StopReason.MODEL_REFUSED, str(error))
        except ModelLostError as error:
            return Stopped(StopReason.MODEL_LOST, str(error))
        seconds, usage = self.clock() - start, completion.usage
        _log.debug("Turn %d: %s tokens in %.1f s.", len(effect.turns) + 1, usage.sampled_tokens, seconds)
        return Said(completion, seconds)

    async def _act(self, effect: Run | Call) -> Ran | Stopped:
        start = self.clock()
        try:
            if isinstance(effect, Run):
                execution = await self._workbench.run(effect)
            else:
                execution = await self._workbench.call(effect)
        except IsolationError:
            raise
        except SandboxError as error:
            return Stopped(StopReason.SANDBOX_LOST, str(error))
        except ToolLostError as error:
            return Stopped(StopReason.TOOL_LOST, str(error))
        except OSError as error:  # a full disk, above all
            return Stopped(StopReason.SANDBOX_LOST, f"what the call gave back cannot be kept: {disk_words(error)}")
        seconds = self.clock() - start
        _log.debug("Call of turn %d: %s in %.2f s.", len(effect.turns), execution.status.value, seconds)
        return Ran(execution, seconds)

    async def close(self) -> None:
        """Close the workbench; idempotent."""
        await self._workbench.close()

    def _wrote(self, piece: str) -> None:
        self.watch(Wrote(piece))


async def run_episode(
    plan: Plan,
    model: Model,
    sandbox: Sandbox | None,
    store: MediaStore,
    *,
    tools: Toolbox | None = None,
    watch: EventCallback = unwatched,
    cancel: asyncio.Event | None = None,
    journal: EpisodeJournal | None = None,
) -> Trajectory:
    """Play one episode and give its trajectory; model and sandbox stay open for the next.

    A `journal` keeps the turns as they come (`run_kept`).

    Raises `SettingsError`: the dialect cannot show the task; `IsolationError`: the sandbox refuses to start on this
    machine; `MediaError`: media of the task are not in the store.
    """
    performer = Performer(model, Workbench(plan, sandbox, store, tools), store, watch=watch, journal=journal)
    start = performer.clock()
    try:
        outcome = await drive(plan, performer, cancel=cancel)
    finally:
        await performer.close()
    return trajectory(plan, outcome, model=model.name, seconds=performer.clock() - start)


async def drive(plan: Plan, performer: Performer, *, cancel: asyncio.Event | None = None) -> EpisodeOutcome:
    """Play `plan` to its end."""
    play = flow(plan)
    allowed = plan.limits.wall_seconds
    end = None if allowed is None else performer.clock() + allowed
    try:
        effect = next(play)
        while True:
            performer.watch(effect)
            reply = await within(performer.perform(effect), end, cancel, performer.clock)
            performer.watch(reply)
            effect = play.send(reply)
    except StopIteration as stop:
        outcome: EpisodeOutcome = stop.value
        return outcome


async def within(
    work: Coroutine[Any, Any, Reply], end: float | None, cancel: asyncio.Event | None, clock: ReadClock = time.monotonic
) -> Reply:
    """Await the reply, unless the clock shows `end` or `cancel` is set before it is there; then the work is undone."""
    left = None if end is None else max(0.0, end - clock())
    if cancel is None:  # without a task of its own: most episodes go here
        limit = asyncio.timeout(left)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if limit.expired():
                return Stopped(StopReason.WALL_LIMIT)
            raise
    task = asyncio.ensure_future(work)
    waits: set[asyncio.Future[Any]] = {task}
    signal = asyncio.ensure_future(cancel.wait())
    waits.add(signal)
    try:
        await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        return Stopped(StopReason.CANCELLED if cancel.is_set() else StopReason.WALL_LIMIT)
    finally:
        for pending in (task, signal):
            if not pending.done():
                pending.cancel()
                with suppress(asyncio.CancelledError):
                    await pending


# Plays an episode in a run folder: kept turn by turn, continued where it was killed, and kept whole at its end.


class NotKeptError(SaccadeError):
    """The episode was played and paid for, and the disk refuses it. `trajectory` holds it."""

    def __init__(self, trajectory: Trajectory, message: str) -> None:
        super().__init__(message)
        self.trajectory = trajectory


async def run_kept(
    plan: Plan,
    model: Model,
    sandbox: Sandbox | None,
    folder: RunFolder,
    *,
    tools: Toolbox | None = None,
    watch: EventCallback = unwatched,
    cancel: asyncio.Event | None = None,
) -> Trajectory:
    """Play `plan`, or continue the unfinished episode of it that `folder` holds, as `watch` then hears.

    Raises `NotKeptError`: it was played, and `folder` cannot be written; `SettingsError`, `IsolationError`,
    `MediaError`: as `run_episode` does.
    """
    from saccade.episode.run_folder import again_text, open_journal

    plan, journal = open_journal(folder, plan, begun(plan, model.name))
    for said in journal.says:
        watch(Notice(said))
    if journal.earlier:
        _log.info("%s: continues an unfinished episode after %d turns.", plan.id, len(journal.earlier))
        watch(Notice(again_text(len(journal.earlier))))
    trajectory = journal.with_earlier(
        await run_episode(plan, model, sandbox, folder.store, tools=tools, watch=watch, cancel=cancel, journal=journal)
    )
    try:
        folder.append(trajectory)
    except (OSError, RecordError) as error:  # a full disk, or a folder that was deleted meanwhile
        raise NotKeptError(trajectory, disk_words(error) if isinstance(error, OSError) else str(error)) from error
    if journal.problem:
        watch(Notice(journal.problem))
    return trajectory


def trajectory(plan: Plan, outcome: EpisodeOutcome, *, model: str, seconds: float) -> Trajectory:
    """Return the trajectory of `outcome`; `model` is the name under which it was asked, `seconds` its wall time."""
    layers = [turn.execution.layers for turn in outcome.turns if turn.execution is not None and turn.execution.layers]
    _log.info("%s: %s after %d turns and %.1f s.", plan.id, outcome.stop.value, len(outcome.turns), seconds)
    return Trajectory(
        id=plan.id,
        task=plan.task,
        group=plan.group,
        rollout=plan.rollout,
        provenance=_provenance(plan, model, outcome.model, layers[0] if layers else ()),
        prompt=outcome.prompt,
        turns=outcome.turns,
        stop=outcome.stop,
        stop_detail=outcome.detail,
        created=datetime.now(UTC),
        seconds=seconds,
    )


def begun(plan: Plan, model: str) -> Trajectory:
    """Return the trajectory before the first turn. Raises `SettingsError` for a task that the dialect cannot show."""
    return Trajectory(
        id=plan.id,
        task=plan.task,
        group=plan.group,
        rollout=plan.rollout,
        provenance=_provenance(plan, model),
        prompt=plan.opening.messages,
    )


def _provenance(plan: Plan, model: str, revision: str = "", layers: tuple[str, ...] = ()) -> Provenance:
    session = plan.dialect.session
    return Provenance(
        saccade=own_version(),
        dialect=plan.dialect.id,
        model=model,
        model_revision=revision,
        sampling=plan.sampling,
        limits=plan.limits,
        state_policy="" if plan.hosted else session.state.value,
        tools=tuple(tool.name for tool in plan.dialect.tools),
        boxes=plan.dialect.boxes.value,
        repairs=session.repairs,
        layers=layers,
        settings=plan.settings,
        notes=plan.notes,
    )
