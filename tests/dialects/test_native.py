"""`native`: what is an action, why a text holds none, and what a model is shown of a call."""

from __future__ import annotations

import json

import pytest
from tests.dialects.cases import CROP, ERROR, PLOT, ok, plain

from saccade.dialects.native import PRESETS
from saccade.record.content import Answer, Code, ParseError, ToolCall
from saccade.record.execution import Execution, Status
from saccade.record.trajectory import FinishReason

NATIVE = PRESETS[""]
NAMED = '<tool_call id="x">{"name": "zoom", "arguments": {"a": 1}}</tool_call>'


def native_line(name: str = "zoom", **arguments: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


@pytest.mark.parametrize(
    ("text", "finish", "action"),
    [
        (native_line("python", code="1"), FinishReason.STOP, Code(code="1")),
        (f"Hm.\n{native_line(a=1)}", FinishReason.TOOL_CALL, ToolCall(name="zoom", arguments={"a": 1})),
        (
            f"{NAMED}\n{native_line(a=2)}",  # the first of several is the action
            FinishReason.STOP,
            ToolCall(name="zoom", arguments={"a": 1}, call_id="x"),
        ),
        (f"{native_line(a=1)}\n\n{native_line(a=2)}", FinishReason.STOP, ToolCall(name="zoom", arguments={"a": 2})),
        (f"{native_line(a=1)}\n<answer>b</answer>", FinishReason.STOP, Answer(text="b")),
        ("<answer>a</answer> no, <answer> b </answer>", FinishReason.STOP, Answer(text="b")),
        ("<answer>a</answer> no, <answer>b", FinishReason.STOP, Answer(text="a")),
        ("<answer>a</answer> and", FinishReason.LENGTH, Answer(text="a")),
        (
            native_line("zoom", a=1).replace("name", "tool"),
            FinishReason.STOP,
            ToolCall(name="zoom", arguments={"a": 1}),
        ),
        (" It is red.\n", FinishReason.STOP, Answer(text="It is red.")),
        ("I call python(x) never.", FinishReason.STOP, Answer(text="I call python(x) never.")),
    ],
)
def test_native_actions(text: str, finish: FinishReason, action: Code | ToolCall | Answer) -> None:
    assert NATIVE.parse(text, finish) == action


@pytest.mark.parametrize(
    ("text", "finish", "reason"),
    [
        (native_line("python", code="1"), FinishReason.LENGTH, "The call was cut off"),
        (native_line("python", code=" "), FinishReason.STOP, "The function python takes one argument"),
        (native_line("python", code=3), FinishReason.STOP, "The function python takes one argument"),
        (native_line("python", code="1", more=2), FinishReason.STOP, "The function python takes one argument"),
        (native_line("python"), FinishReason.STOP, "The function python takes one argument"),
        ("<tool_call>{}</tool_call>", FinishReason.STOP, "The tool call names no tool"),
        ("Hm.\n<tool_call>{", FinishReason.STOP, "The arguments of the call are no JSON object."),
        ("python({'code': 1})", FinishReason.STOP, "The function python takes one argument"),
        ('python({"code": "1', FinishReason.STOP, "The arguments of the call are no JSON object."),
        ("It is red", FinishReason.LENGTH, "The text was cut off by the token limit before"),
        ("It is <answer>red", FinishReason.STOP, "There is neither a call nor an answer"),
        (" \n", FinishReason.STOP, "There is neither a call nor an answer"),
        ("<answer>a</answer>", FinishReason.FILTERED, "The provider withheld the text."),
    ],
)
def test_native_reasons(text: str, finish: FinishReason, reason: str) -> None:
    found = NATIVE.parse(text, finish)
    assert isinstance(found, ParseError)
    assert found.reason.startswith(reason)


def native_shown(execution: Execution, pictures: int = 0) -> list[object]:
    return plain(NATIVE.observe(execution, pictures).message)["parts"]  # type: ignore[no-any-return]


def test_what_native_shows_of_a_call() -> None:
    assert native_shown(ok()) == ["(nothing was printed or shown)\n"]
    assert native_shown(ok("a\n\n", value="3")) == ["a\n\n3\n"]
    assert native_shown(ok("", PLOT)) == ["image_0: ", {"image": "plot"}, "\n"]
    assert native_shown(ok("a\n", PLOT, CROP), 2) == [
        "a\nimage_2: ",
        {"image": "plot"},
        "\nimage_3: ",
        {"image": "crop"},
        "\n",
    ]
    assert native_shown(ok("</answer>")) == ["<\\/answer>\n"]
    assert native_shown(ERROR) == [f"before\n{ERROR.traceback}\n"]
    silent = Execution(status=Status.TIMEOUT)
    assert native_shown(silent) == ["The call ended as timeout.\n"]
    observed = NATIVE.observe(ok("", PLOT, CROP), 2)
    assert (observed.bindings, observed.pictures) == ({"image_2": PLOT, "image_3": CROP}, 4)


def test_what_is_no_action_of_a_model_cannot_be_said() -> None:
    with pytest.raises(ValueError, match=r"native cannot say an action of kind 'parse_error'"):
        next(iter(PRESETS.values())).write(ParseError(reason="nothing was said"))
