"""What the codec refuses, and files that a crash cut short."""

import errno
import json
import os
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from saccade.errors import RecordError, SchemaVersionError, TornRecordError
from saccade.record import codec
from saccade.record.codec import append_line, append_lines, dumps, loads, read_lines, recover_lines, write_lines
from saccade.record.content import Answer, Code
from saccade.record.task import Task
from saccade.record.trajectory import Score, Trajectory, Turn

TRAJECTORY = Trajectory(
    id="t1",
    task=Task(id="t", question="How many?"),
    turns=(Turn(text="a", action=Code(code="1\u20281")), Turn(text="b", action=Answer(text="7"))),
)


def changed(**change: object) -> str:
    return json.dumps({**json.loads(dumps(TRAJECTORY)), **change})


def test_unknown_field_is_named_with_the_way_out() -> None:
    data = json.loads(dumps(TRAJECTORY))
    data["turns"][1]["mood"] = "good"
    data["colour"] = "red"
    with pytest.raises(RecordError) as caught:
        loads(json.dumps(data), Trajectory)
    message = str(caught.value)
    assert "turns.1.mood: unknown field" in message
    assert "colour: unknown field" in message
    assert "upgrade" in message
    assert not isinstance(caught.value, SchemaVersionError)


@pytest.mark.parametrize("version", [0, 3, "1", None, 1.5])
def test_other_schema_version_is_refused_before_all_else(version: object) -> None:
    with pytest.raises(SchemaVersionError, match=r"reads version 1\. "):
        loads(changed(schema_version=version, colour="red"), Trajectory)


def test_missing_schema_version_is_refused() -> None:
    data = json.loads(dumps(TRAJECTORY))
    del data["schema_version"]
    with pytest.raises(SchemaVersionError, match="does not say"):
        loads(json.dumps(data), Trajectory)


@pytest.mark.parametrize(
    "change", [{"rollout": "3"}, {"rollout": True}, {"turns": 4}, {"task": None}, {"seconds": "1"}]
)
def test_wrong_types_are_not_bent_into_shape(change: dict[str, object]) -> None:
    with pytest.raises(RecordError, match=next(iter(change))):
        loads(changed(**change), Trajectory)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '{"name": NaN}', "\x00\x00", "[" * 10_000])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(RecordError):
        loads(text, Score)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(number: str) -> None:
    with pytest.raises(RecordError, match="value"):
        loads(f'{{"name": "x", "value": {number}}}', Score)


def test_record_built_past_its_checks_is_not_written() -> None:
    with pytest.raises(RecordError, match="cannot be written"):
        dumps(Score.model_construct(name="\ud800"))


def lines(path: Path) -> list[Trajectory]:
    return list(read_lines(path, Trajectory))


def test_appending_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for _ in range(3):
        append_line(path, TRAJECTORY)
    assert lines(path) == [TRAJECTORY] * 3


