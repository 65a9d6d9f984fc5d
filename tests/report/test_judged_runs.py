"""The report of runs that a judge graded too: both numbers, which one counts, and how far they agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.evals.support import oracle, saying, settings, write_tasks
from tests.evals.test_judged import JUDGE, RIGHT, WRONG, Judge
from tests.report.test_report import rows

from saccade.cli.main import main
from saccade.evals.run import evaluate
from saccade.report.sections.results import HEADS, NOTE


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
