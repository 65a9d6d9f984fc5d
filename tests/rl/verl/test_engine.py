"""Rollouts through the interface of verl's client, beside those in process; and groups from single calls."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.rl.engines.talking import conversations, episode
from tests.rl.policies import TinyPolicy, policy
from tests.rl.verl.served import LocalClient

from saccade.errors import ModelLostError, ModelRefusedError, TrainingError
from saccade.generate.base import ContextFullError, TurnRequest
from saccade.generate.in_process import TransformersEngine
from saccade.media.store import MediaStore
from saccade.models.tiny import save_tiny
from saccade.rl.verl.engine import VerlEngine
from saccade.rl.verl.groups import GroupTable
from saccade.rl.verl.plain_text import keep_text_plain, without
from saccade.rl.verl.policy import TokenPolicy, load_policy
from saccade.tokens.stream import PromptDelta


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "qwen"
    save_tiny(folder, "qwen2_5_vl")
    return folder


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


@pytest.mark.parametrize("given", [None, [], [-0.5]])
async def test_tokens_without_a_logprob_for_each_are_refused(
    given: list[float] | None, made: TinyPolicy, tokens: TokenPolicy, store: MediaStore
) -> None:
    client = LocalClient(made, store)
    sample = client.server._sample

    def spoilt(asked: object) -> object:
        return replace(sample(asked), ids=[5, 6], logprobs=given)  # type: ignore[arg-type]

    client.server._sample = spoilt  # type: ignore[method-assign, assignment]
    request = TurnRequest(PromptDelta(made.encoder.text("Hi")), max_tokens=2)
    with pytest.raises(ModelRefusedError, match="without a log-probability for each"):
        await VerlEngine(client, tokens, store, 2048, 60).slots([1])[0].generate(request)


async def test_ids_that_were_banned_are_refused(made: TinyPolicy, tokens: TokenPolicy, store: MediaStore) -> None:
    client = LocalClient(made, store)
    sample = client.server._sample

    def spoilt(asked: object) -> object:
        answer = sample(asked)  # type: ignore[arg-type]
        answer.ids[0] = tokens.forbidden[0]
        return answer

    client.server._sample = spoilt  # type: ignore[method-assign, assignment]
    request = TurnRequest(PromptDelta(made.encoder.text("Hi")), max_tokens=2)
    with pytest.raises(ModelRefusedError, match="in spite of its bias"):
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
