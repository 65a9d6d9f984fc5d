"""Answers before a judge: what it is told, what is a verdict, what is kept, and which verdict is the headline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.models.wire_server import WireServer, chat, slow, status
from tests.tasks.benchmarks.cases import png, write_parquet

import saccade
from saccade.errors import (
    ModelDeniedError,
    ModelLostError,
    ModelRefusedError,
    PromptFileError,
    SaccadeError,
    SettingsError,
)
from saccade.evals import api as regrade_module
from saccade.evals import judged as judged_module
from saccade.evals import run as run_module
from saccade.evals.api import Regrading, regrade
from saccade.evals.grades import BY_JUDGE, BY_RULE, EvalProgress
from saccade.evals.rows import read_rows
from saccade.evals.run import continuing, evaluate
from saccade.evals.stored import merge, run_settings
from saccade.evals.summary import summarise, summary_text
from saccade.models.scripted import Reply, ScriptedModel
from saccade.record.codec import read_lines
from saccade.record.content import Message
from saccade.record.trajectory import CORRECT, Trajectory, total
from saccade.rewards.judges import client

from .rows import row
from .support import LostModel, oracle, saying, settings, stored, write_tasks
from .test_benchmarks import write_benchmark

RIGHT, WRONG = '{"score": 1}', '{"score": 0}'
JUDGE = "vllm:judge@http://one:8000/v1"


class Judge:
    """A judge that replies by a function of the text that it is asked, and remembers what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.says: Callable[[str], Reply] = lambda text: RIGHT
        monkeypatch.setattr(judged_module, "load_model", lambda name, retry=None: ScriptedModel(self._reply, name=name))

    def _reply(self, messages: tuple[Message, ...]) -> Reply:
        self.asked.append(messages[0].text)
        return self.says(messages[0].text)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Judge:
    return Judge(monkeypatch)


def stated(text: str) -> dict[str, str]:
    """The material in a judge's prompt."""
    found: dict[str, str] = json.loads(text[text.index("{\n") : text.index("\n}") + 2])
    return found


async def test_the_rule_is_the_headline_and_the_judge_stands_beside_it(tmp_path: Path, judge: Judge) -> None:
    tasks = write_tasks(tmp_path / "tasks", 4)
    judge.says = lambda text: WRONG if '"gold answer": "6"' in text else RIGHT
    half = saying(lambda plan: "7" if plan.task.id in ("t1", "t3") else str(plan.task.answer))
    made = await evaluate(settings(tasks, judge=JUDGE), tmp_path / "run", player=half)
    rows = {item.task: item for item in read_rows(tmp_path / "run")}
    assert {name: (item.correct, item.by_rule, item.by_judge) for name, item in rows.items()} == {
        "t0": (1.0, 1.0, 1.0),
        "t1": (0.0, 0.0, 1.0),
        "t2": (1.0, 1.0, 1.0),
        "t3": (0.0, 0.0, 0.0),
    }
    found = made.summary.judged
    assert found is not None
    assert found.agreement is not None
    assert (found.samples, found.by_rule, found.by_judge) == (4, 0.5, 0.75)
    assert (found.agreement.both, found.agreement.only_rule, found.agreement.only_judge) == (2, 0, 1)
    assert (found.agreement.neither, found.agreement.raw, found.agreement.kappa) == (1, 0.75, 0.5)
    assert made.summary.total.avg == 0.5
    text = summary_text(made.summary)
    assert "the rule says 50.0, the judge 75.0; the headline is by the rule" in text
    assert "agree on 75.0, kappa 0.50: both right 2, only the rule 0, only the judge 1, both wrong 1" in text
    (first, *_) = read_lines(tmp_path / "run" / "trajectories.jsonl", Trajectory)
    assert [score.name for score in first.scores] == [CORRECT, BY_RULE, BY_JUDGE]
    assert total(first.scores) == first.scores[0].value
    assert stated(judge.asked[0])["question"].startswith("What is")


