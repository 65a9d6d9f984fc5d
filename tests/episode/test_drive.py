"""The driver: outages are typed, limits of time hold, cancelling leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from saccade.episode.drive import run_episode, within
from saccade.episode.flow import Ask, Event, Ran, Reply, Run, Said, Stopped, Wrote
from saccade.errors import (
    ContextLimitError,
    IsolationError,
    MissingMediaError,
    ModelLostError,
    ModelRefusedError,
    SandboxLostError,
)
from saccade.media.store import MediaStore
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.scripted import ScriptedModel
from saccade.record.execution import Execution, Status
from saccade.record.trajectory import StopReason
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.result import RunResult
from saccade.sandbox.scripted import ScriptedSandbox

from .support import ANSWER, CODE, plan, stored_task, task

GOOD = RunResult(Status.OK, stdout="1\n", committed=True)


class Waiting:
    """A model that never answers."""

    name = "waiting"
    asked = 0
    cancelled = 0

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        self.asked += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        raise AssertionError

    async def close(self) -> None: ...


async def test_a_trajectory_says_how_it_was_made(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    box = ScriptedSandbox([GOOD], keep=True)
    what = plan(of=stored_task(store))
    trajectory = await run_episode(what, ScriptedModel([CODE, ANSWER]), box, store)
    assert (trajectory.id, trajectory.answer, trajectory.stop) == ("t#0", "cat", StopReason.ANSWERED)
    made = trajectory.provenance
    assert (made.dialect, made.model, made.state_policy) == ("pyvision@1:repo", "scripted", "keep")
    assert made.limits == what.limits
    assert trajectory.created is not None
    assert trajectory.prompt == what.opening.messages
    assert box.live == 0
    assert list(box.opened[0].bindings) == ["image_clue_0"]


async def test_an_episode_without_code_opens_no_session(tmp_path: Path) -> None:
    box = ScriptedSandbox([], keep=True)
    await run_episode(plan(), ScriptedModel([ANSWER]), box, MediaStore(tmp_path))
    assert box.opened == []


async def test_what_happens_is_heard_in_order(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    heard: list[Event] = []
    await run_episode(
        plan(of=stored_task(store)), ScriptedModel([CODE, ANSWER]), ScriptedSandbox([GOOD]), store, watch=heard.append
    )
    assert [type(event) for event in heard if not isinstance(event, Wrote)] == [Ask, Said, Run, Ran, Ask, Said]
    assert "".join(event.piece for event in heard if isinstance(event, Wrote)) == CODE + ANSWER


async def test_each_turn_each_call_and_the_end_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "saccade.episode")
    store = MediaStore(tmp_path)
    await run_episode(plan(of=stored_task(store)), ScriptedModel([CODE, ANSWER]), ScriptedSandbox([GOOD]), store)
    logged = [(record.name.rpartition(".")[2], record.args) for record in caplog.records]
    assert [(name, args[0]) for name, args in logged if isinstance(args, tuple)] == [
        ("drive", 1), ("drive", 1), ("drive", 2), ("drive", "t#0"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModelLostError("gone"), StopReason.MODEL_LOST),
        (ModelRefusedError("bad request"), StopReason.MODEL_REFUSED),
        (ContextLimitError("too long"), StopReason.CONTEXT_LIMIT),
    ],
)
async def test_a_failing_backend_is_a_typed_stop(tmp_path: Path, error: Exception, reason: StopReason) -> None:
    store = MediaStore(tmp_path)
    box = ScriptedSandbox([GOOD])
    trajectory = await run_episode(plan(of=stored_task(store)), ScriptedModel([CODE, error]), box, store)
    assert (trajectory.stop, trajectory.stop_detail) == (reason, str(error))
    assert trajectory.lost is (reason is not StopReason.CONTEXT_LIMIT)
    assert len(trajectory.turns) == 1
    assert box.live == 0


async def test_a_failing_sandbox_is_a_typed_stop(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)

    def fail(code: str) -> RunResult:
        raise SandboxLostError("the zygote died")

    trajectory = await run_episode(plan(of=stored_task(store)), ScriptedModel([CODE]), ScriptedSandbox(fail), store)
    assert (trajectory.stop, trajectory.stop_detail) == (StopReason.SANDBOX_LOST, "the zygote died")


async def test_a_machine_that_cannot_isolate_is_told_to_the_person(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)

    def refuse(code: str) -> RunResult:
        raise IsolationError("no namespaces here")

    with pytest.raises(IsolationError):
        await run_episode(plan(of=stored_task(store)), ScriptedModel([CODE]), ScriptedSandbox(refuse), store)


async def test_missing_media_are_told_to_the_person(tmp_path: Path) -> None:
    box = ScriptedSandbox([GOOD])
    with pytest.raises(MissingMediaError):
        await run_episode(plan(of=task()), ScriptedModel([CODE]), box, MediaStore(tmp_path))
    assert box.live == 0


async def test_the_wall_limit_ends_a_model_that_hangs(tmp_path: Path) -> None:
    model = Waiting()
    trajectory = await run_episode(plan(wall_seconds=0.05), model, None, MediaStore(tmp_path))
    assert trajectory.stop is StopReason.WALL_LIMIT
    assert (model.asked, model.cancelled) == (1, 1)


async def test_the_wall_limit_ends_code_that_hangs(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    what = plan(of=stored_task(store), wall_seconds=0.5)
    script = ["<code>\n```python\nwhile True: pass\n```\n</code>"]
    async with LocalSandbox() as box:
        await (await box.open()).close()  # the provider's own start is not what is limited here
        trajectory = await run_episode(what, ScriptedModel(script), box, store)
        assert trajectory.stop is StopReason.WALL_LIMIT
        after = await run_episode(plan(of=what.task), ScriptedModel([CODE, ANSWER]), box, store)
        assert after.answer == "cat"


class Slow:
    """Work that takes a while, and notes when it was undone."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.undone = seconds, False

    async def __call__(self) -> Reply:
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.undone = True
            raise
        return Ran(Execution(status=Status.OK))


