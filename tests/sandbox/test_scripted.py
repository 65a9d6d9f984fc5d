"""The sandbox that runs nothing and answers what it was told."""

from __future__ import annotations

import pytest

from saccade.errors import SandboxClosedError, SandboxError
from saccade.record.execution import Status
from saccade.sandbox.base import SessionOptions
from saccade.sandbox.result import RunResult
from saccade.sandbox.scripted import ScriptedSandbox

ONE, TWO = RunResult(Status.OK, stdout="1"), RunResult(Status.ERROR, traceback="2")


async def test_results_are_played_in_order_whoever_asks() -> None:
    async with ScriptedSandbox([ONE, TWO]) as box:
        first, second = await box.open(), await box.open()
        assert [await second.run("a"), await first.run("b")] == [ONE, TWO]
        with pytest.raises(SandboxError, match="played to its end"):
            await first.run("c")
        with pytest.raises(SandboxError, match="nothing is isolated"):
            await box.isolation()


async def test_a_function_answers_by_the_code() -> None:
    session = await ScriptedSandbox(lambda code: RunResult(Status.OK, stdout=code.upper())).open()
    assert [(await session.run(code)).stdout for code in ("a", "b")] == ["A", "B"]


@pytest.mark.parametrize("keep", [True, False])
async def test_what_was_asked_is_kept_only_where_it_is_wanted(keep: bool) -> None:
    box = ScriptedSandbox(lambda code: ONE, keep=keep)
    options = SessionOptions(repairs=("dedent",))
    session = await box.open({"a": 1}, files={"a.txt": b"a"}, options=options)
    session.bind({"b": 2})
    await session.run("x = 1")
    (branch,) = await session.branch(1)
    assert (branch.bindings, branch.files, branch.options) == ({"a": 1, "b": 2}, {"a.txt": b"a"}, options)
    assert (box.runs, box.opened) == ((["x = 1"], [session, branch]) if keep else ([], []))
    assert (await box.open()).options == SessionOptions()


async def test_sessions_are_counted_while_they_are_open() -> None:
    box = ScriptedSandbox([ONE])
    session = await box.open()
    await session.branch(2)
    assert box.live == 3
    for _ in range(2):
        await session.close()
    assert box.live == 2
    with pytest.raises(SandboxClosedError):
        await session.run("x = 1")
