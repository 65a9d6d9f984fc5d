"""The report of runs that the real loop played: its numbers, its episodes, and texts of strangers in it."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from pathlib import Path

import pytest
from markupsafe import escape
from tests.evals.support import oracle, saying, settings, write_tasks
from tests.evals.test_judged import JUDGE, RIGHT, WRONG, Judge
from tests.report.cases import Scene, answered
from tests.report.played_runs import HOSTILE, eval_run, training_run
from tests.report.test_page import Seen

from saccade.cli.main import main
from saccade.errors import SettingsError
from saccade.evals.protocols.base import Mean, Rate, findings_file, load_protocol, write_findings
from saccade.evals.protocols.study import Study, study
from saccade.evals.protocols.tool_use import OperationShare, ToolUse
from saccade.evals.run import evaluate
from saccade.record.codec import dumps
from saccade.record.execution import Status
from saccade.record.trajectory import Score, StopReason
from saccade.report.runs import findings_of, flat, open_eval_run, open_runs
from saccade.report.sections.protocols import tool_use
from saccade.report.sections.results import HEADS, NOTE
from saccade.report.sections.view import mean
from saccade.report.write import _sources, write_report
from saccade.tasks.benchmarks.registry import load_card
from saccade.tools.context import Operation
from saccade.training.run import TrainingJournal
from saccade.training.settings import KeepSettings


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    good, poor = (eval_run(folder, name, right=name == "good") for name in ("good", "poor"))
    return good, poor, training_run(folder / "trained")


@pytest.fixture(scope="module")
def page(runs: tuple[Path, Path, Path]) -> str:
    target = runs[0].parent / "report.html"
    assert main(["report", *map(str, runs), "--out", str(target)]) == 0
    return target.read_text(encoding="utf-8")


def rows(page: str) -> list[list[str]]:
    """The cells of all tables, row by row."""
    found = re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
    cells = ([re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in found)
    return [row for row in cells if row]


def cards(page: str) -> list[list[object]]:
    [data] = re.findall(r'<script type="application/json" id="gallery-data">(.*?)</script>', page)
    gallery = json.loads(data)
    for item in gallery["items"]:
        item[4] = [gallery["labels"][label] for label in item[4]]
    return list(gallery["items"])


def test_headline_numbers_stand_beside_the_cards(page: str, runs: tuple[Path, Path, Path]) -> None:
    found = rows(page)
    for run, percent in ((runs[0], "50.0"), (runs[1], "0.0")):
        summary = json.loads((run / "summary.json").read_text())
        assert 100 * summary["sources"]["vstar@1"]["avg"] == float(percent)
        low, high = summary["sources"]["vstar@1"]["interval"]
        assert [run.name, percent, f"{100 * low:.1f}–{100 * high:.1f}", "–", "2", "2", "this report"] in found
    scores = load_card("vstar").scores
    assert scores
    for score in scores:
        assert any(row[:2] == [score.model, f"{score.score:.1f}"] and score.source in row[-1] for row in found)
    assert "Only 2 of its 191 tasks" in page
    assert ["mean over benchmarks", "75.0", "50.0"] in found


def test_two_runs_are_compared_task_by_task(page: str) -> None:
    [total_row] = [row for row in rows(page) if row[0] == "good against poor"]
    assert total_row[1:3] == ["5", "+20.0"]
    assert total_row[5:] == ["1", "0", "4"]


def test_protocols_are_found_where_none_are_stored(page: str) -> None:
    for panel in ("Tool use", "Errors", "Token economy", "Confidence"):
        assert f"<h3>{panel}</h3>" in page
    assert ["good", "5", "4", "0.80", "1", "crop"] in rows(page)
    shares = {row[0]: row[1].split(" ")[0] for row in rows(page) if row[0].startswith("good") and ": " in row[0]}
    title = load_card("vstar").title
    assert (shares[f"good, {title}: 0"], shares["good, circled-letter@1: 0"]) == ("100.0", "0.0")


def test_curves_of_training_runs(page: str) -> None:
    for title in ("Reward", "Accuracy", "Tool calls", "Entropy", "Broken rollouts", "Time"):
        assert f"<figcaption><b>{title}</b></figcaption>" in page
    assert ["trained", "80", "30.0%", "80.0%", "80.0%", "checkpoint", "–", "maze"] in rows(page)
    assert "/somewhere" not in page, "no paths of the machine"


def test_how_outcome_and_effort_move_together_and_the_advantages_of_steps(tmp_path: Path) -> None:
    (tmp_path / "rl").mkdir()
    journal = TrainingJournal(tmp_path / "rl", KeepSettings(tensorboard=False), 0, {})
    # By hand: 1, 2, 3 against 1, 2, 2 has 1 / sqrt(2 * 2 / 3) = 0.866, against 3, 2, 1 has -1, against 1, 1, 1 none.
    for step, (tools, length) in enumerate([(1.0, 3.0), (2.0, 2.0), (2.0, 1.0)], 1):
        numbers = {"accuracy": float(step), "tool_calls": tools, "response_length": length, "turns": 1.0}
        journal.metrics(step, {**numbers, "advantage/10%": -1.0, "advantage/spread": 0.5})
    journal.close()
    assert main(["report", str(tmp_path / "rl"), "--out", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text("utf-8")
    assert ["rl, accuracy", "0.87", "–", "–", "−1.00"] in rows(page)
    assert "<figcaption><b>Advantages</b></figcaption>" in page


def test_cards_say_what_became_of_every_sample(page: str) -> None:
    found = cards(page)
    assert len(found) == 2 * (5 + 1)
    by_id = {(item[1], item[8]): item for item in found}
    assert by_id[0, "t0#0"][4] == ["right", "runs differ", "no tool"]
    assert by_id[1, "t0#0"][4] == ["wrong", "runs differ", "no tool"]
    assert by_id[1, "t1#0"][4] == ["wrong", "no tool"]
    failing = next(item for item in found if str(item[8]).endswith("/0#0"))
    assert {"right", "a call failed"} <= set(failing[4])  # type: ignore[call-overload]
    lost = [item for item in found if not item[0]]
    assert [item[8] for item in lost] == ["t2#0", "t2#0"]
    assert "the server went away" in str(lost[0][5])
    anchors = [item[0] for item in found if item[0]]
    assert anchors == [f"#e{number}" for number in range(1, 11)]


def test_every_episode_is_a_page_of_its_own_with_its_sisters(page: str) -> None:
    for number in range(1, 11):
        assert page.count(f'<template id="e{number}-folded"><section class="episode" id="e{number}"') == 1
    [first] = re.findall(r'<template id="e1-folded">(.*?)</template>', page, re.DOTALL)
    assert re.search(r'class="others".*<a href="#e2">poor #0', first, re.DOTALL)


def test_texts_of_strangers_act_nowhere(page: str) -> None:
    seen = Seen(page)
    assert not [tag for tag, attributes in seen.elements if "onerror" in attributes or tag in ("iframe", "base")]
    assert sum(tag == "template" for tag, _ in seen.elements) == 10 + 1
    assert "\u202e" not in page
    shown = str(escape(HOSTILE[:-1]))
    assert page.count(shown) >= 2, "it is shown as it was written"


def test_beyond_the_budget_episodes_lie_in_a_folder(runs: tuple[Path, Path, Path], tmp_path: Path) -> None:
    written = write_report(open_runs(runs[:2]), tmp_path / "out.html", title="Both", budget=50_000)
    assert written.folder is not None
    text = written.page.read_text(encoding="utf-8")
    hrefs = [str(item[0]) for item in cards(text) if item[0]]
    assert len(hrefs) == len(list(written.folder.iterdir())) == 10
    for href in hrefs:
        alone = (tmp_path / href).read_text(encoding="utf-8")
        assert 'href="../out.html"' in alone
        for other in re.findall(r'<a href="(e\d+\.html)">', alone):
            assert (written.folder / other).is_file()
    assert "<h1>Both</h1>" in text


def test_stored_findings_count_while_they_are_of_the_whole_run(runs: tuple[Path, Path, Path]) -> None:
    found = asyncio.run(study(runs[0], Study((load_protocol("tool_use"),))))["tool_use"]
    assert isinstance(found, ToolUse)
    marked = found.model_copy(update={"total": found.total.model_copy(update={"failed": 77})})
    file = findings_file(runs[0], "tool_use")
    try:
        for samples, failed in ((found.about.samples, 77), (3, 1)):
            about = found.about.model_copy(update={"samples": samples})
            write_findings(file, marked.model_copy(update={"about": about}))
            [run] = open_runs(runs[:1]).evals
            run.read()
            read = findings_of(run, ("tool_use",))["tool_use"]
            assert isinstance(read, ToolUse)
            assert read.total.failed == failed
    finally:
        file.unlink()


def test_the_settings_that_differ_name_the_models_without_their_places(page: str) -> None:
    assert ["model", "good", "poor"] in rows(page)


def test_a_mean_over_a_part_of_the_samples_says_of_how_many() -> None:
    part = Mean(value=81.0, samples=1, low=81.0, high=81.0)
    assert mean(part, of=3) == "81 (81–81, of 1)"
    assert mean(part, of=1) == "81 (81–81)"


def test_calls_are_also_shown_by_their_one_label(runs: tuple[Path, Path, Path]) -> None:
    """Eight calls: six crop and enlarge what they cropped, two count."""
    findings = asyncio.run(study(runs[0], Study((load_protocol("tool_use"),))))["tool_use"]
    assert isinstance(findings, ToolUse)

    def share(operation: Operation, calls: int, labels: int) -> OperationShare:
        rate = Rate(count=calls, of=8)
        return OperationShare(operation=operation, calls=rate, samples=rate, labels=Rate(count=labels, of=8))

    shares = ((Operation.CROP, 6, 6), (Operation.ZOOM, 6, 0), (Operation.NUMERICAL_ANALYSIS, 2, 2))
    use = findings.total.model_copy(update={"operations": tuple(share(*one) for one in shares)})
    panel = tool_use({"run": findings.model_copy(update={"total": use, "sources": {}})})
    assert panel is not None
    figures = {one.title: str(one.svg) for one in panel.figures}
    multi, single = figures["What calls did"], figures["What calls did, one label a call"]
    assert [name in multi for name in (">crop<", ">zoom<", ">numerical analysis<")] == [True, True, True]
    assert [name in single for name in (">crop<", ">zoom<", ">numerical analysis<")] == [True, False, True]
    assert ">75%<" in single
    assert ">25%<" in single


def test_of_two_of_one_id_the_later_one_counts_and_a_cut_line_is_told(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    failing = scene.ran("x", status=Status.ERROR, committed=False)
    first, other = scene.episode(answered("no"), id="a#0"), scene.episode(failing, answered(), id="b#0")
    again = scene.episode(answered("yes"), id="a#0").with_scores([Score(name="correct", value=1.0)])
    lines = [dumps(item) for item in (first, other, again)]
    (tmp_path / "trajectories.jsonl").write_text("\n".join([*lines, lines[0][:40]]), encoding="utf-8")
    run = open_eval_run("run", tmp_path)
    run.read()
    assert [(row.id, row.answer, run.outcome(row)) for row in run.rows] == [
        ("a#0", "yes", "right"),
        ("b#0", "a cat", "not graded"),
    ]
    assert run.labels["b#0"] == {"not graded", "a call failed"}
    assert [item.answer for item in run.trajectories()] == ["a cat", "yes"]
    assert len(run.stored.problems) == 1
    assert "cut short" in run.stored.problems[0]


@pytest.mark.parametrize(
    ("stop", "value", "outcome"),
    [
        (StopReason.ANSWERED, 1.0, "right"),
        (StopReason.ANSWERED, 0.4, "partly right"),
        (StopReason.ANSWERED, 0.0, "wrong"),
        (StopReason.ANSWERED, None, "not graded"),
        (StopReason.TURN_LIMIT, 0.0, "no answer"),
        (StopReason.TURN_LIMIT, None, "no answer"),
        (StopReason.SANDBOX_LOST, None, "lost"),
    ],
)
def test_every_sample_has_one_outcome(tmp_path: Path, stop: StopReason, value: float | None, outcome: str) -> None:
    scene = Scene(tmp_path)
    turns = [answered()] if stop is StopReason.ANSWERED else []
    episode = scene.episode(*turns, stop=stop).with_scores([Score(name="correct", value=value)])
    (tmp_path / "trajectories.jsonl").write_text(dumps(episode) + "\n", encoding="utf-8")
    run = open_eval_run("run", tmp_path)
    run.read()
    assert run.labels["noise#0"] == {outcome}


def test_kinds_of_runs_are_told_apart(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "one")
    rl = training_run(tmp_path / "rl")
    for folder in (tmp_path / "one", rl / "rollouts"):
        folder.mkdir(exist_ok=True)
        (folder / "trajectories.jsonl").write_text(dumps(scene.episode(answered())) + "\n", encoding="utf-8")
    runs = open_runs([tmp_path / "one", rl, tmp_path / "one" / "."])
    assert [run.name for run in runs.evals] == ["one"]
    assert [run.name for run in runs.trainings] == ["rl"]
    assert [run.name for run in runs.rollouts] == ["rl · rollouts"]
    with pytest.raises(SettingsError, match="it holds neither"):
        open_runs([tmp_path])


def test_a_training_run_holds_every_number_and_tells_broken_lines(tmp_path: Path) -> None:
    folder = training_run(tmp_path / "rl", 40)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"no_step": 1}\n[1]\n{"step": 41, "rew')
    (folder / "settings.toml").unlink()
    [run] = open_runs([folder]).trainings
    assert run.steps == 40
    assert run.points["validation/accuracy"] == [(0.0, 0.3), (40.0, pytest.approx(0.8))]
    assert [problem.split(" of ")[0] for problem in run.problems[:3]] == ["Line 43", "Line 44", "Line 45"]
    assert "settings" in run.problems[3]


async def test_both_verdicts_and_the_headline_stand_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge(monkeypatch)
    judge.says = lambda text: "perhaps" if '"gold answer": "6"' in text else WRONG if '"4"' in text else RIGHT
    tasks = write_tasks(tmp_path / "tasks", 4)
    poor = saying(lambda plan: "9" if plan.task.id == "t0" else str(plan.task.answer))
    for headline in ("rule", "judge"):
        wanted = settings(tasks, judge=JUDGE, headline=headline)
        await evaluate(wanted, tmp_path / headline, player=poor)
    await evaluate(settings(tasks), tmp_path / "alone", player=oracle)
    names = ("rule", "judge", "alone")
    assert main(["report", *(str(tmp_path / name) for name in names), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    found = rows(page)
    assert ["", "right, %", "95% interval", *HEADS, "majority", "tasks", "samples", "from"] in found
    own = {row[0]: [row[1], *row[3:6], *row[7:9]] for row in found if row[-1] == "this report"}
    # Of the four answers the judge gave no verdict on one, the rule says right to two of the other three.
    assert own == {
        "rule": ["75.0", "66.7", "66.7", "rule", "4", "4"],
        "judge": ["66.7", "66.7", "66.7", "judge", "3", "3"],
        "alone": ["100.0", "–", "–", "–", "4", "4"],
    }
    agreed = ["33.3", "−0.50", "1", "1", "1", "0", "3", "malformed 1"]
    assert [row for row in found if row[-1] == "malformed 1"] == [[name, *agreed] for name in names[:2]]
    assert NOTE in page


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('[tasks]\nsource = ["a/b/photos/", "maze=0.3"]', "photos, maze=0.3"),
        ('[tasks]\nsource = "a/b/photos"', "photos"),
        ('[tasks]\nsource = []\n[[recipe.source]]\nname = "x/geo"\n[[recipe.source]]\nname = "maze"', "geo, maze"),
        ("[tasks]\nmost = 3", ""),
    ],
)
def test_sources_without_the_paths_of_a_machine(settings: str, said: str) -> None:
    assert _sources(dict(flat(tomllib.loads(settings)))) == said


BREVITY = """
from saccade.evals.protocols.base import Protocol
from saccade.evals.protocols.base import Findings, Mean, Rate, SampleExamples, SampleRow
from saccade.evals.protocols.base import examples
from saccade.evals.protocols.base import Rates
from saccade.record.content import Record

