"""Saccade's own Responses endpoint, asked by its own client: an agent as the model of another loop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("openai")
from tests.models.helpers import Media, ask, endpoint
from tests.plugins.serve.agents import TOKEN, serving, two_turns

from saccade.models.providers.responses import ResponsesModel
from saccade.models.scripted import ScriptedModel
from saccade.plugins.serve.agent_app import _items
from saccade.record.content import Answer
from saccade.record.execution import Execution, HostedCall, Status
from saccade.record.trajectory import FinishReason, Turn
from saccade.sandbox.result import RunResult
from saccade.sandbox.scripted import ScriptedSandbox


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
