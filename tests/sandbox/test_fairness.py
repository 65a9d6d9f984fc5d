"""A call beside hostile sessions that compute with all they may: at most twice its time, or four times beside four."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.sandbox.providers import linux_only

from benchmarks.sandbox_hostile import four_hostile, one_hostile
from benchmarks.sandbox_peers import FULL, Measurement, Saccade
from benchmarks.sandbox_work import Setup
from saccade.plugins.audit.attacks.runner import descendants
from saccade.sandbox import capacity as gate_module
from saccade.sandbox.base import Limits
from saccade.sandbox.capacity import MOMENT_SECONDS, Gate
from saccade.sandbox.cgroup import LESS
from saccade.sandbox.isolation import Layer
from saccade.sandbox.local import LocalSandbox, LocalSession

WEAKER = "without cpu_shares, `bounded` is weaker here: a session with many processes gets many shares"
TRIES = 4
"""What else the machine does meanwhile counts, too: one quiet moment is enough."""


@linux_only
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("measure", "most"), [(one_hostile, 2.0), (four_hostile, 4.0)], ids=["one", "four"])
def test_a_neighbour_is_not_held_up(measure: object, most: float, tmp_path: Path) -> None:
    with Saccade() as ours:
        if not ours.isolation().is_on(Layer.CPU_SHARES):
            pytest.skip(WEAKER)
        ratios = []
        for _ in range(TRIES):
            result = measure(ours, Setup(tmp_path, FULL, 2))  # type: ignore[operator]
            assert isinstance(result, Measurement)
            ratios.append(result.median)
            if result.median <= most:
                return
    pytest.fail(f"times as long as alone: {ratios}")


STARTS = """
import os, threading
over = threading.Event()
for _ in range(12): threading.Thread(target=over.wait).start()
children = []
try:
    for _ in range(4):
        children.append(os.fork())
        if not children[-1]: over.wait()
except OSError:
    pass
open("started", "w").close()
while True: pass
"""
"""Threads, processes as far as they can be had, and a loop without end."""


class Shares:
    """The share of the processors that a session's group has, and who stands in it."""

    def __init__(self, box: LocalSandbox, session: LocalSession) -> None:
        groups, group = box._cgroups, session._link.cgroup
        assert groups is not None
        assert group is not None
        self.folder = Path(group._folders[groups.cpu])
        self.all = Path(groups.folders[groups.cpu])
        self._weight, self._tasks = ("cpu.weight", "cgroup.threads") if groups.version == 2 else ("cpu.shares", "tasks")

    def weight(self) -> int:
        return int((self.folder / self._weight).read_text())

    def weight_of_zygote(self) -> int:
        return int((self.all / "zygote" / self._weight).read_text())

    def threads(self) -> set[int]:
        return {int(line) for line in (self.folder / self._tasks).read_text().split()}


def _threads(processes: set[int]) -> set[int]:
    return {int(task) for pid in processes for task in os.listdir(f"/proc/{pid}/task")}


@pytest.mark.slow
@linux_only
async def test_whatever_a_session_starts_has_one_share_together() -> None:
    async with LocalSandbox(limits=Limits(wall_seconds=60)) as box:
        if not (await box.isolation()).is_on(Layer.CPU_SHARES):
            pytest.skip(WEAKER)
        neighbour = await box.open()
        (twin,) = await neighbour.branch(1)
        assert (await neighbour.run("1")).ok
        for session in (neighbour, twin):
            await session._link.ready()
        before = descendants()
        hostile = await box.open()
        usual, beside, branched = (Shares(box, session) for session in (hostile, neighbour, twin))
        assert usual.weight() == beside.weight() == branched.weight()
        assert len({usual.folder, beside.folder, branched.folder}) == 3
        call = asyncio.create_task(hostile.run(STARTS))
        async with asyncio.timeout(50):
            while len(_threads(descendants() - before)) < 14 or usual.weight() > beside.weight() // LESS:
                await asyncio.sleep(MOMENT_SECONDS / 10)
        # What computes for long weighs less, and nothing of it stands anywhere else.
        assert usual.weight() == beside.weight() // LESS
        assert _threads(descendants() - before) <= usual.threads()
        assert not usual.threads() & (beside.threads() | branched.threads())
        # Every session waits for the zygote.
        assert (usual.all / "zygote" / "cgroup.procs").read_text().split()
        assert usual.weight_of_zygote() > beside.weight()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await hostile.run("1")).ok
        assert usual.weight() == beside.weight()


