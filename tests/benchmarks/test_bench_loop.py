"""The benchmark of the loop does its work and says so; no figure is judged here."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.sandbox.providers import linux_only

from benchmarks import loop
from benchmarks.__main__ import app
from benchmarks.loop import LoopScale, measure_loop
from saccade.cli.main import run
from saccade.dialects.registry import load_dialect
from saccade.episode.flow import Plan
from saccade.errors import SandboxError
from saccade.media.store import MediaStore
from saccade.record.execution import Status
from saccade.sandbox.result import RunResult
from saccade.sandbox.scripted import ScriptedSandbox

SMALL = LoopScale(concurrent=2, episodes=4, bare_episodes=5, memory_episodes=8, starts=1)


@linux_only
@pytest.mark.slow
def test_every_figure_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    figures = measure_loop(SMALL, heard.append)
    assert len(figures) == 5
    assert len(heard) == 4
    turns, bare, growth, package, help_ = figures
    assert turns.value > 0
    assert turns.ratio is not None
    assert bare.value > 0
    assert growth.met is None  # a small run does not judge it
    assert package.other is not None
    assert help_.value > 0
    monkeypatch.setattr(loop, "QUICK_LOOP", SMALL)
    file = tmp_path / "loop.json"
    assert run(app, ["loop", "--quick", "--out", str(file)], "benchmarks") == 0
    assert len(json.loads(file.read_text())["figures"]) == 5


def test_an_episode_that_did_not_do_its_work_is_no_figure(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    plan = Plan(loop._task(store), load_dialect("pyvision"))
    box = ScriptedSandbox(lambda code: RunResult(status=Status.ERROR, traceback="NameError: no"))
    with pytest.raises(SandboxError, match="did not do its work"):
        asyncio.run(loop._episodes(plan, box, store, loop.TRIVIAL, 1, 1))
