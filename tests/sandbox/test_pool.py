"""`SandboxPool` over real servers: where sessions are opened, who waits, and what becomes of a host that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from tests.fake_sandboxes import TOKEN, FakeSandbox, Wire, serving

from saccade.core.retry import RetryPolicy
from saccade.episode.settings import sandbox_at
from saccade.errors import SandboxClosedError, SandboxError, SandboxFullError, SandboxLostError, SettingsError
from saccade.record.execution import Status
from saccade.sandbox.base import Limits, Sandbox
from saccade.sandbox.isolation import Isolation, Layer, LayerState
from saccade.sandbox.pool import PooledSession, PoolTimes, SandboxPool
from saccade.sandbox.remote import RemoteSandbox
from saccade.training.rl.rollouts import GroupSandbox

TIMES = PoolTimes(wait=20, look=0.02, again=0.05)


@dataclass
class Hosts:
    """Servers, and how a client reaches them."""

    stack: AsyncExitStack
    fakes: list[FakeSandbox] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)

    async def start(self, **settings: Any) -> None:
        self.fakes.append(FakeSandbox())
        self.urls.append(await self.stack.enter_async_context(serving(self.fakes[-1], **settings)))
        self.wires.append(Wire())

    async def pool(self, times: PoolTimes = TIMES) -> SandboxPool:
        boxes = [
            RemoteSandbox(url, token=TOKEN, retry=RetryPolicy(tries=2, first_seconds=0.01), transport=wire)
            for url, wire in zip(self.urls, self.wires, strict=True)
        ]
        return await self.stack.enter_async_context(SandboxPool(boxes, times))

    def live(self) -> list[int]:
        return [len(fake.live) for fake in self.fakes]


@pytest.fixture
async def hosts() -> AsyncIterator[Hosts]:
    async with asyncio.timeout(25), AsyncExitStack() as stack:
        yield Hosts(stack)


async def test_sessions_go_where_the_smallest_share_is_taken(hosts: Hosts) -> None:
    await hosts.start(max_sessions=4)
    await hosts.start(max_sessions=12)
    pool: Sandbox = await hosts.pool()
    sessions = [await pool.open({"n": n}) for n in range(8)]
    assert hosts.live() == [2, 6]
    assert [(await session.run("print(names['n'])")).stdout for session in sessions] == [f"{n}\n" for n in range(8)]
    origin = cast(PooledSession, sessions[0])
    branches = cast(list[PooledSession], await origin.branch(2))
    assert {branch.url for branch in branches} == {origin.url}
    sessions[0].bind({"m": 7})
    assert (await sessions[0].run("print(names['m'])")).stdout == "7\n"
    for session in (*sessions, *branches, *sessions):
        await session.close()
    assert hosts.live() == [0, 0]
    assert [host.taken for host in cast(SandboxPool, pool)._hosts] == [0, 0]


async def test_groups_that_do_not_fit_wait_for_each_other(hosts: Hosts, caplog: pytest.LogCaptureFixture) -> None:
    """A host that holds two sessions plays any number of groups: an origin and one branch of it at a time."""
    await hosts.start(max_sessions=2)
    pool = await hosts.pool()

    async def episode(group: GroupSandbox) -> str:
        session = await group.open({"n": 1})
        try:
            await asyncio.sleep(0.01)
            assert len(hosts.fakes[0].live) <= 2
            return (await session.run("names['n'] += 1; print(names['n'])")).stdout
        finally:
            await session.close()

    async def played() -> list[str]:
        async with GroupSandbox(pool) as group:
            return await asyncio.gather(*(episode(group) for _ in range(3)))

    assert await asyncio.gather(*(played() for _ in range(4))) == [["2\n"] * 3] * 4
    assert sum("No sandbox host has room" in record.message for record in caplog.records) == 1


async def test_a_host_that_others_fill_is_waited_for_so_long(hosts: Hosts) -> None:
    await hosts.start(max_sessions=3)
    pool = await hosts.pool()
    async with RemoteSandbox(hosts.urls[0], token=TOKEN) as other:
        held = [await other.open() for _ in range(3)]
        with pytest.raises(SandboxFullError, match="holds 3 sessions"):
            await other.open()
        waiting = asyncio.create_task(pool.open())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await held[0].close()
        session = await waiting
        branching = asyncio.create_task(session.branch(1))
        await asyncio.sleep(0.1)
        assert not branching.done()
        await held[1].close()
        (branch,) = await branching
        assert (await branch.run("print(1)")).ok
        with pytest.raises(SandboxFullError, match="3 branches and their origin"):
            await session.branch(3)
        impatient = await hosts.pool(PoolTimes(wait=0.1, look=0.02))
        with pytest.raises(SandboxFullError, match=r"within 0\.1 s .*0 of 3 are ours.*--max-sessions"):
            await impatient.open()


async def test_a_host_that_is_gone_gets_nothing_until_it_is_back(
    hosts: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    await hosts.start(max_sessions=8)
    await hosts.start(max_sessions=8)
    pool = await hosts.pool()
    first, second = await pool.open(), await pool.open()
    assert hosts.live() == [1, 1]
    hosts.wires[0].cut = True
    assert (await first.run("print(1)")).status is Status.LOST
    assert (await first.run("print(1)")).status is Status.LOST
    assert (await second.run("print(1)")).ok
    with pytest.raises(SandboxLostError):
        await first.branch(1)
    await first.close()
    others = [await pool.open() for _ in range(4)]
    assert {session.url for session in others} == {hosts.urls[1]}
    hosts.wires[1].cut = True
    with pytest.raises(SandboxLostError):
        await pool.open()
    hosts.wires[0].cut = hosts.wires[1].cut = False
    while any(host.lost for host in pool._hosts):
        await asyncio.sleep(0.02)
    assert (await pool.open()).url == hosts.urls[0]
    said = [record.message for record in caplog.records]
    assert sum("other hosts of the pool" in line for line in said) == 2
    assert sum("answers again" in line for line in said) == 2


async def test_a_host_that_turns_out_to_be_gone_is_passed_over(hosts: Hosts) -> None:
    """The session is opened elsewhere; only where no host can be reached is that said, at once."""
    await hosts.start()
    await hosts.start()
    pool = await hosts.pool(PoolTimes(wait=20, again=1000))
    hosts.wires[0].cut = True
    session = await pool.open()
    assert session.url == hosts.urls[1]
    assert [host.taken for host in pool._hosts] == [0, 1]
    hosts.wires[1].cut = True
    with pytest.raises(SandboxLostError, match="cannot be used"):
        await pool.open()
    assert [host.taken for host in pool._hosts] == [0, 1]


async def test_a_branch_that_finds_its_host_gone_tells_the_pool(hosts: Hosts) -> None:
    await hosts.start()
    pool = await hosts.pool(PoolTimes(wait=20, again=1000))
    session = await pool.open()
    hosts.wires[0].cut = True
    with pytest.raises(SandboxLostError):
        await session.branch(2)
    assert [(host.lost, host.taken) for host in pool._hosts] == [(True, 1)]


async def test_a_session_that_its_host_has_forgotten_is_lost_and_its_host_is_not(hosts: Hosts) -> None:
    await hosts.start(idle_seconds=0.05)
    pool = await hosts.pool()
    session = await pool.open()
    await asyncio.sleep(0.3)
    assert (await session.run("print(1)")).status is Status.LOST
    assert not pool._hosts[0].lost
    assert (await (await pool.open()).run("print(1)")).ok


async def test_what_cannot_be_opened_takes_no_place(hosts: Hosts) -> None:
    await hosts.start(max_sessions=1)
    pool = await hosts.pool()
    for _ in range(2):
        with pytest.raises(SandboxError, match="is not a name for a variable"):
            await pool.open({"a b": 1})
    opening = asyncio.create_task(pool.open())
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    assert [host.taken for host in pool._hosts] == [0]


async def test_whoever_waits_in_a_pool_that_is_closed_is_told(hosts: Hosts) -> None:
    await hosts.start(max_sessions=1)
    pool = await hosts.pool()
    await pool.open()
    waiting = asyncio.create_task(pool.open())
    await asyncio.sleep(0.05)
    await pool.close()
    with pytest.raises(SandboxClosedError):
        await waiting
    assert hosts.live() == [0]


async def test_hosts_that_differ_or_are_not_there_are_refused(hosts: Hosts) -> None:
    await hosts.start()
    await hosts.start()
    hosts.fakes[1].limits = Limits(wall_seconds=7)
    with pytest.raises(SettingsError, match=r"wall_seconds is 5\.0 at .* and 7\.0 at .*--settings"):
        await hosts.pool()
    hosts.wires[1].cut = True
    with pytest.raises(SandboxLostError, match=hosts.urls[1]):
        await hosts.pool()
    for addresses in ("http://a:1,http://a:1/", "http://a:1,"):
        with pytest.raises(SettingsError):
            sandbox_at(addresses, Limits())


async def test_a_layer_is_on_where_it_is_on_everywhere(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    await hosts.start()
    await hosts.start()
    on, off = LayerState(layer=Layer.SECCOMP, on=True), LayerState(layer=Layer.SECCOMP, on=False, detail="no")
    both = LayerState(layer=Layer.RLIMITS, on=True)

    async def isolated() -> Isolation:
        return Isolation(platform="linux", layers=(on, both))

    async def open_to_all() -> Isolation:
        return Isolation(platform="linux", layers=(off, both))

    monkeypatch.setattr(hosts.fakes[0], "isolation", isolated)
    monkeypatch.setattr(hosts.fakes[1], "isolation", open_to_all)
    assert await (await hosts.pool()).isolation() == Isolation(platform="linux", layers=(off, both))


async def test_a_host_that_answers_in_another_way_is_there_and_it_is_said(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await hosts.start()
    pool = await hosts.pool()
    [host] = pool._hosts

    async def room() -> int:
        raise SandboxError("not now")

    monkeypatch.setattr(host.box, "room", room)
    await pool.look_after(host)
    assert not host.lost
    assert f"{hosts.urls[0]} is there, and does not say how full it is: not now" in caplog.messages


async def test_a_pool_that_is_closed_ends_its_sessions(hosts: Hosts) -> None:
    await hosts.start()
    await hosts.start()
    pool = await hosts.pool()
    for _ in range(4):
        await pool.open()
    assert hosts.live() == [2, 2]
    await pool.close()
    assert hosts.live() == [0, 0]
