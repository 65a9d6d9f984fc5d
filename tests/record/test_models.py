"""What a record refuses to hold, and the small things it can say."""

import errno
import os
from math import inf, nan
from pathlib import Path

import pytest
from pydantic import ValidationError

from saccade.core.disk import disk_words, write_atomic, writing
from saccade.record.base import clean_text
from saccade.record.content import (
    Answer,
    Code,
    ImagePart,
    Message,
    ParseError,
    TextPart,
    ToolCall,
    VideoPart,
    VideoSample,
)
from saccade.record.execution import Execution, ExecutionPicture, ExecutionTimings, Status
from saccade.record.task import AnswerType, EvidenceBox, NamedMedia, Task
from saccade.record.trajectory import Score, StopReason, Trajectory, Turn, conversation, total


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


def test_records_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        TASK.question = "other"  # type: ignore[misc]


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


def test_outages_are_marked() -> None:
    assert not trajectory().lost
    assert Trajectory(id="x", task=TASK, stop=StopReason.SANDBOX_LOST).lost


def test_media_lists_each_picture_once_in_order() -> None:
    shown = Execution(status=Status.OK, pictures=(ExecutionPicture(image=image("b"), source="figure"),))
    turn = Turn(
        text="",
        action=Code(code="1"),
        execution=shown,
        observation=Message(role="user", parts=(image("b"), TextPart(text="look"), image("a"))),
    )
    assert [part.sha256[0] for part in trajectory(turn).media()] == ["a", "b"]


def test_scores_are_replaced_by_name() -> None:
    first = trajectory().with_scores([Score(name="a"), Score(name="b")])
    second = first.with_scores([Score(name="a", value=1.0), Score(name="c")])
    assert [(s.name, s.value) for s in second.scores] == [("a", 1.0), ("b", None), ("c", None)]
    assert [s.value for s in first.scores] == [None, None]


def test_message_text_and_media() -> None:
    message = Message(role="user", parts=(TextPart(text="a"), image(), TextPart(text="b")))
    assert message.text == "ab"
    assert message.media == (image(),)


def test_times_that_nobody_took_are_zero() -> None:
    timings = ExecutionTimings()
    assert (timings.wall, timings.run, timings.cpu, timings.capture) == (0.0, 0.0, 0.0, 0.0)


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


def test_a_box_may_reach_the_edge_of_its_picture() -> None:
    for box, message in (
        ((0, 0, 40, 30), None),
        ((39.5, 29, 40, 30), None),
        ((0, 0, 40.5, 30), "beyond"),
        ((0, 0, 40, 30.5), "beyond"),
        ((0, 5, 40, 5), "empty"),
        ((0, -0.5, 40, 5), "empty"),
    ):
        if message is None:
            assert Task(**{**dict(TASK), "evidence": (EvidenceBox(image="image_0", xyxy=box),)}).evidence[0].xyxy == box
        else:
            with pytest.raises(ValidationError, match=message):
                Task(**{**dict(TASK), "evidence": (EvidenceBox(image="image_0", xyxy=box),)})


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
