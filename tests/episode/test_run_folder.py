"""Episodes that are broken off are kept turn by turn, shown, and continued where they stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from saccade.dialects.base import load_dialect
from saccade.episode.drive import begun, run_kept
from saccade.episode.flow import Event, Notice, Plan
from saccade.episode.run_folder import UNFINISHED, EpisodeJournal, RunFolder, open_journal, unfinished
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.scripted import speak
from saccade.record.content import Answer, Code
from saccade.record.task import Task
from saccade.record.trajectory import Sampling, StopReason, Trajectory, Turn
from saccade.report.runs import open_run
from saccade.sandbox.local import LocalSandbox

DIALECT = load_dialect("pyvision")
TASK = Task(id="t", question="How many?")


class Killed(BaseException):
    """Stands for a kill: nothing of ours catches it."""


class Turns:
    """Says one text for each turn of the request, and is killed where there is none."""

    name = "turns"

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.asked: list[int] = []

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        turn = sum(message.role == "assistant" for message in request.messages)
        self.asked.append(turn)
        if turn >= len(self.texts):
            raise Killed
        return speak(self.texts[turn], request, self.name)

    async def close(self) -> None:
        pass


def code(text: str) -> str:
    return DIALECT.write(Code(code=text))


FIRST, SECOND = code("x = 20\nprint(x)"), code("x += 1\nprint(x * 2)")
LAST = DIALECT.write(Answer(text="42"))


async def play(root: Path, model: Turns, **changes: object) -> Trajectory:
    folder = RunFolder(root)
    plan = Plan(TASK, DIALECT, rollout=folder.next_rollout(TASK.id), **changes)  # type: ignore[arg-type]
    async with LocalSandbox(limits=DIALECT.sandbox) as sandbox:
        return await run_kept(plan, model, sandbox, folder, watch=HEARD.append)


HEARD: list[Event] = []


def noticed() -> list[str]:
    """What the screen was told since it was asked last."""
    said = [event.text for event in HEARD if isinstance(event, Notice)]
    HEARD.clear()
    return said


async def test_a_broken_off_episode_is_continued_without_asking_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "saccade.episode.drive")
    with pytest.raises(Killed):
        await play(tmp_path, Turns(FIRST))
    (left,) = unfinished(tmp_path)
    assert [turn.execution and turn.execution.stdout for turn in left.trajectory.turns] == ["20\n"]
    assert (left.trajectory.stop, left.trajectory.turns[0].observation is None) == (None, False)
    (shown,) = open_run(tmp_path).trajectories()
    assert shown == left.trajectory
    model = Turns(FIRST, SECOND, LAST)
    made = await play(tmp_path, model)
    assert model.asked == [1, 2]
    assert [record.args for record in caplog.records if "continues" in record.msg] == [("t#0", 1)]
    assert [turn.execution and turn.execution.stdout for turn in made.turns] == ["20\n", "42\n", None]
    assert (made.id, made.answer, made.stop) == ("t#0", "42", StopReason.ANSWERED)
    assert made.stop_detail == "Continued after turn 1; its earlier calls were run again, with the same output."
    assert made.turns[0] == left.trajectory.turns[0]
    assert not list(unfinished(tmp_path))
    assert [item.id for item in open_run(tmp_path).trajectories()] == ["t#0"]
    assert (await play(tmp_path, Turns(LAST))).id == "t#1"


@pytest.mark.slow
async def test_it_may_be_broken_off_again_and_again(tmp_path: Path) -> None:
    for texts, asked in (((FIRST,), [0, 1]), ((FIRST, SECOND), [1, 2]), ((FIRST, SECOND), [2])):
        model = Turns(*texts)
        with pytest.raises(Killed):
            await play(tmp_path, model)
        assert model.asked == asked
        with next((tmp_path / UNFINISHED).iterdir()).open("ab") as file:
            file.write(b'{"schema_version":1,"number":2,"tu')  # as a kill in the middle of a write leaves it
    made = await play(tmp_path, Turns(FIRST, SECOND, LAST))
    assert (made.answer, len(made.turns)) == ("42", 3)


async def test_other_output_than_before_is_said(tmp_path: Path) -> None:
    by_chance = code("import random\nprint(random.SystemRandom().random())")
    with pytest.raises(Killed):
        await play(tmp_path, Turns(FIRST, by_chance))
    (left,) = unfinished(tmp_path)
    made = await play(tmp_path, Turns(FIRST, by_chance, LAST))
    assert made.stop_detail.endswith("gave another output in turn 2.")
    assert made.turns[:2] == left.trajectory.turns


def opened(folder: RunFolder, plan: Plan) -> tuple[Plan, EpisodeJournal]:
    return open_journal(folder, plan, begun(plan, "m"))


def test_a_journal_is_read_to_its_last_whole_line_and_written_until_the_disk_refuses(tmp_path: Path) -> None:
    head = begun(Plan(TASK, DIALECT), "m")
    folder = RunFolder(tmp_path)
    file = folder.journal_of(head.id)
    journal = EpisodeJournal(file, head)
    journal.note(())
    assert [left.trajectory for left in unfinished(tmp_path)] == [head]
    first, second = (Turn(text=text, action=Code(code=text)) for text in ("1", "2"))
    journal.note([first])
    with file.open("ab") as torn:
        torn.write(b'{"schema_version":1,"number":1,"tu')
    (left,) = unfinished(tmp_path)
    assert left.trajectory.turns == (first,)
    journal.note([first])
    assert len(file.read_bytes().splitlines()) == 3
    _, other = opened(folder, Plan(Task(id="u", question="?"), DIALECT))
    assert (other.earlier, other.says) == ((), ())
    again, other = opened(folder, Plan(TASK, DIALECT, rollout=1))
    assert (again.rollout, other.earlier, other.says) == (0, (first,), ())
    kept = file.rename(tmp_path / "aside")
    file.mkdir()
    journal.note([first, second])
    assert "cannot be kept" in journal.problem
    file.rmdir()
    kept.rename(file)
    before = file.read_bytes()
    journal.note([first, second, first])
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "what"),
    [({"settings": "seed = 1"}, "setting"), ({"task": Task(id="t", question="How few?")}, "prompt")],
)
async def test_what_another_plan_has_otherwise_is_named(tmp_path: Path, changes: dict[str, Any], what: str) -> None:
    first = Plan(TASK, DIALECT)
    EpisodeJournal(RunFolder(tmp_path).journal_of(first.id), begun(first, "m")).note(())
    _, journal = opened(RunFolder(tmp_path), replace(first, rollout=1, **changes))
    assert f"begun with another {what};" in journal.says[0]


async def test_another_plan_leaves_it_alone(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        await play(tmp_path, Turns(FIRST))
    noticed()
    made = await play(tmp_path, Turns(LAST), sampling=Sampling(temperature=1.0))
    assert (made.id, made.stop_detail) == ("t#1", "")
    (said,) = noticed()
    assert "t#0 is not continued, for it was begun with another sampling; it stays in" in said
    assert [item.trajectory.id for item in unfinished(tmp_path)] == ["t#0"]


async def test_a_kill_while_code_runs_keeps_what_the_model_wrote(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        await play(tmp_path, Turns(FIRST, SECOND))
    (left,) = unfinished(tmp_path)
    lines = left.file.read_text(encoding="utf-8").splitlines(keepends=True)
    assert len(lines) == 5  # the head, and each turn before and after its call
    left.file.write_text("".join(lines[:4]), encoding="utf-8")
    (left,) = unfinished(tmp_path)
    assert [turn.execution is None for turn in left.trajectory.turns] == [False, True]
    model = Turns(FIRST, SECOND, LAST)
    made = await play(tmp_path, model)
    assert model.asked == [2]
    assert made.turns[1].execution is not None
    assert made.turns[1].execution.stdout == "42\n"


async def test_a_disk_that_cannot_be_written_does_not_end_the_episode(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    (tmp_path / UNFINISHED).write_text("a file in the way")
    heard: list[Event] = []
    async with LocalSandbox(limits=DIALECT.sandbox) as sandbox:
        made = await run_kept(Plan(TASK, DIALECT), Turns(FIRST, LAST), sandbox, folder, watch=heard.append)
    assert made.answer == "42"
    assert ["cannot be used" in event.text for event in heard if isinstance(event, Notice)] == [True]
    assert made.id in folder


@pytest.mark.parametrize(("text", "why"), [("", "it is empty"), ("{}\n", "this Trajectory cannot be read")])
async def test_a_journal_that_cannot_be_read_is_said(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / UNFINISHED).mkdir()
    file = tmp_path / UNFINISHED / "t#0.jsonl"
    file.write_text(text)
    noticed()
    assert (await play(tmp_path, Turns(LAST))).id == "t#1"
    (said,) = noticed()
    assert f"{file} cannot be read and is left out: {why}" in said
    run = open_run(tmp_path)
    assert [item.id for item in run.trajectories()] == ["t#1"]
    assert run.problems == [said]
    run.file.unlink()
    assert list(open_run(tmp_path).trajectories()) == []