async def test_as_many_as_there_are_places() -> None:
    gate = Gate(2)
    inside = most = 0

    async def call() -> None:
        nonlocal inside, most
        async with gate.place():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1

    assert gate.idle
    await asyncio.gather(*(call() for _ in range(20)))
    assert (most, inside, gate.idle) == (2, 0, True)


async def test_a_call_that_hangs_gives_its_place_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "MOMENT_SECONDS", 0.01)
    gate = Gate(1)
    hanging = asyncio.Event()

    async def hang() -> None:
        async with gate.place():
            await hanging.wait()

    async def call() -> str:
        async with gate.place():
            return "done"

    hung = [asyncio.create_task(hang()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not gate.idle
    assert await asyncio.wait_for(call(), 100) == "done"
    hanging.set()
    await asyncio.gather(*hung)
    # No place was given back twice: with one place, two calls are never inside together.
    monkeypatch.setattr(gate_module, "MOMENT_SECONDS", 1000)
    async with gate.place():
        assert gate._free.locked()


async def test_a_call_that_takes_long_weighs_less_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "MOMENT_SECONDS", 0.01)
    gate = Gate(1)
    heard: list[bool] = []
    async with gate.place(heard.append):
        assert heard == []
        await asyncio.sleep(0.05)
        assert heard == [True]
    assert heard == [True, False]
    async with gate.place(heard.append):
        pass
    assert heard == [True, False]


async def test_where_many_wait_few_run_however_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that are slow because the machine is full do not let ever more in beside them; what hangs still does."""
    monkeypatch.setattr(gate_module, "MOMENT_SECONDS", 0.05)
    gate = Gate(2)
    inside: list[int] = []
    running = 0

    async def call() -> None:
        nonlocal running
        async with gate.place():
            running += 1
            inside.append(running)
            await asyncio.sleep(0.028 * running)  # all that run share the machine
            running -= 1

    async def hang() -> None:
        async with gate.place():
            await asyncio.sleep(100)

    await asyncio.gather(*(call() for _ in range(48)))
    assert max(inside[:30]) <= 4  # behind them the line is short
    hung = [asyncio.create_task(hang()) for _ in range(4)]
    await asyncio.gather(*(call() for _ in range(40)))
    for task in hung:
        task.cancel()
    await asyncio.gather(*hung, return_exceptions=True)
    assert gate.idle


async def test_a_cancelled_wait_takes_no_place() -> None:
    gate = Gate(1)

    async def call() -> None:
        async with gate.place():
            await asyncio.sleep(10)

    first, second = asyncio.create_task(call()), asyncio.create_task(call())
    await asyncio.sleep(0)
    for task in (second, first):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert gate.idle
    async with gate.place():
        pass


async def test_what_only_a_later_call_needs_waits_until_no_call_does() -> None:
    gate, done = Gate(1), list[str]()
    wanted: dict[str, asyncio.Future[None]] = {}

    async def call(name: str) -> None:
        async with gate.place():
            for _ in range(20):  # turns of the loop, whatever else the machine does
                await asyncio.sleep(0)
            done.append(name)

    async def prepare(name: str) -> None:
        wanted[name] = asyncio.get_running_loop().create_future()
        async with gate.spare_time(wanted[name]):
            await asyncio.sleep(0)
            done.append(name)

    await prepare("at once, since nobody waits")
    calls = [asyncio.create_task(call(f"call {number}")) for number in range(3)]
    await asyncio.sleep(0)
    later = {name: asyncio.create_task(prepare(name)) for name in ("gone", "first", "wanted", "second")}
    await asyncio.sleep(0)
    later["gone"].cancel()
    wanted["wanted"].set_result(None)
    await asyncio.gather(*calls, *later.values(), return_exceptions=True)
    assert done[:3] == ["at once, since nobody waits", "wanted", "call 0"]
    assert done.index("first") < done.index("second")
    assert done[-1] == "second"
    assert "call 2" in done[:-1]
    await asyncio.wait_for(prepare("again at once"), 10)
    assert gate.idle