async def test_the_judge_may_be_the_headline_and_replies_are_asked_for_once(tmp_path: Path, judge: Judge) -> None:
    tasks = write_tasks(tmp_path / "tasks", 3)
    first = await evaluate(
        settings(tasks, judge=JUDGE, headline="judge"), tmp_path / "run", player=saying(lambda plan: "no idea")
    )
    assert (first.summary.total.avg, first.summary.graders) == (1.0, {"judge:vllm:judge": 3})
    assert len(judge.asked) == 3
    again = await evaluate(
        settings(tasks, judge=JUDGE.replace("one", "two"), headline="judge", k=2), tmp_path / "run", player=oracle
    )
    assert (again.progress.skipped, again.progress.to_judge, len(judge.asked)) == (3, 3, 6)
    before = stored(tmp_path / "run")
    regraded = regrade(tmp_path / "run", Regrading(headline="rule"))
    assert (regraded.summary.total.avg, len(regraded.changes), len(judge.asked)) == (0.5, 3, 6)
    assert regrade(tmp_path / "run", Regrading(headline="judge")).summary == again.summary
    assert stored(tmp_path / "run") == before


async def test_a_run_without_a_sample_is_not_judged(tmp_path: Path, judge: Judge) -> None:
    tasks = write_tasks(tmp_path / "tasks", 2)
    lost = LostModel(ModelLostError("gone"))
    made = await evaluate(settings(tasks, judge=JUDGE), tmp_path / "run", player=lambda plan: lost)
    assert (made.progress.failed, made.progress.to_judge, judge.asked) == (2, 0, [])


async def test_a_judge_that_denies_one_answer_says_so_of_that_one_alone(tmp_path: Path, judge: Judge) -> None:
    def says(text: str) -> Reply:
        if '"gold answer": "2"' in text:
            raise ModelDeniedError("not for this key")
        return RIGHT

    judge.says = says
    made = await evaluate(settings(write_tasks(tmp_path / "tasks", 3), judge=JUDGE), tmp_path / "run", player=oracle)
    assert {row.task: (row.by_judge, row.no_verdict) for row in read_rows(tmp_path / "run")} == {
        "t0": (1.0, ""),
        "t1": (None, "refused"),
        "t2": (1.0, ""),
    }
    assert (made.progress.judged, made.progress.to_judge) == (3, 3)
    [said] = [notice for notice in made.progress.notices if "no verdict" in notice]
    assert said == "t1#0: the judge gave no verdict (refused): not for this key"


