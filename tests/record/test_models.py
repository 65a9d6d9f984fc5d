"""What a record refuses to hold, and the small things it can say."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from saccade.core.disk import disk_words, write_atomic, writing
from saccade.episode.run_folder import NumberedTurn
from saccade.evals.judged import Verdicts
from saccade.evals.protocols.base import Findings
from saccade.record.content import (
    SCHEMA_VERSION,
    Answer,
    Box,
    Code,
    ImagePart,
    Message,
    ParseError,
    TextPart,
    ToolCall,
    VideoPart,
    VideoSample,
    area,
    clean_text,
    iou,
    overlap,
)
from saccade.record.execution import Execution, ExecutionPicture, Status
from saccade.record.task import AnswerType, EvidenceBox, NamedMedia, Task
from saccade.record.trajectory import STOPS, EpisodeLimits, Score, StopReason, Trajectory, Turn, conversation, total
from saccade.training.sft.curate.pipeline import CurateReport


def image(digit: str = "a") -> ImagePart:
    return ImagePart(sha256=digit * 64, width=40, height=30)


TASK = Task(id="t", question="?", media=(NamedMedia(name="image_0", part=image()),))


@pytest.mark.parametrize("number", [nan, inf, -inf])
def test_numbers_that_json_cannot_hold_are_refused(number: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        Score(name="x", value=number)
    with pytest.raises(ValidationError, match="finite"):
        Turn(text="", token_ids=(1,), logprobs=(number,), action=Answer(text=""))
    with pytest.raises(ValidationError, match="finite"):
        ToolCall(name="zoom", arguments={"box": [0.0, {"deep": number}]})


def test_text_that_json_cannot_hold_is_refused_and_can_be_cleaned() -> None:
    broken = "ab\ud800c\U0001f600"
    with pytest.raises(ValidationError, match="lone surrogate at position 2"):
        TextPart(text=broken)
    for deep in (
        {"\udfff": 1},
        {"a": "\udfff"},
        {"a": ["b", "\udfff"]},
        {"a": {"b": "\udfff"}},
        {"a": [{"\udfff": 1}]},
    ):
        with pytest.raises(ValidationError, match="lone surrogate at position 0"):
            ToolCall(name="zoom", arguments=deep)
    assert TextPart(text=clean_text(broken)).text == "ab\ufffdc\U0001f600"
    assert clean_text("\ufeffplain") == "\ufeffplain"


@pytest.mark.parametrize("sha256", ["A" * 64, "a" * 63, "a" * 65, "g" * 64, "a" * 64 + "\n", ""])
def test_sha256_is_lower_case_hexadecimal(sha256: str) -> None:
    with pytest.raises(ValidationError):
        ImagePart(sha256=sha256, width=1, height=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"media": (NamedMedia(name="a", part=image()),) * 2}, "share a name"),
        ({"answer_type": AnswerType.CHOICE}, "needs choices"),
        ({"answer_type": AnswerType.CHOICE, "choices": ("x", "y"), "answer": "z"}, "none of the choices"),
        ({"evidence": (EvidenceBox(image="image_1", xyxy=(0, 0, 1, 1)),)}, "not among"),
        ({"evidence": (EvidenceBox(image="image_0", xyxy=(0, 0, 41, 1)),)}, "reaches beyond"),
    ],
)
def test_inconsistent_tasks_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Task(**{**dict(TASK), **change})


def test_what_reaches_just_to_the_edge_is_inside() -> None:
    full = EvidenceBox(image="image_0", xyxy=(0, 0, 40, 30))
    assert Task(**{**dict(TASK), "evidence": (full,)}).evidence == (full,)
    with pytest.raises(ValidationError, match="reaches beyond"):
        Task(**{**dict(TASK), "evidence": (EvidenceBox(image="image_0", xyxy=(0, 0, 1, 31)),)})
    clip = VideoPart(sha256="a" * 64, width=4, height=4, frames=8, fps=1, seconds=8)
    for indices, said in (((3, 7, 0), None), ((3, 8, 0), "a video of 8 frames has no frame 8")):
        fields = {**dict(clip), "sample": VideoSample(indices=indices, pixels=16)}
        if said is None:
            assert VideoPart(**fields).sample == fields["sample"]
        else:
            with pytest.raises(ValidationError, match=said):
                VideoPart(**fields)


@pytest.mark.parametrize("xyxy", [(1, 0, 1, 5), (5, 0, 1, 5), (-1, 0, 1, 5), (0, 6, 1, 5)])
def test_boxes_that_hold_nothing_are_refused(xyxy: tuple[float, float, float, float]) -> None:
    with pytest.raises(ValidationError, match="empty, negative or not ordered"):
        EvidenceBox(image="image_0", xyxy=xyxy)


def test_logprobs_need_one_token_each() -> None:
    with pytest.raises(ValidationError, match="2 log-probabilities for 1 token"):
        Turn(text="", token_ids=(1,), logprobs=(-0.5, -0.25), action=Answer(text=""))
    with pytest.raises(ValidationError, match="1 log-probabilities for 0 token"):
        Turn(text="", logprobs=(-0.5,), action=Answer(text=""))


def test_only_what_runs_has_an_execution() -> None:
    Turn(text="", action=Code(code="1"), execution=Execution(status=Status.OK))
    with pytest.raises(ValidationError, match="cannot have an execution"):
        Turn(text="", action=ParseError(reason="no fence"), execution=Execution(status=Status.OK))


def test_total_is_none_until_every_weighted_part_is_known() -> None:
    known = Score(name="accuracy", value=1.0)
    assert total([known, Score(name="format", value=1.0, weight=0.5)]) == 1.5
    assert total([known, Score(name="format", weight=0.5)]) is None
    assert total([known, Score(name="observed", weight=0.0)]) == 1.0
    assert total([]) == 0.0


def trajectory(*turns: Turn) -> Trajectory:
    return Trajectory(id="x", task=TASK, turns=turns)


def test_answer_ends_a_trajectory() -> None:
    last = Turn(text="7", action=Answer(text="7"))
    assert trajectory().answer is None
    assert trajectory(Turn(text="", action=Code(code="1")), last).answer == "7"
    with pytest.raises(ValidationError, match="further turns follow"):
        trajectory(last, last)


def test_scores_are_replaced_by_name() -> None:
    first = trajectory().with_scores([Score(name="a"), Score(name="b")])
    second = first.with_scores([Score(name="a", value=1.0), Score(name="c")])
    assert [(s.name, s.value) for s in second.scores] == [("a", 1.0), ("b", None), ("c", None)]
    assert [s.value for s in first.scores] == [None, None]


def test_media_are_found_wherever_a_trajectory_names_them() -> None:
    parts = {digit: image(digit) for digit in "abcdef"}
    ran_ = Turn(
        text="",
        action=Code(code="1"),
        execution=Execution(
            status=Status.OK, pictures=(ExecutionPicture(image=parts["c"], source="figure"),)
        ),  # of which nothing was shown
    )
    asked = Turn(
        text="",
        action=ParseError(reason="none"),
        observation=Message(role="user", parts=(parts["d"],)),
        request=Message(role="user", parts=(parts["e"], parts["a"])),
    )
    bare = Turn(text="", action=ParseError(reason="none"))
    found = Trajectory(
        id="x", task=TASK, prompt=(Message(role="user", parts=(parts["b"],)),), turns=(bare, ran_, asked)
    )
    assert [part.sha256[0] for part in found.media()] == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("stop", StopReason)
def test_outages_are_three(stop: StopReason) -> None:
    outages = {StopReason.MODEL_LOST, StopReason.MODEL_REFUSED, StopReason.SANDBOX_LOST, StopReason.TOOL_LOST}
    assert Trajectory(id="x", task=TASK, stop=stop).lost is (stop in outages)


def test_a_choice_may_be_without_a_known_answer() -> None:
    choices = {"answer_type": AnswerType.CHOICE, "choices": ("x", "y")}
    assert Task(**{**dict(TASK), **choices}).answer is None
    assert Task(**{**dict(TASK), **choices, "answer": "y"}).answer == "y"
    assert Task(**{**dict(TASK), "choices": ("x",), "answer": "z"}).answer == "z"  # of another type: anything


def test_names_are_neither_empty_nor_long() -> None:
    assert Score(name="x" * 200).name == "x" * 200
    for name in ("", "x" * 201):
        with pytest.raises(ValidationError, match="character"):
            Score(name=name)


CALLS = (ToolCall(name="a", arguments={}), ToolCall(name="b", arguments={}))


def test_a_turns_message_holds_the_call_that_was_answered() -> None:
    said = Turn(text="hm", calls=CALLS, action=CALLS[0])
    assert said.message == Message(role="assistant", parts=(TextPart(text="hm"),))
    answered = said.model_copy(update={"observation": Message(role="tool", parts=())})
    assert answered.message.calls == CALLS[:1]
    shown = said.model_copy(update={"observation": Message(role="user", parts=()), "text": ""})
    assert shown.message == Message(role="assistant", parts=())


def words(message: Message) -> str:
    return f"{message.role}: {message.text}" + "".join(f" [{call.name}]" for call in message.calls)


def test_a_conversation_joins_what_the_assistant_says() -> None:
    def message(role: str, text: str) -> Message:
        return Message(role=role, parts=(TextPart(text=text),) if text else ())

    turns = (
        Turn(text="one", action=ParseError(reason=""), observation=message("assistant", "+out")),
        Turn(
            text="two", action=ParseError(reason=""), observation=message("user", "go"), request=message("user", "now")
        ),
        Turn(text="", action=ParseError(reason=""), observation=message("user", "again")),
        Turn(text="", calls=CALLS, action=CALLS[0], observation=message("tool", "did")),
        Turn(text="end", action=Answer(text="end")),
    )
    prompt = (message("system", "s"), message("user", "q"), message("user", ""), message("assistant", "pre"))
    assert [words(item) for item in conversation(prompt, turns)] == [
        "system: s",
        "user: q",
        "assistant: preone+outtwo",
        "user: go",
        "user: now",
        "user: again",
        "assistant:  [a]",
        "tool: did",
        "assistant: end",
    ]
    assert conversation((), ()) == ()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, "/x/y cannot be used: the disk is full. Free"),
        (errno.EDQUOT, "/x/y cannot be used: the disk is full. Free"),
        (errno.EROFS, "/x/y cannot be used: it is read-only or not yours (Read-only file system). Name a folder"),
        (errno.EACCES, "/x/y cannot be used: it is read-only or not yours (Permission denied). Name a folder"),
        (errno.EIO, "/x/y cannot be used: Input/output error. See whether"),
    ],
)
def test_what_a_disk_refuses_in_words(code: int, said: str) -> None:
    for inner in (OSError(code, os.strerror(code)), OSError(code, os.strerror(code), "/x/y")):
        with pytest.raises(OSError, match=r".") as caught, writing(Path("/x/y")):
            raise inner
        text = disk_words(caught.value)
        assert text.startswith(said)
        assert len(text.splitlines()) <= 3
    assert disk_words(OSError("odd")).startswith("a file cannot be used: odd.")
    assert disk_words(OSError(code, os.strerror(code), "/z")).startswith("/z cannot be used")


def test_a_file_written_whole_leaves_no_litter(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "down" / "a.txt"
    write_atomic(file, "one")
    write_atomic(file, "two")
    assert file.read_text() == "two"
    with pytest.raises(UnicodeEncodeError):
        write_atomic(file, "\ud800")
    assert file.read_text() == "two"
    assert list(file.parent.iterdir()) == [file]


def test_two_scores_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"two scores share a name: \['a', 'b', 'a'\]"):
        Trajectory(id="x", task=TASK, scores=tuple(Score(name=name) for name in "aba"))


@pytest.mark.parametrize(
    ("grader", "is_open", "rule"),
    [("", False, ""), ("number@1", False, "number@1"), ("judge", True, ""), ("judge|number@1", True, "number@1")],
)
def test_the_rule_of_an_open_task(grader: str, is_open: bool, rule: str) -> None:
    task = Task(id="t", question="q", grader=grader)
    assert (task.is_open, task.rule) == (is_open, rule)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((10, 20, 30, 60), (20, 30, 40, 70), 3 / 13),  # 10x30 of 800 + 800 - 300
        ((5, 7, 9, 10), (5, 7, 9, 10), 1.0),
        ((0, 0, 10, 10), (2, 3, 7, 5), 0.1),  # one inside the other: 5x2 of 100
        ((0, 0, 10, 10), (10, 0, 20, 10), 0.0),  # they touch
        ((0, 0, 10, 10), (0, 10, 10, 20), 0.0),
        ((0, 0, 4, 4), (6, 0, 8, 4), 0.0),  # side by side, at the same height
        ((0, 0, 0, 0), (0, 0, 0, 0), 0.0),
        ((2, 2, 0, 0), (0, 0, 2, 2), 0.0),  # reversed
        ((0, 0, 4, 4), (6, 6, 8, 8), 0.0),  # apart both ways: no overlap of two negative sides
    ],
)
def test_intersection_over_union_by_hand(one: Box, other: Box, expected: float) -> None:
    assert iou(one, other) == pytest.approx(expected)
    assert iou(other, one) == pytest.approx(expected)


def test_boxes_that_differ_in_every_side_by_hand() -> None:
    one, other = (0.0, 10.0, 20.0, 30.0), (5.0, 0.0, 40.0, 25.0)
    # Both hold x from 5 to 20 and y from 10 to 25.
    assert (area(one), area(other), overlap(one, other)) == (400.0, 875.0, 225.0)
    assert iou(one, other) == iou(other, one) == 225 / 1050
    assert (area((5, 5, 5, 9)), area((9, 5, 5, 9)), overlap(one, (20.0, 10.0, 30.0, 30.0))) == (0.0, 0.0, 0.0)


def test_every_stop_reason_is_in_words_of_its_own() -> None:
    assert set(STOPS) == set(StopReason)
    assert len({facts.words for facts in STOPS.values()}) == len(StopReason)
    assert all(facts.words.endswith(".") for facts in STOPS.values())


def test_limits_are_those_of_an_episode() -> None:
    limits = {reason: facts.limit for reason, facts in STOPS.items() if facts.limit}
    assert set(limits.values()) <= set(EpisodeLimits.model_fields)
    assert limits.keys() == {StopReason.STUCK} | {reason for reason in StopReason if reason.value.endswith("_limit")}


GOLDEN = Path(__file__).parent / "golden"
STORED = (Trajectory, NumberedTurn, Verdicts, Findings, CurateReport)


def fields(kind: type[BaseModel]) -> Iterator[str]:
    """A line for each field of `kind` and of what it holds, with its type and what it is where nothing is said."""
    schema = kind.model_json_schema(mode="serialization")
    for name, model in {kind.__name__: schema, **schema.get("$defs", {})}.items():
        for field, about in model.get("properties", {}).items():
            said = {key: value for key, value in about.items() if key not in ("title", "description", "$defs")}
            yield f"{name}.{field} {said}"


def test_fields_of_a_version_stay_as_they_are() -> None:
    now = sorted({line for kind in STORED for line in fields(kind)})
    golden = GOLDEN / f"fields-{SCHEMA_VERSION}.txt"
    assert golden.is_file(), f"write the fields of this version to {golden.name}"
    assert now == golden.read_text(encoding="utf-8").splitlines(), (
        "stored records have other fields: raise SCHEMA_VERSION (record/content.py), and write the fields anew"
    )
