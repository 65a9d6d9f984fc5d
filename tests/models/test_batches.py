"""Batches by the three providers' own clients against a local server: rounds, resuming after an end, errors, prices."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.models.helpers import Media, ask, endpoint
from tests.models.wire_batches import BatchServer, batch_server

from saccade.core.retry import RetryPolicy
from saccade.errors import ModelLostError, ModelRefusedError
from saccade.models.batches import BatchTimes
from saccade.models.hosted import SAMPLE, HostedModel
from saccade.models.providers.anthropic import AnthropicModel
from saccade.models.providers.gemini import GeminiModel
from saccade.models.providers.openai import OpenAIModel
from saccade.models.providers.responses import ResponsesModel
from saccade.record.trajectory import FinishReason, Sampling

KINDS = ("openai", "responses", "anthropic", "gemini")
QUICK = BatchTimes(quiet=0.2, poll=0.05)


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with batch_server() as running:
        yield running


def made(kind: str, server: BatchServer, folder: Path) -> HostedModel:
    retry = RetryPolicy(tries=2, first_seconds=0)
    model: HostedModel
    if kind == "anthropic":
        model = AnthropicModel(endpoint(server.url, model="claude-opus-4-8", retry=retry), api_key="k-1")
    elif kind == "gemini":
        model = GeminiModel(endpoint(server.url, model="gemini-3-flash", retry=retry), api_key="k-1")
    elif kind == "responses":
        model = ResponsesModel(endpoint(server.url + "/v1", model="gpt-5.4", retry=retry), api_key="k-1")
    else:
        model = OpenAIModel(endpoint(server.url + "/v1", retry=retry), api_key="k-1")
    assert model.gather(folder, QUICK)
    return model


def says(kind: str, text: str) -> dict[str, Any]:
    if kind == "anthropic":
        usage = {"input_tokens": 1000, "output_tokens": 10}
        return {"id": "m", "type": "message", "role": "assistant", "model": "served", "stop_sequence": None,
                "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": usage}  # fmt: skip
    if kind == "gemini":
        content = {"role": "model", "parts": [{"text": text}]}
        usage = {"promptTokenCount": 1000, "candidatesTokenCount": 10}
        return {"modelVersion": "served", "candidates": [{"content": content, "finishReason": "STOP"}],
                "usageMetadata": usage}  # fmt: skip
    usage = {"input_tokens": 1000, "output_tokens": 10, "prompt_tokens": 1000, "completion_tokens": 10}
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [part]}
    if kind == "responses":
        return {"id": "r", "model": "served", "status": "completed", "output": [item], "usage": usage}
    message = {"role": "assistant", "content": text}
    return {"model": "served", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}


async def asked(model: HostedModel, number: int, media: Media) -> Any:
    SAMPLE.set(f"sample-{number}")
    picture = media.put(Image.new("RGB", (9 + number, 9), "red"))
    return await model.complete(ask(picture, f"What is {number}?", sampling=Sampling(max_tokens=50)), media)


def question(request: dict[str, Any]) -> str:
    text = json.dumps(request)
    return text[text.index("What is ") + 8 :].partition("?")[0]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_round_is_one_batch_and_costs_half(server: BatchServer, kind: str, tmp_path: Path) -> None:
    server.answer = lambda request: says(kind, f"It is {question(request)}.")
    model, media = made(kind, server, tmp_path), Media()
    for _ in range(2):  # the second time all is known
        answers = await asyncio.gather(*(asked(model, number, media) for number in range(5)))
        assert [answer.text for answer in answers] == [f"It is {number}." for number in range(5)]
        assert [len(requests) for requests in server.batches.values()] == [5]
    assert (answers[0].finish, answers[0].model, answers[0].notes) == (FinishReason.STOP, "served", ())
    assert answers[0].usage.sampled_tokens == 10
    price = model.price
    if price is not None:
        assert answers[0].usage.dollars == pytest.approx((1000 * price.input + 10 * price.output) / 2e6)
    await model.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_run_that_ended_continues_days_later(server: BatchServer, kind: str, tmp_path: Path) -> None:
    server.answer = lambda request: says(kind, f"It is {question(request)}.")
    server.done = False
    model, media = made(kind, server, tmp_path), Media()
    waiting = [asyncio.create_task(asked(model, number, media)) for number in range(3)]
    while server.asked < 2:
        await asyncio.sleep(0.02)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await model.close()
    server.done = True
    again = made(kind, server, tmp_path)
    answers = await asyncio.gather(*(asked(again, number, media) for number in range(4)))
    assert [answer.text for answer in answers] == [f"It is {number}." for number in range(4)]
    assert [len(requests) for requests in server.batches.values()] == [3, 1]  # only what is new is sent
    await again.close()


LISTED = {("openai", 200), ("responses", None), ("anthropic", 404), ("gemini", None), ("gemini", 200)}
"""In the default suite: every kind, and every answer to the question which batches there are."""


@pytest.mark.parametrize(
    ("kind", "listed"),
    [
        pytest.param(kind, listed, marks=() if (kind, listed) in LISTED else pytest.mark.slow)
        for kind in KINDS
        for listed in (200, None, 404)
    ],
)
async def test_a_batch_that_was_being_sent_is_found_again(
    server: BatchServer, kind: str, listed: int | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = lambda request: says(kind, f"It is {question(request)}.")
    other, media = made(kind, server, tmp_path / "other"), Media()
    await asked(other, 9, media)
    await other.close()
    server.held = True
    model = made(kind, server, tmp_path)
    waiting = [asyncio.create_task(asked(model, number, media)) for number in range(3)]
    while len(server.batches) < 2:
        await asyncio.sleep(0.02)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await model.close()
    server.held, server.listed = False, listed
    again = made(kind, server, tmp_path)
    answers = await asyncio.gather(*(asked(again, number, media) for number in range(3)))
    assert [answer.text for answer in answers] == [f"It is {number}." for number in range(3)]
    found = listed == 200
    assert [len(requests) for requests in server.batches.values()] == [1, 3, *([] if found else [3])]
    assert ("it was found: " if found else "its requests are sent again") in caplog.text
    assert ("no list here" in caplog.text) == (listed == 404)
    await again.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_errors_of_single_requests(server: BatchServer, kind: str, tmp_path: Path) -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any] | None:
        if question(request) == "1":
            return {"error": {"message": "no such picture"}}
        return None if question(request) == "2" and len(server.batches) == 1 else says(kind, "fine")

    server.answer = answer
    model, media = made(kind, server, tmp_path), Media()
    fine, refused, expired = await asyncio.gather(
        *(asked(model, number, media) for number in range(3)), return_exceptions=True
    )
    assert fine.text == "fine"
    assert isinstance(refused, ModelRefusedError)
    assert "no such picture" in str(refused)
    assert expired.text == "fine"  # in the next batch
    assert len(server.batches) == 2
    await model.close()


async def test_what_never_comes_is_lost(server: BatchServer, tmp_path: Path) -> None:
    model = made("openai", server, tmp_path)
    with pytest.raises(ModelLostError, match="ended without it"):
        await asked(model, 0, Media())
    assert len(server.batches) == 2
    await model.close()


@pytest.mark.parametrize("kind", ["openai", "gemini"])
async def test_a_batch_that_is_refused_as_a_whole(server: BatchServer, kind: str, tmp_path: Path) -> None:
    server.failed = "the file has no rights"
    model = made(kind, server, tmp_path)
    words = "the file has no rights" if kind == "openai" else "refused as a whole"  # Gemini's client drops the words
    with pytest.raises(ModelRefusedError, match=words):
        await asked(model, 0, Media())
    await model.close()


async def test_samples_that_ask_the_same_have_answers_of_their_own(server: BatchServer, tmp_path: Path) -> None:
    server.answer = lambda request: says("openai", "same")
    model = made("openai", server, tmp_path)

    async def sample(name: str) -> Any:
        SAMPLE.set(name)
        return await model.complete(ask("What is 0?"), Media())

    await asyncio.gather(sample("a#0"), sample("a#1"))
    assert [len(requests) for requests in server.batches.values()] == [2]
    await model.close()


async def test_a_batch_has_its_limits(server: BatchServer, tmp_path: Path) -> None:
    server.answer = lambda request: says("openai", "fine")
    model = made("openai", server, tmp_path)
    assert model.batches is not None
    model.batches._api.most_requests = 2
    await asyncio.gather(*(asked(model, number, Media()) for number in range(5)))
    assert [len(requests) for requests in server.batches.values()] == [2, 2, 1]
    await model.close()


def test_servers_without_a_batch_api(tmp_path: Path) -> None:
    model = OpenAIModel(endpoint("http://127.0.0.1:9/v1"), server="vllm")
    assert not model.gather(tmp_path, QUICK)
