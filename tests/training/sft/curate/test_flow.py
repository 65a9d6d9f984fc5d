"""Branches by source, no barrier between what judges are asked, and tasks that nobody has played."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from PIL import Image
from tests.training.sft.curate.cases import Runs, blobs, ran, said

from saccade.errors import SettingsError
from saccade.models.base import Completion, MediaReader, Request
from saccade.record.codec import read_lines
from saccade.record.task import Task
from saccade.record.trajectory import FinishReason, Trajectory
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.sft.curate import judge as judge_module
from saccade.training.sft.curate.filters.episodes import MinimumScore
from saccade.training.sft.curate.pipeline import load_pipeline, parse_pipeline
from saccade.training.sft.curate.run import asked_in_order, curate
from saccade.training.sft.curate.stage import KEEP, BatchStage, FilterContext, FilterOutcome


class SlowJudge:
    """Says yes to nearly everything; the first question takes until so many others have their replies."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.order: list[str] = []
        self.most = self.now = self.before_first = 0

    async def complete(self, request: Request, media: MediaReader, *, on_text: object = None) -> Completion:
        text = request.messages[0].text
        kind = "knowledge" if "in_the_picture" in text else "label"
        name = next(word for word in text.split() if word.startswith("item"))
        self.now += 1
        self.most = max(self.most, self.now)
        async with asyncio.timeout(20):
            while (kind, name) == ("knowledge", "item0?") and len(self.order) < self.before_first:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        self.now -= 1
        self.order.append(f"{kind} {name}")
        reply = {"in_the_picture": True} if kind == "knowledge" else {"answer_right": name != "item2?"}
        return Completion(json.dumps(reply), FinishReason.STOP)

    async def close(self) -> None:
        pass


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> SlowJudge:
    judge = SlowJudge("test:judge")
    monkeypatch.setattr(judge_module, "load_model", lambda name, retry=None: judge)
    return judge


ASKED = (
    {"name": "outside-knowledge", "judge": "test:judge", "concurrent": 2},
    {"name": "label-check", "judge": "test:judge"},
)


def test_a_slow_question_holds_up_no_other_and_order_is_kept(runs: Runs, judge: SlowJudge) -> None:
    runs.write(*(runs.trajectory(f"{n:02}", task={"question": f"What is item{n}?"}) for n in range(40)))
    judge.before_first = 12
    result = runs.curate(*ASKED)
    assert result.ids == [f"{n:02}" for n in range(40) if n != 2]
    assert result.reasons == {"02": "judge finds the gold answer wrong"}
    assert judge.order.index("knowledge item0?") >= 12
    assert judge.most > 2, "both judges are asked at the same time"
    last_first_filter = max(place for place, name in enumerate(judge.order) if name.startswith("knowledge"))
    assert min(place for place, name in enumerate(judge.order) if name.startswith("label")) < last_first_filter


def test_the_same_question_is_asked_once_for_all_rollouts(runs: Runs, judge: SlowJudge) -> None:
    runs.write(*(runs.trajectory(str(n), task={"id": "t", "question": "What is item1?"}) for n in range(6)))
    assert len(runs.curate(ASKED[1]).ids) == 6
    assert judge.order == ["label item1?"]


def test_filters_are_for_their_branch(runs: Runs) -> None:
    runs.write(
        runs.trajectory("math direct", task={"source": "geoqa_plus@1"}),
        runs.trajectory("photo direct", task={"source": "sa1b", "tags": ("category=photo",)}),
        runs.trajectory("photo tools", ran(), said("5"), task={"source": "sa1b"}),
        runs.trajectory("okvqa", task={"source": "thinklite", "tags": ("data_source=okvqa",)}),
    )
    result = runs.curate(
        {"name": "leave-out", "only": {"tags": "data_source=okvqa*"}, "reason": "outside knowledge"},
        {"name": "tool-turns", "at_least": 1, "without": {"sources": ["geoqa*"]}},
    )
    assert result.ids == ["math direct", "photo tools"]
    assert result.reasons["okvqa"] == "outside knowledge"
    leave, tools = result.report.filters[1:]
    assert (leave.seen, leave.kept, leave.beside) == (4, 3, 3)
    assert (tools.seen, tools.kept, tools.dropped, tools.beside) == (3, 2, 1, 1)
    assert result.report.kept == 2
    assert parse_pipeline({"filter": [{"name": "leave-out", "only": {"sources": "a*"}}]}).to_toml().count('"a*"') == 1
    assert load_pipeline(runs.out / "pipeline.toml").steps[1].branch.without.sources == ("geoqa*",)


def test_a_branch_of_a_filter_of_the_whole_set(runs: Runs) -> None:
    runs.write(
        *(runs.trajectory(f"a{n}", task={"source": "a"}) for n in range(4)),
        runs.trajectory("b", task={"source": "b"}),
    )
    mixture = {"name": "mixture", "weights": {"a": 1}, "size": 2, "only": {"sources": "a"}}
    assert len(runs.curate(mixture).ids) == 3
    with pytest.raises(SettingsError, match=r"only\.source: no such setting"):
        parse_pipeline({"filter": [{"name": "mixture", "weights": {"a": 1}, "only": {"source": "a"}}]})


