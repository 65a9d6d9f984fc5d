"""Both clients against a server that misbehaves; no test waits for a back-off."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response
from tests.models.helpers import Media, Waits, ask, endpoint
from tests.models.wire_server import (
    Behaviour,
    WireServer,
    chat,
    delta,
    message_events,
    messages,
    raw,
    slow,
    status,
    stream,
    then_slow,
)

from saccade.core.retry import RetryPolicy
from saccade.errors import ModelDeniedError, ModelLostError, ModelRefusedError
from saccade.models.base import Model
from saccade.models.providers.anthropic import AnthropicModel
from saccade.models.providers.openai import OpenAIModel
from saccade.record.trajectory import Sampling

THREE = RetryPolicy(tries=3, first_seconds=2.0)
Maker = Callable[..., Model]


@pytest.fixture(params=["openai", "openai streamed", "anthropic"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
async def model(server: WireServer, kind: str, waits: Waits) -> AsyncIterator[Model]:
    made = make(kind, server.url, waits)
    yield made
    await made.close()


def make(kind: str, url: str, waits: Waits, **fields: Any) -> Model:
    if kind == "anthropic":
        return AnthropicModel(endpoint(url, waits, retry=fields.pop("retry", THREE), **fields), api_key="k-1")
    return OpenAIModel(endpoint(url + "/v1", waits, retry=fields.pop("retry", THREE), **fields), api_key="k-1")


def right(kind: str) -> Behaviour:
    return messages() if kind == "anthropic" else chat()


def listener(kind: str) -> Callable[[str], None] | None:
    return None if kind == "openai" else lambda _: None


def broken(kind: str) -> dict[str, Behaviour]:
    """Outages by name, in the words of the protocol."""
    shared = {
        "rate limit": status(429),
        "server error": status(500),
        "overloaded": status(529),
        "time-out": status(408),
        "wrong content type": raw("<html>proxy</html>", "text/html"),
        "broken JSON": raw('{"id": '),
        "JSON of another kind": raw("[1, 2]"),
        "empty": raw(""),
    }
    if kind == "openai":
        return {
            **shared,
            "no choices": raw('{"choices": []}'),
            "odd choice": raw('{"choices": ["x"]}'),
            "unknown end": chat(finish="abort"),
        }
    if kind == "anthropic":
        return {
            **shared,
            "cut stream": messages(upto=4),
            "closed connection": messages(upto=4, breaks=True),
            "broken event": raw("event: message_start\ndata: {\n\n", "text/event-stream"),
            "odd event": raw('event: message_start\ndata: {"type": "message_start"}\n\n', "text/event-stream"),
            "error in the stream": raw(
                "".join(message_events()[:3])
                + 'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}\n\n',
                "text/event-stream",
            ),
            "unknown end": messages(reason="abort"),
        }
    return {
        **shared,
        "cut stream": stream(delta("a")),
        "closed connection": stream(delta("a"), breaks=True),
        "broken event": stream(delta("a"), '{"choices": '),
        "odd event": stream('{"choices": [1]}'),
        "error in the stream": stream(delta("a"), json.dumps({"error": {"message": "overloaded"}})),
        "unknown end": chat(finish="abort"),
    }


@pytest.mark.few(2)
async def test_every_outage_is_tried_again_and_named_in_the_end(
    server: WireServer, model: Model, kind: str, waits: Waits
) -> None:
    for name, behaviour in broken(kind).items():
        server.will(behaviour, behaviour, right(kind))
        answer = await model.complete(ask(), Media(), on_text=listener(kind))
        assert (answer.text, len(server.bodies)) == ("hello", 3), name

        server.will(behaviour)
        with pytest.raises(ModelLostError, match="Tried 3 times") as caught:
            await model.complete(ask(), Media(), on_text=listener(kind))
        assert len(server.bodies) == 3, name
        assert type(caught.value) is ModelLostError
        assert model.name in str(caught.value), name
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
    assert waits == [1.0, 2.0] * 2 * len(broken(kind))


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 413, 422])
async def test_a_refusal_is_not_tried_again(server: WireServer, model: Model, kind: str, code: int) -> None:
    server.will(status(code, "the reason"))
    with pytest.raises(ModelRefusedError, match=rf"\({code}\).*the reason") as caught:
        await model.complete(ask(), Media(), on_text=listener(kind))
    assert len(server.bodies) == 1
    assert caught.value.__context__ is None
    assert isinstance(caught.value, ModelDeniedError) is (code in (401, 403, 404))  # every request would meet these


async def test_retry_after_as_a_date(server: WireServer, model: Model, kind: str, waits: Waits) -> None:
    server.will(status(429, retry_after=formatdate(4_000_000_000, usegmt=True)))
    with pytest.raises(ModelLostError, match="longer than the policy allows"):
        await model.complete(ask(), Media(), on_text=listener(kind))
    server.will(status(429, retry_after="soon"), right(kind))
    await model.complete(ask(), Media(), on_text=listener(kind))
    assert waits == [1.0]


async def test_a_spent_budget_is_a_refusal(server: WireServer, waits: Waits) -> None:
    async def spent(_: dict[str, Any]) -> Any:
        from fastapi.responses import JSONResponse

        return JSONResponse({"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}, 429)

    server.will(spent)
    model = make("openai", server.url, waits)
    with pytest.raises(ModelRefusedError, match="plan and budget"):
        await model.complete(ask(), Media())
    await model.close()
    assert len(server.bodies) == 1


async def test_nobody_there(kind: str, waits: Waits) -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listening = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    model = make(kind, url, waits)
    with pytest.raises(ModelLostError, match="cannot be reached"):
        await model.complete(ask(), Media(), on_text=listener(kind))
    listening.close()
    await listening.wait_closed()
    with pytest.raises(ModelLostError, match="cannot be reached"):
        await model.complete(ask(), Media(), on_text=listener(kind))
    await model.close()


async def test_a_slow_server_is_an_outage(server: WireServer, kind: str, waits: Waits) -> None:
    server.will(slow(server), slow(server), right(kind))
    model = make(kind, server.url, waits, retry=RetryPolicy(tries=3, seconds=0.2))
    assert (await model.complete(ask(), Media(), on_text=listener(kind))).text == "hello"
    await model.close()


async def test_cancelling_leaves_nothing_behind(server: WireServer, model: Model, kind: str, waits: Waits) -> None:
    server.will(slow(server))
    task = asyncio.create_task(model.complete(ask(), Media(), on_text=listener(kind)))
    while not server.bodies:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.aborted.wait, 10), "the server still answers"
    assert len(server.bodies) == 1
    assert waits == []
    gc.collect()  # an unclosed stream or connection would warn, and warnings are errors
    server.will(right(kind))
    assert (await model.complete(ask(), Media(), on_text=listener(kind))).text == "hello"


async def test_a_broken_stream_begins_again_after_an_empty_piece(server: WireServer, waits: Waits) -> None:
    heard: list[str] = []
    server.will(stream(delta("he"), delta("lp"), breaks=True), status(500), chat())
    model = make("openai", server.url, waits)
    answer = await model.complete(ask(), Media(), on_text=heard.append)
    await model.close()
    assert heard[:3] == ["he", "lp", ""]
    assert "".join(heard[3:]) == answer.text == "hello"
    assert heard.count("") == 1


@pytest.mark.parametrize("error", [ValueError, BrokenPipeError])
async def test_a_fault_of_the_listener_is_no_outage(
    server: WireServer, model: Model, kind: str, waits: Waits, error: type[Exception]
) -> None:
    def deaf(_: str) -> None:
        raise error("mine")

    server.will(right(kind))
    with pytest.raises(error, match="mine"):
        await model.complete(ask(), Media(), on_text=deaf)
    assert waits == []


async def test_cutting_a_text_here_ends_the_servers_work(server: WireServer, waits: Waits) -> None:
    server.will(then_slow(server, delta("a###b")))
    model = make("openai", server.url, waits)
    assert (await model.complete(ask(stop=("###",)), Media())).text == "a###"
    assert await asyncio.to_thread(server.aborted.wait, 10), "the server still answers"
    await model.close()


def test_waits_grow_and_have_bounds() -> None:
    policy = RetryPolicy(first_seconds=1.0, most_seconds=8.0)
    assert [policy.wait(tried, 0.0) for tried in (1, 2, 3, 4, 5, 500)] == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert policy.wait(1, 0.999) < 1.0


@pytest.mark.parametrize(
    "said",
    [
        '{"detail": "no field top_q"}',
        '{"detail": [{"loc": ["body"], "msg": "no field top_q"}]}',
        '{"error": "no field top_q"}',
        '[{"error": {"code": 422, "message": "no field top_q"}}]',
        "no field top_q",
        "<html><head><title>422</title></head>\n<body><h1>no field\n top_q</h1></body></html>",
    ],
)
async def test_a_reason_in_any_form_is_passed_on(server: WireServer, said: str) -> None:
    async def refuse(_: dict[str, Any]) -> Response:
        return Response(said, 422)

    server.will(refuse)
    model = OpenAIModel(endpoint(server.url + "/v1"), server="compatible")
    with pytest.raises(ModelRefusedError, match="no field top_q"):
        await model.complete(ask(), Media())
    await model.close()


async def test_retry_after_is_honoured_and_every_wait_is_said_when_it_begins(
    server: WireServer, model: Model, kind: str, waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    server.will(status(429, "slow down", retry_after="8"), status(500, "oh", retry_after="0"), right(kind))
    await model.complete(ask(), Media(), on_text=listener(kind))
    assert waits == [8.0, 2.0]
    said = [record.getMessage() for record in caplog.records if record.name.startswith("saccade.")]
    assert said == [
        f"{model.name} asks for a pause (429): slow down. Trying again in 8 s (2 of 3).",
        f"{model.name} failed (500): oh. Trying again in 2 s (3 of 3).",
    ]


async def test_the_advice_names_settings_and_the_address(kind: str, waits: Waits) -> None:
    assert {"tries", "seconds", "total_seconds", "max_retry_after"} <= RetryPolicy.model_fields.keys()
    model = make(kind, "http://someone:secret@127.0.0.1:9", waits)
    with pytest.raises(ModelLostError, match=r"at http://127\.0\.0\.1:9.* Tried 3 times.*retry\.tries") as caught:
        await model.complete(ask(), Media())
    await model.close()
    assert ".." not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "Connection error" not in str(caught.value)


async def test_all_tries_together_have_a_bound(server: WireServer, kind: str) -> None:
    server.will(slow(server))
    one = RetryPolicy(tries=6, seconds=60, total_seconds=0.3)
    model = make(kind, server.url, Waits(), retry=one)
    with pytest.raises(ModelLostError, match=r"0\.3 s.*retry\.total_seconds") as caught:
        await model.complete(ask(), Media(), on_text=listener(kind))
    assert caught.value.__context__ is None
    await model.close()
    assert len(server.bodies) == 1


async def test_a_wait_beyond_the_bound_is_not_begun(server: WireServer, kind: str, waits: Waits) -> None:
    server.will(status(429, retry_after="100"))
    model = make(kind, server.url, waits, retry=RetryPolicy(total_seconds=50))
    with pytest.raises(ModelLostError, match=r"Tried 1 time; gave up.*retry\.total_seconds"):
        await model.complete(ask(), Media(), on_text=listener(kind))
    await model.close()
    assert (len(server.bodies), waits) == (1, [])


def unsupported(name: str, words: str) -> Behaviour:
    """Refuses a parameter in OpenAI's words and form, which Anthropic's has without `param`."""

    async def behave(body: dict[str, Any]) -> Response:
        if name in body:
            content = {"message": words, "type": "invalid_request_error", "param": None, "code": "unsupported_value"}
            return JSONResponse({"type": "error", "error": content}, 400)
        return await (messages() if "max_tokens" in body else chat())(body)

    return behave


@pytest.mark.parametrize(
    "words",
    [
        "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
        "`temperature` is deprecated for this model.",
    ],
)
async def test_a_model_without_temperature_is_asked_without_it_and_that_is_said_once(
    server: WireServer, model: Model, kind: str, caplog: pytest.LogCaptureFixture, words: str
) -> None:
    server.will(unsupported("temperature", words))
    request = ask(sampling=Sampling(temperature=0.0))
    texts = await asyncio.gather(*(model.complete(request, Media(), on_text=listener(kind)) for _ in range(3)))
    texts.append(await model.complete(request, Media(), on_text=listener(kind)))
    assert [answer.text for answer in texts] == ["hello"] * 4
    assert "temperature" not in server.bodies[-1]
    assert len(server.bodies) <= 7
    assert [record.getMessage() for record in caplog.records if "takes no temperature" in record.getMessage()] == [
        f"{model.name} takes no temperature; it is asked without, so its own default holds."
    ]


async def test_a_wrong_temperature_is_not_left_out(server: WireServer, model: Model, kind: str) -> None:
    words = "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3."
    server.will(status(400, words, param="temperature"))
    with pytest.raises(ModelRefusedError, match="above maximum"):
        await model.complete(ask(sampling=Sampling(temperature=3.0)), Media(), on_text=listener(kind))
    assert len(server.bodies) == 1