class Row(SampleRow):
    characters: int

class Span(Record):
    label: str
    short: Rate

class Brevity(Findings):
    characters: Mean | None
    short_answers: Rate
    longest: int
    by_source: dict[str, Rate]
    spans: tuple[Span, ...]
    examples: tuple[SampleExamples, ...]
    rows: tuple[Row, ...]

def row(studied):
    return Row(**studied.head, characters=len(studied.trajectory.answer or ""))

def findings(rows, about):
    rates = Rates(rows)
    short = rates.rate(row.characters < 5 for row in rows)
    return Brevity(
        about=about, characters=rates.mean(row.characters for row in rows), short_answers=short,
        longest=max(row.characters for row in rows), by_source={"<b>all</b>": short},
        spans=(Span(label="all", short=short),), rows=tuple(rows),
        examples=examples(("long", row.id) for row in rows if row.characters > 20),
    )

PROTOCOL = Protocol("brevity", "Length of answers", Brevity, row, findings)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return eval_run(tmp_path_factory.mktemp("runs"), "good", right=True)


def test_it_has_tables_in_the_terminal_and_a_panel_in_the_report(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "brevity.py").write_text(BREVITY)
    assert main(["protocols", str(run), "--only", f"{tmp_path / 'brevity.py'}:PROTOCOL"]) == 0
    printed = capsys.readouterr().out
    assert "## good: Length of answers" in printed
    assert "| short answers         | 80.0 % (37.6–96.4), 4 of 5 |" in printed
    assert "| label |                      short |" in printed
    assert "| long | t1#0 |" in printed
    target = tmp_path / "report.html"
    assert main(["report", str(run), "--out", str(target)]) == 0
    found = rows(target.read_text(encoding="utf-8"))
    assert ["short answers", "80.0 % (37.6–96.4), 4 of 5"] in found
    assert ["by source: &lt;b&gt;all&lt;/b&gt;", "80.0 % (37.6–96.4), 4 of 5"] in found
    assert ["long", "t1#0"] in found
    assert ["all", "80.0 % (37.6–96.4), 4 of 5"] in found


