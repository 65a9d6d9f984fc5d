"""Calls as VISTA-R1 and its rivals write them (Lu et al., 2025, table 4; the released tools), by whole turns' texts.

A call is read by the dialect, finds its tool by any published name, and takes what it leaves out from the episode.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from PIL import Image

from saccade.dialects.vista import VistaDialect
from saccade.models.base import ToolSpec
from saccade.plugins.vista.endpoints import VlmTool
from saccade.plugins.vista.names import VISTA_TOOLS
from saccade.record.content import ToolCall
from saccade.record.trajectory import FinishReason
from saccade.tools.base import CheckedCall, Tool
from saccade.tools.context import ProblemKind, ToolContext, ToolResult
from saccade.tools.definition import NamedTool, Needs
from saccade.tools.registry import TOOLS, aliases, make_tool
from saccade.tools.toolbox import Toolbox


def test_there_are_26_and_no_two_are_one() -> None:
    assert len(VISTA_TOOLS) == 26
    assert len({(item.tool, *item.given.items()) for item in VISTA_TOOLS}) == 26
    assert len({(item.family, item.name) for item in VISTA_TOOLS}) == 26


@pytest.mark.parametrize("item", VISTA_TOOLS, ids=lambda item: f"{item.family}: {item.name}")
def test_each_has_a_tool_that_takes_what_is_given(item: NamedTool) -> None:
    tool = make_tool(item.tool)
    assert tool.name == item.tool
    properties = tool.definition.parameters["properties"]
    assert isinstance(properties, dict)
    for name, value in item.given.items():
        argument = properties[name]
        assert isinstance(argument, dict)
        assert value in str(argument)
        sample = {name: value, "question": "?"} if "question" in properties else {name: value}
        assert tool.mistakes(sample) == ()


def test_a_name_or_an_alias_means_one_tool() -> None:
    names = list(TOOLS.names())
    said = [*names, *(alias.name for name in names for alias in make_tool(name).aliases)]
    assert [name for name, count in Counter(said).items() if count > 1] == []
    assert {alias.name: name for name in names for alias in make_tool(name).aliases} == dict(aliases())
    assert not set(aliases()) & set(names)
    box = Toolbox.of()
    assert all(box.resolve(name) == aliases().get(name, name) for name in said)


QUESTION = "Find XZ.\nA. 10\nB. 34"
CONTEXT = ToolContext({"image_0": Image.new("RGB", (60, 40), "white")}, question=QUESTION)
SEVERAL = ToolContext({name: Image.new("RGB", (60, 40), "white") for name in ("image_0", "image_1")}, question=QUESTION)
LONG = r"Find m $\angle R$ from the diagram: a diamond-shaped quadrilateral with vertices R (left), Q (top)."
RIGHT: Any = [
    # What the model writes, the tool, what the tool reads, what is named in the record.
    ('<think>I will read.</think><tool_call>{"tool": "gllava", "task": "solve", "arguments": "' + LONG
     + '"}.<tool_call>', "gllava", {"task": "solve", "question": LONG}, ["argument_name"]),
    ('<think>a</think><tool_call>{"tool": "multimath", "task": "solve"}\n</tool_call>', "multimath",
     {"task": "solve", "question": QUESTION}, ["question_filled"]),
    ('<think>a</think><tool_call>{"tool": "multimath", "task": "Solve the problem", "arguments": {"image": "<image>", '
     '"question": "Find X Z."}}</tool_call>', "multimath",
     {"task": "solve", "question": "Find X Z.", "image": "image_0"}, ["task_name", "picture_filled"]),
    ('<think>a</think><tool_call>{"tool": "chartmoe", "task": "answer"}</tool_call>', "chartmoe",
     {"task": "answer", "question": QUESTION}, ["question_filled"]),
    ('<think>a</think><tool_call>{"tool": "chartmoe", "task": "to_table"}</tool_call>', "chartmoe",
     {"task": "to_table"}, ["question_filled"]),
    *(('<think>a</think><tool_call>{"tool": "chartmoe", "parameters": {"task": "' + task + '"}}</tool_call>',
       "chartmoe", {"task": task}, ["question_filled"])
      for task in ("extract_data", "describe", "summarize", "analyze", "compare", "trend", "title")),
    ('<think>a</think><tool_call>{"tool": "diagramformalizer", "parameters": {"problem": "Find x.", "task": "solve"}}'
     "</tool_call>", "diagram_formalizer", {"task": "solve", "question": "Find x."}, ["argument_name"]),
    ('<think>a</think><tool_call>{"tool": "gllava", "parameters": {"problem": "Find x.", "task": "analyze"}}'
     "</tool_call>", "gllava", {"task": "analyze", "question": "Find x."}, ["argument_name"]),
    ('<think>a</think><tool_call>{"tool": "multimath_server", "parameters": {"question": "Find x.", "task": '
     '"explain"}}</tool_call>', "multimath", {"task": "explain", "question": "Find x."}, []),
    ('<think>a</think><tool_call>{"name": "multimath", "arguments": {"query": "Find x."}}</tool_call>', "multimath",
     {"question": "Find x."}, ["argument_name"]),
    ('<think>a</think><tool_call>{"tool": "multimath", "question": ""}</tool_call>', "multimath",
     {"question": QUESTION}, ["question_filled"]),
    (r'<think>a</think><tool_call>{"tool": "multimath", "question": "Is \\(\frac{1}{2}\) \"half\" of $\angle$?"}'
     "</tool_call>", "multimath", {"question": r'Is \(\frac{1}{2}\) "half" of $\angle$?'}, []),
    ('<think>a</think><tool_call>{"tool": "multimath", "question": null}</tool_call>', "multimath",
     {"question": QUESTION}, ["question_filled"]),
    ('<think>a</think><tool_call>{"tool": "goal_cdl", "task": "parse"}</tool_call>', "goal_cdl",
     {"text": QUESTION}, ["question_filled"]),
    ('<think>a</think><tool_call>{"tool": "text_cdl", "problem": "AB = 5."}</tool_call>', "text_cdl",
     {"text": "AB = 5."}, ["argument_name"]),
    ('<think>a</think><tool_call>{"tool": "groundingdino", "arguments": "a red cup"}</tool_call>', "grounding_dino",
     {"caption": "a red cup"}, ["argument_name"]),
    ('<think>a</think><tool_call>{"tool": "easyocr", "task": "detect_and_recognize"}</tool_call>', "ocr", {}, []),
]  # fmt: skip


def called(text: str) -> tuple[ToolCall, Tool[Any, Any], Any]:
    """The call in a turn of the dialect that offers every tool, its tool, and its alias."""
    tools = tuple(ToolSpec(name, "", {"properties": {}}) for name in TOOLS.names())
    call = VistaDialect(tools=tools).parse(text, FinishReason.STOP)
    assert isinstance(call, ToolCall), call
    name = Toolbox(make_tool(name) for name in TOOLS.names()).resolve(call.name)
    assert name is not None, call.name
    tool = make_tool(name)
    tool.needs = Needs()
    return call, tool, call.name


@pytest.mark.parametrize(("text", "name", "read", "repairs"), RIGHT)
def test_calls_that_the_papers_tools_take(text: str, name: str, read: dict[str, object], repairs: list[str]) -> None:
    call, tool, alias = called(text)
    checked = tool.checked(dict(call.arguments), CONTEXT, alias=alias)
    assert isinstance(checked, CheckedCall), checked
    assert tool.name == name
    assert {key: getattr(checked.arguments, key) for key in read} == read
    assert [repair.name for repair in checked.repairs] == repairs
    assert tool.mistakes(dict(call.arguments), alias=alias) == (), "and the protocol of errors counts none"


WRONG: Any = [
    ('{"tool": "multimath", "task": "solve_the_problem", "arguments": {"image_url": "<image_url>", "data": '
     '{"image/png": "iVBORw0KGgo"}}}', ProblemKind.ARGUMENT_NAME, "no argument 'data'"),
    ('{"tool": "multimath", "task": "guess"}', ProblemKind.ARGUMENT_FORMAT, "'solve', 'analyze' or 'explain'"),
    ('{"tool": "multimath", "question": "a", "problem": "b"}', ProblemKind.ARGUMENT_NAME, "given twice"),
    ('{"tool": "multimath", "problem": "b", "question": "a"}', ProblemKind.ARGUMENT_NAME, "given twice"),
    ('{"tool": "multimath", "questoin": "a"}', ProblemKind.ARGUMENT_NAME, "Did you mean 'question'"),
    ('{"tool": "multimath", "question": 7}', ProblemKind.ARGUMENT_FORMAT, "question"),
    ('{"tool": "multimath", "arguments": "a", "question": "b"}', ProblemKind.ARGUMENT_NAME, "given twice"),
    ('{"tool": "chartmoe", "question": "a"}', ProblemKind.SCHEMA, "'task' is missing"),
    ('{"tool": "grounding_dino"}', ProblemKind.SCHEMA, "'caption' is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kind", "says"), WRONG)
def test_calls_that_are_wrong_are_refused_with_what_to_do(body: str, kind: ProblemKind, says: str) -> None:
    call, tool, alias = called(f"<think>a</think><tool_call>{body}</tool_call>")
    refused = tool.checked(dict(call.arguments), CONTEXT, alias=alias)
    assert isinstance(refused, ToolResult)
    assert refused.problem is not None
    assert refused.problem.kind is kind
    assert says in refused.text
    assert tool.mistakes(dict(call.arguments), alias=alias)


def test_which_of_several_pictures_was_taken_is_in_the_record() -> None:
    _, tool, _ = called('<think>a</think><tool_call>{"tool": "multimath"}</tool_call>')
    (_, picture) = checked_repairs(tool, {}, SEVERAL)
    assert (picture.name, picture.note) == ("picture_filled", "image was left out: image_0, the first of 2")
    assert [repair.name for repair in checked_repairs(tool, {"image": 2}, SEVERAL)] == ["question_filled"]


def test_an_unknown_picture_is_refused_by_the_names_that_there_are() -> None:
    crop = make_tool("crop")
    result = crop.call({"image": "data:image/png;base64,iVBORw0KGgo", "box": [0, 0, 9, 9]}, SEVERAL)
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.UNKNOWN_IMAGE
    assert "image_0, image_1" in result.text


def test_without_a_question_nothing_is_filled_in() -> None:
    tool = make_tool("multimath")
    tool.needs = Needs()
    assert isinstance(tool, VlmTool)
    checked = tool.checked({}, ToolContext({"a": Image.new("RGB", (9, 9))}))
    assert isinstance(checked, CheckedCall)
    assert (checked.arguments.question, checked.repairs) == ("", ())


def checked_repairs(tool: Tool[Any, Any], arguments: object, context: ToolContext) -> Any:
    checked = tool.checked(arguments, context)
    assert isinstance(checked, CheckedCall)
    return checked.repairs