def test_tasks_that_nobody_played_are_curated_into_a_source_of_tasks(runs: Runs, judge: SlowJudge) -> None:
    folder = runs.root / "photos"
    folder.mkdir()
    rows = []
    for number in range(4):
        blobs(number).save(folder / f"p{number}.png")
        rows.append({"image": f"p{number}.png", "question": f"What is item{number}?", "answer": "x", "category": "a"})
    Image.new("RGB", (64, 48)).save(folder / "same.png")
    (folder / "broken.png").write_bytes(b"no picture")
    rows.append({"image": "broken.png", "question": "What is item9?", "answer": "x"})
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pipeline = parse_pipeline({"filter": [*ASKED, {"name": "split"}]})
    report = curate([folder], pipeline, runs.out, cache=runs.root / "cache")
    assert (report.read, report.kept, len(report.broken)) == (4, 3, 1)
    assert "broken.png" in report.broken[0]
    tasks = list(read_lines(runs.out / "tasks.jsonl", Task))
    assert [task.question for task in tasks] == [f"What is item{n}?" for n in (0, 1, 3)]
    files = {path.name for path in runs.out.iterdir()}
    assert files == {"dropped.jsonl", "media", "pipeline.toml", "report.json", "tasks.jsonl"}
    assert sum(path.is_file() for path in (runs.out / "media").rglob("*")) == 3
    assert len(open_tasks([str(runs.out)])) == 3


def test_filters_of_what_a_model_did_are_refused_for_tasks(runs: Runs, tmp_path: Path) -> None:
    pipeline = parse_pipeline({"filter": [{"name": "duplicates"}, {"name": "tool-turns"}]})
    (runs.root / "t.jsonl").write_text('{"question": "Why?", "answer": "x"}')
    with pytest.raises(SettingsError, match="tool-turns looks at what a model did"):
        curate([runs.root / "t.jsonl"], pipeline, runs.out, cache=tmp_path / "cache")
    runs.write(runs.trajectory("a"))
    with pytest.raises(SettingsError, match="not curated together"):
        curate([runs.root / "run", runs.root / "t.jsonl"], pipeline, runs.out, cache=tmp_path / "cache")


def test_atomic_tags_and_chooses(runs: Runs) -> None:
    runs.write(
        runs.trajectory("crop", ran("show(im.crop((0, 0, 9, 9)))"), said("5")),
        runs.trajectory("sum", ran("print(2 + 3)"), said("5")),
        runs.trajectory("direct"),
    )
    result = runs.curate({"name": "atomic", "keep": ["transform"]})
    assert result.ids == ["crop"]
    assert result.kept[0].task.tags == ("atomic:transform",)


def test_label_cleaning_keeps_what_is_easy(runs: Runs, judge: SlowJudge) -> None:
    names = {step.filter for step in load_pipeline("codev").steps}
    assert "label-check@1" in names
    assert "question-quality@1" not in names


async def test_a_slow_answer_holds_up_no_more_than_eight_times_as_many_as_are_asked_at_once(runs: Runs) -> None:
    read: list[int] = []
    begun: list[str] = []
    slow = asyncio.Event()

    async def stream() -> AsyncIterator[Trajectory]:
        for number in range(40):
            read.append(number)
            yield runs.trajectory(f"{number}")

    async def decide(trajectory: Trajectory) -> FilterOutcome:
        begun.append(trajectory.id)
        if trajectory.id == "0":
            await slow.wait()
        return KEEP

    order: list[str] = []

    async def take() -> None:
        async for trajectory, _ in asked_in_order(stream(), decide, 2):
            order.append(trajectory.id)

    taking = asyncio.create_task(take())
    for _ in range(200):
        await asyncio.sleep(0)
    assert (len(read), len(begun), order) == (16, 16, [])
    slow.set()
    await taking
    assert order == [str(number) for number in range(40)]


async def test_what_is_under_way_is_over_when_nobody_reads_on(runs: Runs) -> None:
    ended: list[str] = []

    async def stream() -> AsyncIterator[Trajectory]:
        for number in range(9):
            yield runs.trajectory(f"{number}")

    async def decide(trajectory: Trajectory) -> FilterOutcome:
        if trajectory.id == "0":
            return KEEP
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(trajectory.id)
        return KEEP

    asked = asked_in_order(stream(), decide, 3)
    first, _ = await anext(asked)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (first.id, ended) == ("0", [])
    async with asyncio.timeout(5):
        await asked.aclose()
    assert ended == ["1", "2", "3"]


def test_a_rule_is_closed_at_the_end(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    def start(self: MinimumScore, around: FilterContext) -> BatchStage:
        return BatchStage(lambda batch: [KEEP] * len(batch), close=lambda: closed.append("score"))

    monkeypatch.setattr(MinimumScore, "start", start)
    runs.write(runs.trajectory("a"))
    assert runs.curate({"name": "score"}).ids == ["a"]
    assert closed == ["score"]
