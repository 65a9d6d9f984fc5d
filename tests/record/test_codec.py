"""Records in JSON: what comes back exactly, what the codec refuses, files that a crash cut short, ids read quickly."""

from __future__ import annotations

import errno
import json
import os
from datetime import UTC
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.errors import RecordError, SchemaVersionError, TornRecordError
from saccade.record import codec
from saccade.record.codec import (
    append_line,
    append_lines,
    dumps,
    loads,
    read_ids,
    read_lines,
    recover_lines,
    write_lines,
)
from saccade.record.content import Answer, Code, ImagePart, Message, ParseError, Record, TextPart, ToolCall, VideoPart
from saccade.record.execution import (
    Execution,
    ExecutionFile,
    ExecutionPicture,
    ExecutionRepair,
    ExecutionTimings,
    HostedCall,
    Status,
)
from saccade.record.task import AnswerType, EvidenceBox, NamedMedia, Task
from saccade.record.trajectory import (
    EpisodeLimits,
    FinishReason,
    Provenance,
    Sampling,
    Score,
    StopReason,
    TokenCounts,
    Trajectory,
    Turn,
)

TRAJECTORY = Trajectory(
    id="t1",
    task=Task(id="t", question="How many?"),
    turns=(Turn(text="a", action=Code(code="1\u20281")), Turn(text="b", action=Answer(text="7"))),
)


def changed(**change: object) -> str:
    return json.dumps({**json.loads(dumps(TRAJECTORY)), **change})


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


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=1e-300, allow_infinity=False)
seconds = st.floats(min_value=0, allow_infinity=False)
counts = st.none() | st.integers(0, 2**70)
sizes = st.integers(1, 2**40)
hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)


def tuples(items: st.SearchStrategy, most: int = 2) -> st.SearchStrategy:
    return st.lists(items, max_size=most).map(tuple)


images = st.builds(
    ImagePart,
    sha256=hashes,
    width=sizes,
    height=sizes,
    mode=st.sampled_from(["L", "RGB", "RGBA"]),
    mime=st.sampled_from(["image/png", "image/svg+xml"]),
)

videos = st.builds(VideoPart, sha256=hashes, width=sizes, height=sizes, frames=sizes, fps=positive, seconds=positive)
parts = st.builds(TextPart, text=texts) | images | videos
messages = st.builds(Message, role=st.sampled_from(["system", "user", "assistant", "tool"]), parts=tuples(parts))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | finite | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)

runnable = st.builds(Code, code=texts) | st.builds(
    ToolCall, name=names, arguments=st.dictionaries(texts, json_values, max_size=3), call_id=st.none() | texts
)

final = st.builds(ParseError, reason=texts)

executions = st.builds(
    Execution,
    status=st.sampled_from(Status),
    stdout=texts,
    stderr=texts,
    value=st.none() | texts,
    traceback=st.none() | texts,
    pictures=tuples(st.builds(ExecutionPicture, image=images, source=st.just("figure"), path=st.none() | texts)),
    files=tuples(st.builds(ExecutionFile, path=texts, size=st.integers(0, 2**60))),
    repairs=tuples(st.builds(ExecutionRepair, name=names, note=texts)),
    notes=tuples(texts),
    committed=st.booleans(),
    timings=st.builds(ExecutionTimings, wall=seconds, run=seconds, cpu=seconds, capture=seconds),
    layers=tuples(texts),
)

