"""Sandboxes by name: those that come with Saccade, and a provider of a user, through the settings of a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from saccade.dialects.base import load_dialect
from saccade.episode.settings import EpisodeSettings
from saccade.errors import RegistryError, SandboxClosedError, SandboxError, SettingsError
from saccade.record.execution import Status
from saccade.sandbox.base import Limits, SessionOptions
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.pool import SandboxPool
from saccade.sandbox.registry import has_own_limits, is_local, sandbox_at
from saccade.sandbox.result import RunResult
from saccade.sandbox.scripted import ScriptedSandbox

OWN = """
from saccade.record.execution import Status
from saccade.sandbox.result import RunResult
from saccade.sandbox.scripted import ScriptedSandbox

def echo(text, limits, wait):
    return ScriptedSandbox(lambda code: RunResult(Status.OK, stdout=f"{text}:{code}"), limits=limits)

def nothing(text, limits, wait):
    return 7
"""


def test_the_names_that_come_with_saccade() -> None:
    limits = Limits(wall_seconds=3)
    assert isinstance(sandbox_at("local", limits), LocalSandbox)
    for where in ("http://a:1,https://b:2", "remote:http://a:1,https://b:2", "remote@1:http://a:1"):
        assert isinstance(sandbox_at(where, limits), SandboxPool)
        assert has_own_limits(where)
        assert not is_local(where)
    assert is_local("local")
    assert not has_own_limits("local")


@pytest.mark.parametrize(
    ("where", "error", "words"),
    [
        ("locale", RegistryError, "Did you mean 'local'"),
        ("localhost:8719", RegistryError, "sandboxes has no 'localhost'"),
        ("local:big", SettingsError, "nothing may follow the sandbox `local`"),
        ("remote", SettingsError, "http"),
        ("scripted:missing.json", SettingsError, "cannot be read"),
    ],
)
def test_a_wrong_name_is_explained(where: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        sandbox_at(where, Limits())


async def test_a_script_from_a_file(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["2\n", {"status": "error", "traceback": "NameError: x"}]))
    async with sandbox_at(f"scripted:{script}", Limits()) as box:
        assert isinstance(box, ScriptedSandbox)
        session = await box.open()
        first, second = await session.run("print(1 + 1)"), await session.run("x")
    assert (first.status, first.stdout, first.committed) == (Status.OK, "2\n", True)
    assert (second.status, second.traceback) == (Status.ERROR, "NameError: x")
    script.write_text('[{"status": "tired"}]')
    with pytest.raises(SettingsError, match="JSON list of texts"):
        sandbox_at(f"scripted:{script}", Limits())


async def test_a_provider_of_a_users_own_file_is_named_in_settings(tmp_path: Path) -> None:
    file = tmp_path / "my_sandbox.py"
    file.write_text(OWN)
    settings = EpisodeSettings.model_validate(
        {
            "model": "scripted:x.json",
            "sandbox": f"{file}:echo@here",
            "session": {"wall_seconds": 7.0, "memory_bytes": 1 << 30},
        }
    )
    dialect, _tools = settings.prepared(load_dialect("codedance"))
    async with settings.provider(dialect) as box:
        assert (box.limits.wall_seconds, box.limits.memory_bytes) == (7.0, 1 << 30)
        session = await box.open()
        assert (await session.run("1 + 1")).stdout == "here:1 + 1"
    with pytest.raises(RegistryError, match="gives no sandbox: it is a value of type int"):
        sandbox_at(f"{file}:nothing", Limits())


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
