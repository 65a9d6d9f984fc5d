"""The one client of judges: a server that hangs, a price that runs out, replies that earlier versions kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.models.wire_server import WireServer

from saccade.errors import ModelDeniedError, ModelLostError, PromptFileError, SettingsError
from saccade.evals.protocols.faithfulness import PictureJudge, PictureJudgeRules
from saccade.models.base import Completion, MediaReader, Request, Usage
from saccade.models.registry import load_model
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Message, TextPart
from saccade.record.task import Task
from saccade.record.trajectory import FinishReason, Sampling, Trajectory
from saccade.rewards.judges.answer import NO_MEDIA, AnswerJudge, ConsistencyJudge
from saccade.rewards.judges.client import AskRules, JudgeClient, NoReply, PaidModel, Purse, strict_verdict
from saccade.rewards.judges.model import JudgeRules, ModelJudge
from saccade.rewards.judges.prompt import Scale, ScoreQuestion, ScoreRules, judge_prompt
from saccade.rewards.reward import JudgeVerdict, NoVerdict
from saccade.training.sft.curate.pipeline import FILTERS, load_filter

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


TASK = Task(id="t", question="Which {animal}?", answer="a {gold} cat", choices=("a dog", "a cat"))


def written(folder: Path, text: str) -> str:
    file = folder / "prompt.txt"
    file.write_text(text, encoding="utf-8")
    return str(file)


async def verdict(rules: ScoreRules, *replies: str, share: bool = False) -> tuple[JudgeVerdict, list[str]]:
    seen: list[str] = []
    left = iter(replies)

    def reply(messages: tuple[Message, ...]) -> str:
        seen.append(messages[-1].text)
        return next(left)

    return await AnswerJudge(ScriptedModel(reply), rules).verdict("it is {question}", TASK, share=share), seen


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Q {question} G {gold} A {answer}", "Q Which {animal}? G a {gold} cat A it is {question}"),
        ("{query}|{gt}|{prediction}", "Which {animal}?|a {gold} cat|it is {question}"),
        ("{problem}|{ground_truth}|{response}", "Which {animal}?|a {gold} cat|it is {question}"),
        ('{gold}{answer} as {"a": {"b": 1}}', 'a {gold} catit is {question} as {"a": {"b": 1}}'),
        ('{gold}{answer} as {{"score": 1}}', 'a {gold} catit is {question} as {"score": 1}'),
        ("{gold}{answer}\n{choices}", "a {gold} catit is {question}\nA. a dog\nB. a cat"),
        ("\ufeff{gold}{answer} { } {0} {}", "a {gold} catit is {question} { } {0} {}"),
        ("{gold} {answer} {gold}", "a {gold} cat it is {question} a {gold} cat"),
    ],
)
async def test_a_template_is_filled_in_once_and_the_form_of_the_reply_is_added(
    tmp_path: Path, text: str, shown: str
) -> None:
    rules = ScoreRules(prompt_file=written(tmp_path, text))
    found, (asked,) = await verdict(rules, '{"score": 1}')
    assert found == JudgeVerdict(score=1)
    assert asked == shown + '\n\nReply with JSON and nothing else: {"score": 1} or {"score": 0}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "{gold} {answr}",
            r"\{answr\}, which cannot be filled in there\. Did you mean 'answer'\?.*\{gold\}, \{answer\}",
        ),
        ("{gold} {answer} {width}", r"\{width\}.*It may have \{gold\}, \{answer\}, \{question\}, \{choices\}\."),
        ("{answer} {question}", r"lacks \{gold\}, so it would judge blindly"),
        ("Is it right?", r"lacks \{gold\}, \{answer\}"),
        ("", r"lacks \{gold\}, \{answer\}"),
    ],
)
def test_wrong_fields_are_refused_with_those_that_are_allowed(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PromptFileError, match=said):
        AnswerJudge(ScriptedModel([]), ScoreRules(prompt_file=written(tmp_path, text)))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe{gold}")
    for name in ("bytes.txt", "none.txt", "."):
        with pytest.raises(PromptFileError, match="cannot be read"):
            AnswerJudge(ScriptedModel([]), ScoreRules(prompt_file=str(tmp_path / name)))


YES_NO = {"Correct": 1.0, "Incorrect": 0.0}


@pytest.mark.parametrize(
    ("replies", "reply", "score"),
    [
        (YES_NO, "Correct", 1),
        (YES_NO, "**INCORRECT**.", 0),
        (YES_NO, "The cat is there.\n\nJudgement: Correct\n", 1),
        (YES_NO, "Judgement：incorrect", 0),
        (YES_NO, "**Final verdict:** Correct", 1),
        (YES_NO, "I would not say: correct", None),
        (YES_NO, "Not this: correct", None),
        (YES_NO, "If one reads it so, the answer is: correct", None),
        (YES_NO, "Correct\nor not", None),
        (YES_NO, "not correct", None),
        (YES_NO, '{"score": 1}', None),
        ("number", "1", 1),
        ("number", "Judgement: 0", 0),
        ("number", "[[1]]", 1),
        ("number", "1.0.", 1),
        ("number", "0.5", None),
        ("number", "-1", None),
        ("number", "one", None),
        ({"1": 1, "0": 0, "yes": 1}, "Yes.", 1),
    ],
)
async def test_replies_as_the_template_asks_for_them(
    tmp_path: Path, replies: Any, reply: str, score: float | None
) -> None:
    rules = ScoreRules(prompt_file=written(tmp_path, "{gold} {answer} Judgement:"), replies=replies, attempts=1)
    found, (asked,) = await verdict(rules, reply)
    assert found.score == score
    assert (found.invalid is NoVerdict.MALFORMED) == (score is None)
    assert asked.endswith("Judgement:"), "nothing is added where the template asks in its own form"


def test_words_are_for_a_file_and_for_scores_of_the_judge(tmp_path: Path) -> None:
    file = written(tmp_path, "{gold} {answer}")
    for rules, said in (
        (ScoreRules(replies="number"), "none is named"),
        (ScoreRules(prompt_file=file, replies={"good": 1, "half": 0.5}), r"half = 0\.5"),
        (ScoreRules(prompt_file=file, replies={"good": 1, "fine": 1}), "two scores"),
        (ScoreRules(prompt_file=file, replies={}), "two scores"),
    ):
        with pytest.raises(PromptFileError, match=said):
            AnswerJudge(ScriptedModel([]), rules)


@pytest.mark.parametrize(
    ("replies", "score"),
    [
        (['{"score": 0.4}'], 0.4),
        (['```json\n{"score": 1.0}\n```'], 1.0),
        (['{"score": 0}'], 0.0),
        (["0.4", '{"score": 1.5}', '{"score": "0.4"}'], None),
        (['{"score": -0.1}', '{"score": NaN}', '{"score": 0.3}'], 0.3),
        (["I think it is fine.", "", '{"score": true}'], None),
    ],
)
async def test_a_share_of_the_gold_answer(replies: list[str], score: float | None) -> None:
    found, asked = await verdict(ScoreRules(), *replies, share=True)
    assert found.score == score
    assert (found.invalid is NoVerdict.MALFORMED) == (score is None)
    assert "<AND>" in asked[0]
    assert "<a number from 0 to 1>" in asked[0]


@pytest.mark.parametrize(
    ("reply", "score"), [("0.7", 0.7), ("Correctness: 0.35", 0.35), ("| 1.0", None), ("2", None), ("", None)]
)
async def test_a_share_by_a_template_that_ends_in_a_number(tmp_path: Path, reply: str, score: float | None) -> None:
    rules = ScoreRules(prompt_file=written(tmp_path, "{question} | {gold} | {answer} |"), replies="number", attempts=1)
    found, _ = await verdict(rules, reply, share=True)
    assert found.score == score


async def test_judges_of_thoughts_calls_and_pictures_take_files_too(tmp_path: Path) -> None:
    blind = written(tmp_path, "Is it good?")
    for make in (
        lambda: ConsistencyJudge(ScriptedModel([]), ScoreRules(prompt_file=blind)),
        lambda: ModelJudge(ScriptedModel([]), NO_MEDIA, JudgeRules(prompt_file=blind)),
        lambda: PictureJudge(ScriptedModel([]), NO_MEDIA, PictureJudgeRules(prompt_file=blind)),
    ):
        with pytest.raises(PromptFileError, match="blindly"):
            make()
    seen: list[str] = []

    def reply(messages: tuple[Message, ...]) -> str:
        seen.append(messages[-1].text)
        return "no"

    rules = ScoreRules(prompt_file=written(tmp_path, "{reasoning} => {answer}?"), replies={"yes": 1, "no": 0})
    trajectory = Trajectory(id="r", task=TASK)
    found = await ConsistencyJudge(ScriptedModel(reply), rules).verdict(trajectory)
    assert (found, seen) == (JudgeVerdict(score=0, detail="no answer was given"), [])


JUDGED = [name for name in FILTERS.names() if hasattr(load_filter(name), "OWN_PROMPT")]


@pytest.mark.parametrize("name", JUDGED)
def test_filters_that_ask_take_a_file_with_their_fields(name: str, tmp_path: Path) -> None:
    kind: Any = load_filter(name)
    fields = [*kind.FIELDS, *kind.MORE_FIELDS]
    text = " ".join(f"<{{{field}}}>" for field in fields)
    prompt = kind(judge="scripted", prompt_file=written(tmp_path, text)).prompt
    assert prompt.fill({field: field.upper() for field in fields}) == " ".join(f"<{field.upper()}>" for field in fields)
    own = kind(judge="scripted").prompt
    assert {field for _, field in own.pieces if field} <= {*fields, "known"}
    with pytest.raises(PromptFileError, match="cannot be filled in"):
        _ = kind(judge="scripted", prompt_file=written(tmp_path, text + "{other}")).prompt
    if kind.FIELDS:
        with pytest.raises(PromptFileError, match="blindly"):
            _ = kind(judge="scripted", prompt_file=written(tmp_path, "?")).prompt


def test_there_are_six_filters_that_ask() -> None:
    assert len(JUDGED) == 6


def test_our_own_texts_leave_nothing_to_be_filled_in() -> None:
    assert judge_prompt("", 'a {one} {"two": 2}', ()).fill({"one": "1"}) == 'a 1 {"two": 2}'