def test_every_cut_of_the_last_line_is_noticed_and_mended(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = (dumps(TRAJECTORY) + "\n").encode()
    step = max(1, len(line) // 40)
    for kept in range(1, len(line) - 1, step):
        path.write_bytes(line + line[:kept])
        reader = read_lines(path, Trajectory)
        assert next(reader) == TRAJECTORY
        with pytest.raises(TornRecordError, match="recover_lines"):
            next(reader)
        with pytest.raises(TornRecordError):
            append_line(path, TRAJECTORY)
        assert recover_lines(path) == line[:kept]
        assert path.read_bytes() == line
        append_line(path, TRAJECTORY)
        assert lines(path) == [TRAJECTORY] * 2


def test_whole_last_line_without_its_break(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(dumps(TRAJECTORY), encoding="utf-8")
    assert lines(path) == [TRAJECTORY]
    with pytest.raises(TornRecordError):
        append_line(path, TRAJECTORY)
    assert recover_lines(path) == b""
    append_line(path, TRAJECTORY)
    assert lines(path) == [TRAJECTORY] * 2


def test_all_bytes_are_in_the_file_when_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What still waits in Python's buffer at that moment would be lost with the machine's power."""
    synced: list[bytes] = []
    monkeypatch.setattr(codec.os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").read_bytes()))
    path = tmp_path / "t.jsonl"
    line = (dumps(TRAJECTORY) + "\n").encode()
    write_lines(path, [TRAJECTORY])
    append_line(path, TRAJECTORY)
    path.write_bytes(line + line[:-1])
    recover_lines(path)
    assert synced == [line, line * 2, line * 2]


def test_a_disk_that_takes_a_piece_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Piecewise(FileIO):
        def write(self, data: Any, /) -> int:
            return super().write(data[:7])

    with monkeypatch.context() as patch:
        patch.setattr(codec, "open", lambda path, mode, buffering: Piecewise(path, mode), raising=False)
        append_lines(tmp_path / "t.jsonl", [TRAJECTORY] * 2)
    assert lines(tmp_path / "t.jsonl") == [TRAJECTORY] * 2


def test_tail_of_zero_bytes_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes((dumps(TRAJECTORY) + "\n").encode() + bytes(100))
    with pytest.raises(TornRecordError):
        lines(path)
    assert recover_lines(path) == bytes(100)
    assert lines(path) == [TRAJECTORY]


def test_recovering_a_whole_or_empty_file_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for data in (b"", (dumps(TRAJECTORY) + "\n").encode()):
        path.write_bytes(data)
        assert recover_lines(path) == b""
        assert path.read_bytes() == data


def test_broken_line_in_the_middle_is_named_and_is_not_torn(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f"{dumps(TRAJECTORY)}\n{{broken\n{dumps(TRAJECTORY)}\n", encoding="utf-8")
    with pytest.raises(RecordError, match="line 2") as caught:
        lines(path)
    assert not isinstance(caught.value, TornRecordError)


def test_schema_version_of_a_line_keeps_its_type(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(changed(schema_version=9) + "\n", encoding="utf-8")
    with pytest.raises(SchemaVersionError, match="line 1"):
        lines(path)


def test_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_lines(path, [TRAJECTORY])
    with pytest.raises(RecordError):
        write_lines(path, [TRAJECTORY, Score.model_construct(name="\ud800")])
    assert lines(path) == [TRAJECTORY]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    path = tmp_path / "t.jsonl"
    append_line(path, TRAJECTORY)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(codec.os, "fsync", full)
        with pytest.raises(OSError, match=os.strerror(code)) as caught:
            append_lines(path, [TRAJECTORY] * 3)
        assert caught.value.filename == str(path)
        with pytest.raises(OSError, match=os.strerror(code)):
            write_lines(path, [TRAJECTORY] * 3)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_wrong_is_said_with_its_way_out() -> None:
    with pytest.raises(RecordError) as caught:
        loads('{"name": "", "value": "x"}', Score)
    lines_ = str(caught.value).splitlines()
    assert lines_[0] == "this Score cannot be read:"
    assert [line.partition(":")[0] for line in lines_[1:3]] == ["  name", "  value"]
    assert lines_[3] == "Correct the record, or write it again with saccade.record.codec.dumps(Score(...))."
    with pytest.raises(RecordError, match=r"\(the whole record\): "):
        loads("7", Score)
    with pytest.raises(RecordError, match=r"mood: unknown field\nAn unknown field is a slip"):
        loads('{"name": "x", "mood": 1}', Score)
    with pytest.raises(RecordError, match=r"mood: unknown field\nAn unknown field is a slip"):
        loads('{"name": "", "mood": 1}', Score)


def test_an_empty_file_has_no_lines_and_nothing_appended_makes_one(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    append_lines(path, [])
    assert path.read_bytes() == b""
    assert lines(path) == []
    append_lines(path, [TRAJECTORY] * 2)
    append_lines(path, [])
    assert lines(path) == [TRAJECTORY] * 2
