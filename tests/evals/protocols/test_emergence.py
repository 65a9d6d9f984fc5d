"""What is new in a run since another: worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.cli.main import main
from saccade.evals.protocols.base import StudiedRun
from saccade.evals.protocols.study import Emergence, UsedRow, emergence
from saccade.record.codec import loads, write_lines
from saccade.record.content import Answer, Code
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import Provenance, Score, StopReason, Trajectory, Turn
from saccade.tools.context import Operation

CROP, DRAW, ZOOM, ROTATE = Operation.CROP, Operation.DRAW, Operation.ZOOM, Operation.ROTATE


def used(name: str, kind: str, *operations: Operation, right: bool = True, functions: tuple[str, ...] = ()) -> UsedRow:
    return UsedRow(
        id=name, task=name, rollout=0, source="s", correct=float(right), kind=kind, operations=operations,
        functions=functions,
    )  # fmt: skip


def new(before: list[UsedRow], rows: list[UsedRow]) -> Emergence:
    return emergence(before, ["sft"]).findings(rows, StudiedRun(run="rl"))


def test_abilities_compositions_and_transfers_are_told_apart() -> None:
    before = [
        used("1", "chart", CROP, DRAW, functions=(".crop",)),
        used("2", "count", ZOOM),
        used("3", "chart", CROP, ZOOM),
    ]
    found = new(
        before,
        [
            used("a", "count", DRAW, functions=(".crop",)),  # boxes of charts, now in counting
            used("b", "chart", DRAW, ZOOM, right=False),  # each known, never together; zoom and draw known on charts
            used("c", "chart", ROTATE, functions=("cv2.rectangle",)),
            used("d", "chart", CROP, DRAW, functions=(".crop",)),
        ],
    )
    assert [(one.what, one.samples.count, one.right.value, one.first) for one in found.transfers] == [
        ("draw on count", 1, 1.0, "a")
    ]
    assert [(one.what, one.right.value) for one in found.compositions] == [("draw + zoom", 0.0)]
    assert [one.what for one in found.operations] == ["rotate"]
    assert [one.what for one in found.functions] == ["cv2.rectangle"]
    assert (found.new_ability.count, found.new_composition.count, found.transfer.count) == (1, 1, 1)
    assert (found.samples_before, found.before) == (3, ("sft",))


def test_a_set_of_three_is_new_only_where_all_its_pairs_are_known() -> None:
    pairs = [used("1", "k", CROP, DRAW), used("2", "k", DRAW, ZOOM), used("3", "k", CROP, ZOOM)]
    assert [one.what for one in new(pairs, [used("a", "k", CROP, DRAW, ZOOM)]).compositions] == ["crop + draw + zoom"]
    two = new(pairs[:2], [used("a", "k", CROP, DRAW, ZOOM)])
    assert [one.what for one in two.compositions] == ["crop + zoom"]


def test_the_same_run_is_not_new_and_nothing_is_no_share() -> None:
    rows = [used("1", "k", CROP, ZOOM, functions=("cv2.resize",))]
    same = new(rows, rows)
    assert [same.functions, same.operations, same.compositions, same.transfers] == [()] * 4
    assert new(rows, []).transfer.value is None
    assert new([], rows).compositions == ()  # what is known alone comes first


def played(folder: Path, *codes: tuple[str, Status]) -> Path:
    turns = [
        Turn(text="t", action=Code(code=code), execution=Execution(status=status, stdout="1")) for code, status in codes
    ]
    task = Task(id="q", question="How many?", source="pixmo-count@1", answer="2")
    write_lines(
        folder / "trajectories.jsonl",
        [
            Trajectory(
                id="q#0", task=task, turns=(*turns, Turn(text="2", action=Answer(text="2"))),
                stop=StopReason.ANSWERED, provenance=Provenance(dialect="codedance@1", model="m"),
                scores=(Score(name="correct", value=1.0),),
            )
        ],
    )  # fmt: skip
    return folder


def test_the_command_reads_code_that_ran_and_writes_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("sft", "rl"):
        (tmp_path / name).mkdir()
    sft = played(tmp_path / "sft", ("image_1.crop((0, 0, 9, 9)).show()", Status.OK))
    rl = played(
        tmp_path / "rl",
        ("import cv2 as c\nc.rectangle(c.imread('a.png'), (0, 0), (9, 9), 255)\nprint(len([1]))", Status.OK),
        ("import cv2\ncv2.inpaint(1, 2, 3, 4)", Status.ERROR),
    )
    assert main(["protocols", str(rl), "--before", str(sft)]) == 0
    printed = capsys.readouterr().out
    found = loads((rl / "protocols" / "emergence.json").read_text(), Emergence)
    assert [one.what for one in found.functions] == ["cv2.rectangle"]
    assert {one.what for one in found.operations} == {"draw", "numerical analysis"}
    assert "cv2.rectangle" in printed
    assert "inpaint" not in printed
    assert not (rl / "protocols" / "tool_use.json").exists()
