"""A full context, as each kind of server says it, ends an episode at its limit; what only looks like one does not."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.responses import JSONResponse
from tests.evals.support import results, write_tasks
from tests.models.helpers import Media, Waits, ask, endpoint
from tests.models.wire_server import Behaviour, WireServer, chat, message_events, raw

from saccade.core.retry import RetryPolicy
from saccade.errors import ContextLimitError, ModelLostError, ModelRefusedError
from saccade.evals.run import evaluate
from saccade.evals.settings import EvalSettings
from saccade.models.base import Model
from saccade.models.providers.anthropic import AnthropicModel
from saccade.models.providers.openai import OpenAIModel

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
