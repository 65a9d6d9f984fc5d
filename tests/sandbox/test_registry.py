"""Sandboxes by name: those that come with Saccade, and a provider of a user, through the settings of a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from saccade.dialects.registry import load_dialect
from saccade.episode.settings import EpisodeSettings
from saccade.errors import RegistryError, SettingsError
from saccade.record.execution import Status
from saccade.sandbox.base import Limits
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.pool import SandboxPool
from saccade.sandbox.registry import has_own_limits, is_local, sandbox_at
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