async def test_a_judge_that_cannot_be_made_is_refused_before_it_is_kept(
    tmp_path: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, run = write_tasks(tmp_path / "tasks", 2), tmp_path / "run"
    wrong = settings(tasks, judge="no-such-family:judge")
    with pytest.raises(SaccadeError, match="no-such-family"):
        await evaluate(wrong, run, player=oracle)
    assert not run.exists()
    await evaluate(settings(tasks, judge=JUDGE), run, player=oracle)
    with pytest.raises(SaccadeError, match="no-such-family"):
        await evaluate(wrong, run, player=oracle)
    assert "no-such-family" not in (run / "settings.toml").read_text()
    # One that made verdicts here before may be gone by now; they are kept.
    monkeypatch.setattr(run_module, "load_model", lambda name, retry=None: pytest.fail(f"{name} is made again"))
    assert (await evaluate(settings(tasks, judge=JUDGE), run, player=oracle)).progress.to_judge == 0


async def test_a_task_without_gold_answer_is_not_asked_about(tmp_path: Path, judge: Judge) -> None:
    tasks = write_tasks(tmp_path / "tasks", 2, answer=None)
    await evaluate(settings(tasks, judge=JUDGE), tmp_path / "run", player=saying(lambda plan: "7"))
    assert judge.asked == []
    assert [(item.by_rule, item.by_judge) for item in read_rows(tmp_path / "run")] == [(None, None)] * 2


async def test_no_verdict_is_an_outcome_of_its_own(tmp_path: Path, judge: Judge) -> None:
    tasks = write_tasks(tmp_path / "tasks", 3)
    judge.says = lambda text: "Looks right to me: 1" if '"gold answer": "2"' in text else RIGHT
    made = await evaluate(settings(tasks, judge=JUDGE, headline="judge"), tmp_path / "run", player=oracle)
    assert made.summary.judged is not None
    assert made.summary.judged.no_verdict == {"malformed": 1}
    assert (made.summary.total.tasks, made.summary.total.avg, made.summary.ungraded) == (2, 1.0, 1)
    (bad,) = [item for item in read_rows(tmp_path / "run") if item.no_verdict]
    assert (bad.correct, bad.by_rule, bad.by_judge) == (None, 1.0, None)
    assert "Looks right to me" in bad.reason
    assert "1 answers without one (malformed 1)" in summary_text(made.summary)
    asked = len(judge.asked)
    assert asked == 2 + 3
    await evaluate(settings(tasks, judge=JUDGE, headline="judge"), tmp_path / "run", player=oracle)
    assert len(judge.asked) == asked


async def test_an_outage_of_the_judge_is_tried_again_and_ends_as_if_there_had_been_none(
    tmp_path: Path, judge: Judge
) -> None:
    tasks = write_tasks(tmp_path / "tasks", 12)
    wanted = settings(tasks, judge=JUDGE)
    judge.says = lambda text: ModelLostError("gone") if "is 3 +" in text else RIGHT
    made = await evaluate(wanted, tmp_path / "run", workers=1, player=oracle)
    assert made.summary.judged is not None
    assert made.summary.judged.no_verdict == {"outage": 1}
    (notice,) = made.progress.notices
    assert notice.startswith("t3#0: the judge gave no verdict (outage): ")
    judge.says = lambda text: RIGHT
    await evaluate(wanted, tmp_path / "run", workers=1, player=oracle)
    assert len(judge.asked) == 13
    await evaluate(wanted, tmp_path / "whole", workers=1, player=oracle)
    for name in ("results.jsonl", "summary.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


class ClosedModel(ScriptedModel):
    """Says one text and counts how often it is closed."""

    closed = 0

    async def close(self) -> None:
        self.closed += 1


async def test_models_are_closed_and_every_step_of_a_run_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ClosedModel] = []

    def load(name: str, retry: object = None) -> ClosedModel:
        made.append(ClosedModel(lambda messages: RIGHT, name=name))
        return made[-1]

    for module in (run_module, judged_module, regrade_module):
        monkeypatch.setattr(module, "load_model", load)
    seen: list[tuple[int, int, int]] = []

    def watch(progress: EvalProgress) -> None:
        seen.append((progress.done, progress.to_judge, progress.judged))

    asked = settings(write_tasks(tmp_path / "tasks", 2), model="vllm:m@http://one:8000/v1", judge=JUDGE)
    await evaluate(asked, tmp_path / "run", workers=1, watch=watch)
    # Begun, two samples, all played; two verdicts asked for, and given.
    assert seen == [(0, 0, 0), (1, 0, 0), (2, 0, 0), (2, 0, 0), (2, 2, 0), (2, 2, 1), (2, 2, 2)]
    # Each is made once before the run folder is, to be refused there, and once to be asked.
    assert [(model.name, model.closed) for model in made] == 2 * [(asked.model, 1), (JUDGE, 1)]
    other = "vllm:other@http://one:8000/v1"
    await asyncio.to_thread(regrade, tmp_path / "run", Regrading(judge=other), watch=watch)
    assert seen[-1] == (0, 2, 2)
    assert [(model.name, model.closed) for model in made[4:]] == 2 * [(other, 1)]


async def test_one_of_many_denied_answers_is_told_and_a_verdict_between_them_ends_the_row(
    tmp_path: Path, judge: Judge
) -> None:
    judge.says = lambda text: RIGHT if len(judge.asked) == 8 else ModelDeniedError("not for this key")
    tasks = write_tasks(tmp_path / "tasks", 15)
    made = await evaluate(settings(tasks, judge=JUDGE), tmp_path / "run", workers=1, player=oracle)
    assert (made.progress.judged, made.summary.judged and made.summary.judged.samples) == (15, 1)
    assert len(made.progress.notices) == 1


@pytest.mark.parametrize("error", [ModelLostError("no route"), ModelRefusedError("no key")])
async def test_a_judge_that_is_not_there_ends_the_run_and_keeps_what_it_said(
    tmp_path: Path, judge: Judge, error: ModelLostError | ModelRefusedError
) -> None:
    tasks = write_tasks(tmp_path / "tasks", 20)
    judge.says = lambda text: RIGHT if len(judge.asked) <= 5 else error
    with pytest.raises(type(error), match=rf"8 answers in a row: .*{error}.*same command again"):
        await evaluate(settings(tasks, judge=JUDGE), tmp_path / "run", workers=1, player=oracle)
    assert len(stored(tmp_path / "run")) == 20
    asked = len(judge.asked)
    judge.says = lambda text: RIGHT
    made = await evaluate(settings(tasks, judge=JUDGE), tmp_path / "run", workers=1, player=oracle)
    assert made.summary.judged is not None
    assert (made.summary.judged.samples, len(judge.asked) - asked) == (20, 15)


async def test_a_judge_that_hangs_ends_the_run_and_the_same_command_asks_again(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "monotonic", lambda: 0.0)  # it is left alone for longer than this machine needs
    tasks = write_tasks(tmp_path / "tasks", 40)
    rules = {"seconds": 0.5, "outages": 3, "concurrent": 2}
    wanted = settings(tasks, judge=f"compatible:judge@{server.url}/v1", judge_rules=rules)
    server.will(chat(RIGHT), slow(server))
    with pytest.raises(ModelLostError, match=r"could not be asked about .* answers in a row: .*was not asked"):
        await evaluate(wanted, tmp_path / "run", player=oracle)
    assert len(server.bodies) <= 5
    server.will(chat(RIGHT))
    patient = settings(tasks, judge=wanted.judge, judge_rules={**rules, "seconds": 60})
    made = await evaluate(patient, tmp_path / "run", player=oracle)
    assert made.summary.judged is not None
    assert (made.summary.judged.samples, len(server.bodies)) == (40, 39)
    with pytest.raises(SettingsError, match=r"judge_rules\.attempts"):
        await evaluate(
            settings(tasks, judge=wanted.judge, judge_rules={"attempts": 1}), tmp_path / "run", player=oracle
        )


async def test_dollars_of_a_judge_without_a_price_are_refused_before_the_first_sample(
    tmp_path: Path, server: WireServer
) -> None:
    tasks = write_tasks(tmp_path / "tasks", 1)
    wanted = settings(tasks, judge=f"compatible:judge@{server.url}/v1", judge_rules={"dollars": 1})
    with pytest.raises(SettingsError, match="what compatible:judge costs is not known"):
        await evaluate(wanted, tmp_path / "run", player=oracle)
    assert not (tmp_path / "run").exists()


async def test_regrading_takes_the_rules_of_its_judge(tmp_path: Path, judge: Judge) -> None:
    tasks = write_tasks(tmp_path / "tasks", 1)
    await evaluate(settings(tasks), tmp_path / "run", player=oracle)
    judge.says = lambda text: "hm"
    once = Regrading(judge=JUDGE, judge_rules=("attempts=1", "seconds=5"))
    await asyncio.to_thread(regrade, tmp_path / "run", once)
    assert len(judge.asked) == 1
    kept = run_settings(tmp_path / "run").judge_rules
    assert (kept.attempts, kept.seconds, kept.concurrent) == (1, 5, 0)
    with pytest.raises(SettingsError, match="is about a judge, and none is asked"):
        await asyncio.to_thread(regrade, tmp_path / "run", Regrading(judge_rules=("attempts=1",)))


async def test_regrading_from_python_takes_them_too(tmp_path: Path, server: WireServer) -> None:
    tasks = write_tasks(tmp_path / "tasks", 1)
    await evaluate(settings(tasks), tmp_path / "run", player=oracle)
    run, name = saccade.open_evaluation(tmp_path / "run"), f"compatible:judge@{server.url}/v1"
    server.will(status(503, "busy"), chat(text="hm"))
    limits = {"attempts": 1, "concurrent": 3, "retry": {"tries": 2, "first_seconds": 0}}
    run.regrade(judge=name, judge_rules=limits)
    assert len(server.bodies) == 2  # one attempt, of two tries
    run.regrade(judge=name, judge_rules={"retry": {"tries": 1}})  # the rest stays as it was
    kept = run.settings
    assert (kept.judge_rules.attempts, kept.judge_rules.concurrent) == (1, 3)
    assert (kept.retry.tries, kept.retry.first_seconds) == (1, 0)
    with pytest.raises(SettingsError, match="atempts"):
        run.regrade(judge=name, judge_rules={"atempts": 1})
    with pytest.raises(SettingsError, match="attempts is about a judge"):
        run.regrade(judge_rules=limits)


async def test_a_stored_run_gets_a_judge_and_does_not_lose_it(tmp_path: Path, judge: Judge) -> None:
    tasks = write_tasks(tmp_path / "tasks", 2)
    await evaluate(settings(tasks), tmp_path / "run", player=saying(lambda plan: "no idea"))
    assert not judge.asked
    found = await asyncio.to_thread(regrade, tmp_path / "run", Regrading(judge=JUDGE, headline="judge"))
    assert (found.summary.total.avg, {(c.before, c.after) for c in found.changes}) == (1.0, {(0.0, 1.0)})
    _, said = continuing(settings(tasks), tmp_path / "run")
    assert [line.partition(" has ")[2] for line in said] == [
        f"the judge {JUDGE}, and it is used for new samples too.",
        "the headline judge, and it is used for new samples too.",
    ]
    more = await evaluate(settings(tasks, k=2), tmp_path / "run", player=saying(lambda plan: "no idea"))
    assert (more.summary.total.avg, more.progress.judged) == (1.0, 2)
    with pytest.raises(SettingsError, match="judge: "):
        await evaluate(settings(tasks, k=2, judge="vllm:other@http://x:1/v1"), tmp_path / "run", player=oracle)
    other = await asyncio.to_thread(regrade, tmp_path / "run", Regrading(judge="vllm:other@http://x:1/v1"))
    assert other.summary.graders == {"judge:vllm:other": 4}
    assert other.kept is not None
    assert "judge:vllm:judge" in other.kept.read_text()
    with pytest.raises(SettingsError, match="there is no judge"):
        continuing(settings(tasks, headline="judge"), tmp_path / "another")


async def test_a_card_says_who_counts(tmp_path: Path, judge: Judge) -> None:
    card = write_benchmark(tmp_path, 6)
    card.write_text(
        card.read_text().replace(
            'number = "number-rounded@1"', 'number = { id = "number@1", headline = "judge", parameters = {absolute=1} }'
        )
    )
    judge.says = lambda text: WRONG
    near = saying(lambda plan: str(int(plan.task.answer or 0) + 1))
    made = await evaluate(settings(card, data=str(tmp_path)), tmp_path / "rule", player=near)
    assert made.summary.graders == {"choice@1": 4, "number@1:absolute=1": 2}
    assert made.summary.total.avg == 2 / 6
    assert regrade(tmp_path / "rule").changes == ()
    made = await evaluate(settings(card, data=str(tmp_path), judge=JUDGE), tmp_path / "run", player=near)
    assert made.summary.graders == {"choice@1": 4, "judge:vllm:judge": 2}
    assert "the headline is by the judge (2) and rule (4)" in summary_text(made.summary)
    assert made.summary.total.avg == 0


async def test_shards_have_one_judge(tmp_path: Path, judge: Judge) -> None:
    tasks = write_tasks(tmp_path / "tasks", 4)
    for number, name in (("1", JUDGE), ("2", "")):
        await evaluate(settings(tasks, shard=f"{number}/2", judge=name), tmp_path / number, player=oracle)
    for order in (("1", "2"), ("2", "1")):
        with pytest.raises(SettingsError, match="judge: "):
            merge([tmp_path / number for number in order], tmp_path / "out")
    await asyncio.to_thread(regrade, tmp_path / "2", Regrading(judge=JUDGE))
    merged = merge([tmp_path / "2", tmp_path / "1"], tmp_path / "out")
    assert merged.judged is not None
    assert merged.judged.samples == 4


async def test_a_prompt_file_is_another_judge(tmp_path: Path, judge: Judge) -> None:
    tasks, file = write_tasks(tmp_path / "tasks", 2), tmp_path / "theirs.txt"
    file.write_text("{question} | {gold} | {answer} | Judgement:")
    theirs = {"prompt_file": str(file), "replies": {"1": 1, "0": 0}}
    judge.says = lambda text: "0" if text.startswith("What") else RIGHT
    wanted = settings(tasks, judge=JUDGE, headline="judge", judge_rules=theirs)
    made = await evaluate(wanted, tmp_path / "run", player=oracle)
    (name,) = made.summary.graders
    assert name.startswith("judge:vllm:judge (theirs.txt ")
    assert (made.summary.total.avg, len(judge.asked)) == (0.0, 2)
    assert all(text.endswith("| Judgement:") for text in judge.asked)
    ours = Regrading(judge=JUDGE, judge_rules={"prompt_file": "", "replies": "json"})
    found = await asyncio.to_thread(regrade, tmp_path / "run", ours)
    assert (found.summary.total.avg, found.summary.graders, len(judge.asked)) == (1.0, {"judge:vllm:judge": 2}, 4)
    back = Regrading(judge=JUDGE, judge_rules=theirs)
    again = await asyncio.to_thread(regrade, tmp_path / "run", back)
    assert (again.summary.total.avg, len(judge.asked)) == (0.0, 4), "replies were kept"
    file.write_text("Another text: {gold} {answer}")
    with pytest.raises(SettingsError, match=r"theirs\.txt has changed"):
        await evaluate(wanted, tmp_path / "run", player=oracle)


@pytest.mark.parametrize("text", ["Right?", "{gold} {answer} {picture}"])
async def test_a_prompt_file_that_cannot_work_is_refused_before_the_first_sample(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "load_model", lambda name, retry=None: ScriptedModel([], name=name))
    monkeypatch.setattr(regrade_module, "load_model", lambda name, retry=None: ScriptedModel([], name=name))
    tasks, file = write_tasks(tmp_path / "tasks", 1), tmp_path / "blind.txt"
    file.write_text(text)
    with pytest.raises(PromptFileError, match=r"It may have \{gold\}, \{answer\}"):
        await evaluate(
            settings(tasks, judge=JUDGE, judge_rules={"prompt_file": str(file)}), tmp_path / "run", player=oracle
        )
    assert not (tmp_path / "run" / "trajectories.jsonl").exists()
    await evaluate(settings(tasks), tmp_path / "played", player=oracle)
    wrong = Regrading(judge=JUDGE, judge_rules=(f"prompt_file={file}",))
    with pytest.raises(PromptFileError, match="It may have"):
        await asyncio.to_thread(regrade, tmp_path / "played", wrong)
    assert run_settings(tmp_path / "played").judge == ""


MMVET = [("fox", "rec,gen", '{"score": 0.4}'), ("4<AND>9", "ocr,math", '{"score": 0.5}')]
MMVET += [("north", "rec", '{"score": 1}'), ("map", "rec,ocr", "0.7")]


async def test_mm_vet_is_a_share_by_capability_and_no_number_is_no_verdict(tmp_path: Path, judge: Judge) -> None:
    rows = [
        {"question_id": f"v{number}", "question": f"Which {gold}?", "answer": gold, "capability": skills}
        | {"image": {"bytes": png(), "path": None}, "image_source": "web"}
        for number, (gold, skills, _) in enumerate(MMVET)
    ]
    write_parquet(tmp_path / "mmvet/data/test-0.parquet", rows)
    judge.says = lambda text: next(reply for gold, _, reply in MMVET if json.dumps(gold) in text)
    wanted = settings("mmvet", data=str(tmp_path), judge=JUDGE)
    summary = (await evaluate(wanted, tmp_path / "run", player=saying(lambda plan: "something"))).summary
    assert summary.total.avg == pytest.approx((0.4 + 0.5 + 1.0) / 3)
    assert summary.judged is not None
    assert summary.judged.no_verdict == {"malformed": 1}
    by = {tag: figures.avg for tag, figures in summary.by["mmvet@1"].items() if figures.avg is not None}
    assert by == pytest.approx(
        {
            "capability=rec": 0.7,
            "capability=gen": 0.4,
            "capability=ocr": 0.5,
            "capability=math": 0.5,
            "combination=rec,gen": 0.4,
            "combination=ocr,math": 0.5,
            "combination=rec": 1.0,
        }
    )
    text = (tmp_path / "run" / "results.jsonl").read_text()
    assert "0.4 of 1" in text


def test_partial_credit_is_right_from_a_half_on() -> None:
    rows = [row("a", 0.5, by_rule=0.5, by_judge=1.0), row("b", 0.4, by_rule=0.4, by_judge=1.0), row("c", 1.0)]
    found = summarise(rows).judged
    assert found is not None
    assert found.agreement is not None
    assert (found.agreement.both, found.agreement.only_judge, found.samples) == (1, 1, 2)
