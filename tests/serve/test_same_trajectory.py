"""A request to a server gives the trajectory that the drivers and the environment give for the same model."""

from __future__ import annotations

import asyncio
import base64
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("gymnasium")
from tests.env.support import result
from tests.env.test_same_trajectory import PROGRAMS, by_env, replies, timeless, written
from tests.serve.agents import asking, client, serving

from saccade.dialects.registry import load_dialect
from saccade.env import LookAgainEnv
from saccade.env.playing import MODEL
from saccade.episode.drive import run_episode
from saccade.episode.drive_sync import SyncPlayer
from saccade.episode.plan import Plan, limits_with
from saccade.media.store import MediaStore
from saccade.record.action import Answer, Code
from saccade.record.trajectory import Trajectory
from saccade.sandbox.base import Sandbox
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.scripted import ScriptedSandbox

WALL_SECONDS = 300.0


async def served(
    dialect: str, texts: list[str], last: str, url: str, box: Sandbox, store: MediaStore, stream: bool
) -> Trajectory:
    """The trajectory that a server sends back; its pictures are put into `store`."""
    body: dict[str, Any] = {"saccade": {"trajectory": True, "media": True}}
    base = {"dialect": dialect}
    models = {MODEL: replies(texts, last)}
    async with serving(models, sandbox=box, base=base, request_seconds=WALL_SECONDS) as address:
        async with client(address) as asked:
            ask = asked.chat.completions.create
            if stream:
                events = await ask(model=MODEL, messages=asking("Which?", url), stream=True, extra_body=body)
                own = [chunk.saccade async for chunk in events if hasattr(chunk, "saccade")][-1]
            else:
                own = (await ask(model=MODEL, messages=asking("Which?", url), extra_body=body)).saccade  # type: ignore[attr-defined]
    for picture in own["media"].values():
        store.put_blob(base64.b64decode(picture.partition(",")[2]))
    return Trajectory.model_validate(own["trajectory"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("dialect", "real"),
    [
        ("pyvision", False),
        ("codedance:repo", False),
        ("pyvision", True),
        pytest.param("codedance:repo", True, marks=pytest.mark.slow),
    ],
)
async def test_four_faces_one_trajectory(dialect: str, real: bool, stream: bool, tmp_path: Path) -> None:
    if real and sys.platform != "linux":
        pytest.skip("the local sandbox is for Linux")
    ready = load_dialect(dialect)
    texts = [written(ready, Code(code=code)) for code in PROGRAMS]
    last = written(ready, Answer(text="red"))
    store = MediaStore(tmp_path)

    def box() -> Any:
        return LocalSandbox(limits=ready.sandbox) if real else ScriptedSandbox(result)

    url = asking()[0]["content"][0]["image_url"]["url"]
    async with box() as lent:
        asked = await served(dialect, texts, last, url, lent, store, stream)
    limits = limits_with(ready.limits, wall_seconds=WALL_SECONDS)
    plan = Plan(asked.task, ready, given_limits=limits)
    async with box() as lent:
        first = await run_episode(plan, replies(texts, last), lent, store)
    with SyncPlayer(replies(texts, last), box(), store) as player:
        second = await asyncio.to_thread(player.play, plan)
    env = LookAgainEnv([asked.task], dialect, store, sandbox=box, limits=limits)
    try:
        third = await asyncio.to_thread(by_env, env, replies(texts, last))
    finally:
        env.close()
    assert timeless(asked) == timeless(first) == timeless(second) == timeless(third)
    assert asked.answer == "red"
    assert len(asked.turns) == len(PROGRAMS) + 1
