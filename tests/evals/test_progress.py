"""What a run counts while it goes on, what it notices, and when outages end it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.evals import killed
from tests.evals.support import results, stored, write_tasks

from saccade.errors import ModelLostError, SandboxLostError, SettingsError
from saccade.evals.grades import EvalProgress, SampleFailure
from saccade.record.codec import read_ids
from saccade.record.content import Answer, Code, ParseError, VideoPart
from saccade.record.task import FrameOf, NamedMedia, Task
from saccade.record.trajectory import STOPS, UNANSWERED, Score, StopReason, Trajectory, Turn

PROGRAM = Path(__file__).with_name("killed.py")


def lines(run: Path) -> int:
    path = run / "trajectories.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_after(command: list[str], run: Path, wanted: int) -> None:
    """Start the run and kill it with SIGKILL soon after it holds `wanted` trajectories."""
    process = subprocess.Popen(command)
    while lines(run) < wanted and process.poll() is None:
        time.sleep(0.002)
    time.sleep(random.random() * 0.02)
    process.kill()
    assert process.wait(20) == -signal.SIGKILL


def compare_with_uninterrupted(tmp_path: Path, count: int, dialect: str, kills: int) -> None:
    tasks = str(write_tasks(tmp_path / "tasks", count))
    run, uninterrupted = tmp_path / "run", tmp_path / "whole"
    command = [sys.executable, str(PROGRAM), tasks, str(run), dialect]
    for number in range(kills):
        kill_after(command, run, wanted=round(2 * count * (number + 0.5) / (kills + 1)))
        # What a kill in the middle of a write leaves.
        with (run / "trajectories.jsonl").open("ab") as file:
            file.write(b'{"schema_version":1,"id":"t0#0","ta')
    assert 0 < lines(run) < 2 * count
    subprocess.run(command, check=True, timeout=60)
    killed.main(tasks, str(uninterrupted), dialect)
    for name in ("results.jsonl", "summary.json"):
        assert (run / name).read_bytes() == (uninterrupted / name).read_bytes()
    ids = list(read_ids(run / "trajectories.jsonl", Trajectory))
    assert len(ids) == len(set(ids)) == 2 * count
    assert stored(run) == stored(uninterrupted)
    assert {row["correct"] for row in results(run)} == {0.0, 1.0}


@pytest.mark.slow
def test_killed_at_random_and_continued(tmp_path: Path) -> None:
    compare_with_uninterrupted(tmp_path, 30, "direct", kills=2)


@pytest.mark.slow
def test_killed_at_random_with_code_in_sandboxes(tmp_path: Path) -> None:
    compare_with_uninterrupted(tmp_path, 20, "pyvision", kills=4)


NOTHING, LOOK = Turn(text="", action=ParseError(reason="?")), Turn(text="", action=Code(code="1"))
SAID = Turn(text="7", action=Answer(text="7"))


def played(name: str, *turns: Turn, correct: float | None = None, **fields: object) -> Trajectory:
    scores = (Score(name="other", value=9.0), *(() if correct is None else (Score(name="correct", value=correct),)))
    task = Task(id="t", question="?")
    return Trajectory.model_validate({"id": name, "task": task, "turns": turns or (SAID,), "scores": scores, **fields})


def failed(kind: str = "model_lost", name: str = "t#0") -> SampleFailure:
    return SampleFailure(id=name, kind=kind, detail=f"{kind} it is.")


def test_counts_and_the_mean_of_what_is_graded() -> None:
    progress = EvalProgress(10, skipped=3)
    assert (progress.accuracy, progress.done) == (None, 3)
    for outcome in (played("a", correct=1.0), played("b"), played("c", correct=0.5), failed()):
        progress.count(outcome)
    assert (progress.played, progress.graded, progress.accuracy, progress.failed, progress.done) == (3, 2, 0.75, 1, 7)


def test_a_model_that_writes_prose_is_noticed_once() -> None:
    progress = EvalProgress(4)
    progress.count(played("a", LOOK, NOTHING, NOTHING))
    assert (progress.idle, progress.notices) == (0, [])
    progress.count(
        played("b", LOOK, NOTHING, NOTHING, NOTHING, stop=StopReason.NO_ACTION, stop_detail="It wrote prose.")
    )
    progress.count(played("c", NOTHING, NOTHING, NOTHING, NOTHING))
    assert (progress.idle, progress.notices) == (2, ["b: It wrote prose."])
    alone = EvalProgress(1)
    alone.count(played("d", NOTHING, NOTHING, NOTHING, stop=StopReason.TURN_LIMIT))
    assert alone.notices == ["d: turn_limit"]


def test_refused_filtered_empty_and_stuck_samples_are_said_as_such_once_each() -> None:
    progress = EvalProgress(9)
    for number, stop in enumerate(2 * UNANSWERED):
        progress.count(played(f"s{number}", NOTHING, NOTHING, NOTHING, stop=stop, stop_detail="Why."))
    assert progress.notices == [f"s{number}: {STOPS[stop].words} Why." for number, stop in enumerate(UNANSWERED)]
    assert not any("dialect" in notice for notice in progress.notices)
    assert (progress.idle, progress.played) == (0, 8)


def test_failures_are_noticed_once_for_each_kind() -> None:
    progress = EvalProgress(4)
    for outcome in (failed("model_lost", "a"), failed("MediaError", "b"), failed("model_lost", "c")):
        progress.count(outcome)
    assert progress.notices == ["a failed (model_lost): model_lost it is.", "b failed (MediaError): MediaError it is."]
    assert dict(progress.kinds) == {"model_lost": 2, "MediaError": 1}


def test_eight_outages_in_a_row_end_a_run_and_others_do_not() -> None:
    progress = EvalProgress(99, skipped=1)
    for between in (played("a"), failed("MediaError")):  # either says that the backend is there
        for _ in range(7):
            progress.count(failed())
        progress.count(between)
    for _ in range(6):
        progress.count(failed())
    progress.count(failed("sandbox_lost"))
    with pytest.raises(ModelLostError, match=r"^8 samples in a row failed \(model_lost\): model_lost it is\. What was"):
        progress.count(failed())
    many = EvalProgress(99, most_outages=9)
    for _ in range(8):
        many.count(failed())
    with pytest.raises(SandboxLostError, match="9 samples in a row failed"):
        many.count(failed("sandbox_lost"))


def test_a_run_of_which_nothing_comes_ends_whatever_the_reason() -> None:
    progress = EvalProgress(99)
    for _ in range(7):
        progress.count(failed("MediaError"))
    with pytest.raises(SettingsError, match=r"8 samples in a row failed \(MediaError\)"):
        progress.count(failed("MediaError"))
    for before in (EvalProgress(99, skipped=1), EvalProgress(99, played=1)):
        for _ in range(20):
            before.count(failed("MediaError"))
        assert before.failed == 20


def test_frames_that_were_asked_for_and_changed_nothing_are_said() -> None:
    clip = VideoPart(sha256="a" * 64, width=4, height=4, frames=8, fps=1, seconds=8)
    shown = NamedMedia(name="f", part=clip, frame=FrameOf(video="clip", sha256="b" * 64, index=0, second=0.0))
    full = NamedMedia(name="v", part=clip)
    seen, unseen = (played("a", task=Task(id="t", question="?", media=media)) for media in ((shown, full), (full,)))
    for outcomes, given, said in (
        ([unseen], "frames.fps=1.0", ["No sample was shown as frames of a video: frames.fps=1.0 changed nothing."]),
        ([unseen, seen], "frames.fps=1.0", []),
        ([unseen], "", []),
        ([], "frames.fps=1.0", []),
    ):
        progress = EvalProgress(2)
        for outcome in outcomes:
            progress.count(outcome)
        progress.check_frames(given)
        assert progress.notices == said
