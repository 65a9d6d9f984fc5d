"""The one client of judges: a server that hangs, a price that runs out, replies that earlier versions kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.models.wire_server import WireServer

from saccade.errors import ModelDeniedError, ModelLostError, SettingsError
from saccade.models.base import Completion, MediaReader, Request, Usage
from saccade.models.registry import load_model
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Message, TextPart
from saccade.record.trajectory import FinishReason, Sampling
from saccade.rewards.judges.answer import NO_MEDIA
from saccade.rewards.judges.client import AskRules, JudgeClient, NoReply, PaidModel, Purse, strict_verdict
from saccade.rewards.judges.prompt import Scale, ScoreQuestion, ScoreRules
from saccade.rewards.reward import JudgeVerdict, NoVerdict

HANGS = 120
"""Seconds after which a test that is held up by a judge fails."""


def about(text: str) -> Message:
    return Message(role="user", parts=(TextPart(text=text),))


def score(reply: str) -> float | None:
    return ScoreQuestion(ScoreRules(), "?", Scale((1.0, 0.0)), ()).read(reply)


async def ask(client: JudgeClient, text: str = "?") -> float | NoReply:
    return await client.ask(about(text), score, NO_MEDIA)


class Priced:
    """Says yes for so many dollars each time."""

    name = "own.py:Priced"

    def __init__(self, dollars: float | None = None) -> None:
        self.dollars = dollars
        self.asked = 0
        self.closed = False

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        self.asked += 1
        return Completion('{"score": 1}', FinishReason.STOP, usage=Usage(dollars=self.dollars))

    async def close(self) -> None:
        self.closed = True


class Stuck(Priced):
    """Never answers, and knows no time limit of its own."""

    async def complete(self, request: Request, media: MediaReader, **more: Any) -> Completion:
        self.asked += 1
        await asyncio.sleep(HANGS * 10)
        raise AssertionError("nobody waits so long")


async def test_a_judge_that_hangs_costs_a_few_requests_and_not_one_for_each_question(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stuck = Stuck()
    client = JudgeClient(stuck, AskRules(seconds=0.2, concurrent=2, outages=4))
    async with asyncio.timeout(HANGS):
        said = await asyncio.gather(*(ask(client, str(number)) for number in range(500)))
    none = [item for item in said if isinstance(item, NoReply)]
    assert (len(none), {item.reason for item in none}) == (500, {NoVerdict.OUTAGE})
    assert 4 <= stuck.asked <= 5  # one more may be under way
    assert "gave no reply within 0.2 s" in none[0].detail
    assert "was not asked, for the last 4 requests" in none[-1].detail
    assert caplog.text.count("lost 4 requests in a row") == caplog.text.count("requests in a row; it") == 1


class Broken(Priced):
    """Fails with these errors in turn, and says yes for None."""

    def __init__(self, *errors: Exception | None) -> None:
        super().__init__()
        self.errors = list(errors)

    async def complete(self, request: Request, media: MediaReader, **more: Any) -> Completion:
        error = self.errors.pop(0)
        if error is not None:
            self.asked += 1
            raise error
        return await super().complete(request, media, **more)


async def test_as_many_outages_in_a_row_as_set_leave_a_judge_alone(caplog: pytest.LogCaptureFixture) -> None:
    gone = ModelLostError("gone")
    model = Broken(gone, gone, None, gone, gone, gone, None)
    client = JudgeClient(model, AskRules(outages=3))
    said = [await ask(client) for _ in range(8)]
    assert [item if isinstance(item, float) else item.detail[:4] for item in said[:6]] == [
        *["gone"] * 2, 1.0, *["gone"] * 3,
    ]  # fmt: skip
    assert model.asked == 6
    assert [isinstance(item, NoReply) and "was not asked" in item.detail for item in said[6:]] == [True, True]
    assert caplog.text.count("gave no verdict (outage): gone") == 5  # what is not asked is not told again


async def test_it_is_asked_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("saccade.rewards.judges.client.monotonic", lambda: now[0])
    model = Broken(ModelLostError("gone"), None)
    client = JudgeClient(model, AskRules(outages=1, seconds=5))
    for now[0], asked, said in ((0.0, 1, "gone"), (4.9, 1, "was not asked"), (5.0, 2, "")):
        found = await ask(client)
        assert model.asked == asked
        assert found == 1.0 if not said else isinstance(found, NoReply) and said in found.detail


async def test_a_time_limit_of_the_model_itself_is_its_own_error() -> None:
    with pytest.raises(TimeoutError):
        await ask(JudgeClient(Broken(TimeoutError()), AskRules()))


async def test_who_wraps_a_model_closes_it() -> None:
    for wrap in (lambda model: JudgeClient(model, AskRules()), lambda model: PaidModel(model, Purse(1.0, "judge", ""))):
        model = Priced(dollars=0.1)
        await wrap(model).close()
        assert model.closed


async def test_dollars_are_a_limit_and_kept_replies_cost_none(tmp_path: Path) -> None:
    model = Priced(dollars=0.25)
    client = JudgeClient(model, AskRules(dollars=0.6), tmp_path)
    assert [await ask(client, text) for text in ("a", "b", "a", "c")] == [1.0] * 4
    with pytest.raises(ModelDeniedError, match=r"cost 0\.7500 dollars, and may cost 0\.6 .*raise the limit"):
        await ask(client, "d")
    assert await ask(client, "b") == 1.0
    assert model.asked == 3
    again = JudgeClient(model, AskRules(dollars=0.6), tmp_path)
    assert [await ask(again, text) for text in ("a", "b", "c", "d")] == [1.0] * 4
    assert model.asked == 4


def test_nothing_may_be_spent_of_an_empty_purse() -> None:
    with pytest.raises(
        ModelDeniedError, match=r"m has cost 0\.0000 dollars, and may cost 0 \(`dollars` of the judge\)\."
    ):
        Purse(0.0, "judge", "Its replies are kept").check("m")
    Purse(None, "judge", "Its replies are kept").check("m")


async def test_dollars_without_a_price_are_refused(server: WireServer) -> None:
    with pytest.raises(SettingsError, match=r"what compatible:judge costs is not known"):
        JudgeClient(load_model(f"compatible:judge@{server.url}/v1"), AskRules(dollars=1))
    client = JudgeClient(Priced(), AskRules(dollars=1))
    with pytest.raises(SettingsError, match=r"came without its price"):
        await ask(client)
    assert await ask(JudgeClient(Priced(), AskRules())) == 1.0


async def test_each_attempt_is_warmer_and_as_long_as_set(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Sampling] = []

    class Heard(ScriptedModel):
        async def complete(self, request: Request, media: MediaReader, **more: Any) -> Completion:
            heard.append(request.sampling)
            return await super().complete(request, media, **more)

    said = await ask(JudgeClient(Heard(["a", "b", "c", "d"]), AskRules(attempts=4, max_tokens=9)))
    assert isinstance(said, NoReply)
    assert (said.reason, said.detail) == (NoVerdict.MALFORMED, "d")
    assert "gave no verdict (malformed): its reply is not the JSON that was asked for" in caplog.text
    assert [item.temperature for item in heard] == pytest.approx([0.0, 0.7, 0.8, 0.9])
    assert {item.max_tokens for item in heard} == {9}


def test_only_the_asked_form_is_read() -> None:
    assert strict_verdict('```json\n{"score": 1}\n```', JudgeVerdict) == JudgeVerdict(score=1)
    for reply in ('{"score": "1"}', '{"score": 1, "more": 2}', 'I say {"score": 1}', "", "[]"):
        assert strict_verdict(reply, JudgeVerdict) is None
