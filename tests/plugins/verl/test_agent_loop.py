"""Rollouts through the interface of verl's client, beside those in process; and groups from single calls."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.plugins.verl.served import LocalClient, Output
from tests.plugins.verl.support import verl_settings
from tests.tiny import tiny_folder
from tests.training.rl.engines.talking import conversations, episode
from tests.training.rl.policies import TinyPolicy, policy

from saccade.core.settings import save_settings
from saccade.errors import ModelLostError, ModelRefusedError, TrainingError
from saccade.media.decode import MediaSettings
from saccade.media.store import MediaStore
from saccade.plugins.verl.agent_loop import (
    AskedRollout,
    EpisodeWorker,
    GroupTable,
    PlayedRollout,
    TokenPolicy,
    VerlEngine,
    held_out,
    keep_text_plain,
    load_policy,
    open_worker,
    shared_limits,
    without,
)
from saccade.record.content import Answer, ImagePart, ToolCall
from saccade.record.execution import Status
from saccade.tokens.batch import PromptDelta
from saccade.tokens.decoder import TransformersEngine
from saccade.tokens.turn import ContextFullError, TurnRequest
from saccade.training.rl.settings import RlSettings
from saccade.training.settings import SETTINGS


@pytest.fixture(autouse=True)
def _log() -> Iterator[None]:
    """A worker sets up the log of its process, which here is that of the other tests too."""
    logger = logging.getLogger("saccade")
    level, handlers = logger.level, logger.handlers[:]
    yield
    logger.setLevel(level)
    logger.handlers[:] = handlers


@pytest.fixture(scope="module")
def folder() -> Path:
    return tiny_folder()


@pytest.fixture(scope="module")
def made(folder: Path) -> TinyPolicy:
    return policy(folder)


@pytest.fixture(scope="module")
def tokens(folder: Path) -> TokenPolicy:
    return load_policy(str(folder))


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "media")


def test_tokens_without_weights_are_those_of_the_checkpoint(made: TinyPolicy, tokens: TokenPolicy) -> None:
    full, light = made.checkpoint, tokens.checkpoint
    assert light.end_ids == full.end_ids
    assert light.forbidden.equal(full.forbidden)
    assert light.context_tokens == full.context_tokens
    assert light.chat_template == full.chat_template
    assert tokens.encoder.text("a <|image_pad|> b") == made.encoder.text("a <|image_pad|> b")


@pytest.mark.parametrize("heat", [0.0, 0.7])
async def test_episodes_are_those_in_process(
    made: TinyPolicy, tokens: TokenPolicy, store: MediaStore, heat: float
) -> None:
    client = LocalClient(made, store, version=4)
    engine, local = VerlEngine(client, tokens, store, 2048, 60), TransformersEngine(made, store)
    for parts in conversations(store):
        (theirs,), (ours,) = engine.slots([1]), local.slots([1])
        other, one = await episode(theirs, made, parts, heat, 6), await episode(ours, made, parts, heat, 6)
        assert len(other.ids()) > len(other.segments[0].ids)
        if not heat:
            assert other.ids().tolist() == one.ids().tolist()
            gap = np.abs(other.logprobs() - one.logprobs())[one.loss_mask()].max()
            assert gap < 1e-4
    await local.close()
    assert set(engine.versions) == {4}
    assert engine.busy_seconds > 0
    # One episode's turns go to one server, each with its own seed; what may not be sampled is biased.
    first = [asked for asked in client.asked if asked["id"] == client.asked[0]["id"]]
    assert len(first) == 3
    assert len({asked["seed"] for asked in first}) == 3
    assert max(asked["seed"] for asked in client.asked) < 2**48
    assert all(set(asked["logit_bias"]) == set(tokens.forbidden) for asked in client.asked)


async def test_a_stop_string_ends_a_turn(made: TinyPolicy, tokens: TokenPolicy, store: MediaStore) -> None:
    engine = VerlEngine(LocalClient(made, store), tokens, store, 2048, 60)
    full = TurnRequest(PromptDelta(made.encoder.text("Say it.")), temperature=0.0, max_tokens=30)
    first = await engine.slots([1])[0].generate(full)
    stop = first.text[3:5]
    cut = TurnRequest(full.delta, (stop,), temperature=0.0, max_tokens=30)
    stopped = await engine.slots([1])[0].generate(cut)
    assert stopped.text == first.text[: first.text.index(stop) + len(stop)]


async def test_a_turn_that_fails_hangs_or_breaks_off_is_an_outage(
    made: TinyPolicy, tokens: TokenPolicy, store: MediaStore
) -> None:
    client = LocalClient(made, store)
    request = TurnRequest(PromptDelta(made.encoder.text("Hi")), max_tokens=2)

    async def dies() -> None:
        raise RuntimeError("the actor died")

    async def hangs() -> None:
        await asyncio.sleep(60)

    for fault, said in ((dies, "the actor died"), (hangs, "trainer.turn_seconds")):
        client.faults = [fault]
        with pytest.raises(ModelLostError, match=said):
            await VerlEngine(client, tokens, store, 2048, 0.2).slots([1])[0].generate(request)
    with pytest.raises(ContextFullError):
        await VerlEngine(client, tokens, store, 1, 60).slots([1])[0].generate(request)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        *((lambda answer, _, given=given: replace(answer, logprobs=given), "without a log-probability for each")
          for given in (None, [], [-0.5])),
        (lambda answer, banned: replace(answer, ids=[banned, *answer.ids[1:]]), "in spite of its bias"),
    ],
)  # fmt: skip
async def test_tokens_without_logprobs_and_ids_that_were_banned_are_refused(
    spoil: Callable[[Any, int], Any], said: str, made: TinyPolicy, tokens: TokenPolicy, store: MediaStore
) -> None:
    client = LocalClient(made, store)
    sample = client.server._sample
    client.server._sample = lambda asked: spoil(sample(asked), tokens.forbidden[0])  # type: ignore[method-assign]
    request = TurnRequest(PromptDelta(made.encoder.text("Hi")), max_tokens=2)
    with pytest.raises(ModelRefusedError, match=said):
        await VerlEngine(client, tokens, store, 2048, 60).slots([1])[0].generate(request)


async def test_a_group_is_played_once_when_all_of_it_is_asked_for() -> None:
    table: GroupTable[str] = GroupTable(5)
    played: list[str] = []

    async def play(name: str) -> list[str]:
        played.append(name)
        return [f"{name}{number}" for number in range(3)]

    calls = [table.join(uid, number, 3, lambda uid=uid: play(uid)) for number in (2, 0, 1) for uid in ("a", "b")]  # type: ignore[misc]
    assert await asyncio.gather(*calls) == ["a2", "b2", "a0", "b0", "a1", "b1"]
    assert sorted(played) == ["a", "b"]
    assert len(table) == 0


async def test_a_group_that_does_not_come_whole_or_fails_tells_every_call() -> None:
    table: GroupTable[int] = GroupTable(0.05)

    async def breaks() -> list[int]:
        raise TrainingError("no")

    with pytest.raises(TrainingError, match="verl asked for 1 within"):
        await table.join("a", 0, 2, breaks)
    failed = await asyncio.gather(*(table.join("b", n, 2, breaks) for n in range(2)), return_exceptions=True)
    assert [str(error) for error in failed] == ["no", "no"]
    calls = [asyncio.ensure_future(table.join("c", 1, 3, breaks)) for _ in range(2)]
    with pytest.raises(TrainingError, match="twice"):
        await calls[1]
    calls[0].cancel()
    assert len(table) == 1


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a<|image_pad|><|image_pad|>b", "ab"),
        ("<|image<|image_pad|>_pad|>", ""),
        ("<|video<|image_pad|>_pad|>c", "c"),
        ("nothing <|image", "nothing <|image"),
    ],
)
def test_text_that_spells_a_placeholder_loses_it(text: str, plain: str) -> None:
    assert without(text, ("<|image_pad|>", "<|video_pad|>")) == plain


def test_a_processor_sees_no_placeholder_and_keeps_its_name() -> None:
    class Qwen2VLProcessor:
        image_token, video_token = "<|image_pad|>", "<|video_pad|>"

        def __call__(self, images: object = None, text: object = None, **more: object) -> object:
            return images, text, more

    processor = Qwen2VLProcessor()
    keep_text_plain(processor)
    keep_text_plain(processor)
    assert processor(text=["x<|image_pad|>"], images=[1], return_tensors="pt") == ([1], ["x"], {"return_tensors": "pt"})
    assert type(processor).__name__ == "Qwen2VLProcessor"
    assert len(type(processor).__mro__) == 4


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


async def test_pictures_are_shown_smaller_and_held_out_tasks_have_other_limits(
    folder: Path, tmp_path: Path, opened: Opened
) -> None:
    limits = {"context_tokens": 700, "turns": 1}
    settings = settings_for(folder, validation={"tasks": 1, "limits": limits})
    recipe = settings.recipe.model_copy(update={"media": MediaSettings(shown_pixels=1_000)})
    worker = await opened(tmp_path / "run", settings.model_copy(update={"recipe": recipe}))
    client, tasks = LocalClient(policy(folder), worker.store), held_out(settings)
    assert tasks is not None
    (watched,) = await played(worker, client, AskedRollout("b", 0, 0, tasks.ids[0], validation=True), 1)
    trained = await played(worker, client, TRAINED, 2)
    found = [one.rollout.trajectory for one in (watched, *trained)]
    assert [item.provenance.limits.context_tokens for item in found if item.provenance.limits] == [700, 1024, 1024]
    for item in found:
        (shown,) = (part for message in item.prompt for part in message.media if isinstance(part, ImagePart))
        assert shown.width * shown.height <= 1_000
        assert "shown scaled down" in "".join(message.text for message in item.prompt)


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
        shared = shared_limits(settings).judge_rules
        assert (shared.concurrent, shared.dollars) == (max(1, 5 // workers), 3.0 / workers)
        assert held_out(settings) is None
