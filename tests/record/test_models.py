"""What a record refuses to hold, and the small things it can say."""

from math import inf, nan

import pytest
from pydantic import ValidationError

from saccade.record.action import Answer, Code, ParseError, ToolCall
from saccade.record.base import clean_text
from saccade.record.content import ImagePart, Message, TextPart
from saccade.record.execution import Execution, ExecutionPicture, ExecutionTimings
from saccade.record.score import Score, total
from saccade.record.status import Status
from saccade.record.task import AnswerType, EvidenceBox, NamedMedia, Task
from saccade.record.trajectory import StopReason, Trajectory
from saccade.record.turn import Turn


def image(digit: str = "a") -> ImagePart:
    return ImagePart(sha256=digit * 64, width=40, height=30)


TASK = Task(id="t", question="?", media=(NamedMedia(name="image_0", part=image()),))


@pytest.mark.parametrize("number", [nan, inf, -inf])
def test_numbers_that_json_cannot_hold_are_refused(number: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        Score(name="x", value=number)
    with pytest.raises(ValidationError, match="finite"):
        Turn(text="", token_ids=(1,), logprobs=(number,), action=Answer(text=""))
    with pytest.raises(ValidationError, match=r"finite|JSON cannot give back"):
        ToolCall(name="zoom", arguments={"box": [0.0, {"deep": number}]})


def test_text_that_json_cannot_hold_is_refused_and_can_be_cleaned() -> None:
    broken = "ab\ud800c\U0001f600"
    with pytest.raises(ValidationError, match="lone surrogate at position 2"):
        TextPart(text=broken)
    with pytest.raises(ValidationError, match="lone surrogate"):
        ToolCall(name="zoom", arguments={"\udfff": 1})
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
