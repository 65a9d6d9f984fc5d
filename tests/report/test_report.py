"""The report of runs that the real loop played: its numbers, its episodes, and texts of strangers in it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from markupsafe import escape
from tests.report.played_runs import HOSTILE, eval_run, training_run
from tests.report.test_page import Seen

from saccade.cli.main import main
from saccade.evals.protocols.base import findings_file, load_protocol, write_findings
from saccade.evals.protocols.findings import Mean, Rate
from saccade.evals.protocols.study import Study, study
from saccade.evals.protocols.tool_use_records import OperationShare, ToolUse
from saccade.report import write
from saccade.report.runs import findings_of, open_runs
from saccade.report.sections.protocols import tool_use
from saccade.report.sections.view import SectionRow, mean
from saccade.report.write import write_report
from saccade.tasks.benchmarks.registry import load_card
from saccade.tools.context import Operation


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
    [total_row] = [row for row in rows(page) if row[0] == "all"]
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


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (["openai:a", "openai:b"], ["openai:a", "openai:b"]),
        (['"/home/me/one/last"', '"/home/me/two/last"'], ["one/last", "two/last"]),
        (["local:/home/me/one", "–"], ["one", "–"]),
    ],
)
def test_models_are_shown_by_as_much_of_their_path_as_tells_them_apart(values: list[str], shown: list[str]) -> None:
    lines = write.differences({str(place): {"model": value} for place, value in enumerate(values)})[0].lines
    assert lines == (SectionRow(("model", *shown)),)


def test_a_mean_over_a_part_of_the_samples_says_of_how_many() -> None:
    part = Mean(value=81.0, samples=1, low=81.0, high=81.0)
    assert mean(part, of=3) == "81 (81–81, of 1)"
    assert mean(part, of=1) == "81 (81–81)"


def test_calls_are_also_shown_by_their_one_label(runs: tuple[Path, Path, Path]) -> None:
    """Eight calls: six crop and enlarge what they cropped, two count. Older findings have no labels, and no figure."""
    findings = asyncio.run(study(runs[0], Study((load_protocol("tool_use"),))))["tool_use"]
    assert isinstance(findings, ToolUse)

    def share(operation: Operation, calls: int, labels: int | None) -> OperationShare:
        label = None if labels is None else Rate(count=labels, of=8)
        return OperationShare(
            operation=operation, calls=Rate(count=calls, of=8), samples=Rate(count=calls, of=8), labels=label
        )

    def shown(crop: int | None, zoom: int | None, analysis: int | None) -> dict[str, str]:
        shares = ((Operation.CROP, 6, crop), (Operation.ZOOM, 6, zoom), (Operation.NUMERICAL_ANALYSIS, 2, analysis))
        use = findings.total.model_copy(update={"operations": tuple(share(*one) for one in shares)})
        panel = tool_use({"run": findings.model_copy(update={"total": use, "sources": {}})})
        assert panel is not None
        return {one.title: str(one.svg) for one in panel.figures}

    figures = shown(6, 0, 2)
    multi, single = figures["What calls did"], figures["What calls did, one label a call"]
    assert [name in multi for name in (">crop<", ">zoom<", ">numerical analysis<")] == [True, True, True]
    assert [name in single for name in (">crop<", ">zoom<", ">numerical analysis<")] == [True, False, True]
    assert ">75%<" in single
    assert ">25%<" in single
    assert "What calls did, one label a call" not in shown(None, None, None)
