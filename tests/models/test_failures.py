"""A canary key is looked for wherever a program could leave it."""

import copy
import json
import logging
import pickle
import traceback
from pathlib import Path

import pytest
from tests.models.helpers import Media, ask, endpoint
from tests.models.wire_server import Behaviour, WireServer, chat, messages, raw, status, stream

from saccade.core.retry import RetryPolicy
from saccade.dialects.native import NativeDialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.errors import ModelError, ModelRefusedError
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.models.failures import ApiKey, find_key
from saccade.models.providers.anthropic import AnthropicModel
from saccade.models.providers.openai import OpenAIModel
from saccade.record.codec import dumps
from saccade.record.task import Task
from saccade.record.trajectory import StopReason

CANARY = "sk-canary-5f2b9c41"
ONCE = RetryPolicy(tries=2)


def test_keys_come_from_the_argument_then_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    azure = ("AZURE_OPENAI_API_KEY",)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "usual")
    assert find_key("azure", usual=azure).reveal() == "usual"
    monkeypatch.setenv("SACCADE_AZURE_API_KEY", "own")
    assert find_key("azure", usual=azure).reveal() == "own"
    assert find_key("azure", "given", usual=azure).reveal() == "given"
    assert find_key("vllm", needed=False).reveal() == ""
    monkeypatch.setenv("SACCADE_VLLM_API_KEY", "local")
    assert find_key("vllm", needed=False).reveal() == "local"
    with pytest.raises(ModelRefusedError, match="OPENAI_API_KEY"):
        find_key("openai", usual=("OPENAI_API_KEY",))


def test_a_key_has_no_readable_form() -> None:
    key = ApiKey(CANARY)
    assert CANARY not in f"{key} {key!r} {[key]} {key.hide('got ' + CANARY)}"
    assert ApiKey("").hide("text") == "text"
    for leak in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="never"):
            leak(key)


def clients(url: str) -> list[tuple[Model, Behaviour]]:
    openai, claude = endpoint(url + "/v1", retry=ONCE), endpoint(url, retry=ONCE, model="claude-opus-4-8")
    return [(OpenAIModel(openai), chat()), (AnthropicModel(claude), messages())]


async def test_the_canary_is_nowhere(
    server: WireServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, CANARY)
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    echo = f"Incorrect API key provided: {CANARY}"
    seen: list[str] = []
    for model, right in clients(server.url):
        server.will(right)
        answer = await model.complete(ask(), Media())
        assert CANARY in json.dumps(server.headers), "the key must reach the server"
        seen += [repr(answer), repr(model), str(model), model.name, json.dumps(server.bodies)]
        bad = (status(401, echo), status(500, echo), raw(echo), raw(echo, "text/html"), stream('{"error": "' + echo))
        for behaviour in bad:
            server.will(behaviour)
            with pytest.raises(ModelError) as caught:
                await model.complete(ask(), Media(), on_text=seen.append)
            seen += traceback.format_exception(caught.value)
            seen.append(repr(caught.value) + repr(caught.value.__dict__) + repr(caught.value.__context__))
        await model.close()
    seen += [record.getMessage() + repr(record.args) for record in caplog.records]
    seen += [*capfd.readouterr(), *(path.name for path in tmp_path.iterdir())]
    assert len(seen) > 20
    assert not [text for text in seen if CANARY in text]


@pytest.mark.parametrize(("code", "reason"), [(401, StopReason.MODEL_REFUSED), (500, StopReason.MODEL_LOST)])
async def test_no_record_of_an_episode_holds_the_canary(
    server: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, reason: StopReason
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, CANARY)
    plan = Plan(Task(id="t", question="What?"), NativeDialect())
    for model, _ in clients(server.url):
        server.will(status(code, f"Your key is {CANARY}"))
        trajectory = await run_episode(plan, model, None, MediaStore(tmp_path))
        await model.close()
        assert trajectory.stop is reason
        assert "Your key is [key]" in trajectory.stop_detail
        assert CANARY not in dumps(trajectory)
