"""Gemini through google-genai, against a local server in the documented forms."""

from __future__ import annotations

import base64
import json
import logging
import traceback
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.responses import JSONResponse
from PIL import Image
from tests.evals.support import results, write_tasks
from tests.models.helpers import Media, Waits, ask, endpoint, said
from tests.models.wire_gemini import blocked, called, generated, google_error, silent
from tests.models.wire_server import Behaviour, WireServer, chat, message_events, raw, stream

from saccade.core.retry import RetryPolicy
from saccade.errors import ContextLimitError, ModelDeniedError, ModelError, ModelLostError, ModelRefusedError
from saccade.evals.run import evaluate
from saccade.evals.settings import EvalSettings
from saccade.models.base import Model, Request, ToolSpec
from saccade.models.providers.anthropic import AnthropicModel
from saccade.models.providers.gemini import GeminiModel
from saccade.models.providers.openai import OpenAIModel
from saccade.record.content import Message, TextPart, ToolCall, VideoPart
from saccade.record.trajectory import FinishReason, Sampling

ONCE = RetryPolicy(tries=1)


def answering(body: Any, code: int = 400) -> Behaviour:
    async def behave(_: dict[str, Any]) -> JSONResponse:
        return JSONResponse(body, code)

    return behave


def openai(message: str, code: str | None = "context_length_exceeded", kind: str = "invalid_request_error") -> Any:
    return {"error": {"message": message, "type": kind, "param": "messages", "code": code}}


def bare(message: str) -> Any:
    """As vLLM up to 0.9 and SGLang send it: without an inner object."""
    return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}


def claude(message: str, kind: str = "invalid_request_error") -> Any:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"}


LONG = (
    "This model's maximum context length is 4096 tokens. However, you requested 4472 tokens (376 in the messages, "
    "4096 in the completion). Please reduce the length of the messages or completion."
)
FULL: dict[str, tuple[str, int, Any]] = {
    "OpenAI": ("openai", 400, openai(LONG)),
    "OpenAI, by its code alone": ("openai", 400, openai("Too much.")),
    "OpenAI's newer models": ("openai", 400, openai("Your input exceeds the context window of this model.", None)),
    "OpenAI's limit of input": (
        "openai",
        400,
        openai("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens."),
    ),
    "Azure": ("azure", 400, openai(LONG)),
    "vLLM": ("vllm", 400, bare(LONG)),
    "vLLM with an inner object": ("vllm", 400, openai(LONG, None, "BadRequestError")),
    "vLLM with pictures": (
        "vllm",
        400,
        openai("The decoder prompt (length 15083) is longer than the maximum model length of 8192.", None),
    ),
    "vLLM, newer": ("vllm", 400, openai("Input length (6749) exceeds model's maximum context length (4096).", None)),
    "vLLM with no room for an answer": ("vllm", 400, bare("max_tokens must be at least 1, got -186.")),
    "SGLang": (
        "sglang",
        400,
        bare("The input (61709 tokens) is longer than the model's context length (40960 tokens)."),
    ),
    "SGLang with the answer": (
        "sglang",
        400,
        bare("Requested token count exceeds the model's maximum context length of 131072 tokens."),
    ),
    "SGLang with pictures": (
        "sglang",
        400,
        bare("Multimodal prompt is too long after expanding multimodal tokens. After expanding 9 => 9000 >= 8186."),
    ),
    "SGLang with little memory": (
        "sglang",
        400,
        bare("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)."),
    ),
    "llama.cpp": (
        "compatible",
        400,
        openai("the request exceeds the available context size", None, "exceed_context_size_error"),
    ),
    "llama.cpp as a fault of its own": ("compatible", 500, openai("Context size has been exceeded.", None)),
    "Google": (
        "compatible",
        400,
        openai("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", None),
    ),
    "Anthropic": ("anthropic", 400, claude("prompt is too long: 208656 tokens > 200000 maximum")),
    "Anthropic with the answer": (
        "anthropic",
        400,
        claude("input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length"),
    ),
}
OTHER: dict[str, tuple[str, int, Any, type[Exception]]] = {
    "an answer longer than the model's": (
        "openai",
        400,
        openai("max_tokens is too large: 20000. This model supports at most 16384 completion tokens.", None),
        ModelRefusedError,
    ),
    "a long text": ("openai", 400, openai("'messages[0].content': string too long.", "string_above_max_length"),
                    ModelRefusedError),
    "tokens in a minute": (
        "openai",
        429,
        openai("Request too large: the prompt is too long for your limit of tokens per min.", "rate_limit_exceeded"),
        ModelLostError,
    ),
    "bytes": ("anthropic", 413, claude("Request exceeds the maximum size", "request_too_large"), ModelRefusedError),
}  # fmt: skip


