"""The environment, the sync driver and the async driver play the same texts to the same trajectory."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.training.env.support import CODE, EVERY_DIALECT, EXAMPLES, result, tasks, tasks_for, tools_for

from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.episode.workbench import equipped
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Action, Answer, Code, ToolCall
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, Trajectory
from saccade.sandbox.base import Sandbox
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.scripted import ScriptedSandbox
from saccade.training.env import LookAgainEnv
from saccade.training.env.look_again import MODEL

ACTIONS: tuple[Action, ...] = (
    Code(code="print(1)"),
    Code(code="show()"),
    Code(code="raise"),
    ToolCall(name="crop", arguments={"image": "image_0", "box": [0, 0, 5, 5]}),
    ToolCall(name="rotate", arguments={"image": "image_0", "angle": 90}),
    ToolCall(name="image_zoom_in_tool", arguments={"bbox_2d": [0, 0, 40, 40]}),
    ToolCall(name="no_such_tool", arguments={}),
    Answer(text="red"),
)

GARBAGE = st.sampled_from(
    ["", " ", "I am not sure.", "<code>", "</code>", "<answer>", "\ud800", "<tool_call>{}</tool_call>"]
)

SCRIPT = st.lists(st.sampled_from(ACTIONS[:-1]) | st.sampled_from(ACTIONS) | GARBAGE | st.text(max_size=20), max_size=6)

LIMITS = st.builds(
    EpisodeLimits,
    turns=st.integers(1, 6),
    images=st.none() | st.integers(1, 5),
    context_tokens=st.none() | st.integers(300, 3000),
    failed_calls=st.none() | st.integers(0, 2),
)


def written(dialect: Dialect, said: Action | str) -> str:
    """A text as a model of the dialect may write it; it goes on after its action, for stop strings to cut."""
    if isinstance(said, str):
        return said
    try:
        return dialect.write(said, "Hm.") + " And then"
    except ValueError:
        return f"<code>{said}</code>"


def timeless(trajectory: Trajectory) -> dict[str, Any]:
    """All but times, and scores, which only the environment computes."""
    data = trajectory.model_dump(mode="json", exclude={"created", "seconds", "scores"})
    for turn in data["turns"]:
        del turn["model_seconds"], turn["execution_seconds"]
        if turn["execution"]:
            del turn["execution"]["timings"]
    return data


def replies(texts: Sequence[str], last: str) -> ScriptedModel:
    """A model that says `texts`, and then `last` as long as it is asked."""

    def endless() -> Iterator[str]:
        yield from texts
        while True:
            yield last

    said = endless()
    return ScriptedModel(lambda messages: next(said), name=MODEL)


def by_env(env: LookAgainEnv, model: ScriptedModel) -> Trajectory:
    _, info = env.reset()
    while True:
        reply = model._script(info["messages"])  # type: ignore[operator]
        _, _, terminated, truncated, info = env.step(reply)
        if terminated or truncated:
            trajectory = info["trajectory"]
            assert isinstance(trajectory, Trajectory)
            return trajectory


async def by_both(
    dialect: str, task: Task, store: MediaStore, texts: Sequence[str], limits: EpisodeLimits, sandbox: type[Sandbox]
) -> list[dict[str, Any]]:
    """The trajectories of the driver and of the environment."""
    names = tools_for(dialect)
    ready, tools = equipped(load_dialect(dialect), names)
    last = written(ready, Answer(text="red"))
    plan = Plan(task, ready, given_limits=limits)

    def box() -> Any:
        return ScriptedSandbox(result) if sandbox is ScriptedSandbox else LocalSandbox(limits=ready.sandbox)

    async with box() as awaited:
        first = await run_episode(plan, replies(texts, last), awaited, store, tools=tools)
    env = LookAgainEnv([task], dialect, store, sandbox=box, limits=limits, tools=names)
    try:
        second = await asyncio.to_thread(by_env, env, replies(texts, last))
    finally:
        env.close()
    return [timeless(trajectory) for trajectory in (first, second)]


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> MediaStore:
    return MediaStore(tmp_path_factory.mktemp("media"))


@pytest.mark.parametrize("dialect", EVERY_DIALECT)
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=SCRIPT, limits=LIMITS)
@pytest.mark.few(8)
def test_both_drivers_give_one_trajectory(
    media: MediaStore, dialect: str, script: list[Action | str], limits: EpisodeLimits
) -> None:
    texts = [written(load_dialect(dialect), said) for said in script]
    task = tasks_for(dialect, media)[0]
    first, second = asyncio.run(by_both(dialect, task, media, texts, limits, ScriptedSandbox))
    assert first == second
    assert first["turns"]


PROGRAMS = (
    "from PIL import Image\nImage.new('RGB', (8, 6)).show()\nx = 41",
    "print(x + 1)\nundefined",
    "print(sorted(name for name in globals() if name.startswith(('image', 'x'))))",
)


@pytest.mark.parametrize("dialect", ["pyvision", "codedance:repo", "native"])
@pytest.mark.slow
async def test_real_programs_too(tmp_path: Path, dialect: str) -> None:
    store = MediaStore(tmp_path)
    texts = [load_dialect(dialect).write(Code(code=code), "Hm.") for code in PROGRAMS]
    task = tasks_for(dialect, store)[0]
    limits = EpisodeLimits(turns=5)
    first, second = await by_both(dialect, task, store, texts, limits, LocalSandbox)
    assert first == second
    assert [turn["execution"]["status"] for turn in first["turns"][:3]] == ["ok", "error", "ok"]
    assert len(first["turns"][0]["execution"]["pictures"]) == 1
    assert first["stop"] == "answered"


def children() -> set[str]:
    """Ids of the processes that any thread of this one has started."""
    return {
        child
        for listed in Path(f"/proc/{os.getpid()}/task").glob("*/children")
        for child in listed.read_text(encoding="ascii").split()
    }


@pytest.mark.slow
@pytest.mark.own_sandbox
@pytest.mark.parametrize("dropped", [pytest.param(False, marks=pytest.mark.slow), True])
def test_no_process_stays(tmp_path: Path, dropped: bool) -> None:
    before = children()
    store = MediaStore(tmp_path)
    env = LookAgainEnv(tasks(store), store=store)
    env.reset(seed=0)
    assert env.step(CODE)[4]["status"] == "ok"
    started = children() - before
    assert started
    if not dropped:
        env.close()
    del env
    gc.collect()
    deadline = time.monotonic() + 100
    while started & children() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not started & children()


def test_making_one_starts_nothing(tmp_path: Path) -> None:
    before = children()
    store = MediaStore(tmp_path)
    env = LookAgainEnv(tasks(store), store=store)
    env.reset(seed=0)
    assert children() == before
    env.close()


def test_without_gymnasium() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import saccade.training.env"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "UnavailableError: saccade.training.env needs Gymnasium" in run.stderr
    assert "saccade-vlm[env]" in run.stderr
