"""E1 to E3 and E5, step by step: typed calls through the real loop and the real tools, and code with known ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evals.protocols.searches import noise

from saccade.dialects.base import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.episode.regions import StoredPixels
from saccade.episode.workbench import equipped
from saccade.evals.protocols.base import Studied, StudiedRun
from saccade.evals.protocols.errors import ErrorClass, _mistakes, _shows, findings, row, states
from saccade.evals.protocols.faithfulness import box_verdicts
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Answer, Code, ParseError, ToolCall
from saccade.record.execution import Execution, ExecutionRepair, Status
from saccade.record.task import EvidenceBox, NamedMedia, Task
from saccade.record.trajectory import FinishReason, Provenance, Score, StopReason, Trajectory, Turn
from saccade.report.sections.protocols import findings_text
from saccade.rewards.reward import JudgeVerdict, NoVerdict
from saccade.tools.context import ProblemKind

VISTA = (
    '<think>a</think><tool_call>{"tool": "crop", "box": [0, 0, 50, 50]}</tool_call>',
    '<think>b</think><tool_call>{"tool": "crop", "bx": [0, 0, 50, 50]}</tool_call>',
    '<think>c</think><tool_call>{"tool": "crop", "box": ["0", 0, 50, 50], "scal": 2}</tool_call>',
    '<think>d</think><tool_call>{"tool": "crop", "box": [0, 0, 50, 50], "image": "image_7"}</tool_call>',
    '<think>e</think><tool_call>{"tool": "corp", "box": [0, 0, 50, 50]}</tool_call>',
    '<think>f</think><tool_call>{"tool": "crop", </tool_call>',
    '<think>g<tool_call>{"tool": "crop", "box": [500, 500, 600, 600]}</tool_call>',
    "<think>h</think><answer>red</answer>",
)
EXPECTED = {
    (1, "E2", "argument_name"),
    (1, "E1", "schema"),  # the box itself is missing
    (2, "E2", "argument_name"),
    (2, "E3", "argument_format"),
    (3, "E3", "unknown_image"),
    (4, "E1", "schema"),
    (5, "E1", "not_json"),
    (6, "E1", "nested_tag"),
    (6, "E3", "argument_format"),
}


def studied(trajectory: Trajectory, folder: Path) -> Studied:
    return Studied(trajectory, StoredPixels(MediaStore(folder)))


@pytest.fixture(scope="module")
def vista(tmp_path_factory: pytest.TempPathFactory) -> Studied:
    folder = tmp_path_factory.mktemp("vista")
    store = MediaStore(folder)
    task = Task(id="t", question="?", media=(NamedMedia(name="photo", part=store.put_image(noise())),), answer="red")
    dialect, tools = equipped(load_dialect("vista:repo"), ["crop"])
    plan = Plan(task, dialect)
    played = asyncio.run(run_episode(plan, ScriptedModel(VISTA), None, store, tools=tools))
    assert played.stop is StopReason.ANSWERED, played.stop_detail
    return studied(played, folder)


def test_every_mistake_of_a_typed_call_is_told(vista: Studied) -> None:
    found = row(vista)
    errors = {(step.turn, step.error.value, step.rule) for step in found.errors}
    assert errors >= EXPECTED
    # The thought that never ends leaves further tags without a partner.
    assert {(number, rule) for number, _, rule in errors - EXPECTED} <= {(6, "unclosed_tag"), (6, "unopened_tag")}
    assert not [step for step in found.errors if step.turn == 0]


def test_hints_name_what_is_near(vista: Studied) -> None:
    details = {(step.turn, step.rule): step.detail for step in row(vista).errors}
    assert "Did you mean 'box'" in details[1, "argument_name"]
    assert "Did you mean 'scale'" in details[2, "argument_name"]
    assert "Did you mean 'crop'" in details[4, "schema"]


@pytest.mark.parametrize(
    ("name", "argument", "mistakes"),
    [("easyocr", "region", 0), ("easyocr", "box", 0), ("easyocr", "bux", 1), ("ocr", "box", 0), ("ocr", "region", 1)],
)
def test_an_alias_has_argument_names_of_its_own(name: str, argument: str, mistakes: int) -> None:
    assert len(_mistakes(ToolCall(name=name, arguments={argument: [0, 0, 9, 9]}))) == mistakes


def cropped(box: tuple[int, int, int, int], folder: Path) -> Studied:
    """A crop of a picture of 400 × 300 pixels with two gold boxes."""
    store = MediaStore(folder)
    task = Task(
        id="t",
        question="?",
        media=(NamedMedia(name="photo", part=store.put_image(noise())),),
        answer="red",
        evidence=tuple(EvidenceBox(image="photo", xyxy=xyxy) for xyxy in ((20, 40, 60, 80), (80, 200, 120, 240))),
    )
    dialect, tools = equipped(load_dialect("vista"), ["crop"])
    call = f'<think>a</think><tool_call>{{"tool": "crop", "box": {list(box)}}}</tool_call>'
    said = [call, "<think>b</think><answer>red</answer>"]
    return studied(asyncio.run(run_episode(Plan(task, dialect), ScriptedModel(said), None, store, tools=tools)), folder)


@pytest.mark.parametrize(
    ("box", "wrong"),
    [
        ((10, 10, 390, 290), False),  # nine tenths of the picture, and both boxes in it
        ((0, 0, 400, 190), False),  # more than half of it, and one box
        ((0, 60, 400, 300), False),
        ((130, 0, 400, 300), True),  # more than half of it, and neither
        ((50, 0, 400, 90), False),  # just a quarter of one
        ((52, 0, 400, 90), True),
        ((25, 45, 30, 50), True),  # inside a box, and less than a quarter of it
    ],
)
def test_e4_is_by_overlap_whatever_the_size(box: tuple[int, int, int, int], wrong: bool, tmp_path: Path) -> None:
    found = row(cropped(box, tmp_path))
    assert [(step.error, step.rule) for step in found.errors] == [(ErrorClass.E4, "gold_box")] * wrong
    assert ErrorClass.E4 not in found.undecided


def test_e4_says_nothing_of_a_crop_of_the_whole_picture(tmp_path: Path) -> None:
    found = row(cropped((0, 0, 400, 300), tmp_path))
    assert found.errors == ()
    assert ErrorClass.E4 in found.undecided


def turn(code: str = "x", **execution: object) -> Turn:
    return Turn(text=code, action=Code(code=code), execution=Execution.model_validate(execution))


def sample(*turns: Turn, dialect: str = "codev@1", answer: str | None = "red", correct: float = 1.0) -> Trajectory:
    end = (
        (Turn(text=f"<think>So.</think><answer>{answer}</answer>", action=Answer(text=answer)),)
        if answer is not None
        else ()
    )
    return Trajectory(
        id="t#0",
        task=Task(id="t", question="?", answer="red"),
        provenance=Provenance(dialect=dialect),
        turns=(*turns, *end),
        stop=StopReason.ANSWERED if end else StopReason.TURN_LIMIT,
        scores=(Score(name="correct", value=correct),),
    )


def rules(trajectory: Trajectory, tmp_path: Path) -> list[tuple[str, str]]:
    return [(step.error.value, step.rule) for step in row(studied(trajectory, tmp_path)).errors]


@pytest.mark.parametrize(
    ("traceback", "expected"),
    [
        ("SyntaxError: invalid syntax", ("E1", "code_syntax")),
        ("NameError: name 'imag' is not defined", ("E2", "code_name")),
        ("AttributeError: 'Image' object has no attribute 'cropp'", ("E2", "code_name")),
        ("ModuleNotFoundError: No module named 'torch'", ("E2", "code_name")),
        ("TypeError: f() got an unexpected keyword argument 'x_axis'", ("E2", "keyword_argument")),
        ("TypeError: 'int' object is not iterable", ("E3", "code_value")),
        ("cv2.error: OpenCV(4.9) (-215) ssize.empty()", ("E3", "code_value")),
        ("ZeroDivisionError: division by zero", ("E5", "code_exception")),
        ("MyError", ("E5", "code_exception")),
    ],
)
def test_exceptions_of_code(traceback: str, expected: tuple[str, str], tmp_path: Path) -> None:
    assert rules(sample(turn(status=Status.ERROR, traceback=traceback)), tmp_path) == [expected]


def test_the_detail_of_an_exception_has_500_characters_and_160_are_shown(tmp_path: Path) -> None:
    failed = turn(status=Status.ERROR, traceback=f"ValueError: {'x' * 600}")
    found = row(studied(sample(failed), tmp_path))
    [error] = found.errors
    assert len(error.detail) == 500
    shown = findings_text(findings([found], StudiedRun(run="r"))).splitlines()
    assert f"E3 t#0, turn 0, code_value: {error.detail[:159]}…" in shown


def test_other_ends_of_code(tmp_path: Path) -> None:
    clamped = ExecutionRepair(name="clamp_crop", note="box cut")
    ends = [
        turn(status=Status.TIMEOUT, traceback="TimeoutError: too long"),
        turn(status=Status.OK),
        turn(status=Status.OK, stdout="1", repairs=(clamped,)),
        turn(status=Status.OK, stdout="1"),
    ]
    expected = [("E5", "timeout"), ("E5", "empty"), ("E3", "out_of_picture")]
    assert rules(sample(*ends), tmp_path) == expected


def test_outages_and_missing_programs_are_no_errors(tmp_path: Path) -> None:
    call = ToolCall(name="ocr", arguments={})
    refused = Execution(status=Status.REFUSED, problem=ProblemKind.UNAVAILABLE.value, traceback="ToolError: not here")
    turns = (turn(status=Status.LOST), Turn(text="", action=call, execution=refused))
    assert rules(sample(*turns), tmp_path) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('{"mean": NaN}', [("E5", "not_a_number")]),
        ('{"mean": 1,}', [("E5", "not_json")]),
        ('{"mean": 1}\nNew image image_1: 5 × 5 pixels.', []),
        ("[see] the picture", []),
        ("", [("E5", "empty")]),
    ],
)
def test_values_of_tools(value: str, expected: list[tuple[str, str]], tmp_path: Path) -> None:
    run = Execution(status=Status.OK, value=value)
    found = sample(Turn(text="", action=ToolCall(name="elsewhere", arguments={}), execution=run))
    assert rules(found, tmp_path) == expected


def test_turns_without_an_action(tmp_path: Path) -> None:
    def silent(text: str, finish: FinishReason = FinishReason.STOP) -> Turn:
        return Turn(text=text, action=ParseError(reason="no action"), finish_reason=finish)

    turns = (
        silent("<code>print(1)"),
        silent("Hm."),
        silent("<code>pri", FinishReason.LENGTH),
        silent("", FinishReason.FILTERED),
    )
    expected = [("E1", "unclosed_tag"), ("E1", "no_action"), ("E1", "truncated")]
    assert rules(sample(*turns), tmp_path) == expected


def test_every_step_counts_and_the_first_ten_are_examples(tmp_path: Path) -> None:
    failed = turn(status=Status.ERROR, traceback="SyntaxError: invalid syntax")
    rows = [row(studied(sample(*[failed] * count), tmp_path)) for count in (4, 0, 9)]
    found = findings(rows, StudiedRun(run="r"))
    assert findings_text(found).count(", code_syntax: ") == 3, "the first three of them are shown"
    [rate, *_] = found.rates
    assert (rate.error, rate.steps, rate.rules) == (ErrorClass.E1, 13, (("code_syntax", 13),))
    assert [example.step.turn for example in rate.examples] == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5]
    assert (rate.samples.count, rate.samples.of, rate.wrong.of) == (2, 3, 0)


def test_undecided_is_not_zero(tmp_path: Path) -> None:
    looked = turn(status=Status.OK, stdout="nothing to see")
    wrong = row(studied(sample(looked, correct=0.0), tmp_path))
    assert [error.value for error in wrong.undecided] == ["E4", "E6"]
    unanswered = row(studied(sample(looked, answer=None, correct=0.0), tmp_path))
    assert (unanswered.answered, [error.value for error in unanswered.undecided]) == (False, ["E4"])
    alone = row(studied(sample(correct=0.0), tmp_path))
    assert alone.undecided == ()


@pytest.mark.parametrize(
    ("text", "gold", "yes"),
    [
        ("7", "7", True),
        ("total: 7", "7", True),
        ("total = 7.0", "7", True),
        ("box (7, 12, 70, 9)", "7", False),
        ("17", "7", False),
        ("The sign is RED today", "red", True),
        ("bored", "red", False),
        ("yes, it may be", "yes", False),
        ("answer: yes", "yes", True),
        ("'B'", "B", True),
        ("A B C", "B", False),
        ("", "", False),
    ],
)
def test_what_states_the_gold_answer(text: str, gold: str, yes: bool) -> None:
    assert states(text, gold) is yes


@given(st.text(max_size=80), st.text(max_size=20))
def test_any_text_can_be_searched(text: str, gold: str) -> None:
    assert states(f"{text}\n{gold}", gold) or not states(gold, gold)


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=60), st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3))
def test_any_turn_is_classified(text: str, arguments: dict[str, object]) -> None:
    call = ToolCall.model_validate_json(json.dumps({"name": "crop", "arguments": arguments}))
    turns = (
        Turn(text=text, action=ParseError(reason="?")),
        Turn(text=text, action=call),
        turn(text, status=Status.ERROR, traceback=text),
    )
    for dialect in ("vista@1", "codev@1", "no such dialect"):
        found = row(studied(sample(*turns, dialect=dialect), Path("nowhere")))
        assert all(step.turn < 3 for step in found.errors)


@pytest.mark.parametrize(
    ("scores", "shows"), [([], False), ([None], False), ([0.9], False), ([1.0], True), ([None, 0.0, 1.0], True)]
)
def test_only_a_full_score_shows_what_was_asked_for(scores: list[float | None], shows: bool) -> None:
    verdicts = tuple(
        JudgeVerdict(invalid=NoVerdict.REFUSED) if score is None else JudgeVerdict(score=score) for score in scores
    )
    assert _shows(((), verdicts), 1) is shows


def test_a_box_judge_counts_no_whole_picture_and_no_gold_elsewhere(tmp_path: Path) -> None:
    def scores(box: tuple[int, int, int, int], name: str) -> list[float | None]:
        one = cropped(box, tmp_path / name)
        return [verdict.score for turn in box_verdicts(one.trajectory, one.regions) for verdict in turn]

    assert scores((10, 30, 70, 90), "there") == [1.0]
    assert scores((130, 0, 400, 300), "elsewhere") == [0.0]
    assert scores((0, 0, 400, 300), "whole") == [0.0]


@pytest.mark.parametrize(
    ("scores", "errors", "undecided"),
    [
        ([0.0, 0.0], [("E4", "model_judge")], ["E6"]),
        ([0.5], [("E4", "model_judge")], ["E6"]),
        ([0.0, 1.0], [("E6", "model_judge")], []),
        ([0.0, None], [], ["E4", "E6"]),  # the one without a verdict may be the one that shows it
        ([1.0, None], [("E6", "model_judge")], ["E4"]),
        ([], [], ["E4", "E6"]),
    ],
)
def test_a_model_decides_where_no_box_does(
    scores: list[float | None], errors: list[tuple[str, str]], undecided: list[str], tmp_path: Path
) -> None:
    verdicts = tuple(
        JudgeVerdict(invalid=NoVerdict.REFUSED) if score is None else JudgeVerdict(score=score) for score in scores
    )
    trajectory = sample(turn(status=Status.OK, stdout="nothing to see"), correct=0.0)
    found = row(Studied(trajectory, StoredPixels(MediaStore(tmp_path)), (verdicts, ())))
    assert [(step.error.value, step.rule) for step in found.errors] == errors
    assert [error.value for error in found.undecided] == undecided
