"""Prompt files of judges: which texts are taken, what is filled in, how replies are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from saccade.errors import PromptFileError
from saccade.evals.protocols.faithfulness import PictureJudge, PictureJudgeRules
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Message
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.answer import NO_MEDIA, AnswerJudge, ConsistencyJudge
from saccade.rewards.judges.model import JudgeRules, ModelJudge
from saccade.rewards.judges.prompt import ScoreRules, judge_prompt
from saccade.rewards.reward import JudgeVerdict, NoVerdict
from saccade.training.sft.curate.pipeline import FILTERS, load_filter

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