def model_of(kind: str, url: str) -> Model:
    there = endpoint(url if kind == "anthropic" else url + "/v1", Waits(), retry=ONCE)
    return (
        AnthropicModel(there, api_key="key-1")
        if kind == "anthropic"
        else OpenAIModel(there, server=kind, api_key="key-1")
    )


@pytest.mark.parametrize("name", FULL)
@pytest.mark.few(6)
async def test_a_full_context_is_told_from_other_refusals(server: WireServer, name: str) -> None:
    kind, code, body = FULL[name]
    server.will(answering(body, code))
    model = model_of(kind, server.url)
    words = body.get("error", body)["message"].rstrip(".")
    for on_text in (None, lambda _: None):
        with pytest.raises(ContextLimitError) as caught:
            await model.complete(ask(), Media(), on_text=on_text)
        assert words in str(caught.value)
    assert len(server.bodies) == 2, "it was tried again"
    await model.close()


@pytest.mark.parametrize("name", OTHER)
async def test_what_looks_like_a_full_context_is_none(server: WireServer, name: str) -> None:
    kind, code, body, error = OTHER[name]
    server.will(answering(body, code))
    model = model_of(kind, server.url)
    with pytest.raises(error) as caught:
        await model.complete(ask(), Media())
    assert not isinstance(caught.value, ContextLimitError)
    await model.close()


@pytest.mark.parametrize("kind", ["vllm", "anthropic"])
async def test_it_is_heard_inside_a_stream_too(server: WireServer, kind: str) -> None:
    if kind == "vllm":
        server.will(raw(f"data: {json.dumps({'error': bare(LONG)})}\n\n", "text/event-stream"))
    else:
        error = json.dumps(claude("prompt is too long: 9 tokens > 8 maximum"))
        events = message_events()[0] + f"event: error\ndata: {error}\n\n"
        server.will(raw(events, "text/event-stream"))
    model = model_of(kind, server.url)
    with pytest.raises(ContextLimitError):
        await model.complete(ask(), Media(), on_text=lambda _: None)
    await model.close()


async def test_such_samples_count_and_are_not_played_again(server: WireServer, tmp_path: Path) -> None:
    async def half(body: dict[str, Any]) -> Any:
        if "1 + 1" in json.dumps(body) or "3 + 3" in json.dumps(body):
            return await answering(bare(LONG))(body)
        return await chat("<answer>0</answer>")(body)

    server.will(half)
    tasks = write_tasks(tmp_path / "tasks", 4)
    settings = EvalSettings(model=f"vllm:m@{server.url}/v1", dialect="direct", sources=(str(tasks),))
    made = await evaluate(settings, tmp_path / "run", workers=2)
    assert made.summary.stops == {"answered": 2, "context_limit": 2}
    assert (made.summary.total.samples, made.summary.missing, made.summary.total.avg) == (4, 0, 0.25)
    assert {row["id"]: row["correct"] for row in results(tmp_path / "run")}["t1#0"] == 0.0
    assert "maximum context length is 4096" in (tmp_path / "run" / "trajectories.jsonl").read_text()
    server.will(half)
    again = await evaluate(settings, tmp_path / "run", workers=2)
    assert (again.progress.skipped, len(server.bodies)) == (4, 0)


Maker = Callable[..., GeminiModel]
CANARY = "AIza-canary-77"
TOOL = ToolSpec("crop", "Cut out.", {"type": "object", "properties": {"x": {"type": "integer"}}})


@pytest.fixture
async def make(server: WireServer) -> AsyncIterator[Maker]:
    made: list[GeminiModel] = []

    def maker(model: str = "gemini-3-flash", waits: Waits | None = None, tries: int = 2) -> GeminiModel:
        place = endpoint(server.url, waits, model=model, retry=RetryPolicy(tries=tries))
        made.append(GeminiModel(place, api_key=CANARY))
        return made[-1]

    yield maker
    for model in made:
        await model.close()
        await model.close()


