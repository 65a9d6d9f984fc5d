"""A run by a provider's batch API: rounds of turns, half the price, both prices first, and what cannot be batched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.wire_batches import BatchServer, batch_server

from saccade.errors import SettingsError
from saccade.evals.grades import EvalProgress
from saccade.evals.run import continuing, evaluate
from saccade.evals.settings import EvalSettings
from saccade.models.batches import BatchTimes
from saccade.record.codec import read_lines
from saccade.record.trajectory import StopReason, Trajectory

QUICK = BatchTimes(quiet=2.0, poll=0.05)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "k-1")
    with batch_server() as running:
        yield running


def settings(out: Path, model: str, **more: Any) -> EvalSettings:
    given = {"sources": ["nested-squares"], "model": model, "n": 3, **more}
    return continuing(EvalSettings.model_validate(given), out)[0]


def says(text: str, **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
    return {"model": "m", "choices": [choice], "usage": {"prompt_tokens": 1000, "completion_tokens": 10}}


def turns(body: dict[str, Any]) -> Any:
    """A call, and after its result an answer."""
    if any(message["role"] == "tool" for message in body["messages"]):
        return says("<answer>3</answer>")
    call = {"id": "c1", "type": "function", "function": {"name": "python", "arguments": json.dumps({"code": "1 + 1"})}}
    return says("", tool_calls=[call])


async def test_each_round_of_turns_is_a_batch_and_no_answer_is_asked_for_again(
    server: BatchServer, tmp_path: Path
) -> None:
    server.answer = turns
    chosen = settings(tmp_path / "run", f"openai:gpt-4.1@{server.url}/v1")
    heard: list[tuple[int, list[str]]] = []

    def watch(progress: EvalProgress) -> None:
        heard.append((len(server.batches), list(progress.notices)))

    made = await evaluate(chosen, tmp_path / "run", batch=QUICK, watch=watch)
    assert (made.progress.played, made.progress.failed) == (3, 0)
    assert [len(requests) for requests in server.batches.values()] == [3, 3]
    [before] = [notices for sent, notices in heard if notices and sent == 0][:1]
    assert "3 samples cost about" in before[-1]
    assert "by single requests" in before[-1]
    assert "by batches" in before[-1]
    stored = list(read_lines(tmp_path / "run" / "trajectories.jsonl", Trajectory))
    assert {item.stop for item in stored} == {StopReason.ANSWERED}
    assert stored[0].turns[0].dollars == pytest.approx((1000 * 2.0 + 10 * 8.0) / 2e6)
    again = await evaluate(chosen, tmp_path / "run", batch=QUICK)
    assert (again.progress.played, len(server.batches)) == (0, 2)
    (tmp_path / "run" / "trajectories.jsonl").unlink()  # as if the process had ended before the samples did
    made = await evaluate(chosen, tmp_path / "run", batch=QUICK)
    assert (made.progress.played, len(server.batches)) == (3, 2)


@pytest.mark.parametrize(
    ("model", "more", "words"),
    [
        ("vllm:m@http://127.0.0.1:9/v1", {"dialect": "direct"}, "no batch API"),
        ("openai:gpt-4.1@http://127.0.0.1:9/v1", {"limits": {"wall_seconds": 60}}, r"limits\.wall_seconds"),
        ("openai:gpt-4.1", {"sampling": {"extra_headers": {"X-A": "1"}}}, "extra_headers"),
        ("solver", {"dialect": "codedance"}, "sends no requests"),
    ],
)
async def test_what_cannot_be_batched(
    server: BatchServer, tmp_path: Path, model: str, more: dict[str, Any], words: str
) -> None:
    chosen = settings(tmp_path / "run", model, **more)
    with pytest.raises(SettingsError, match=words):
        await evaluate(chosen, tmp_path / "run", batch=QUICK)
