"""Agents behind OpenAI's protocol, asked by OpenAI's own client: answers, streams, errors, limits, cancelling."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("openai")
import httpx
import openai
from tests.models.helpers import Media, ask, endpoint
from tests.plugins.serve.agents import ANSWER, CODE, TOKEN, Slow, asking, client, data_url, serving, two_turns

from saccade.dialects.base import load_dialect
from saccade.episode.workbench import equipped
from saccade.errors import ModelLostError, ModelRefusedError, SandboxLostError
from saccade.models.providers.responses import ResponsesModel
from saccade.models.scripted import ScriptedModel
from saccade.plugins.serve.agent_app import _items
from saccade.record.content import Answer, ImagePart, ToolCall
from saccade.record.execution import Execution, HostedCall, Status
from saccade.record.trajectory import FinishReason, Turn
from saccade.sandbox.result import Picture, RunResult
from saccade.sandbox.scripted import ScriptedSandbox

linux = pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux")


def box() -> ScriptedSandbox:
    """A sandbox that runs nothing."""
    shown = (Picture("show", "L", 3, 3, bytes(9)),)
    return ScriptedSandbox(lambda code: RunResult(Status.OK, stdout="42\n", pictures=shown, committed=True), keep=True)


def agent(name: str = "agent") -> dict[str, Any]:
    return {name: ScriptedModel(two_turns, name=name)}


@linux
async def test_chat_and_responses_look_again_in_a_real_sandbox() -> None:
    async with serving(agent()) as url, client(url) as asked:
        chat = await asked.chat.completions.create(model="agent", messages=asking())
        choice = chat.choices[0]
        assert (choice.message.content, choice.finish_reason) == ("blue", "stop")
        assert CODE in choice.message.reasoning_content  # type: ignore[attr-defined]
        assert chat.usage is not None
        assert chat.usage.total_tokens == chat.usage.prompt_tokens + chat.usage.completion_tokens > 0
        assert chat.saccade["stop"] == "answered"  # type: ignore[attr-defined]
        assert chat.saccade["turns"] == 2  # type: ignore[attr-defined]

        given = [{"role": "user", "content": [{"type": "input_image", "image_url": data_url()}]}]
        given[0]["content"].append({"type": "input_text", "text": "Which colour?"})  # type: ignore[attr-defined]
        said = await asked.responses.create(
            model="agent",
            input=given,  # type: ignore[arg-type]
            include=["code_interpreter_call.outputs"],
        )
        assert said.output_text == "blue"
        assert [item.type for item in said.output] == ["reasoning", "code_interpreter_call", "reasoning", "message"]
        call: Any = said.output[1]
        assert [output.type for output in call.outputs] == ["logs", "image"]
        assert call.outputs[0].logs == "42\n"
        assert call.outputs[1].url.startswith("data:image/png;base64,")
        assert said.usage is not None
        assert said.usage.total_tokens == chat.usage.total_tokens


async def test_streams_of_both_apis() -> None:
    async with serving(agent(), sandbox=box()) as url, client(url) as asked:
        stream = await asked.chat.completions.create(
            model="agent", messages=asking(), stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        thoughts = [delta.reasoning_content for delta in deltas if hasattr(delta, "reasoning_content")]
        assert thoughts == [CODE, "\n\n" + ANSWER]
        assert "".join(delta.content or "" for delta in deltas) == "blue"
        assert chunks[-2].choices[0].finish_reason == "stop"
        assert chunks[-1].usage is not None

        async with asked.responses.stream(model="agent", input="Which colour?") as events:
            kinds = [event.type async for event in events]
            final = await events.get_final_response()
        assert final.output_text == "blue"
        assert [item.type for item in final.output] == ["reasoning", "code_interpreter_call", "reasoning", "message"]
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        assert kinds.count("response.output_item.done") == 4


async def test_the_question_keeps_order_roles_and_pictures() -> None:
    seen: list[Any] = []

    def hear(messages: Any) -> str:
        seen.append(messages)
        return ANSWER

    first, second = data_url("red"), data_url("green", (20, 10))
    talk = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "First:"}, _picture(first)]},
        {"role": "assistant", "content": "red"},
        {"role": "user", "content": [{"type": "text", "text": "And this?"}, _picture(second)]},
    ]
    async with serving({"m": ScriptedModel(hear)}, sandbox=box()) as url, client(url) as asked:
        await asked.chat.completions.create(model="m", messages=talk)  # type: ignore[arg-type]
    parts = seen[0][-1].parts
    text = "".join(getattr(part, "text", "[picture]") for part in parts)
    order = [text.index(word) for word in ("Instructions: Be short.", "User: First:", "Assistant: red", "And this?")]
    assert order == sorted(order)
    sizes = [(part.width, part.height) for part in parts if isinstance(part, ImagePart)]
    assert sizes == [(40, 30), (20, 10)]
    assert text.index("[picture]") > text.index("First:")


def _picture(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


async def test_extra_fields_choose_dialect_limits_choices_and_the_record() -> None:
    async with serving(agent(), sandbox=box()) as url, client(url) as asked:
        extra = {"dialect": "pyvision", "limits": {"turns": 1}, "choices": ["red", "blue"], "trajectory": True}
        chat = await asked.chat.completions.create(
            model="agent",
            messages=asking(),
            temperature=0.5,
            max_tokens=1000,
            extra_body={"saccade": {**extra, "media": True}},
        )
        own: Any = chat.saccade  # type: ignore[attr-defined]
        assert chat.choices[0].finish_reason == "length"
        assert own["stop"] == "turn_limit"
        provenance = own["trajectory"]["provenance"]
        assert (provenance["sampling"]["temperature"], provenance["limits"]["turns"]) == (0.5, 1)
        assert own["trajectory"]["task"]["choices"] == ["red", "blue"]
        assert provenance["settings"] == ""
        assert all(value.startswith("data:image/png") for value in own["media"].values())
        cut = await asked.chat.completions.create(model="agent", messages=asking(), stop="ue")
        assert cut.choices[0].message.content == "bl"


async def test_requests_that_never_end_keep_nobody_out() -> None:
    async with serving({"m": Held()}, sandbox=box(), max_requests=2, max_waiting=2) as url, client(url) as asked:
        host, port = httpx.URL(url).host, httpx.URL(url).port
        head = (
            f"POST /v1/responses HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: Bearer {TOKEN}\r\n"
            "content-type: application/json\r\ncontent-length: 900\r\n\r\n{"
        )
        half = [await asyncio.open_connection(host, port) for _ in range(12)]
        for _reader, writer in half:
            writer.write(head.encode())
            await writer.drain()
        # The first that came have made room for the last, and all of them for one that is whole.
        told = [(await reader.readline()).split()[1] for reader, _writer in half[:8]]
        assert told == [b"408"] * 8
        with pytest.raises(openai.NotFoundError):
            await asked.responses.create(model="no such model", input="Which?")
        for _reader, writer in half:
            writer.close()


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_ignored_of_a_request_is_named_in_its_answer(stream: bool) -> None:
    asks = {
        "/chat/completions": ({"messages": asking()}, {"reasoning_effort": "high", "user": "me", "metadata": None}),
        "/responses": ({"input": "Which?"}, {"reasoning": {"effort": "low"}, "service_tier": "flex"}),
    }
    names = {"/chat/completions": ["reasoning_effort", "user"], "/responses": ["reasoning", "service_tier"]}
    async with serving(agent(), sandbox=box()) as url, httpx.AsyncClient() as plain:
        for path, (question, more) in asks.items():
            for given, named in (({}, []), (more, names[path])):
                body = {"model": "agent", "stream": stream, **question, **given}
                answer = await plain.post(url + path, json=body, headers={"authorization": f"Bearer {TOKEN}"})
                assert answer.status_code == 200, answer.text
                events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
                last = json.loads([text for text in events or [answer.text] if '"ignored"' in text][-1])
                assert last.get("response", last)["saccade"]["ignored"] == named


BAD: list[tuple[dict[str, Any], int, str]] = [
    ({"model": "other"}, 404, "model"),
    ({"messages": []}, 400, "messages"),
    ({"messages": [{"role": "king", "content": "x"}]}, 400, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, 400, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"type": ["text"]}]}]}, 400, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": ""}]}, 400, ""),
    ({"stop": ["x", ""]}, 400, "stop"),
    ({"messages": [{"role": "assistant", "content": "x"}]}, 400, "messages"),
    ({"n": 2}, 400, "n"),
    ({"tools": [{"type": "function"}]}, 400, "tools"),
    ({"logprobs": True}, 400, "logprobs"),
    ({"reasoning_effort": 3}, 400, "reasoning_effort"),
    ({"verbosity": "low"}, 400, "verbosity"),
    ({"saccade": {"dialect": "pyvison"}}, 400, ""),
    ({"saccade": {"dialect": "os:system"}}, 400, ""),
    ({"saccade": {"dialect": "/tmp/evil.py:Dialect"}}, 400, ""),
    ({"saccade": {"dialect": "vista", "tools": ["/tmp/evil.py:Tool"]}}, 400, ""),
    ({"saccade": {"limits": {"turns": 65}}}, 400, "saccade.limits.turns"),
    ({"saccade": {"limits": {"wall_seconds": 1e6}}}, 400, "saccade.limits.wall_seconds"),
    ({"saccade": {"frames": {"count": 769}}}, 400, "saccade.frames.count"),
    ({"saccade": {"frames": {"fps": 1, "most": 10**6}}}, 400, "saccade.frames.most"),
    ({"saccade": {"frames": {"count": 2, "pixels": 10**9}}}, 400, "saccade.frames.pixels"),
    ({"saccade": {"prompt_file": "/etc/passwd"}}, 400, "saccade.prompt_file"),
]


@pytest.mark.parametrize(("change", "status", "param"), BAD)
@pytest.mark.few(5)
async def test_bad_input_is_an_error_in_openais_form_and_runs_nothing(
    change: dict[str, Any], status: int, param: str
) -> None:
    sandbox, model = box(), Slow(0)
    async with serving({"agent": model}, sandbox=sandbox) as url, client(url) as asked:
        body = {"model": "agent", "messages": asking(), **change}
        with pytest.raises(openai.APIStatusError) as caught:
            await asked.post("/chat/completions", body=body, cast_to=object)
    assert caught.value.status_code == status
    assert (caught.value.param or "") == param
    assert caught.value.type == "invalid_request_error"
    assert (model.asked, len(sandbox.opened)) == (0, 0)


PICTURES = [
    "/etc/passwd",
    "file:///etc/passwd",
    "http://127.0.0.1:1/secret.png",
    "data:image/png;base64,????",
    "data:image/png;base64,AAAA",
    "data:text/plain;base64,AAAA",
    "",
]


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.few(5)
async def test_pictures_are_data_and_nothing_is_fetched(picture: str, stream: bool) -> None:
    model = Slow(0)
    content = [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": "What?"}]
    body = {"model": "agent", "messages": [{"role": "user", "content": content}], "stream": stream}
    async with serving({"agent": model}, sandbox=box()) as url, client(url) as asked:
        with pytest.raises(openai.BadRequestError):
            await asked.post("/chat/completions", body=body, cast_to=object)
    assert model.asked == 0


async def test_a_path_is_no_picture_even_where_addresses_are_fetched(tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (9, 9)).save(tmp_path / "private.png")
    async with serving(agent(), sandbox=box(), allow_urls=True) as url, client(url) as asked:
        for path in (str(tmp_path / "private.png"), f"file://{tmp_path}/private.png"):
            with pytest.raises(openai.BadRequestError):
                await asked.chat.completions.create(model="agent", messages=asking(url=path))


@pytest.mark.parametrize(
    ("failure", "status"),
    [(ModelLostError("away"), 502), (ModelRefusedError("bad key"), 502), (SandboxLostError("dead"), 503)],
)
async def test_outages_are_errors_of_the_server(failure: Exception, status: int) -> None:
    def play(messages: Any) -> Any:
        return failure if not isinstance(failure, SandboxLostError) else CODE

    def run(code: str) -> RunResult:
        raise failure

    async with serving({"m": ScriptedModel(play)}, sandbox=ScriptedSandbox(run)) as url, client(url) as asked:
        with pytest.raises(openai.APIStatusError) as caught:
            await asked.chat.completions.create(model="m", messages=asking())
        assert caught.value.status_code == status
        assert caught.value.type == "server_error"
        stream = await asked.chat.completions.create(model="m", messages=asking(), stream=True)
        with pytest.raises(openai.APIError):
            _ = [chunk async for chunk in stream]
        events = await asked.responses.create(model="m", input="Which?", stream=True)
        assert [event.type async for event in events][-1] == "response.failed"


async def test_token_host_type_and_size() -> None:
    async with serving(agent(), sandbox=box(), max_body_bytes=2000) as url, httpx.AsyncClient() as plain:
        root, right = url.removesuffix("/v1"), {"authorization": f"Bearer {TOKEN}"}
        assert (await plain.get(f"{root}/health")).json() == {"ok": True}
        for path in ("/v1/models", "/metrics", "/v1/chat/completions", "/v1/nothing"):
            refused = await plain.get(root + path, headers={"authorization": "Bearer wrong"})
            assert refused.status_code == 401
            assert refused.json()["error"]["code"] == "invalid_api_key"
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost:1@evil.example", ""):
            elsewhere = await plain.get(f"{root}/metrics", headers={**right, "host": host})
            assert (elsewhere.status_code, elsewhere.json()["error"]["code"]) == (400, "other_host")
        for host in ("localhost", "LOCALHOST:80", "[::1]:80"):
            assert (await plain.get(f"{root}/metrics", headers={**right, "host": host})).status_code == 200
        answer = await plain.get(f"{url}/models", headers={**right, "origin": "http://evil.example"})
        assert "access-control-allow-origin" not in answer.headers
        chat = f"{url}/chat/completions"
        text = await plain.post(chat, headers={**right, "content-type": "text/plain"}, content=b"{}")
        assert text.status_code == 415
        large = await plain.post(chat, headers=right, json={"messages": "x" * 3000})
        assert large.status_code == 413
        broken = await plain.post(chat, headers={**right, "content-type": "application/json"}, content=b"{")
        assert broken.json()["error"]["code"] == "invalid_json"
        assert (await plain.get(f"{url}/nothing", headers=right)).json()["error"]["code"] == "not_found"
        got = await plain.get(chat, headers=right)
        assert (got.status_code, got.json()["error"]["code"]) == (405, "not_found")


class Held(Slow):
    """Answers once it is told to go."""

    def __init__(self) -> None:
        super().__init__(0)
        self.go = asyncio.Event()

    async def complete(self, *args: Any, **kwargs: Any) -> Any:
        await self.go.wait()
        return await super().complete(*args, **kwargs)


async def test_too_many_requests_are_refused_and_counted() -> None:
    model = Held()
    async with (
        serving({"m": model}, sandbox=box(), max_requests=1, max_waiting=1) as url,
        client(url) as asked,
        httpx.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as plain,
    ):

        async def metrics() -> str:
            return (await plain.get(url.replace("/v1", "/metrics"))).text

        tasks = [asyncio.create_task(asked.responses.create(model="m", input="Which?")) for _ in range(2)]
        while "saccade_requests_waiting 1" not in await metrics():
            await asyncio.sleep(0.02)
        with pytest.raises(openai.RateLimitError) as caught:
            await asked.responses.create(model="m", input="Which?")
        assert caught.value.code == "rate_limit_exceeded"
        model.go.set()
        await asyncio.gather(*tasks)
        text = await metrics()
    assert 'saccade_episodes_total{stop="answered"} 2' in text
    assert 'saccade_refusals_total{status="429"} 1' in text
    assert "saccade_turns_total 4" in text
    assert "saccade_requests_active 0" in text


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_ends_its_episode(stream: bool) -> None:
    sandbox = box()
    calls = iter([0.0, 60.0])

    class Hanging(Slow):
        async def complete(self, *args: Any, **kwargs: Any) -> Any:
            self.seconds = next(calls)
            return await super().complete(*args, **kwargs)

    model = Hanging(0)
    async with serving({"m": model}, sandbox=sandbox) as url, client(url) as asked:

        async def ask() -> None:
            if stream:
                async for _ in await asked.chat.completions.create(model="m", messages=asking(), stream=True):
                    pass
            else:
                await asked.chat.completions.create(model="m", messages=asking())

        task = asyncio.create_task(ask())
        await until(lambda: model.waiting == 1 and sandbox.live == 1)
        task.cancel()
        await until(lambda: model.cancelled == 1 and sandbox.live == 0)


async def test_the_server_stops_while_it_answers() -> None:
    model, sandbox = Slow(60), box()
    async with serving({"m": model}, sandbox=sandbox) as url, client(url) as asked:
        task = asyncio.create_task(asked.chat.completions.create(model="m", messages=asking()))
        await until(lambda: model.waiting == 1)
    assert model.cancelled == 1
    with pytest.raises(openai.OpenAIError):
        await task


@linux
async def test_requests_at_once_see_nothing_of_each_other(tmp_path: Path) -> None:
    spying = (
        "<code>\n```python\nimport glob, os\n"
        "found = [p for p in glob.glob('/tmp/**', recursive=True) if 'saccade-serve' in p]\n"
        "open('mine.txt', 'w').write('x')\n"
        "print('SPY', found, sorted(os.listdir('.')), image_clue_0.getpixel((0, 0)), 'image_clue_1' in dir())\n"
        "```\n</code>"
    )
    model = ScriptedModel(lambda messages: spying if len(messages) <= 2 else ANSWER)
    async with serving({"m": model}) as url, client(url) as asked:
        colours = ["red", "blue", "white", "black"]
        answers = await asyncio.gather(
            *(
                asked.chat.completions.create(
                    model="m",
                    messages=asking(url=data_url(colour)),
                    extra_body={"saccade": {"trajectory": True, "media": True}},
                )
                for colour in colours
            )
        )
    pixels = {"red": (255, 0, 0), "blue": (0, 0, 255), "white": (255, 255, 255), "black": (0, 0, 0)}
    for colour, answer in zip(colours, answers, strict=True):
        own: Any = answer.saccade  # type: ignore[attr-defined]
        printed = own["trajectory"]["turns"][0]["execution"]["stdout"]
        assert printed == f"SPY [] ['mine.txt'] {pixels[colour]} False\n"
        assert len(own["media"]) == 1


async def test_a_served_agent_as_the_model_behind_another(monkeypatch: pytest.MonkeyPatch) -> None:
    from saccade.models.registry import load_model

    monkeypatch.setenv("SACCADE_COMPATIBLE_API_KEY", TOKEN)
    inner = ScriptedModel(lambda messages: "<answer>\n\\boxed{<answer>\n\\boxed{deep}\n</answer>}\n</answer>")
    async with serving({"inner": inner}, sandbox=box()) as url:
        model = load_model(f"compatible:inner@{url}")
        async with serving({"outer": model}, sandbox=box()) as outer, client(outer) as asked:
            chat = await asked.chat.completions.create(model="outer", messages=asking())
    assert "deep" in (chat.choices[0].message.content or "")


async def test_secrets_and_questions_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving({"m": ScriptedModel([RuntimeError("inside")])}, sandbox=box()) as url, client(url) as asked:
        with pytest.raises(openai.InternalServerError) as caught:
            await asked.chat.completions.create(model="m", messages=asking("a private question"))
    assert "inside" not in str(caught.value)
    own = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith(("saccade", "uvicorn")))
    assert "fault of the server" in own
    assert TOKEN not in own
    assert "private question" not in own


async def until(done: Any) -> None:
    for _ in range(500):
        if done():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come to that")


def idle_box() -> ScriptedSandbox:
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
    async with serving({"m": ScriptedModel(hear)}, sandbox=idle_box(), base=base) as url, client(url) as asked:
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
    async with serving({"agent": model}, sandbox=idle_box(), **few) as url, httpx.AsyncClient(headers=headers) as plain:
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
    async with serving({"agent": model}, sandbox=idle_box()) as url, httpx.AsyncClient(headers=headers) as plain:
        for body in wrong:
            refused = await plain.post(f"{url}/{path}", content=body)
            assert refused.status_code == 400, (body[:80], refused.text)
            assert refused.json()["error"]["type"] == "invalid_request_error"
        right = f'{{"model": "agent", {SAID[path]}, "user": "a whole pair \\ud83d\\ude00"}}'
        assert (await plain.post(f"{url}/{path}", content=right.encode())).status_code == 200


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_agent_answers_another_loop(streamed: bool) -> None:
    box = ScriptedSandbox(lambda code: RunResult(Status.OK, stdout="42\n", committed=True), keep=True)
    heard: list[str] = []
    async with serving({"agent": ScriptedModel(two_turns, name="agent")}, sandbox=box) as url:
        model = ResponsesModel(endpoint(url, model="agent"), api_key=TOKEN)
        answer = await model.complete(ask(), Media(), on_text=heard.append if streamed else None)
        await model.close()
    assert answer.text.endswith("</think>blue")
    assert (answer.finish, answer.model) == (FinishReason.STOP, "agent")
    assert answer.usage.sampled_tokens
    assert "".join(heard) == (answer.text if streamed else "")


def test_calls_of_a_providers_sandbox_are_items_too() -> None:
    run = Execution(status=Status.ERROR, stdout="1", traceback="no")
    turn = Turn(text="x", action=Answer(text="x"), hosted=(HostedCall(tool="t", code="print(1)", execution=run),))
    asked: Any = SimpleNamespace(with_outputs=True)
    _, item = _items(turn, asked, play=None)  # type: ignore[arg-type]
    assert (item["code"], item["outputs"]) == ("print(1)", [{"type": "logs", "logs": "1\nno"}])


def asked(path: str, body: dict[str, Any]) -> Any:
    """What a body asks of an agent."""
    from saccade.plugins.serve.agent_app import read_response_request
    from saccade.plugins.serve.agent_request import AgentServeSettings
    from saccade.plugins.serve.openai_chat import read_chat

    given = {"input": "q"} if path == "responses" else {"messages": [{"role": "user", "content": "q"}]}
    read = read_response_request if path == "responses" else read_chat
    return read({**given, **body}, AgentServeSettings(), allow_urls=False, specs={"short": "openai:gpt-5.4"})


@pytest.mark.parametrize("path", ["chat", "responses"])
@pytest.mark.parametrize(
    ("model", "effort", "reasoning"),
    [
        ("openai:gpt-5.4", "low", "low"),
        ("short", "low", "low"),
        ("openai:gpt-5.4", "none", "off"),
        ("openai:gpt-5.4", "xhigh", "high"),
        ("vllm:Qwen/Qwen3.5-9B@http://h:1/v1", "minimal", "low"),
        ("openai:gpt-4.1", "low", None),
        ("scripted:a.json", "low", None),
        ("agent", "low", None),
        ("openai:gpt-5.4", "other", None),
        ("openai:gpt-5.4", None, None),
    ],
)
def test_an_effort_reaches_a_model_that_can_be_told(
    path: str, model: str, effort: str | None, reasoning: str | None
) -> None:
    name = "reasoning" if path == "responses" else "reasoning_effort"
    given = (
        {"reasoning": {"effort": effort, "summary": "auto"}} if path == "responses" else {"reasoning_effort": effort}
    )
    question = asked(path, {"model": model, **given})
    assert question.sampling.reasoning == reasoning
    assert (name in question.ignored) is (reasoning is None and (path == "responses" or effort is not None))


@pytest.mark.parametrize("path", ["chat", "responses"])
@pytest.mark.parametrize(
    "given",
    [
        {"logit_bias": {}, "top_logprobs": None, "functions": [], "audio": None},
        {"top_logprobs": 0, "best_of": 1, "echo": False, "min_p": 0.0, "repetition_penalty": 1.0},
        {"function_call": "none", "ignore_eos": False, "prompt": None, "conversation": None},
        {"stop": "", "verbosity": "medium", "include": ["reasoning.encrypted_content"]},
        {"text": {"format": {"type": "text"}, "verbosity": "medium"}},
    ],
)
def test_fields_that_ask_for_nothing_are_taken(path: str, given: dict[str, Any]) -> None:
    assert asked(path, {"model": "agent", **given}).ignored == ()


@pytest.mark.parametrize("given", [{"logit_bias": {"5": 1}}, {"top_logprobs": 3}, {"best_of": 2}, {"min_p": 0.1}])
def test_fields_that_ask_for_something_are_refused(given: dict[str, Any]) -> None:
    from saccade.plugins.serve.agent_request import RequestError

    with pytest.raises(RequestError, match=next(iter(given))):
        asked("chat", {"model": "agent", **given})


def test_pictures_however_their_urls_are_written() -> None:
    from saccade.plugins.serve.agent_request import RequestError

    data = bytes(range(256)) * 3 + b"??>"
    plain = base64.b64encode(data).decode()
    lines = "\r\n".join(plain[at : at + 76] for at in range(0, len(plain), 76))
    for url in (
        f"data:image/png;base64,{plain}",
        f"data:application/octet-stream;base64,{plain}",
        f"data:;base64,{plain}",
        f"data:image/svg+xml;charset=utf-8;base64, {plain}",
        f"DATA:image/png;BASE64,{plain}",
        f"data:image/png;base64,{lines}",
        f"data:image/png;base64,{plain.rstrip('=')}",
        f"data:image/png;base64,{base64.urlsafe_b64encode(data).decode()}",
        f"data:image/png;base64,{plain.replace('+', '%2B').replace('/', '%2F').replace('=', '%3D')}",
    ):
        part = {"type": "image_url", "image_url": {"url": url}}
        question = asked("chat", {"model": "agent", "messages": [{"role": "user", "content": [part]}]})
        assert question.question.media == (data,), url[:60]
    for url in ("data:image/png;base64,!!!!", "data:image/png,abc", "image/png;base64,aaaa"):
        part = {"type": "image_url", "image_url": {"url": url}}
        with pytest.raises(RequestError, match="image_url"):
            asked("chat", {"model": "agent", "messages": [{"role": "user", "content": [part]}]})
