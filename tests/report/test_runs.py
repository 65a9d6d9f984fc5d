"""What a report reads: folders of both kinds, and those that are neither, broken, or still written."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.cases import Scene, answered
from tests.report.played_runs import training_run

from saccade.errors import SettingsError
from saccade.record.codec import dumps
from saccade.record.execution import Status
from saccade.record.trajectory import Score, StopReason
from saccade.report.runs import open_eval_run, open_runs, run_names


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


def test_names_are_as_long_as_it_takes() -> None:
    paths = [Path("/a/x/run"), Path("/a/y/run"), Path("/a/y/other")]
    assert run_names(paths[1:]) == ["run", "other"]
    assert run_names(paths) == ["x/run", "y/run", "y/other"]
