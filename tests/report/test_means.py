"""Tables of a report over several benchmarks: the numbers that means use, groups of papers, runs put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest
from tests.evals.rows import row

from saccade.evals.protocols.base import StudiedRun
from saccade.evals.protocols.errors import ErrorClass, ErrorRow, Errors, StepError
from saccade.evals.protocols.errors import findings as errors_of
from saccade.evals.rows import EvalRow
from saccade.evals.summary import summarise
from saccade.report.runs import RIGHT, WRONG, EvalRun, StoredRun
from saccade.report.sections.protocols import errors, paired_text
from saccade.report.sections.results import comparison, results, verdict
from saccade.report.sections.view import Panel

SEVEN = ("vstar", "hrbench-4k", "hrbench-8k", "mathvision", "mathverse", "wemath", "dynamath")


def run(name: str, rows: Sequence[EvalRow], model: str = "m", dialect: str = "pyvision-rl-image") -> EvalRun:
    labels = {one.id: {RIGHT if one.correct else WRONG} for one in rows}
    dialects = {one.id: dialect for one in rows}
    return EvalRun(name, cast(StoredRun, None), None, list(rows), labels, dialects, Counter({model: len(rows)}))


def of(source: str, right: int, count: int, **changes: Any) -> list[EvalRow]:
    return [row(f"{source}/{n}", float(n < right), source=source, **changes) for n in range(count)]


def panels(*runs: EvalRun) -> dict[str, Panel]:
    section = results(runs)
    assert section is not None
    return {panel.title: panel for panel in section.panels}


def cells(panel: Panel, sheet: int = 0) -> dict[str, tuple[str, ...]]:
    return {line.cells[0]: line.cells[1:] for line in panel.sheets[sheet].lines}


def wemath(right: Sequence[bool]) -> list[EvalRow]:
    """Two composite problems of two steps: of the first all is right but what `right` says of its steps."""
    rows = []
    for group in range(2):
        for variant, credit in (("2steps_1", right[group]), ("2steps_2", True), ("2steps_multi", True)):
            tags = (f"group=g{group}", f"variant={variant}")
            rows.append(row(f"w{group}-{variant}", float(credit), source="wemath@1", tags=tags))
    return rows


def test_the_overview_shows_the_number_that_its_mean_uses() -> None:
    shown = cells(panels(run("a", [*of("vstar@1", 3, 4), *wemath([True, False])]))["All benchmarks"])
    assert shown["V* Bench"][0].startswith("75.0 (")
    assert shown["We-Math testmini"] == ("50.0 (We-Math strict)",)  # not 83.3, its plain accuracy
    assert shown["mean over benchmarks"] == ("62.5",)


def test_runs_of_one_model_with_settings_of_their_own_have_one_mean() -> None:
    made = [run(name, of(f"{name}@1", n + 1, 10)) for n, name in enumerate(SEVEN) if name != "wemath"]
    made.append(run("wemath", wemath([True, False])))
    found = panels(*made)
    together = " + ".join(one.name for one in made)
    assert cells(found["All benchmarks"])["mean over benchmarks"][-1] == "38.6"  # 10 20 30 40 50 70, and 50 of We-Math
    sheet = next(s for s in found["Means over groups of benchmarks"].sheets if s.title.startswith("PyVision-RL"))
    lines = {line.cells[0]: line for line in sheet.lines}
    assert lines[together].cells[1] == "38.6"
    assert lines["PyVision-Image"].reference
    scores = [float(cell) for cell in lines["PyVision-Image"].cells[2:]]
    assert len(scores) == 7
    assert float(lines["PyVision-Image"].cells[1]) == pytest.approx(sum(scores) / 7, abs=0.06)
    assert not [name for name in lines if name in SEVEN], "a run of one benchmark has no mean over the group"


def test_models_and_dialects_are_not_put_together_and_neither_are_runs_of_one_benchmark() -> None:
    for other in (
        run("b", of("mathverse@1", 1, 4), model="n"),
        run("b", of("mathverse@1", 1, 4), dialect="direct"),
        run("b", of("vstar@1", 1, 4)),
    ):
        titles = panels(run("a", [*of("vstar@1", 3, 4), *of("wemath@1", 1, 4)]), other)
        assert not [name for name in titles["All benchmarks"].sheets[0].heads if " + " in name]


def test_group_means_of_vista_stand_beside_the_papers_rows_and_say_what_is_missing() -> None:
    inside = [*of("vista-chartqa@1", 1, 2), *of("vista-mapqa@1", 1, 4)]
    outside = [
        row
        for n, name in enumerate(("tabmwp", "ai2d", "plotqa", "clevr-math", "iconqa", "mathvista"))
        for row in of(f"vista-{name}@1", n % 3, 2)
    ]
    found = panels(run("a", [*inside, *outside]))["Means over groups of benchmarks"]
    tables = {sheet.title: {line.cells[0]: line.cells[1:] for line in sheet.lines} for sheet in found.sheets}
    assert tables["VISTA-Gym, in distribution"]["a"][0] == "– (3 benchmarks missing)"
    assert tables["VISTA-Gym, in distribution"]["GPT-5"][0] == "76.4"
    assert tables["VISTA-Gym, out of distribution"]["a"][0] == "50.0"
    assert tables["VISTA-Gym, out of distribution"]["GPT-5"][0] == "75.4"


def test_the_tags_of_a_card_are_shown_in_the_summary_and_in_the_report() -> None:
    rows = [
        row(f"v{n}", float(n < 3), source="mathverse@1", tags=(f"variant={'Vision Only' if n % 2 else 'Text Lite'}",))
        for n in range(8)
    ]
    by = summarise(rows).by["mathverse@1"]
    assert {tag: part.avg for tag, part in by.items()} == {"variant=Text Lite": 0.5, "variant=Vision Only": 0.25}
    shown = cells(panels(run("a", rows))["MathVerse testmini"], 1)
    assert shown["variant=Vision Only"][0].startswith("25.0 (")


def test_a_circular_run_shows_its_number_beside_the_plain_one() -> None:
    rows = []
    for question in range(4):  # the first is right in all rotations, the others in all but one
        for turn in range(3):
            name, tags = f"mmbench@1/{question}/circular-{turn}", (f"category={'ab'[question % 2]}",)
            right = float(question == 0 or turn != question - 1)
            rows.append(row(name, right, source="mmbench@1", choices=("x", "y", "z"), tags=tags))
    found = panels(run("a", [*rows, *of("vstar@1", 3, 4)]))
    assert cells(found["All benchmarks"])["MMBench"] == ("25.0 (circular)",)
    assert cells(found["All benchmarks"])["mean over benchmarks"] == ("50.0",)
    own = cells(found["MMBench"])
    assert (own["a"][0], own["a: circular"][0]) == ("75.0", "25.0")
    by = cells(found["MMBench"], 1)
    assert {tag: cell[0].split(" ")[0] for tag, cell in by.items()} == {
        "category=a, circular": "50.0",
        "category=b, circular": "0.0",
    }


def test_every_panel_with_an_interval_names_how_it_was_made() -> None:
    for title, panel in panels(run("a", [*of("vstar@1", 3, 4), *of("mathverse@1", 1, 4)])).items():
        if title != "Outcomes":
            assert [note for note in panel.notes if "95% intervals: Wilson." in note] or title.startswith("Means"), (
                title
            )


def test_error_classes_are_compared_on_the_same_samples() -> None:
    def found(name: str, wrong: int, count: int, undecided: tuple[ErrorClass, ...] = ()) -> Errors:
        step = StepError(error=ErrorClass.E5, turn=0, rule="empty")
        rows = [
            ErrorRow(
                id=f"t{n}#0", task=f"t{n}", rollout=0, source="s", correct=0.0, calls=1, answered=True,
                errors=(step,) if n < wrong else (), undecided=undecided,
            )
            for n in range(count)
        ]  # fmt: skip
        return errors_of(rows, StudiedRun(run=name))

    both = {"a": found("a", 6, 10), "b": found("b", 1, 12, (ErrorClass.E4,))}
    assert "| E5 tool output" in paired_text(both)
    assert paired_text({"a": both["a"], "none": found("none", 0, 0)}) == ""
    panel = errors(both)
    assert panel is not None
    sheet = panel.sheets[1]
    assert sheet.title == "Errors of a and of b on the same samples"
    lines = {line.cells[0][:2]: line.cells for line in sheet.lines}
    assert lines["E5"][1:5] == ("10", "60.0", "10.0", "+50.0")
    assert lines["E5"][6] == "0.0625"  # five of five differ one way: 2 / 2^5
    assert "E4" not in lines, "one run tells nothing of it"


def test_every_run_is_compared_with_the_first() -> None:
    first, second, third = (run(name, of("vstar@1", right, 8)) for name, right in (("a", 6), ("b", 2), ("c", 6)))
    section = comparison((first, second, third, run("d", of("charxiv@1", 3, 8))))
    assert section is not None
    [panel] = section.panels
    assert [line.cells[:3] for line in panel.sheets[0].lines] == [
        ("a against b", "8", "+50.0"),
        ("a against c", "8", "+0.0"),
    ]
    assert [note for note in panel.notes if note.startswith("a against d: ")]


@pytest.mark.parametrize(
    ("rights", "says"),
    [
        ({"a": 6}, "a is 75.0% right, 40.9 to 92.9, of 8 tasks."),
        ({"a": 6, "b": 2}, "a is 50.0 points better than b, 1.8 to 75.2, p = 0.12: not certain."),
        ({"a": 0, "b": 8}, "b is 100.0 points better than a, 54.1 to 100.0, p = 0.0078: more than chance."),
        ({"a": 3, "b": 3}, "a and b are equally often right, −21.7 to 21.7 points apart, p = 1."),
        (
            {"a": 0, "b": 4, "c": 8},
            "c is right most often (100.0%), 100.0 points better than a, 54.1 to 100.0, p = 0.0078: more than chance, "
            "as one of 2 comparisons.",
        ),
        ({"a": None}, "a holds 8 samples, none graded."),
        ({"a": None, "b": 8}, "b is 100.0% right, 67.6 to 100.0, of 8 tasks."),
        ({}, ""),
    ],
)
def test_the_verdict_is_one_sentence(rights: dict[str, int | None], says: str) -> None:
    runs = [
        run(name, of("vstar@1", right or 0, 8) if right is not None else [row(f"{n}", None) for n in range(8)])
        for name, right in rights.items()
    ]
    assert verdict(runs) == says


def test_the_verdict_of_runs_that_cannot_be_compared() -> None:
    empty, one, other = run("e", []), run("a", of("vstar@1", 6, 8)), run("b", of("charxiv@1", 2, 8))
    assert verdict([empty]) == "e holds no samples."
    assert results([empty]) is None
    assert verdict([one, other]) == "a: 75.0% right. It shares no graded task with b, so they are not compared."