@pytest.mark.parametrize("streamed", [False, True])
async def test_text_usage_and_thoughts_are_counted(server: WireServer, make: Maker, streamed: bool) -> None:
    server.will(generated({"text": "Hm.", "thought": True}, "hi there"))
    heard: list[str] = []
    answer = await make().complete(ask(), Media(), on_text=heard.append if streamed else None)
    assert answer.finish is FinishReason.STOP
    assert answer.model == "served-3"
    assert "hi there" in answer.text
    assert "<think>Hm." in answer.text
    assert "".join(heard) == (answer.text if streamed else "")
    assert len(heard) > 5 or not streamed
    usage = answer.usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.sampled_tokens) == (1000, 400, 40)
    assert server.headers[0]["x-goog-api-key"] == CANARY
    body = server.bodies[0]
    assert body["systemInstruction"]["parts"] == [{"text": "Look."}]
    assert body["contents"] == [{"role": "user", "parts": [{"text": "What?"}]}]


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("STOP", FinishReason.STOP_STRING),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("SAFETY", FinishReason.FILTERED),
        ("RECITATION", FinishReason.FILTERED),
    ],
)
async def test_how_an_answer_ends(server: WireServer, make: Maker, finish: str, expected: FinishReason) -> None:
    server.will(generated("<code>1", finish=finish))
    answer = await make().complete(ask(stop=("</code>",)), Media())
    assert answer.finish is expected
    assert answer.text == "<code>1" + "</code>" * (expected is FinishReason.STOP_STRING)
    assert server.bodies[0]["generationConfig"]["stopSequences"] == ["</code>"]


async def test_stops_that_cannot_be_inferred_are_cut_here(server: WireServer, make: Maker) -> None:
    server.will(generated("one\n\ntwo"))
    answer = await make().complete(ask(stop=("\n\n",)), Media())
    assert (answer.text, answer.finish) == ("one\n\n", FinishReason.STOP_STRING)
    assert (answer.usage.sampled_tokens, answer.usage.dollars) == (None, None)
    assert "stopSequences" not in server.bodies[0].get("generationConfig", {})


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_goes_back_with_its_signature(server: WireServer, make: Maker, streamed: bool) -> None:
    server.will(generated("I crop.", called("crop", {"x": 1})))
    media, model = Media(), make()
    on_text = [].append if streamed else None  # type: ignore[var-annotated]
    first = await model.complete(ask(tools=(TOOL,)), media, on_text=on_text)
    assert (first.text, first.finish) == ("I crop.", FinishReason.TOOL_CALL)
    [call] = first.tool_calls
    assert (call.name, call.arguments, call.call_id) == ("crop", {"x": 1}, "f1")
    declared = server.bodies[0]["tools"][0]["functionDeclarations"][0]
    assert (declared["name"], declared["parameters_json_schema"]) == ("crop", TOOL.parameters)

    picture = media.put(Image.new("RGB", (2, 2)))
    result = Message(role="tool", parts=(TextPart(text="done "), picture), call_id="f1")
    wrote = Message(role="assistant", parts=(TextPart(text=first.text),), calls=(call,))
    await model.complete(Request((*ask().messages, wrote, result), tools=(TOOL,)), media)
    turn, back = server.bodies[1]["contents"][1:]
    assert base64.b64decode(turn["parts"][1]["thoughtSignature"]) == b"sealed"
    assert back["parts"][0]["functionResponse"] == {"id": "f1", "name": "crop", "response": {"output": "done "}}
    assert base64.b64decode(back["parts"][1]["inlineData"]["data"]) == media.get_bytes(picture.sha256)


async def test_calls_of_another_model_are_said_to_be_unsigned(server: WireServer, make: Maker) -> None:
    call = ToolCall(name="crop", arguments={}, call_id="a")
    talk = (Message(role="assistant", parts=(), calls=(call,)), Message(role="tool", parts=(), call_id="a"))
    request = Request((*ask().messages, *talk), tools=(TOOL,))
    server.will(generated())
    await make().complete(request, Media())
    signature = server.bodies[0]["contents"][1]["parts"][0]["thoughtSignature"]
    assert base64.b64decode(signature) == b"skip_thought_signature_validator"
    with pytest.raises(ModelRefusedError, match="thought_signature"):  # the older model is asked without
        await make("gemini-2.5-pro").complete(request, Media())