def test_stored_findings_that_do_not_fit_are_told_and_left_out(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run / "protocols"
    folder.mkdir(exist_ok=True)
    (folder / "stale.json").write_text(json.dumps({"about": {"samples": 1, "lost": 0}, "number": 3}))
    (folder / "broken.json").write_text("{")
    try:
        assert main(["report", str(run), "--out", str(tmp_path / "report.html")]) == 0
    finally:
        (folder / "stale.json").unlink()
        (folder / "broken.json").unlink()
    said = capsys.readouterr().err
    assert "The stored findings on stale of good are of 1 of its 5 samples" in said
    assert "protocols/broken.json of good holds no findings" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("len(studied.trajectory.answer or '')", ""), ""),
        (('len(studied.trajectory.answer or "")', 'int("x")'), "failed at the row of the sample"),
        (("max(row.characters for row in rows)", "1 // 0"), "failed at the findings of 5 rows: ZeroDivisionError"),
    ],
)
def test_its_error_is_a_message_with_the_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], said: str
) -> None:
    (tmp_path / "own.py").write_text(BREVITY.replace(*change).replace('"brevity"', '"own"'))
    code = main(["protocols", str(run), "--only", f"{tmp_path / 'own.py'}:PROTOCOL", "--out", str(tmp_path)])
    printed = capsys.readouterr().err
    assert code == (2 if said else 0)
    assert said in printed
    assert not said or "own.py, line " in printed
    assert "Traceback" not in printed