hosted_calls = st.builds(
    HostedCall,
    tool=names,
    language=st.sampled_from(["python", "bash", "json"]),
    code=texts,
    at=st.integers(0, 20),
    call_id=st.none() | texts,
    container=texts,
    execution=executions,
)


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    ids = draw(st.none() | st.lists(st.integers(0, 2**40), max_size=4))
    logprobs = None if ids is None else draw(st.none() | st.lists(finite, min_size=len(ids), max_size=len(ids)))
    action = draw(runnable | final)
    ran = isinstance(action, Code | ToolCall)
    return Turn(
        text=draw(texts),
        token_ids=None if ids is None else tuple(ids),
        logprobs=None if logprobs is None else tuple(logprobs),
        action=action,
        execution=draw(st.none() | executions) if ran else None,
        hosted=() if ran else draw(tuples(hosted_calls)),
        observation=draw(st.none() | messages),
        tokens=draw(st.builds(TokenCounts, sampled=counts, context=counts, observation_visual=counts)),
        finish_reason=draw(st.none() | st.sampled_from(FinishReason)),
        model_seconds=draw(seconds),
        execution_seconds=draw(seconds),
    )


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    image = draw(images)
    box = EvidenceBox(image="image_0", xyxy=(0, 0, image.width / 2, float(image.height)), label=draw(texts))
    choices = tuple(draw(st.lists(texts, min_size=1, max_size=3)))
    chosen = draw(st.booleans())
    return Task(
        id=draw(names),
        question=draw(texts),
        media=(NamedMedia(name="image_0", part=image), NamedMedia(name="clip", part=draw(videos))),
        choices=choices,
        answer=choices[0] if chosen else draw(st.none() | texts),
        answer_type=AnswerType.CHOICE if chosen else AnswerType.TEXT,
        evidence=draw(st.sampled_from([(), (box,)])),
        program=draw(st.none() | texts),
        source=draw(texts),
        split=draw(texts),
        difficulty=draw(st.none() | finite),
        tags=draw(tuples(texts)),
    )


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    steps = draw(st.lists(turns(), max_size=2))
    if draw(st.booleans()):
        steps.append(Turn(text=draw(texts), action=Answer(text=draw(texts))))
    return Trajectory(
        id=draw(names),
        task=draw(tasks()),
        group=draw(texts),
        rollout=draw(st.integers(0, 2**40)),
        provenance=Provenance(
            dialect=draw(texts),
            sampling=draw(st.builds(Sampling, temperature=st.none() | seconds, seed=st.none() | st.integers())),
            limits=draw(st.builds(EpisodeLimits, turns=st.none() | sizes, wall_seconds=st.none() | seconds)),
            layers=draw(tuples(texts)),
            settings=draw(texts),
        ),
        prompt=draw(tuples(messages)),
        turns=tuple(steps),
        stop=draw(st.none() | st.sampled_from(StopReason)),
        scores=(Score(name="accuracy", value=draw(st.none() | finite), weight=draw(finite), detail=draw(texts)),),
        created=draw(st.none() | st.datetimes(timezones=st.just(UTC))),
        seconds=draw(seconds),
    )


@given(trajectories())
def test_a_trajectory_comes_back_exactly(trajectory: Trajectory) -> None:
    text = dumps(trajectory)
    again = loads(text, Trajectory)
    assert again == trajectory
    assert dumps(again) == text
    assert loads(text.encode(), Trajectory) == trajectory


@settings(max_examples=6, deadline=None)
@given(st.lists(trajectories(), max_size=3))
def test_a_file_of_lines_comes_back_exactly(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> None:
    path: Path = tmp_path_factory.mktemp("lines") / "trajectories.jsonl"
    write_lines(path, records)
    assert list(read_lines(path, Trajectory)) == records


@pytest.mark.parametrize("number", [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1e23, 2**53 + 1.0])
def test_floats_keep_every_bit(number: float) -> None:
    again = loads(dumps(Score(name="x", value=number)), Score).value
    assert again is not None
    assert again.hex() == number.hex()


def test_numbers_in_arguments_keep_their_type() -> None:
    arguments = {"whole": 1, "real": 1.0, "truth": True, "huge": 10**40}
    again = loads(dumps(ToolCall(name="zoom", arguments=arguments)), ToolCall).arguments
    assert {key: type(value) for key, value in again.items()} == {k: type(v) for k, v in arguments.items()}
    assert again == arguments
