"""When a workbench opens its session, and what becomes of one that cannot be opened."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.episode.support import plan, stored_task
from tests.tools.tricky import HERE as TRICKY

from saccade.dialects.base import Dialect
from saccade.dialects.registry import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.effects import Run
from saccade.episode.equip import equipped
from saccade.episode.plan import Plan
from saccade.episode.workbench import Workbench
from saccade.errors import SandboxLostError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.action import ToolCall
from saccade.record.status import Status
from saccade.record.trajectory import StopReason
from saccade.sandbox.result import RunResult
from saccade.sandbox.scripted import ScriptedSandbox, ScriptedSession
from saccade.tools.settings import ToolCallSettings
from saccade.tools.workers.shared import close_shared_pools

CODE = Run("print(1)")


def calling(dialect: Dialect, **arguments: object) -> str:
    return dialect.write(ToolCall(name="tricky", arguments=arguments), "I look.")


async def test_a_tool_that_hangs_does_not_hold_up_the_end_of_an_episode(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    dialect, tools = equipped(load_dialect("vista"), [TRICKY])
    limits = dialect.limits.model_copy(update={"wall_seconds": 1.5})
    hung = ScriptedModel([calling(dialect, do="sleep", seconds=60)])
    start = time.monotonic()
    played = await run_episode(Plan(stored_task(store), dialect, given_limits=limits), hung, None, store, tools=tools)
    assert played.stop is StopReason.WALL_LIMIT
    assert time.monotonic() - start < 20
    close_shared_pools()


async def test_a_lost_tool_ends_the_episode_as_an_outage(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    dialect, tools = equipped(load_dialect("vista"), [TRICKY], ToolCallSettings(seconds=0.5))
    texts = [calling(dialect, do="sleep", seconds=60), calling(dialect, do="die"), "unreached"]
    played = await run_episode(Plan(stored_task(store), dialect), ScriptedModel(texts), None, store, tools=tools)
    first, second = (turn.execution for turn in played.turns)
    assert first is not None
    assert (first.status, first.problem, second) == (Status.TIMEOUT, "tool_failure", None)
    assert (played.stop, played.lost) == (StopReason.TOOL_LOST, True)
    assert "SIGKILL" in played.stop_detail
    assert len(played.turns) == 2


class Watched(ScriptedSandbox):
    """The first `failures` openings fail."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__(lambda code: RunResult(status=Status.OK, stdout="1\n", committed=True), keep=True)
        self.failures = failures

    async def open(self, *given: Any, **named: Any) -> ScriptedSession:
        await asyncio.sleep(0)
        self.failures -= 1
        if self.failures >= 0:
            raise SandboxLostError("gone")
        return await super().open(*given, **named)


def bench(tmp_path: Path, sandbox: Watched, dialect: str = "pyvision") -> Workbench:
    store = MediaStore(tmp_path)
    return Workbench(plan(dialect, stored_task(store)), sandbox, store)


async def test_a_prepared_session_is_the_one_that_runs(tmp_path: Path) -> None:
    sandbox = Watched()
    workbench = bench(tmp_path, sandbox)
    workbench.prepare()
    await asyncio.sleep(0.01)
    assert len(sandbox.opened) == 1
    assert (await workbench.run(CODE)).stdout == "1\n"
    await workbench.run(CODE)
    assert len(sandbox.opened) == 1
    await workbench.close()


async def test_nothing_is_prepared_where_code_would_find_nothing(tmp_path: Path) -> None:
    sandbox = Watched()
    workbench = bench(tmp_path, sandbox, "direct")
    workbench.prepare()
    await asyncio.sleep(0.01)
    assert not sandbox.opened
    await workbench.close()


@pytest.mark.parametrize("failures", [0, 1])
async def test_a_prepared_session_that_nobody_used_is_ended_at_once(tmp_path: Path, failures: int) -> None:
    sandbox = Watched(failures)
    workbench = bench(tmp_path, sandbox)
    workbench.prepare()
    await workbench.close()
    await workbench.close()
    assert len(sandbox.opened) == 1 - failures
    assert sandbox.live == 0


async def test_a_session_that_opened_in_the_moment_its_call_was_cancelled_is_ended(tmp_path: Path) -> None:
    sandbox = Watched()
    workbench = bench(tmp_path, sandbox)
    call = asyncio.ensure_future(workbench.run(CODE))
    while not sandbox.opened:
        await asyncio.sleep(0)
    assert call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert sandbox.live == 1
    await workbench.close()
    assert sandbox.live == 0


async def test_a_failure_to_open_is_told_by_the_call_and_the_next_opens_anew(tmp_path: Path) -> None:
    sandbox = Watched(1)
    workbench = bench(tmp_path, sandbox)
    workbench.prepare()
    with pytest.raises(SandboxLostError):
        await workbench.run(CODE)
    assert (await workbench.run(CODE)).stdout == "1\n"
    await workbench.close()
