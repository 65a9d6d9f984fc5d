"""Pipelines: order, branches, output, report, mistakes, and tasks that nobody has played."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from PIL import Image
from tests.tasks.sources.files import jsonl, picture
from tests.training.sft.curate.cases import Runs, blobs, ran, said

from saccade.core.recipes import recipe_names
from saccade.errors import MissingMediaError, RecordError, SettingsError
from saccade.media.store import MediaStore
from saccade.models.base import Completion, MediaReader, Request
from saccade.record.codec import loads, read_lines
from saccade.record.task import Task
from saccade.record.trajectory import FinishReason, Trajectory
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.sft.curate.filters import judged as judge_module
from saccade.training.sft.curate.filters.episodes import MinimumScore
from saccade.training.sft.curate.pipeline import (
    EXAMPLES,
    FILTERS,
    KEEP,
    BatchStage,
    CurateReport,
    FilterContext,
    FilterOutcome,
    load_filter,
    load_pipeline,
    parse_pipeline,
)
from saccade.training.sft.curate.run import SourceRuns, asked_in_order, curate

FILES = ["dropped.jsonl", "media", "pipeline.toml", "report.json", "trajectories.jsonl"]


def test_order_is_kept_and_media_are_linked(runs: Runs) -> None:
    pictures = [runs.put(blobs(seed)) for seed in range(2)]
    count = 67
    runs.write(*(runs.trajectory(f"{n:03}", picture=pictures[n % 2], correct=float(n % 3 > 0)) for n in range(count)))
    result = runs.curate({"name": "score"})
    assert result.ids == [f"{n:03}" for n in range(count) if n % 3]
    source, store = MediaStore(runs.root / "run" / "media"), MediaStore(runs.out / "media")
    for part in pictures:
        assert store.get_bytes(part.sha256) == source.get_bytes(part.sha256)
        assert store.path(part.sha256).samefile(source.path(part.sha256))
    assert sorted(path.name for path in runs.out.iterdir()) == FILES


def test_report_counts_reasons_examples_and_categories(runs: Runs) -> None:
    wrong = [runs.trajectory(f"w{n}", correct=0.0, task={"source": "charts"}) for n in range(EXAMPLES + 2)]
    runs.write(*wrong, runs.trajectory("r", ran(), said("5"), correct=1.0, task={"source": "maps"}))
    report = runs.curate({"name": "score"}, {"name": "tool-turns"}).report
    assert loads((runs.out / "report.json").read_bytes(), CurateReport) == report
    _, score, turns = report.filters
    assert (report.read, report.kept, score.seen, score.dropped, turns.seen) == (EXAMPLES + 3, 0, EXAMPLES + 3, 7, 1)
    assert score.reasons[0].count == EXAMPLES + 2
    assert score.reasons[0].examples == tuple(f"w{n}" for n in range(EXAMPLES))
    assert [(item.category, item.seen, item.kept) for item in score.categories] == [("charts", 7, 0), ("maps", 1, 1)]


def test_ids_that_come_again_get_their_runs_name(runs: Runs) -> None:
    runs.write(runs.trajectory("a", correct=1.0), run="one")
    runs.write(runs.trajectory("a", correct=1.0), run="two")
    result = runs.curate({"name": "score"}, runs=("one", "two"))
    assert result.ids == ["a", "two/a"]
    assert result.report.renamed == 1


def test_same_output_twice(runs: Runs) -> None:
    runs.write(*(runs.trajectory(str(n), task={"source": "ab"[n % 2]}) for n in range(40)))
    filters = [{"name": "mixture", "weights": {"a": 1, "b": 3}}, {"name": "split"}]
    first = runs.curate(*filters)
    assert runs.curate(*filters).kept == first.kept
    for name in ("trajectories.jsonl", "dropped.jsonl", "pipeline.toml"):
        assert (runs.out / name).read_bytes() == (runs.root / "out" / name).read_bytes()
    # A filter of whole sets passes over a file, which goes.
    assert sorted(path.name for path in runs.out.iterdir()) == [name for name in FILES if name != "media"]


def test_resolved_pipeline_gives_the_same_again(runs: Runs) -> None:
    runs.write(*(runs.trajectory(str(n), correct=n % 2) for n in range(6)))
    first = runs.curate({"name": "score", "label": "right"}, {"name": "split", "seed": 4})
    again = load_pipeline(runs.out / "pipeline.toml")
    assert curate([runs.root / "run"], again, runs.root / "again", cache=runs.root).filters == first.report.filters


def test_nothing_appears_if_it_fails(runs: Runs) -> None:
    part = runs.put(blobs(1), run="elsewhere")
    runs.write(runs.trajectory("a", picture=part, correct=1.0))
    with pytest.raises(MissingMediaError):
        runs.curate({"name": "score"})
    assert sorted(path.name for path in runs.root.iterdir()) == ["elsewhere", "run"]


def test_an_output_that_exists_is_refused(runs: Runs) -> None:
    runs.write(runs.trajectory("a"))
    runs.out.mkdir()
    (runs.out / "mine").touch()
    with pytest.raises(RecordError, match="exists already"):
        runs.curate({"name": "score"})
    assert (runs.out / "mine").exists()


def test_an_empty_output_folder_is_filled(runs: Runs) -> None:
    runs.write(runs.trajectory("a", correct=1.0))
    runs.out.mkdir()
    assert runs.curate({"name": "score"}).ids == ["a"]


def test_a_pipeline_that_is_no_toml_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('category = "source"\n[[filter]\n', encoding="utf-8")
    with pytest.raises(SettingsError, match=r"mine\.toml is not valid TOML: .*line 2"):
        load_pipeline(file)


def test_no_run_is_refused(runs: Runs) -> None:
    with pytest.raises(SettingsError, match="no file or folder of tasks"):
        runs.curate({"name": "score"})


def test_every_mistake_is_named() -> None:
    data = {
        "catgory": "x",
        "filter": [{"name": "scor"}, {"name": "score", "at_leest": 1}, {"name": "tool-turns", "at_least": -1}, {}],
    }
    with pytest.raises(SettingsError) as caught:
        parse_pipeline(data, ["score.at_most", "nothing.at_least=1"])
    text = str(caught.value)
    for words in ("'category'", "'score'", "'at_least'", "tool-turns.at_least", "no name", "score.at_most", "nothing"):
        assert words in text
    assert text.startswith("7 mistake(s)")


def test_a_filter_twice_needs_labels() -> None:
    table = {"name": "score"}
    with pytest.raises(SettingsError, match="comes twice"):
        parse_pipeline({"filter": [table, table]})
    steps = parse_pipeline({"filter": [table, {**table, "label": "b"}]}, ["b.at_least=0.5", "b.score=format"]).steps
    assert [(step.label, step.settings.model_dump()["at_least"]) for step in steps] == [("score", 1.0), ("b", 0.5)]


def test_every_filter_loads_and_says_what_it_does() -> None:
    for entry in FILTERS.ids():
        assert (load_filter(entry).__doc__ or "").strip()


@pytest.mark.parametrize("name", recipe_names("curate"))
def test_bundled_pipelines_are_valid(name: str) -> None:
    pipeline = load_pipeline(name)
    assert parse_pipeline(tomllib.loads(pipeline.to_toml())) == pipeline


def test_a_mistake_says_what_kind_it_is() -> None:
    tables = [{"name": "score", "at_leest": 1}, {"name": "ended", "turns": 0}, {"name": "tool-turns", "at_least": "x"}]
    with pytest.raises(SettingsError) as caught:
        parse_pipeline({"filter": tables}, where="mine.toml")
    first, *lines = str(caught.value).splitlines()
    assert first == "3 mistake(s) in mine.toml:"
    assert lines[0].startswith("  score.at_leest: no such setting. Did you mean 'at_least'")
    assert lines[1].startswith("  ended.turns: ")
    assert lines[1].endswith(", got 0")
    assert lines[2].endswith(", got 'x'")
    assert "no such setting" not in lines[1] + lines[2]


@pytest.mark.parametrize("tables", [[], "score", ["score"], [{"name": "score"}, "ended"]])
def test_a_pipeline_without_tables_of_filters_is_refused(tables: object) -> None:
    with pytest.raises(SettingsError, match=r"filter: should be one \[\[filter\]\] table or more"):
        parse_pipeline({"filter": tables})


@pytest.mark.parametrize("rule", ["source", "dialect", "model", "answer_type", "split", "tag"])
def test_every_category_rule_is_accepted_and_no_other(rule: str) -> None:
    table = {"name": "score"}
    assert parse_pipeline({"category": rule, "filter": [table]}).category == rule
    with pytest.raises(SettingsError, match=f"category: should be one of source, .*got '{rule}s'"):
        parse_pipeline({"category": f"{rule}s", "filter": [table]})


@pytest.mark.parametrize(("text", "value"), [("2", 2.0), ("0.5", 0.5), (" 1e-1 ", 0.1)])
def test_overrides_are_read_as_toml(text: str, value: float) -> None:
    (step,) = parse_pipeline({"filter": [{"name": "score"}]}, [f"score.at_least={text}"]).steps
    assert step.settings.model_dump()["at_least"] == value


def test_an_override_that_is_no_toml_is_a_text(tmp_path: Path) -> None:
    table = {"name": "score"}
    for text in ("format", "a = b", '"format"', "x\ny = 2"):
        (step,) = parse_pipeline({"filter": [table]}, [f"score.score={text}"]).steps
        assert step.settings.model_dump()["score"] == text.strip('"')


def test_a_pipeline_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("", encoding="utf-8")

    def denied(self: Path, *rest: object, **more: object) -> str:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_text", denied)  # the tests may run as root, whom no mode of a file stops
    with pytest.raises(SettingsError, match=r"mine\.toml cannot be read: Permission denied"):
        load_pipeline(file)


def test_runs_that_cannot_be_told_apart_are_refused(runs: Runs) -> None:
    runs.write(runs.trajectory("a", correct=1.0))
    with pytest.raises(RecordError, match="named twice"):
        runs.curate({"name": "score"}, runs=("run", "run"))
    runs.write(runs.trajectory("a"), runs.trajectory("a"), run="double")
    with pytest.raises(RecordError, match="the trajectory a comes twice in"):
        runs.curate({"name": "score", "undecided": "keep"}, runs=("run", "double"))
    long = "x" * 196  # with `two/` before it 200 characters, as long as an id may be
    for run in ("one", "two", "three"):
        runs.write(runs.trajectory(long, correct=1.0, task={"id": "task"}), run=run)
    assert runs.curate({"name": "score"}, runs=("one", "two")).ids == [long, f"two/{long}"]
    with pytest.raises(RecordError, match="comes twice"):
        runs.curate({"name": "score"}, runs=("one", "three"))


def test_media_of_tasks_that_nobody_played_go_with_their_source(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture(tmp_path / "photos" / "a.png")
    jsonl(tmp_path / "photos" / "questions.jsonl", [{"image": "a.png", "question": "?", "answer": "x"}])
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    source = SourceRuns([tmp_path / "photos"])
    [trajectory] = source.trajectories()
    [part] = trajectory.media()
    assert source.get_bytes(part.sha256)
    assert len(list(scratch.iterdir())) == 1
    del source
    assert not list(scratch.iterdir())


def test_media_are_copied_where_they_cannot_be_linked(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError("another file system")

    part = runs.put(blobs(1))
    runs.write(runs.trajectory("a", picture=part, correct=1.0))
    monkeypatch.setattr(os, "link", refuse)
    runs.curate({"name": "score"})
    before, after = (MediaStore(folder / "media").path(part.sha256) for folder in (runs.root / "run", runs.out))
    assert before.read_bytes() == after.read_bytes()
    assert not before.samefile(after)


def test_categories_count_before_and_behind_each_filter(runs: Runs) -> None:
    runs.write(
        runs.trajectory("a", correct=1.0, task={"tags": ("x", "y", "x")}),
        runs.trajectory("b", correct=0.0, task={"tags": ("y",)}),
        runs.trajectory("c", correct=1.0),
        runs.trajectory("d"),
    )
    report = runs.curate({"name": "score"}, category="tag").report
    score = report.filters[1]
    assert [(item.category, item.seen, item.kept) for item in score.categories] == [
        ("-", 2, 1),
        ("x", 1, 1),
        ("y", 2, 1),
    ]
    assert (score.dropped, score.undecided, score.kept) == (1, 1, 2)
    assert [(item.outcome, item.count) for item in score.reasons] == [("dropped", 1), ("undecided", 1)]


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
        *(runs.trajectory(f"a{n}", task={"source": "a"}) for n in range(4)), runs.trajectory("b", task={"source": "b"})
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
