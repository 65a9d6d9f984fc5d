"""Ids read quickly are those that reading in full gives, and what cannot be read is refused all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import RecordError, SchemaVersionError, TornRecordError
from saccade.record.codec import append_lines, dumps, read_ids, read_lines
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory


def trajectory(name: str) -> Trajectory:
    return Trajectory(id=name, task=Task(id="t", question="q"))


@given(names=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), max_size=4))
def test_any_id_comes_back(names: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("ids") / "lines.jsonl"
    append_lines(path, map(trajectory, names))
    assert list(read_ids(path, Trajectory)) == names
    assert [item.id for item in read_lines(path, Trajectory)] == names


def test_lines_of_another_form_are_read_in_full(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{ "id": "a", "schema_version": 1, "task": {"id": "t", "question": "q"} }\n')
    assert list(read_ids(path, Trajectory)) == ["a"]
    path.write_text('{"schema_version":3,"id":"a","task":{"id":"t","question":"q"}}\n')
    with pytest.raises(SchemaVersionError, match="line 1"):
        list(read_ids(path, Trajectory))
    path.write_text(dumps(trajectory("a")) + '\n{"schema_version":1,"id":"b"\n')
    with pytest.raises(RecordError, match="line 2"):
        list(read_ids(path, Trajectory))


def test_a_torn_line_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    append_lines(path, [trajectory("a"), trajectory("b")])
    path.write_bytes(path.read_bytes()[:-9])
    ids = read_ids(path, Trajectory)
    assert next(ids) == "a"
    with pytest.raises(TornRecordError):
        next(ids)
    with pytest.raises(TornRecordError):
        append_lines(path, [trajectory("c")])


def test_a_whole_last_line_without_its_break_and_one_without_an_id(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text(dumps(trajectory("a")) + "\n" + dumps(trajectory("b")))
    assert list(read_ids(path, Trajectory)) == ["a", "b"]
    path.write_text(dumps(trajectory("a")) + "\n\n")
    with pytest.raises(RecordError, match="line 2"):
        list(read_ids(path, Trajectory))
