"""JSON gives back exactly what was written, for any record."""

from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.record.base import Record
from saccade.record.codec import dumps, loads, read_lines, write_lines
from saccade.record.content import Answer, Code, ImagePart, Message, ParseError, TextPart, ToolCall, VideoPart
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


@settings(max_examples=20, deadline=None)
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
