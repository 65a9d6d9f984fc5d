"""Gemini through google-genai, against a local server in the documented forms."""

import base64
import json
import logging
import traceback
from collections.abc import AsyncIterator, Callable

import pytest
from PIL import Image
from tests.models.helpers import Media, Waits, ask, endpoint, said
from tests.models.wire_gemini import blocked, called, generated, google_error, silent
from tests.models.wire_server import WireServer, raw, stream

from saccade.core.retry import RetryPolicy
from saccade.errors import ContextLimitError, ModelDeniedError, ModelError, ModelLostError, ModelRefusedError
from saccade.models.base import Request, ToolSpec
from saccade.models.providers.gemini import GeminiModel
from saccade.record.content import Message, TextPart, ToolCall, VideoPart
from saccade.record.trajectory import FinishReason, Sampling

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
