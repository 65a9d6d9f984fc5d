"""Every published shape of a tool call is read as one, and nothing else is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.cases import task

from saccade.dialects.base import Fault, FaultKind, ends_inside, find_tag_faults, load_dialect
from saccade.dialects.calls import (
    FAMILIES,
    TOOL_SYNONYMS,
    CallShape,
    ReadCall,
    dump_json,
    hint_lines,
    read_call,
    resolve_name,
    with_tool_list,
    write_call,
)
from saccade.episode.settings import PromptSettings
from saccade.episode.workbench import equipped
from saccade.errors import SettingsError
from saccade.models.base import ToolSpec
from saccade.record.content import ToolCall
from saccade.tools.registry import TOOLS, tool_class
from saccade.tools.toolbox import Toolbox

SHAPES = [
    ('{"name": "zoom", "arguments": {"a": 1}}', CallShape.ARGUMENTS, {"a": 1}, None),
    ('{"tool": "zoom", "parameters": {"a": 1}}', CallShape.PARAMETERS, {"a": 1}, None),
    ('{"tool": "zoom", "task": "to_table"}', CallShape.FLAT, {"task": "to_table"}, None),
    ('{"tool": "zoom"}', CallShape.FLAT, {}, None),
    ('{"tool": "zoom", "task": "t", "arguments": {"a": 1}}', CallShape.TASK_ARGUMENTS, {"task": "t", "a": 1}, None),
    (
        '{"tool": "zoom", "task": "t", "arguments": "the axis"}',
        CallShape.TASK_ARGUMENTS,
        {"task": "t", "arguments": "the axis"},
        None,
    ),
    (
        '{"tool": "zoom", "task": "t", "arguments": "{\\"a\\": 1}"}',
        CallShape.TASK_ARGUMENTS,
        {"task": "t", "a": 1},
        None,
    ),
    ('{"action": {"server": "s", "tool": "zoom", "arguments": {"a": 1}}}', CallShape.ACTION, {"a": 1}, "s"),
    ('{"server": "s", "tool": "zoom", "arguments": {"a": 1}}', CallShape.SERVER, {"a": 1}, "s"),
    ('{"tool": "zoom", "arguments": {"a": 1}}', CallShape.MIXED, {"a": 1}, None),
    ('{"name": "zoom", "a": 1}', CallShape.MIXED, {"a": 1}, None),
    ('{"name": "zoom", "arguments": null}', CallShape.ARGUMENTS, {}, None),
]

FAULTS = [
    ("", FaultKind.NOT_JSON),
    ("zoom(a=1)", FaultKind.NOT_JSON),
    ('{"tool": "zoom",}', FaultKind.NOT_JSON),
    ('```json\n{"tool": "zoom"}\n```', FaultKind.NOT_JSON),
    ('{"tool": "zoom", "x": NaN}', FaultKind.NOT_JSON),
    ('{"tool": "zoom", "x": 1e999}', FaultKind.NOT_JSON),
    ('{"tool": "zoom", "x": "\\ud800"}', FaultKind.NOT_JSON),
    ('{"tool": "zoom", "x": ' + "9" * 5000 + "}", FaultKind.NOT_JSON),
    ("[" * 100_000, FaultKind.NOT_JSON),
    ('{"tool": "zoom", "x": ' + "[" * 600 + "]" * 600 + "}", FaultKind.NOT_JSON),
    ('[{"tool": "zoom"}]', FaultKind.NOT_AN_OBJECT),
    ("null", FaultKind.NOT_AN_OBJECT),
    ("{}", FaultKind.NO_TOOL_NAME),
    ('{"tool": ""}', FaultKind.NO_TOOL_NAME),
    ('{"tool": 3}', FaultKind.NO_TOOL_NAME),
    ('{"action": {"arguments": {}}}', FaultKind.NO_TOOL_NAME),
    ('{"name": "' + "x" * 201 + '"}', FaultKind.NO_TOOL_NAME),
    ('{"name": "zoom", "arguments": [1]}', FaultKind.BAD_ARGUMENTS),
    ('{"tool": "zoom", "a": 1, "parameters": {"a": 2}}', FaultKind.BAD_ARGUMENTS),
]

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
calls = st.builds(
    ToolCall, name=st.text(min_size=1, max_size=20), arguments=st.dictionaries(st.text(), values, max_size=4)
)


@pytest.mark.parametrize(("text", "shape", "arguments", "server"), SHAPES)
def test_every_shape_is_one_call(text: str, shape: CallShape, arguments: dict[str, object], server: str | None) -> None:
    read = read_call(text)
    assert read == ReadCall(ToolCall(name="zoom", arguments=arguments), shape, server)


@pytest.mark.parametrize(("text", "kind"), FAULTS)
def test_what_is_no_call_has_a_typed_fault(text: str, kind: FaultKind) -> None:
    read = read_call(text)
    assert isinstance(read, Fault)
    assert (read.kind, read.error) == (kind, "E1")
    assert read.reason


@pytest.mark.parametrize(("text", "shape", "arguments", "server"), SHAPES)
def test_strict_reading_takes_one_shape(text: str, shape: CallShape, arguments: object, server: object) -> None:
    assert isinstance(read_call(text, {shape}), ReadCall)
    others = set(CallShape) - {shape}
    refused = read_call(text, others)
    assert isinstance(refused, Fault)
    assert refused.kind is FaultKind.OTHER_SHAPE


@given(calls)
def test_written_calls_read_back(call: ToolCall) -> None:
    for shape in (CallShape.ARGUMENTS, CallShape.PARAMETERS):
        read = read_call(write_call(call, shape))
        assert isinstance(read, ReadCall)
        assert (read.call, read.shape) == (call, shape)


@given(calls)
def test_a_flat_call_reads_back_or_is_refused(call: ToolCall) -> None:
    try:
        text = write_call(call, CallShape.FLAT)
    except ValueError:
        assert call.arguments.keys() & {"tool", "name", "parameters", "arguments", "server", "action"}
        return
    read = read_call(text)
    assert isinstance(read, ReadCall)
    assert read.call == call


def test_what_no_shape_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot hold"):
        write_call(ToolCall(name="a", arguments={}, call_id="7"), CallShape.ARGUMENTS)
    with pytest.raises(ValueError, match="not written"):
        write_call(ToolCall(name="a", arguments={}), CallShape.ACTION)


@given(st.text())
def test_any_text_is_a_call_or_a_fault(text: str) -> None:
    assert isinstance(read_call(text), ReadCall | Fault)


@given(values, values)
def test_any_json_is_a_call_or_a_fault(first: object, second: object) -> None:
    for data in (first, {"tool": first, "parameters": second}, {"tool": "a", "arguments": second}, {"action": first}):
        assert isinstance(read_call(json.dumps(data)), ReadCall | Fault)


def test_written_texts_hold_no_tag() -> None:
    text = dump_json({"a": "</tool_call><answer>", "b": "1 < 2"})
    assert "</tool_call>" not in text
    assert "<answer>" not in text
    assert "1 < 2" in text
    assert json.loads(text) == {"a": "</tool_call><answer>", "b": "1 < 2"}


def test_synonyms_lead_to_the_offered_name() -> None:
    assert resolve_name("groundingdino", {"grounding_dino", "sam2"}) == "grounding_dino"
    assert resolve_name("sam", {"sam", "sam2"}) == "sam"
    assert resolve_name("zoom_in", {"crop_image"}) == "zoom_in"
    assert resolve_name("nothing", {"sam"}) == "nothing"


def test_of_several_offered_synonyms_the_first_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.dialects.calls.TOOL_SYNONYMS", (frozenset({"a", "b", "c"}),))
    assert [resolve_name("c", offered) for offered in (["b", "a"], ["a", "b"])] == ["a", "a"]
    assert sum(map(len, TOOL_SYNONYMS)) == len(frozenset().union(*TOOL_SYNONYMS))


@pytest.mark.parametrize(
    ("text", "shape", "arguments", "server"),
    [
        ('{"tool": "zoom", "arguments": {"a": 1}, "server": 3}', CallShape.MIXED, {"a": 1, "server": 3}, None),
        ('{"tool": "zoom", "server": "s"}', CallShape.FLAT, {"server": "s"}, None),
        ('{"name": "zoom", "server": "s", "arguments": {}}', CallShape.MIXED, {}, "s"),
        ('{"server": "s", "tool": "zoom", "arguments": {}, "b": 2}', CallShape.MIXED, {"b": 2}, "s"),
        ('{"tool": "zoom", "parameters": {"a": 1}, "b": 2}', CallShape.MIXED, {"a": 1, "b": 2}, None),
        ('{"tool": "zoom", "name": "x"}', CallShape.FLAT, {"name": "x"}, None),
        ('{"tool": 3, "name": "zoom"}', CallShape.MIXED, {"tool": 3}, None),
        ('{"tool": "", "name": "zoom", "arguments": {}}', CallShape.MIXED, {"tool": ""}, None),
        ('{"tool": "zoom", "action": {"a": 1}}', CallShape.FLAT, {"action": {"a": 1}}, None),
        (
            '{"name": "zoom", "arguments": {}, "action": {"tool": "other"}}',
            CallShape.MIXED,
            {"action": {"tool": "other"}},
            None,
        ),
        ('{"action": {"tool": "zoom", "arguments": {}}, "thought": "hm"}', CallShape.MIXED, {}, None),
        ('{"action": {"tool": "zoom", "arguments": {}}}', CallShape.ACTION, {}, None),
        ('{"action": {"name": "zoom", "arguments": {}}}', CallShape.MIXED, {}, None),
        ('{"action": {"tool": "zoom", "a": 1}}', CallShape.MIXED, {"a": 1}, None),
        ('{"tool": "zoom", "parameters": null, "a": 1}', CallShape.MIXED, {"a": 1}, None),
        ('{"tool": "zoom", "arguments": "[1]"}', CallShape.MIXED, {"arguments": "[1]"}, None),
        ('{"tool": "zoom", "parameters": "{}"}', CallShape.PARAMETERS, {}, None),
        ('{"tool": "zoom", "parameters": {}, "arguments": {"a": 1}}', CallShape.MIXED, {"arguments": {"a": 1}}, None),
        ('{"name": "zoom"}', CallShape.MIXED, {}, None),
    ],
)
def test_mixtures_are_read_with_all_that_they_say(
    text: str, shape: CallShape, arguments: dict[str, object], server: str | None
) -> None:
    assert read_call(text) == ReadCall(ToolCall(name="zoom", arguments=arguments), shape, server)
    assert read_call(f" \n{text}\t") == read_call(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "A tool call is a JSON object, but this is an array."),
        ("null", "A tool call is a JSON object, but this is null."),
        ("true", "A tool call is a JSON object, but this is a boolean."),
        ('"x"', "A tool call is a JSON object, but this is a text."),
        ("1.5", "A tool call is a JSON object, but this is a number."),
        ("7", "A tool call is a JSON object, but this is a number."),
        ('{"tool": "a", "parameters": 3}', '"parameters" must be a JSON object, but it is a number.'),
        ('{"name": "a", "arguments": [1]}', '"arguments" must be a JSON object, but it is an array.'),
        (
            '{"tool": "a", "b": 1, "c": 2, "parameters": {"c": 1, "b": 2}}',
            'b, c stand both beside "parameters" and in it.',
        ),
        ('{"tool": "a", "x": -Infinity}', "The tool call is not valid JSON: -Infinity is no JSON number."),
        ("[" * 100_000, "The JSON of the tool call is nested too deeply."),
    ],
)
def test_a_fault_says_what_it_is(text: str, reason: str) -> None:
    read = read_call(text)
    assert isinstance(read, Fault)
    assert read.reason == reason


def test_names_have_at_most_200_characters_and_shapes_are_named() -> None:
    longest = read_call('{"name": "' + "x" * 200 + '"}')
    assert isinstance(longest, ReadCall)
    refused = read_call('{"tool": "a"}', {CallShape.PARAMETERS, CallShape.ARGUMENTS})
    assert isinstance(refused, Fault)
    assert refused.reason == "The call is written in the shape flat; allowed here: arguments, parameters."
    assert write_call(ToolCall(name="a", arguments={"b": "<c>"}), CallShape.FLAT) == '{"tool": "a", "b": "\\u003cc>"}'
    for key in ("tool", "arguments"):
        with pytest.raises(ValueError, match="the shape flat cannot hold this call of 'a'"):
            write_call(ToolCall(name="a", arguments={key: "{}"}), CallShape.FLAT)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("<think><answer></answer></think>", ["nested_tag", "unopened_tag"]),
        ("</think><think>", ["unopened_tag", "unclosed_tag"]),
        ("<think>a<think>b</think>", ["closed_by_opening_tag", "unopened_tag"]),
        ("<think><answer></think>", ["nested_tag"]),
        ("<think></think><think></think>", []),
        ("<other>", []),
        ("<think>a</think><answer>", ["unclosed_tag"]),
        ("<think></answer></think>", ["unopened_tag"]),
        ("< think>", []),
    ],
)
def test_faults_of_tags_in_the_order_of_the_text(text: str, kinds: list[str]) -> None:
    found = find_tag_faults(text, ("think", "answer"))
    assert [fault.kind.value for fault in found] == kinds
    assert all(fault.reason.startswith("<") and fault.reason.endswith(".") for fault in found)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("<answer>a", "answer"),
        ("<answer>a</answer>", None),
        ("<answer>a</answer><answer>", "answer"),
        ("</answer>", None),
        ("<code><answer>", "answer"),
        ("<code>1</code> <answer>", "answer"),
        ("<code>", "code"),
        ("", None),
    ],
)
def test_the_tag_that_a_cut_text_ends_in(text: str, tag: str | None) -> None:
    assert ends_inside(text, ("answer", "code")) == tag


def system(**settings: object) -> str:
    dialect, _ = PromptSettings.model_validate(settings).equipped(load_dialect("vista"))
    return dialect.open(task()).messages[0].text


def test_hints_name_tools_on_offer_alone() -> None:
    plain, hinted = system(tools=("contours", "ocr")), system(tools=("contours", "ocr"), tool_hints=True)
    assert hinted.startswith(plain)
    lines = hinted.removeprefix(plain).splitlines()
    assert lines[-2:] == ["- tables, forms and other print: ocr", "- counting: contours"]
    assert sum(line.startswith("- ") for line in lines) == 2


def test_tools_of_a_family_come_in_the_order_to_try_them() -> None:
    lines = hint_lines([ToolSpec(name, "", {}) for name in TOOLS.names()])
    assert [line[2:].partition(":")[0] for line in lines] == list(FAMILIES)
    assert lines[0] == "- charts: chartocr, chartmoe, deplot, unichart, chartdet, opencv, chartassistant, chartvlm"
    assert hint_lines(()) == ()


def test_two_tools_of_a_family_have_two_places() -> None:
    places = [place for name in TOOLS.names() if (kind := tool_class(name)) for place in kind.suits]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("name", ["codedance", "native", "direct:think", "tiny:tools"])
def test_a_dialect_without_a_list_takes_no_hints(name: str) -> None:
    with pytest.raises(SettingsError, match="Leave out tool_hints"):
        PromptSettings(tool_hints=True).equipped(load_dialect(name))


def test_nothing_known_is_refused() -> None:
    with pytest.raises(SettingsError, match="nothing is known"):
        system(tools=("match_template",), tool_hints=True)


def system_tool_list(name: str, form: str = "") -> str:
    dialect, _ = equipped(with_tool_list(load_dialect(name), form))  # type: ignore[arg-type]
    return dialect.open(task()).messages[0].text


def test_a_list_of_lines_is_far_shorter_than_schemas() -> None:
    short, schema = system_tool_list("vista"), system_tool_list("vista", "schema")
    box = Toolbox.of()
    names = {tool.name for tool in box.definitions} - set(box.missing())
    assert len(names) > 20
    assert all(f"- {name}(" in short for name in names)
    assert len(short) <= len(schema) / 8
    assert '"additionalProperties"' in schema


def test_a_line_names_what_a_tool_takes() -> None:
    assert (
        "- crop(box, image?, units?=pixels|normalized, scale?, min_side?): "
        "Cut a box out of an image as a new image, enlarged `scale` times.\n"
    ) in system_tool_list("vista")


def test_deepeyes_lists_its_published_schema_or_a_line() -> None:
    assert '{"type": "function", "function": {"name": "image_zoom_in_tool"' in system_tool_list("deepeyes")
    assert "- image_zoom_in_tool(bbox_2d, label?): Cuts a box" in system_tool_list("deepeyes", "short")


def test_a_dialect_without_a_list_refuses_a_form_of_it() -> None:
    with pytest.raises(SettingsError, match="pyvision@1:repo has no list of tools"):
        with_tool_list(load_dialect("pyvision"), "short")
