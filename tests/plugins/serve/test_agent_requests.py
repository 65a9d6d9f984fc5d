"""What a request may bring to a server of agents beside text and pictures: videos, typed tools, a body that hangs."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

pytest.importorskip("openai")
from tests.plugins.serve.agents import ANSWER, TOKEN, asking, client, serving

from saccade.dialects.registry import load_dialect
from saccade.episode.workbench import equipped
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Answer, ImagePart, ToolCall
from saccade.sandbox.scripted import ScriptedSandbox


def box() -> ScriptedSandbox:
    """A sandbox that runs nothing."""
    return ScriptedSandbox([], keep=True)


@pytest.mark.parametrize("base", [{}, {"frames": {"fps": 2}}])
async def test_a_video_comes_in_by_both_apis(base: dict[str, Any]) -> None:
    pytest.importorskip("av")
    from tests.media.clips import h264

    seen: list[int] = []

    def hear(messages: Any) -> str:
        seen.append(sum(isinstance(part, ImagePart) for part in messages[-1].parts))
        return ANSWER

    video = f"data:video/mp4;base64,{base64.b64encode(h264(24)).decode()}"
    text = "What happens?"
    chat = [{"type": "video_url", "video_url": {"url": video}}, {"type": "text", "text": text}]
    item = [{"type": "input_video", "video_url": video}, {"type": "input_text", "text": text}]
    extra = {"saccade": {"frames": {"count": 3}}}
    async with serving({"m": ScriptedModel(hear)}, sandbox=box(), base=base) as url, client(url) as asked:
        for path, body in (("chat/completions", {"messages": _said(chat)}), ("responses", {"input": _said(item)})):
            await asked.post(f"/{path}", body={"model": "m", **body, **extra}, cast_to=object)
    assert seen == [3, 3]


def _said(content: Any) -> list[Any]:
    return [{"role": "user", "content": content}]


async def test_a_request_brings_typed_tools() -> None:
    dialect = equipped(load_dialect("vista"), ["crop"])[0]
    call = dialect.write(ToolCall(name="crop", arguments={"box": [0, 0, 8, 6]}), "I look.")
    done = dialect.write(Answer(text="blue"), "Seen.")
    model = ScriptedModel(lambda messages: done if any(one.role == "assistant" for one in messages) else call)
    async with serving({"m": model}) as url, client(url) as asked:
        extra = {"dialect": "vista", "tools": ["crop"], "trajectory": True}
        chat = await asked.chat.completions.create(model="m", messages=asking(), extra_body={"saccade": extra})
    own: Any = chat.saccade  # type: ignore[attr-defined]
    (picture,) = own["trajectory"]["turns"][0]["execution"]["pictures"]
    assert (picture["image"]["width"], picture["image"]["height"]) == (8, 6)
    assert chat.choices[0].message.content == "blue"


async def test_a_request_that_does_not_arrive_gives_its_place_back() -> None:
    async def hanging() -> AsyncIterator[bytes]:
        yield b'{"model": '
        await asyncio.sleep(1.5)  # the client reads no answer before its body has ended

    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    few, model = {"max_requests": 1, "request_seconds": 0.5}, ScriptedModel([ANSWER])
    async with serving({"agent": model}, sandbox=box(), **few) as url, httpx.AsyncClient(headers=headers) as plain:
        late = await plain.post(f"{url}/chat/completions", content=hanging())
        assert (late.status_code, late.json()["error"]["code"]) == (408, "request_timeout")
        body = {"model": "agent", "messages": asking()}
        assert (await plain.post(f"{url}/chat/completions", json=body)).status_code == 200


NO_JSON = [b"", b"[" * 100_000, b'{"model": "\xff"}', b"null", b"[]"]
NO_VALUES = ['"temperature": NaN', '"temperature": 1e999', '"user": "half a pair \\ud800"', '"model": "agent"} {']
SAID = {"chat/completions": '"messages": [{"role": "user", "content": "Which?"}]', "responses": '"input": "Which?"'}


@pytest.mark.parametrize("path", SAID)
async def test_what_is_no_body_is_refused(path: str) -> None:
    model = ScriptedModel([ANSWER])
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    wrong = [*NO_JSON, *(f'{{"model": "agent", {SAID[path]}, {value}}}'.encode() for value in NO_VALUES)]
    async with serving({"agent": model}, sandbox=box()) as url, httpx.AsyncClient(headers=headers) as plain:
        for body in wrong:
            refused = await plain.post(f"{url}/{path}", content=body)
            assert refused.status_code == 400, (body[:80], refused.text)
            assert refused.json()["error"]["type"] == "invalid_request_error"
        right = f'{{"model": "agent", {SAID[path]}, "user": "a whole pair \\ud83d\\ude00"}}'
        assert (await plain.post(f"{url}/{path}", content=right.encode())).status_code == 200
