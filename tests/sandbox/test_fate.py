"""Whose doing the end of a session is, and that nothing of one runs between calls."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.providers import linux_only

from saccade.plugins.audit.attacks.runner import descendants
from saccade.record.execution import Status
from saccade.sandbox.base import Limits, Session
from saccade.sandbox.link import Death, Memory, how_it_died, whose_doing
from saccade.sandbox.local import LocalSandbox

LIMITS = Limits(cpu_seconds=10, wall_seconds=5)
GUEST = """
import os, sys, ctypes, time
session = next(m for n, m in sys.modules.items() if n.endswith("guest.session"))
def after(action):
    session.keep.__globals__["lead"] = lambda state: action()
"""


class Group:
    """A control group in which the kernel has killed `kills` processes."""

    def __init__(self, kills: int = 0) -> None:
        self.kills = kills

    def oom_kills(self) -> int:
        return self.kills


@pytest.mark.parametrize(
    ("message", "own"),
    [
        ({}, False),
        ({"code": -signal.SIGKILL, "cpu": 0.1}, False),
        ({"code": -signal.SIGKILL, "cpu": 10.0}, True),
        ({"code": -signal.SIGXCPU, "cpu": 10.0}, True),
        ({"code": -signal.SIGSEGV, "cpu": 0.1}, True),
        ({"code": -signal.SIGSYS, "cpu": 0.1}, True),
        ({"code": 0, "cpu": 0.1}, True),
        ({"code": 3, "cpu": 0.1}, True),
        ({"code": -signal.SIGKILL, "cpu": 0.1, "fault": "it worked on"}, True),
    ],
)
def test_whose_doing(message: dict[str, Any], own: bool) -> None:
    assert bool(whose_doing(message, LIMITS, Memory(None))) is own


def test_a_keeper_killed_for_want_of_memory_is_the_programs_doing_once() -> None:
    group = Group(1)
    memory = Memory(group)  # type: ignore[arg-type]
    killed = {"code": -signal.SIGKILL, "cpu": 0.1}
    assert "memory" in whose_doing(killed, LIMITS, memory)
    assert whose_doing(killed, LIMITS, memory) == ""
    group.kills = 2
    assert how_it_died(Death(-9, 0.1), LIMITS, memory)[0] is Status.OUT_OF_MEMORY
    assert how_it_died(Death(-9, 0.1), LIMITS, memory)[0] is Status.KILLED
    assert how_it_died(Death(-9, 10.5), LIMITS, memory)[0] is Status.TIMEOUT


def states(pids: set[int]) -> list[str]:
    return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in sorted(pids)]


async def states_at_rest(before: set[int]) -> list[str]:
    """States of the processes that have come since, when the rehearsal of the next call should be over."""
    await asyncio.sleep(0.2)
    for _ in range(100):
        if set(found := states(descendants() - before)) == {"T"}:
            break
        await asyncio.sleep(0.05)
    return found


@linux_only
@pytest.mark.asyncio(loop_scope="session")
async def test_between_calls_every_process_of_a_session_is_stopped(box: LocalSandbox) -> None:
    await box.open()
    before = descendants()
    session = await box.open()
    for code in ("x = 1", "1 / 0", "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()"):
        await session.run(code)
        assert await states_at_rest(before) == ["T", "T"]
    (twin,) = await session.branch(1)
    assert await states_at_rest(before) == ["T"] * 4
    assert (await twin.run("x")).value == (await session.run("x")).value == "1"


async def ended(session: Session, action: str) -> list[Status]:
    assert (await session.run(f"{GUEST}\nafter(lambda: {action})")).ok
    return [(await session.run("1", wall_seconds=2)).status for _ in range(2)]


@linux_only
@pytest.mark.asyncio(loop_scope="session")
async def test_a_session_that_its_program_has_spoilt_is_killed_and_not_lost(box: LocalSandbox) -> None:
    actions = (
        "os._exit(3)",
        "ctypes.string_at(0)",
        "time.sleep(600)",
        "[None for _ in iter(int, 1)]",
        "os.abort()",
        "1 / 0",
    )
    sessions = [await box.open() for _ in actions]
    statuses = await asyncio.gather(*(ended(*case) for case in zip(sessions, actions, strict=True)))
    assert dict(zip(actions, statuses, strict=True)) == {key: [Status.KILLED, Status.OK] for key in actions}
    assert (await box.open()) is not None


@linux_only
@pytest.mark.parametrize("moments", [0, 1, 5])
@pytest.mark.asyncio(loop_scope="session")
async def test_a_keeper_killed_from_outside_is_lost_at_any_moment(moments: int, box: LocalSandbox) -> None:
    await box.open()
    for _ in range(3):
        before = descendants()
        session = await box.open({"x": 1})
        await session.run("y = 1")
        for _ in range(moments):
            await asyncio.sleep(0.001)
        for _ in range(5):  # one may be forked while the others are listed and killed
            for pid in descendants() - before:
                with contextlib.suppress(ProcessLookupError):  # the keeper before the call may just have ended
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.001)
        assert [(await session.run("x")).status for _ in range(2)] == [Status.LOST] * 2
