"""Runs on the disk: merged, graded anew, exported."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.evals.rows import row
from tests.evals.support import LostModel, oracle, saying, settings, stored, write_tasks
from tests.evals.test_benchmarks import write_benchmark

from saccade.cli.main import main
from saccade.errors import ModelLostError, RecordError, RegistryError, SettingsError, UnavailableError
from saccade.evals.api import Regrading, regrade
from saccade.evals.grades import SampleFailure
from saccade.evals.rows import WRITERS, export, read_rows, table
from saccade.evals.run import continuing, evaluate
from saccade.evals.stored import Listed, is_run, list_runs, merge
from saccade.grading.registry import grade_of
from saccade.record.codec import read_lines, write_lines
from saccade.record.content import Code
from saccade.record.task import Task
from saccade.record.trajectory import TokenCounts, Trajectory, Turn


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import asyncio

    root = tmp_path_factory.mktemp("runs")
    for name, count in (("one", 2), ("deep/two", 3)):
        asyncio.run(evaluate(settings("circled-letter", n=count), root / name, workers=2, player=oracle))
    (root / "training").mkdir()
    (root / "training" / "settings.toml").write_text('[recipe]\nname = "other"\n')
    (root / "empty").mkdir()
    return root


def test_runs_are_listed_with_their_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {run.name: run for run in list_runs(folder)}
    assert set(found) == {"one", "deep/two"}, "folders of other commands are none"
    one = found["one"]
    assert (one.samples, one.right, one.failed, one.state) == (2, 1.0, 0, "complete")
    assert one.interval == pytest.approx((0.342, 1.0), abs=0.001)
    assert one.sources == ("circled-letter",)
    assert main(["runs", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "| deep/two " in printed
    assert "34.2–100.0" in printed
    assert main(["runs", str(folder), "--json"]) == 0
    assert {run["name"]: run["state"] for run in json.loads(capsys.readouterr().out)} == {
        "one": "complete",
        "deep/two": "complete",
    }


def test_a_run_that_is_not_over_is_told_by_its_samples(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "deep/two/trajectories.jsonl").read_bytes().splitlines(keepends=True)
    run = tmp_path / "begun"
    run.mkdir()
    (run / "settings.toml").write_bytes((folder / "deep/two/settings.toml").read_bytes())
    [none] = list_runs(tmp_path)
    assert (none.samples, none.right, none.state) == (0, None, "not complete")
    (run / "trajectories.jsonl").write_bytes(lines[0])
    [begun] = list_runs(run)
    assert (begun.name, begun.samples, begun.right, begun.state) == ("begun", 1, 1.0, "not complete")
    assert (begun.dollars, begun.priced) == (None, 0)
    (run / "summary.json").write_bytes((folder / "one/summary.json").read_bytes())
    assert list_runs(tmp_path)[0].samples == 1, "a summary of other samples does not count"
    (run / "trajectories.jsonl").write_bytes(lines[0] + 2 * b'{"schema_version": 1}\n')
    [broken] = list_runs(tmp_path)
    assert (broken.state, broken.complete) == ("cannot be read", False)
    assert (broken.samples, broken.failed, broken.priced) == (0, 0, 0)
    assert (broken.right, broken.interval, broken.dollars) == (None, None, None)
    assert "line 2" in broken.problem


def test_a_folder_without_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(tmp_path)]) == 2
    assert main(["runs", str(tmp_path / "nowhere")]) == 2
    assert "Name" in capsys.readouterr().err


def test_what_is_looked_into_and_when_it_changed(folder: Path, tmp_path: Path) -> None:
    places = ("a/b/c/d", "a/b/c/e/f", ".hidden", "a/media/one")
    for place in places:
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "settings.toml").write_bytes((folder / "one/settings.toml").read_bytes())
    (tmp_path / "linked").symlink_to(folder / "one")
    [found] = list_runs(tmp_path)
    assert found.name == "a/b/c/d", "four folders deep, and no deeper"
    os.utime(tmp_path / "a/b/c/d/settings.toml", (0, 86_400))
    [found] = list_runs(tmp_path)
    assert found.changed == datetime(1970, 1, 2, tzinfo=UTC)
    (tmp_path / "a/b/c/d/trajectories.jsonl").touch()
    os.utime(tmp_path / "a/b/c/d/trajectories.jsonl", (0, 172_800))
    (tmp_path / "z").mkdir()
    (tmp_path / "z/settings.toml").write_bytes((folder / "one/settings.toml").read_bytes())
    os.utime(tmp_path / "z/settings.toml", (0, 172_801))
    assert [(run.name, run.changed.day) for run in list_runs(tmp_path)] == [("z", 3), ("a/b/c/d", 3)]
    assert (is_run(tmp_path / "z"), is_run(tmp_path / "a/b/c/d"), is_run(tmp_path)) == (True, True, False)


def test_a_summary_counts_only_if_it_is_of_all_samples_and_of_today(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in ("settings.toml", "trajectories.jsonl", "summary.json"):
        (run / name).write_bytes((folder / "one" / name).read_bytes())
    summary = json.loads((run / "summary.json").read_text())
    summary["total"]["avg"], summary["missing"] = 0.125, 3
    summary["spent"]["dollars"] = {"amount": 0.5, "samples": 1}

    def listed() -> Listed:
        (run / "summary.json").write_text(json.dumps(summary))
        return list_runs(tmp_path)[0]

    taken = listed()
    assert (taken.samples, taken.failed, taken.right, taken.complete) == (2, 3, 0.125, True)
    assert (taken.dollars, taken.priced) == (0.5, 1)
    summary["total"]["interval"] = None
    assert listed().interval is None
    summary["spent"]["dollars"]["samples"] = 0
    assert listed().dollars is None
    del summary["total"]["avg"]  # not whole: the samples are read
    read = listed()
    assert (read.right, read.failed, read.complete) == (1.0, 0, True)
    summary["stops"] = {"answered": 1}
    assert (listed().right, listed().complete) == (1.0, False)
    summary["stops"] = 5
    assert listed().complete is False


async def test_shards_put_together_are_the_whole_run(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        part = settings("circled-letter", n=4, k=2, shard=f"{number}/3")
        await evaluate(part, tmp_path / str(number), workers=2, player=oracle)
    shards = [tmp_path / str(number) for number in (3, 1, 2)]
    merged = merge(shards, tmp_path / "merged")
    unsharded = await evaluate(settings("circled-letter", n=4, k=2), tmp_path / "whole", player=oracle)
    assert merged == unsharded.summary
    for name in ("results.jsonl", "summary.json", "settings.toml"):
        assert (tmp_path / "merged" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    pictures = [sorted(path.name for path in (tmp_path / run / "media").rglob("*")) for run in ("merged", "whole")]
    assert pictures[0] == pictures[1]
    again = await evaluate(settings("circled-letter", n=5, k=2), tmp_path / "merged", player=oracle)
    assert (again.progress.skipped, again.progress.played) == (8, 2)


async def test_what_is_no_shard_of_one_run_is_refused(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 4)
    for name, changes in (("a", {"shard": "1/2"}), ("b", {"shard": "2/2", "seed": 1}), ("c", {"shard": "1/2"})):
        await evaluate(settings(tasks, **changes), tmp_path / name, player=oracle)
    with pytest.raises(SettingsError, match="seed: 0 -> 1"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    with pytest.raises(SettingsError, match="same shard"):
        merge([tmp_path / "a", tmp_path / "c"], tmp_path / "out")
    with pytest.raises(SettingsError, match="holds a run already"):
        merge([tmp_path / "a"], tmp_path / "b")
    with pytest.raises(SettingsError, match="no run of `saccade eval`"):
        merge([tasks], tmp_path / "out")
    with pytest.raises(SettingsError, match="2/2 of this run is not named"):
        merge([tmp_path / "a"], tmp_path / "out")
    await evaluate(settings(tasks, shard="1/3"), tmp_path / "d", player=oracle)
    with pytest.raises(SettingsError, match="different divisions: 1/2, 1/3"):
        merge([tmp_path / "a", tmp_path / "d"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert merge([tmp_path / "a"], tmp_path / "out", incomplete=True).total.samples == 2


async def test_failures_of_shards_are_merged_and_a_shard_may_have_nothing_else(tmp_path: Path) -> None:
    tasks, lost = write_tasks(tmp_path / "tasks", 5), LostModel(ModelLostError("gone"))
    await evaluate(settings(tasks, shard="1/2"), tmp_path / "a", player=oracle)
    await evaluate(settings(tasks, shard="2/2"), tmp_path / "b", player=lambda plan: lost)
    assert not (tmp_path / "b" / "trajectories.jsonl").exists()
    merged = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert (merged.total.samples, merged.missing) == (3, 2)
    found = read_lines(tmp_path / "out" / "failures.jsonl", SampleFailure)
    assert sorted((failure.id, failure.kind) for failure in found) == [("t1#0", "model_lost"), ("t3#0", "model_lost")]


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_a_shard_that_is_none(shard: str) -> None:
    with pytest.raises(ValueError, match="shard"):
        settings("maze", shard=shard)


async def test_a_run_is_graded_anew_without_its_model(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", 4)
    near = saying(lambda plan: str(float(plan.task.answer or 0) * 1.04))
    await evaluate(settings(tasks), tmp_path / "run", player=near)
    before = stored(tmp_path / "run")
    same = regrade(tmp_path / "run")
    assert (same.changes, same.summary.total.avg, same.samples) == ((), 0.25, 4)
    assert stored(tmp_path / "run") == before
    found = regrade(tmp_path / "run", Regrading("relaxed"))
    assert sorted(change.id for change in found.changes) == ["t1#0", "t2#0", "t3#0"]
    assert {(change.before, change.after) for change in found.changes} == {(0.0, 1.0)}
    assert found.summary.total.avg == 1.0
    after = stored(tmp_path / "run")
    assert {grade_of(item["scores"][0]["detail"]).grader for item in after} == {"relaxed@1"}
    for item in (*before, *after):
        del item["scores"]
    assert after == before
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["graders"] == {"relaxed@1": 4}
    goes_on = await evaluate(settings(tasks, grader="relaxed"), tmp_path / "run", player=near)
    assert goes_on.progress.skipped == 4


@pytest.fixture
async def mixed(tmp_path: Path) -> Path:
    """A run of a card whose tasks are choices and numbers, in `run`; the card."""
    card = write_benchmark(tmp_path, 6)
    await evaluate(settings(card, data=str(tmp_path)), tmp_path / "run", player=oracle)
    return card


async def test_the_sources_own_graders_come_back_whatever_was_done(mixed: Path, tmp_path: Path) -> None:
    run, command = tmp_path / "run", settings(mixed, data=str(tmp_path))
    first = stored(run)
    damaged = regrade(run, Regrading("choice"))
    assert (damaged.summary.ungraded, damaged.grader) == (2, "choice")
    regrade(run, Regrading("text"))
    assert (await evaluate(command, run, player=oracle)).progress.played == 0  # the same command as before
    assert json.loads((run / "summary.json").read_text())["graders"] == {"text@1": 6}
    back = regrade(run)
    assert (back.grader, back.summary.ungraded) == ("", 0)
    assert stored(run) == first
    kept = sorted(path.name for path in (run / "verdicts").iterdir())
    assert kept == ["0001.jsonl", "0002.jsonl", "0003.jsonl"]
    old = [json.loads(line) for line in (run / "verdicts" / "0001.jsonl").read_text().splitlines()]
    assert sorted((item["id"], item["scores"]) for item in old) == [(item["id"], item["scores"]) for item in first]
    assert regrade(run).kept is None
    assert len(list((run / "verdicts").iterdir())) == 3


async def test_a_grader_that_the_command_names_grades_all_and_keeps_the_old(mixed: Path, tmp_path: Path) -> None:
    run, command = tmp_path / "run", settings(mixed, data=str(tmp_path), grader="text")
    _, said = continuing(command, run)
    assert "each source's own grader and is graded anew by text; see verdicts" in said[0]
    assert (await evaluate(command, run, player=oracle)).summary.graders == {"text@1": 6}
    assert (run / "verdicts" / "0001.jsonl").is_file()
    assert continuing(command, run)[1] == ()


async def test_a_card_that_is_gone(mixed: Path, tmp_path: Path) -> None:
    first = stored(tmp_path / "run")
    await evaluate(settings(mixed, data=str(tmp_path), grader="text"), tmp_path / "other", player=oracle)
    regrade(tmp_path / "run", Regrading("choice"))
    mixed.unlink()
    regrade(tmp_path / "run")
    assert stored(tmp_path / "run") == first
    before = stored(tmp_path / "other")
    with pytest.raises(SettingsError, match="name a grader with --grader"):
        regrade(tmp_path / "other")
    assert stored(tmp_path / "other") == before
    assert not list((tmp_path / "other" / "verdicts").iterdir())


async def test_what_cannot_be_graded_anew(tmp_path: Path) -> None:
    await evaluate(settings(write_tasks(tmp_path / "tasks", 1)), tmp_path / "run", player=oracle)
    with pytest.raises(RegistryError, match="relaxed"):
        regrade(tmp_path / "run", Regrading("relaxd"))
    assert not (tmp_path / "run" / "verdicts").exists()
    (tmp_path / "run" / "trajectories.jsonl").unlink()
    with pytest.raises(SettingsError, match="no trajectories yet"):
        regrade(tmp_path / "run")
    with pytest.raises(SettingsError, match="no run"):
        regrade(tmp_path / "tasks")


ROWS = [
    row(
        "a", 1.0, choices=("red", "blue"), gold="blue", answer="B", tags=("colour", "x"), question='Say "=1+1",\n\tnow'
    ),
    row("b", None, answer=None, gold="=SUM(1)", reason="no\x07bell"),
]


def read_back(form: str, path: Path) -> list[dict[str, Any]]:
    if form == "jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if form == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        found: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        return found
    if form == "xlsx":
        openpyxl = pytest.importorskip("openpyxl")
        head, *lines = openpyxl.load_workbook(path).active.iter_rows(values_only=True)
        return [dict(zip(head, line, strict=True)) for line in lines]
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="," if form == "csv" else "\t"))


def test_a_table_says_what_the_judge_said() -> None:
    asked = {"by_rule": 0.0, "grader": "judge:one"}
    rows = [
        row("a", 1.0, by_judge=1.0, **asked),
        row("b", 0.0, by_judge=0.0, **asked),
        row("c", None, no_verdict="malformed", **asked),
        row("d", 0.0, by_rule=0.0, by_judge=1.0),
        row("e", 1.0),
    ]
    names = ("headline", "hit_by_rule", "hit_by_judge", "judge", "no_verdict")
    assert [tuple(line[name] for name in names) for line in table(rows)] == [
        ("judge", 0.0, 1.0, "right", ""),
        ("judge", 0.0, 0.0, "wrong", ""),
        ("judge", 0.0, None, "invalid", "malformed"),
        ("rule", 0.0, 1.0, "right", ""),
        ("rule", None, None, "none", ""),
    ]


@pytest.mark.parametrize("form", WRITERS)
def test_every_form_gives_the_cells_back(form: str, tmp_path: Path) -> None:
    pytest.importorskip({"parquet": "pyarrow", "xlsx": "openpyxl"}.get(form, "csv"))
    path = tmp_path / "new" / f"samples.{form}"
    export(ROWS, path)
    first, second = read_back(form, path)
    assert list(first)[:5] == ["index", "question", "A", "B", "answer"]
    assert (first["question"], first["A"], first["answer"], first["prediction"]) == (ROWS[0].question, "red", "B", "B")
    assert (first["category"], float(first["hit"]), int(first["turns"])) == ("colour", 1.0, 2)
    assert second["answer"] == "=SUM(1)"
    assert second["hit"] in (None, "")
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_what_xlsx_cannot_hold_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("openpyxl")
    rows = [row("a", 1.0, answer="x" * 32_768), row("b", 1.0, answer="y" * 32_767, reason="a\x07b")]
    export(rows, tmp_path / "a.xlsx")
    first, second = read_back("xlsx", tmp_path / "a.xlsx")
    assert (len(first["prediction"]), len(second["prediction"]), second["reason"]) == (32_767, 32_767, "a\ufffdb")
    assert caplog.messages == [
        "1 text(s) cut: a cell of xlsx holds 32767 characters. jsonl has all.",
        "1 text(s) have \ufffd for control characters, which xlsx cannot hold. jsonl has all.",
    ]
    export(rows, tmp_path / "a.jsonl")
    assert len(caplog.messages) == 2
    assert len(read_back("jsonl", tmp_path / "a.jsonl")[0]["prediction"]) == 32_768


def test_every_choice_has_a_column() -> None:
    (line,) = table([row("a", 1.0, choices=tuple(f"c{n}" for n in range(28)), gold="c27")])
    assert (line["Z"], line["AA"], line["AB"], line["answer"]) == ("c25", "c26", "c27", "AB")


def test_the_form_may_be_named(tmp_path: Path) -> None:
    export(ROWS, tmp_path / "a.txt", "tsv")
    assert (tmp_path / "a.txt").read_text().startswith("index\tquestion\tA\tB\tanswer")
    for name, said in (("a.doc", "doc"), ("a", str(tmp_path / "a"))):
        with pytest.raises(SettingsError, match=f"^{said} is no form of a table: name one of jsonl, csv"):
            export(ROWS, tmp_path / name)


@pytest.mark.parametrize(("form", "package"), [("parquet", "pyarrow"), ("xlsx", "openpyxl")])
def test_what_writes_a_form_may_be_missing(
    form: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnavailableError, match=rf"^{form} needs {package}: pip install 'saccade-vlm\[data\]'$"):
        export(ROWS, tmp_path / f"a.{form}")
    assert list(tmp_path.iterdir()) == []


def test_a_table_of_nothing(tmp_path: Path) -> None:
    assert table([]) == []
    export([], tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().startswith("index,question,answer")
    export(ROWS[:1], tmp_path / "one.csv")
    assert (tmp_path / "one.csv").read_text().startswith("index,question,A,B,answer")


async def test_rows_are_read_strictly(tmp_path: Path) -> None:
    await evaluate(settings(write_tasks(tmp_path / "tasks", 2)), tmp_path / "run", player=oracle)
    (first, second) = read_rows(tmp_path / "run")
    assert (first.task, first.answer, first.correct, first.turns, first.calls) == ("t0", "0", 1.0, 1, 0)
    assert second.question == "What is 1 + 1?"
    file = tmp_path / "run" / "trajectories.jsonl"
    content = file.read_bytes()
    file.write_bytes(content.replace(b'"schema_version":1', b'"schema_version":9'))
    with pytest.raises(RecordError, match="schema version 9"):
        read_rows(tmp_path / "run")
    file.write_bytes(content + b"{}\n")
    with pytest.raises(RecordError, match="line 3"):
        read_rows(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(SettingsError, match="is not there"):
        read_rows(tmp_path / "run")


def test_a_row_has_the_widest_context_and_all_sampled_tokens(tmp_path: Path) -> None:
    counts = ((10, 5), (30, 7), (None, None), (20, 1))
    turns = tuple(
        Turn(text="a", action=Code(code="1"), tokens=TokenCounts(context=context, sampled=sampled))
        for context, sampled in counts
    )
    write_lines(tmp_path / "trajectories.jsonl", [Trajectory(id="t#0", task=Task(id="t", question="?"), turns=turns)])
    (found,) = read_rows(tmp_path)
    assert (found.context_tokens, found.sampled_tokens) == (30, 13)
