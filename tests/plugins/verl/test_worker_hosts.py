"""A process that plays episodes for verl: whole groups over sandbox hosts, of which one goes away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.fake_sandboxes import TOKEN, FakeSandbox, serving
from tests.plugins.verl.served import LocalClient
from tests.plugins.verl.support import verl_settings
from tests.training.rl.policies import policy

from saccade.core.retry import RetryPolicy
from saccade.core.settings import save_settings
from saccade.plugins.verl.agent_loop import AskedRollout, EpisodeWorker, PlayedRollout, open_worker
from saccade.plugins.verl.said import SAID
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.execution import Status
from saccade.sandbox.remote import TOKEN_VARIABLE
from saccade.training.settings import SETTINGS

DIALECT = "from tests.training.rl.policies import Noise\n\nNOISE = Noise(code='print(1)')\n"
GROUP = 2


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        yield stack


async def worker_over(addresses: str, folder: Path, model: Path) -> EpisodeWorker:
    (folder / "noise.py").write_text(DIALECT)
    recipe = {
        "dialect": f"{folder / 'noise.py'}:NOISE",
        "rollout": {
            "group_size": GROUP,
            "sampling": {"temperature": 1.0, "max_tokens": 4},
            "limits": {"turns": 3, "context_tokens": 2048},
        },
    }
    settings = verl_settings(recipe, model={"source": str(model)}, sandbox=addresses, generation={"replays": 1})
    (folder / "verl").mkdir()
    save_settings(settings, folder / SETTINGS)
    return await open_worker(folder)


async def test_what_a_lost_host_took_is_played_again_elsewhere(
    tmp_path: Path, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_tiny(tmp_path / "qwen", "qwen2_5_vl")
    monkeypatch.setattr(logging.getLogger("saccade"), "handlers", [])  # the worker adds one
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    monkeypatch.setattr("saccade.sandbox.remote.SANDBOX_RETRY", RetryPolicy(tries=2, first_seconds=0.01))
    first, dies = FakeSandbox(), AsyncExitStack()
    addresses = [await dies.enter_async_context(serving(first))]
    addresses.append(await stack.enter_async_context(serving(FakeSandbox())))
    worker = await worker_over(",".join(addresses), tmp_path, tmp_path / "qwen")
    client = LocalClient(policy(tmp_path / "qwen"), worker.store)
    tasks = worker._tasks

    async def group(place: int) -> list[PlayedRollout]:
        asked = [AskedRollout(f"u{place}", n, place, tasks.at(place, 0), validation=False) for n in range(GROUP)]
        return await asyncio.gather(*(worker.play(one, client) for one in asked))

    (before, *_) = await group(0)
    assert before.timing.replayed == 0
    client.faults = [None] * (2 * GROUP) + [dies.aclose]  # once both groups are in the middle
    played = [one for some in await asyncio.gather(group(1), group(2)) for one in some]
    assert len(first.runs) > 0
    assert sorted({one.timing.replayed for one in played})[-1] > 0
    for one in played:
        assert not one.rollout.lost
        assert one.rollout.tokens is not None
        runs = [turn.execution.status for turn in one.rollout.trajectory.turns if turn.execution]
        assert runs == [Status.OK] * len(runs)
        assert one.rollout.reward.total is not None
    assert f"sandbox server at {addresses[0]} cannot be used" in (tmp_path / "verl" / SAID).read_text()
    # The last host goes too: what is lost stays lost, and nothing of it can be trained on.
    await stack.aclose()
    for one in await group(3):
        assert one.rollout.lost
        assert one.rollout.tokens is None
        assert one.timing.replayed == GROUP
