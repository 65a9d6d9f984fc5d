"""Which typed tools an episode offers: those that lack nothing here, and what is said of the others."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.episode.support import plan, stored_task
from tests.tools.tricky import HERE as TRICKY

from saccade.dialects.base import Dialect, load_dialect
from saccade.dialects.prompt_texts import SYSTEM, Prompts
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan, Run
from saccade.episode.workbench import Workbench, equipped, missing_words
from saccade.errors import SandboxLostError, SettingsError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.content import ToolCall
from saccade.record.execution import Status
from saccade.record.task import Task
from saccade.record.trajectory import StopReason
from saccade.sandbox.result import RunResult
from saccade.sandbox.scripted import ScriptedSandbox, ScriptedSession
from saccade.tools.context import ProblemKind, ToolContext
from saccade.tools.setup import VARIABLE, ToolCallSettings
from saccade.tools.workers import close_shared_pools


def test_what_is_not_set_up_is_not_offered_and_no_mistake_of_the_model() -> None:
    dialect, tools = equipped(load_dialect("vista"))
    assert tools is not None
    offered = {tool.name for tool in dialect.tools}
    assert {"crop", "opencv", "inter_gps"} <= offered
    assert not offered & {"sam", "grounding_dino", "chartmoe", "multimath"}
    assert "sam" in missing_words(tools)
    for name in ("sam", "sam2", "chartmoe.answer"):
        result = tools.call(name, {"whatever": 1}, ToolContext({}))
        assert result.problem is not None
        assert result.problem.kind is ProblemKind.UNAVAILABLE
        assert result.problem.kind.vista is None
        assert VARIABLE in result.problem.detail


def test_a_setup_puts_a_tool_on_offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "setup.toml").write_text('[gllava]\nmodel = "compatible:x@http://localhost:1/v1"\n')
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    dialect, tools = equipped(load_dialect("vista"))
    assert "gllava" in {tool.name for tool in dialect.tools}
    assert "gllava" not in missing_words(tools)


def test_a_tool_that_is_named_must_be_there() -> None:
    with pytest.raises(SettingsError, match=r"not available here.*sam \(.*\[sam\] weights = "):
        equipped(load_dialect("vista"), ("crop", "sam"))


def test_an_own_system_message_must_list_the_tools_that_are_named() -> None:
    vista = load_dialect("vista")
    silent, listing = (vista.with_prompts(Prompts({SYSTEM: text}, "mine.txt")) for text in ("Look.", "Use {tools}."))
    with pytest.raises(SettingsError, match=r"the system message of mine\.txt has no \{tools\}"):
        equipped(silent, ("crop",))
    equipped(silent)  # nobody named any
    dialect, _ = equipped(listing, ("crop",))
    assert "Use - crop(" in dialect.open(Task(id="t", question="?")).messages[0].text
    native = load_dialect("native")  # it hands its tools over beside the prompt
    equipped(native.with_prompts(Prompts({SYSTEM: "Look."}, "mine.txt")), ("crop",))


def test_of_a_choice_of_tools_nothing_is_said() -> None:
    _, tools = equipped(load_dialect("vista"), ("crop",))
    assert missing_words(tools) == ""
    assert missing_words(None) == ""


CODE = Run("print(1)")


def calling(dialect: Dialect, **arguments: object) -> str:
    return dialect.write(ToolCall(name="tricky", arguments=arguments), "I look.")


async def test_a_tool_that_hangs_does_not_hold_up_the_end_of_an_episode(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    dialect, tools = equipped(load_dialect("vista"), [TRICKY])
    limits = dialect.limits.model_copy(update={"wall_seconds": 0.5})
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
