"""Room for many sessions is asked for before anything is made, and the limit is named."""

from __future__ import annotations

import pytest
from tests.sandbox.providers import linux_only

from saccade.errors import SandboxError
from saccade.sandbox import capacity
from saccade.sandbox.attacks.surroundings import descendants
from saccade.sandbox.isolation import Layer
from saccade.sandbox.local import LocalSandbox

LIMITS = {
    "_files_left": "open files of this process",
    "_processes_left": "processes of this machine",
    "_mounts_left": "mounts",
    "_memory_left": "bytes of memory",
}


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Plenty of everything."""
    for name in LIMITS:
        monkeypatch.setattr(capacity, name, lambda: 1 << 50)
    return monkeypatch


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_is_named(name: str, room: pytest.MonkeyPatch) -> None:
    capacity.check_room(5000, kin=1, most_kin=None)
    room.setattr(capacity, name, lambda: 7)
    with pytest.raises(SandboxError, match=f"{LIMITS[name]}, and there is room for 7"):
        capacity.check_room(5000, kin=1, most_kin=None)
    room.setattr(capacity, name, lambda: None)  # cannot be known: left to the kernel
    capacity.check_room(5000, kin=1, most_kin=None)


@pytest.mark.usefixtures("room")
def test_sessions_of_one_origin_are_counted_together() -> None:
    capacity.check_room(6, kin=4, most_kin=10)
    with pytest.raises(SandboxError, match="at most 10 can be without control groups"):
        capacity.check_room(7, kin=4, most_kin=10)


@linux_only
def test_what_this_machine_has_can_be_told() -> None:
    assert all(getattr(capacity, name)() > 0 for name in ("_files_left", "_processes_left", "_memory_left"))


@linux_only
async def test_nothing_is_half_made(room: pytest.MonkeyPatch) -> None:
    async with LocalSandbox() as box:
        session = await box.open({"x": 1})
        await session.run("x")
        room.setattr(capacity, "_files_left", lambda: 50)
        before = descendants()
        with pytest.raises(SandboxError, match="ulimit -n"):
            await session.branch(1000)
        assert descendants() <= before
        (twin,) = await session.branch(1)
        assert (await twin.run("x")).value == "1"


@linux_only
async def test_without_control_groups_a_family_has_a_limit() -> None:
    async with LocalSandbox(without=(Layer.CGROUP,)) as box:
        session = await box.open()
        with pytest.raises(SandboxError, match="at most 256 can be without control groups"):
            await session.branch(256)


@linux_only
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", [1000, 5000])
async def test_branches_by_the_thousand_all_answer_or_are_refused(count: int) -> None:
    async with LocalSandbox() as box:
        session = await box.open({"x": 41})
        await session.run("x += 1")
        try:
            branches = await session.branch(count)
        except SandboxError as error:
            assert "and there is room for" in str(error)  # noqa: PT017 - a machine may lack the room
            return
        assert len(branches) == count
        for branch in branches:
            assert (await branch.run("x")).value == "42"
