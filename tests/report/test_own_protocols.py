"""A protocol of somebody's own: in the terminal and in the report, without a line about it in either."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.report.played_runs import eval_run
from tests.report.test_report import rows

from saccade.cli.main import main

BREVITY = """
from saccade.evals.protocols.base import Protocol
from saccade.evals.protocols.findings import Findings, Mean, Rate, SampleExamples, SampleRow
from saccade.evals.protocols.findings import examples
from saccade.evals.protocols.findings import Rates
from saccade.record.base import Record

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
