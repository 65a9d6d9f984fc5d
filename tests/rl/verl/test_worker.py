"""What plays groups for verl, with verl's client over a tiny checkpoint in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.rl.policies import policy
from tests.rl.verl.served import LocalClient, Output
from tests.rl.verl.support import verl_settings

from saccade.models.tiny import save_tiny
from saccade.record.action import Answer, ToolCall
from saccade.record.settings import save_settings
from saccade.record.status import Status
from saccade.rl.train.settings import RlSettings
from saccade.rl.verl.worker import AskedRollout, EpisodeWorker, PlayedRollout, held_out, open_worker
from saccade.training.folder import SETTINGS

RECIPE: dict[str, Any] = {
    "dialect": "direct@1",
    "rollout": {
        "group_size": 2,
        "sampling": {"temperature": 0.7, "max_tokens": 4},
        "limits": {"turns": 1, "context_tokens": 1024},
    },
    "reward": {"preset": "pyvision-rl@1:paper"},
}
Opened = Callable[[Path, RlSettings], Awaitable[EpisodeWorker]]
TRAINED = AskedRollout("a", 0, 3, "touching-circles@1/train/0", validation=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "qwen"
    save_tiny(folder, "qwen2_5_vl")
    return folder


def settings_for(folder: Path, **more: Any) -> RlSettings:
    plain: dict[str, Any] = {"model": {"source": str(folder)}, "tasks": {"source": "touching-circles", "most": 4}}
    watched = {"validation": {"tasks": 2, "samples": 3, "temperature": 0.25}}
    return verl_settings(RECIPE, **{"threads": torch.get_num_threads(), **plain, **watched, **more})


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Opens workers; what they leave to the end of their process ends with the test."""
    async with AsyncExitStack() as stack:

        async def begun(out: Path, settings: RlSettings) -> EpisodeWorker:
            out.mkdir()
            (out / "verl").mkdir()
            save_settings(settings, out / SETTINGS)
            worker = await open_worker(out)
            stack.push_async_exit(worker._sandbox)
            return worker

        yield begun


async def played(worker: EpisodeWorker, client: LocalClient, asked: AskedRollout, count: int) -> list[PlayedRollout]:
    return await asyncio.gather(*(worker.play(replace(asked, number=number), client) for number in range(count)))


async def test_groups_are_played_under_the_names_of_their_place(folder: Path, tmp_path: Path, opened: Opened) -> None:
    settings, out = settings_for(folder), tmp_path / "run"
    worker = await opened(out, settings)
    client = LocalClient(policy(folder), worker.store, version=5)
    found = await played(worker, client, TRAINED, 2)
    assert [one.rollout.id for one in found] == [f"{TRAINED.task}#6", f"{TRAINED.task}#7"]
    assert {one.rollout.trajectory.group for one in found} == {f"{TRAINED.task}@3"}
    assert all(one.rollout.reward.total is not None for one in found)
    assert found[0].engine is found[1].engine
    assert set(found[0].engine.versions) == {5}
    assert found[0].timing.wall > 0
    assert {asked["temperature"] for asked in client.asked} == {0.7}
    assert (out / "verl" / "alive").exists()

    client.asked.clear()
    tasks = held_out(settings)
    assert tasks is not None
    assert len(tasks.ids) == 2
    answers = await played(worker, client, AskedRollout("b", 0, 1, tasks.ids[1], validation=True), 3)
    assert [one.rollout.id for one in answers] == [f"{tasks.ids[1]}#{number}" for number in range(3)]
    assert {one.rollout.trajectory.group for one in answers} == {tasks.ids[1]}
    assert {asked["temperature"] for asked in client.asked} == {0.25}
    assert answers[0].engine is not found[0].engine


class Caller(LocalClient):
    """Writes a call of a tool in the first turn of each rollout, and then an answer."""

    async def generate(self, request_id: str, *, prompt_ids: list[int], **more: Any) -> Output:
        again = request_id in {asked["id"] for asked in self.asked}
        self.asked.append({"id": request_id, "ids": prompt_ids, "images": len(more["image_data"] or ())})
        call = '<tool_call>{"tool": "contours", "image": "image_0"}</tool_call>'
        ids = list(self.server.policy.encoder.text("<answer>Yes</answer>" if again else call))
        return Output(ids, [-0.5] * len(ids), extra_fields={"min_global_steps": 1, "max_global_steps": 1})


async def test_typed_tools_are_called(folder: Path, tmp_path: Path, opened: Opened) -> None:
    (tmp_path / "prompt.txt").write_text("System Prompt:\nTools:\n{tools}\n\nUser Prompt:\n{query}\n")
    rollouts = {**RECIPE["rollout"], "sampling": {"max_tokens": 200}, "limits": {"turns": 3, "context_tokens": 2048}}
    spoken = {"dialect": "vista", "tools": ["contours"], "prompt_file": str(tmp_path / "prompt.txt")}
    plain = {"model": {"source": str(folder)}, "tasks": {"source": "touching-circles", "most": 4}}
    worker = await opened(
        tmp_path / "run", verl_settings({**RECIPE, **spoken, "rollout": rollouts}, **plain, threads=1)
    )
    client = Caller(policy(folder), worker.store)
    for one in await played(worker, client, TRAINED, 2):
        call, answer = one.rollout.trajectory.turns
        assert isinstance(call.action, ToolCall)
        assert call.execution is not None
        assert (call.action.name, call.execution.status) == ("contours", Status.OK)
        assert answer.action == Answer(text="Yes")
        assert one.rollout.trajectory.provenance.tools == ("contours",)
    # What a tool shows is among the pictures of the next turn.
    assert sorted(asked["images"] for asked in client.asked) == [1, 1, 2, 2]


async def test_held_out_tasks_have_a_grader_of_their_own(folder: Path, tmp_path: Path, opened: Opened) -> None:
    settings = settings_for(folder, validation={"tasks": 1, "samples": 1, "grader": "text"})
    worker = await opened(tmp_path / "run", settings)
    client, tasks = LocalClient(policy(folder), worker.store), held_out(settings)
    assert tasks is not None
    (watched,) = await played(worker, client, AskedRollout("b", 0, 0, tasks.ids[0], validation=True), 1)
    trained = await played(worker, client, TRAINED, 2)
    graders = [json.loads(one.rollout.trajectory.scores[0].detail)["grader"] for one in (watched, *trained)]
    assert graders == ["text@1", "yes-no@1", "yes-no@1"]


async def test_what_a_worker_shares_with_the_others(folder: Path, tmp_path: Path, opened: Opened) -> None:
    rules = {"concurrent": 5, "dollars": 3.0}
    reward = {"preset": "pyvision-rl@1:paper", "judge_rules": rules}
    for workers, most, room in ((2, 12, 3), (4, 7, 1), (1, 4, 2)):
        settings = settings_for(
            folder,
            trainer={"workers": workers},
            generation={"max_concurrency": most},
            threads=1,
            validation={"every": 0},
        )
        settings = settings.model_copy(
            update={"recipe": settings.recipe.model_copy(update={"reward": type(settings.recipe.reward)(**reward)})}
        )
        before = torch.get_num_threads()
        worker = await opened(tmp_path / str(workers), settings)
        assert worker._room._value == room
        assert torch.get_num_threads() == 1
        torch.set_num_threads(before)
        assert worker._scorer.settings is not None
        shared = worker._scorer.settings.judge_rules
        assert (shared.concurrent, shared.dollars) == (max(1, 5 // workers), 3.0 / workers)
        assert held_out(settings) is None