@pytest.mark.parametrize("cancel", [None, asyncio.Event()])
async def test_of_the_wall_time_what_is_left_is_waited_for(cancel: asyncio.Event | None) -> None:
    assert isinstance(await within(Slow(0.01)(), 60.0, cancel, lambda: 10.0), Ran)
    slow = Slow(0.2)
    assert await within(slow(), 60.0, cancel, lambda: 61.0) == Stopped(StopReason.WALL_LIMIT)
    assert slow.undone


async def test_work_is_undone_when_its_cancelling_is_told_and_its_own_timeout_is_its_own() -> None:
    cancel, slow = asyncio.Event(), Slow(60)
    asyncio.get_running_loop().call_soon(cancel.set)
    assert await within(slow(), None, cancel) == Stopped(StopReason.CANCELLED)
    assert slow.undone

    async def late() -> Reply:
        raise TimeoutError("the tool's own")

    with pytest.raises(TimeoutError, match="the tool's own"):
        await within(late(), None, None)


async def test_who_sets_cancel_gets_what_there_is(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    box = ScriptedSandbox([GOOD])
    cancel = asyncio.Event()
    heard: list[Event] = []

    def watch(event: Event) -> None:
        heard.append(event)
        if isinstance(event, Ran):
            cancel.set()

    trajectory = await run_episode(
        plan(of=stored_task(store)), ScriptedModel([CODE, ANSWER]), box, store, watch=watch, cancel=cancel
    )
    # The scripted model answers at once, so the episode may end before anybody looks at `cancel`.
    assert trajectory.stop in (StopReason.CANCELLED, StopReason.ANSWERED)
    waiting = Waiting()
    broken = asyncio.ensure_future(run_episode(plan(), waiting, None, store, cancel=cancel))
    assert (await broken).stop is StopReason.CANCELLED
    assert box.live == 0


async def test_cancelling_the_task_leaves_nothing_behind(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    model = Waiting()
    box = ScriptedSandbox([GOOD])
    before = asyncio.all_tasks()
    for given in (None, asyncio.Event()):
        job = asyncio.ensure_future(run_episode(plan(of=stored_task(store)), model, box, store, cancel=given))
        while not model.asked:
            await asyncio.sleep(0.01)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        model.asked = 0
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    assert model.cancelled == 2
    assert box.live == 0


async def test_a_cancelled_call_closes_the_session(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    async with LocalSandbox() as box:
        loops = "<code>\n```python\nwhile True: pass\n```\n</code>"
        job = asyncio.ensure_future(run_episode(plan(of=stored_task(store)), ScriptedModel([loops]), box, store))
        while not box._sessions:
            await asyncio.sleep(0.01)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert not box._sessions


async def test_events_are_heard_in_order(tmp_path: Path) -> None:
    heard: list[Event] = []
    store = MediaStore(tmp_path)
    model, box = ScriptedModel([CODE, ANSWER]), ScriptedSandbox([GOOD])
    played = await run_episode(plan(of=stored_task(store)), model, box, store, watch=heard.append)
    assert played.answer == "cat"
    assert [type(event) for event in heard if not isinstance(event, Wrote)] == [Ask, Said, Run, Ran, Ask, Said]


async def test_a_stopped_is_heard_too(tmp_path: Path) -> None:
    heard: list[Event] = []
    await run_episode(plan(wall_seconds=0.01), Waiting(), None, MediaStore(tmp_path), watch=heard.append)
    assert heard[-1] == Stopped(StopReason.WALL_LIMIT)