async def test_pictures_videos_and_sampling(server: WireServer, make: Maker) -> None:
    server.will(generated("ok"))
    media = Media()
    gif = media.put(Image.new("RGB", (2, 2)), "GIF", "image/gif")
    media.stored["a" * 64] = b"film"
    video = VideoPart(sha256="a" * 64, width=2, height=2, frames=1, fps=1, seconds=1)
    sampling = Sampling(temperature=0.5, top_p=0.5, top_k=4, seed=3, max_tokens=9)
    await make().complete(ask(gif, video, "What?", sampling=sampling), media)
    parts = server.bodies[0]["contents"][0]["parts"]
    assert [part.get("inlineData", {}).get("mime_type") for part in parts] == ["image/png", "video/mp4", None]
    assert base64.b64decode(parts[1]["inlineData"]["data"]) == b"film"
    expected = {"temperature": 0.5, "topP": 0.5, "topK": 4, "seed": 3, "maxOutputTokens": 9}
    assert server.bodies[0]["generationConfig"] == expected
    animated = video.model_copy(update={"mime": "image/gif"})
    for request, word in ((ask(animated), "MP4"), (Request((said("system", gif),)), "system message")):
        with pytest.raises(ModelRefusedError, match=word):
            await make().complete(request, media)
    with pytest.raises(ModelRefusedError, match="continue"):
        await make().complete(Request((*ask().messages, said("assistant", "I"))), media)


async def test_a_blocked_request_is_filtered(server: WireServer, make: Maker) -> None:
    server.will(blocked("PROHIBITED_CONTENT"))
    for on_text in (None, [].append):  # type: ignore[var-annotated]
        answer = await make().complete(ask(), Media(), on_text=on_text)
        assert (answer.text, answer.finish) == ("", FinishReason.FILTERED)
        assert "PROHIBITED_CONTENT" in answer.notes[0]


async def test_outages_are_tried_again(server: WireServer, make: Maker) -> None:
    waits = Waits()
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}
    server.will(
        google_error(429, "RESOURCE_EXHAUSTED", "slow down", retry),
        google_error(503, "UNAVAILABLE", "overloaded"),
        generated(finish="MALFORMED_FUNCTION_CALL"),
        raw("<html>"),
        stream('{"candidates": 3}'),
        generated("at last"),
    )
    answer = await make(waits=waits, tries=6).complete(ask(), Media())
    assert answer.text == "at last"
    assert len(server.bodies) == 6
    assert waits[0] == 34
    server.will(google_error(500, "INTERNAL", "oops"))
    with pytest.raises(ModelLostError, match="oops"):
        await make().complete(ask(), Media())


async def test_a_stream_that_breaks_off_or_fails_begins_again(server: WireServer, make: Maker) -> None:
    half = json.dumps({"candidates": [{"content": {"role": "model", "parts": [{"text": "ha"}]}}]})
    error = json.dumps({"error": {"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}})
    server.will(stream(half), stream(half, error), stream(half, breaks=True), generated("whole"))
    heard: list[str] = []
    answer = await make(tries=4).complete(ask(), Media(), on_text=heard.append)
    assert answer.text == "whole"
    assert heard == ["ha", "", "ha", "", "ha", "", *"whole"]


async def test_what_no_retry_cures(server: WireServer, make: Maker) -> None:
    invalid = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    full = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
    for behaviour, kind in (
        (google_error(400, "INVALID_ARGUMENT", f"API key not valid: {CANARY}", invalid), ModelDeniedError),
        (google_error(403, "PERMISSION_DENIED", f"no {CANARY}"), ModelDeniedError),
        (google_error(404, "NOT_FOUND", "no such model"), ModelDeniedError),
        (google_error(400, "INVALID_ARGUMENT", full), ContextLimitError),
        (google_error(400, "INVALID_ARGUMENT", "bad picture"), ModelRefusedError),
    ):
        server.will(behaviour)
        with pytest.raises(kind):
            await make().complete(ask(), Media())
        assert len(server.bodies) == 1


async def test_the_key_is_nowhere(server: WireServer, make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []
    model = make()
    for behaviour in (google_error(403, "NO", CANARY), google_error(500, "NO", CANARY), raw(CANARY), stream(CANARY)):
        server.will(behaviour)
        with pytest.raises(ModelError) as caught:
            await model.complete(ask(), Media(), on_text=seen.append)
        seen += [*traceback.format_exception(caught.value), repr(caught.value.__context__)]
    seen += [repr(model), *(record.getMessage() + repr(record.args) for record in caplog.records)]
    assert not [text for text in seen if CANARY in text]


async def test_nobody_there_and_no_answer_in_time(server: WireServer) -> None:
    there = endpoint("http://127.0.0.1:9", retry=RetryPolicy(tries=1), model="m")
    nobody = GeminiModel(there, api_key="k")
    with pytest.raises(ModelLostError, match="cannot be reached"):
        await nobody.complete(ask(), Media())
    await nobody.close()
    server.will(silent)
    late = GeminiModel(endpoint(server.url, retry=RetryPolicy(tries=1, seconds=0.3), model="m"), api_key="k")
    with pytest.raises(ModelLostError, match=r"0\.3 s"):
        await late.complete(ask(), Media(), on_text=print)
    await late.close()
