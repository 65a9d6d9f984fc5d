"""Calls that a server left in the text: every family's form is read, and none of them is ever an answer."""

from __future__ import annotations

import html
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.dialects.base import Fault
from saccade.dialects.direct import PRESETS as DIRECT
from saccade.dialects.left_calls import FORMS, left_call, mended_json
from saccade.dialects.native import PRESETS, PYTHON
from saccade.models.base import ToolSpec
from saccade.record.content import Answer, Code, ParseError, ToolCall
from saccade.record.trajectory import FinishReason

ZOOM = ToolSpec(
    "zoom",
    "Zooms.",
    {
        "type": "object",
        "properties": {"box": {"type": "array"}, "label": {"type": "string"}, "scale": {"type": "number"}},
    },
)
NATIVE = PRESETS[""].with_tools((ZOOM,))
UNKNOWN = "and the parser of the model's family"
CODE = 'a = {"k": [1, 2]}\nprint(a["k"], \'x\')'
JSON = json.dumps({"name": "python", "arguments": {"code": CODE}})
LLAMA = json.dumps({"name": "python", "parameters": {"code": CODE}})
ARGS = json.dumps({"code": CODE})

FAMILIES = {
    "hermes": ("hermes", f"<tool_call>\n{JSON}\n</tool_call>"),
    "hermes on one line": ("hermes", f"<tool_call>{JSON}</tool_call>"),
    "hermes after words": ("hermes", f"I look closer.\n\n<tool_call>\n{JSON}\n</tool_call>"),
    "hermes before words": ("hermes", f"<tool_call>\n{JSON}\n</tool_call>\nNow I wait for what comes back."),
    "hermes unclosed": ("hermes", f"<tool_call>\n{JSON}"),
    "hermes with a bracket too few": ("hermes", f"<tool_call>\n{JSON[:-1]}\n</tool_call>"),
    "hermes with two brackets too few": ("hermes", f"<tool_call>\n{JSON[:-2]}"),
    "hermes fenced": ("hermes", f"```json\n<tool_call>\n{JSON}\n</tool_call>\n```"),
    "fenced in hermes": ("hermes", f"<tool_call>\n```json\n{JSON}\n```\n</tool_call>"),
    "hermes, parameters": ("hermes", f"<tool_call>{LLAMA}</tool_call>"),
    "hermes, arguments as text": (
        "hermes",
        "<tool_call>\n" + json.dumps({"name": "python", "arguments": ARGS}) + "\n</tool_call>",
    ),
    "hermes, a list": ("hermes", f"<tool_call>\n[{JSON}]\n</tool_call>"),
    "hermes in an API's wrapping": (
        "hermes",
        '<tool_call>{"id": "c1", "type": "function", "function": ' + JSON + "}</tool_call>",
    ),
    "hermes with line breaks in the text": (
        "hermes",
        '<tool_call>{"name": "python", "arguments": {"code": "' + CODE.replace('"', '\\"') + '"}}</tool_call>',
    ),
    "hermes, single quotes": (
        "hermes",
        "<tool_call>{'name': 'python', 'arguments': {'code': "
        + "'a = {\"k\": [1, 2]}\\nprint(a[\"k\"], \\'x\\')'"
        + "}}</tool_call>",
    ),
    "hermes, trailing commas": ("hermes", "<tool_call>" + JSON[:-2] + ",},}</tool_call>"),
    "hermes after a thought": (
        "hermes",
        f"<think>A <tool_call> helps.</think>\n<tool_call>\n{JSON}\n</tool_call>",
    ),
    "hermes in a thought alone": ("hermes", f"<think>I call <tool_call>\n{JSON}\n</tool_call></think>"),
    "tools tags": ("hermes", f"<tools>\n{JSON}\n</tools>"),
    "qwen3-coder": (
        "qwen3_coder",
        f"<tool_call>\n<function=python>\n<parameter=code>\n{CODE}\n</parameter>\n</function>\n</tool_call>",
    ),
    "qwen3-coder without the outer tag": (
        "qwen3_coder",
        f"<function=python>\n<parameter=code>\n{CODE}\n</parameter>\n</function>\n</tool_call>",
    ),
    "qwen3-coder unclosed": ("qwen3_coder", f"<tool_call>\n<function=python>\n<parameter=code>\n{CODE}"),
    "qwen3-coder on one line": (
        "qwen3_coder",
        f"<function=python><parameter=code>{CODE}</parameter></function>",
    ),
    "llama 3.1, own form": ("qwen3_coder", f"<function=python>{ARGS}</function>"),
    "seed": (
        "seed_oss",
        f"<seed:tool_call>\n<function=python>\n<parameter=code>{CODE}</parameter>\n</function>\n</seed:tool_call>",
    ),
    "llama 3 with the mark": ("llama3_json", f"<|python_tag|>{LLAMA}<|eom_id|>"),
    "llama 3 code": ("llama3_json", f"<|python_tag|>{CODE}"),
    "llama 3 without a mark": ("llama3_json", LLAMA),
    "llama 3 with type": ("llama3_json", '{"type": "function", ' + LLAMA[1:]),
    "llama 3 fenced": ("llama3_json", f"```json\n{LLAMA}\n```"),
    "llama 3 after words": ("llama3_json", f"I call the function:\n\n{LLAMA}"),
    "llama 3, function": ("llama3_json", LLAMA.replace('"name"', '"function"')),
    "llama 4": ("llama4_pythonic", f"<|python_start|>[python(code={CODE!r})]<|python_end|>"),
    "pythonic": ("pythonic", f"[python(code={CODE!r})]"),
    "gemma 3": ("pythonic", f"```tool_code\npython(code={CODE!r})\n```"),
    "gemma 3 printed": ("pythonic", f"```tool_code\nprint(python(code={CODE!r}))\n```"),
    "mistral": ("mistral", f"[TOOL_CALLS][{JSON}]"),
    "mistral with blanks": ("mistral", f"[TOOL_CALLS] [{JSON}]</s>"),
    "mistral v11": ("mistral", f"[TOOL_CALLS]python{ARGS}"),
    "mistral v13": ("mistral", f"[TOOL_CALLS]python[CALL_ID]aB3xY9kLm[ARGS]{ARGS}"),
    "mistral args": ("mistral", f"[TOOL_CALLS]python[ARGS]{ARGS}"),
    "glm": (
        "glm45",
        f"<tool_call>python\n<arg_key>code</arg_key>\n<arg_value>{CODE}</arg_value>\n</tool_call>",
    ),
    "glm unclosed": ("glm45", f"<tool_call>python\n<arg_key>code</arg_key>\n<arg_value>{CODE}"),
    "glm 4.7": ("glm45", f"<tool_call>python<arg_key>code</arg_key><arg_value>{CODE}</arg_value></tool_call>"),
    "deepseek v3": (
        "deepseek_v3",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>python\n```json\n"
        f"{ARGS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
    ),
    "deepseek v3.1": (
        "deepseek_v31",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>python<｜tool▁sep｜>{ARGS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    "deepseek v3 in plain letters": (
        "deepseek_v3",
        f"<|tool▁calls▁begin|><|tool▁call▁begin|>function<|tool▁sep|>python\n```json\n{ARGS}\n```<|tool▁call▁end|>",
    ),
    "deepseek v3.1 without its end": ("deepseek_v31", f"<｜tool▁call▁begin｜>python<｜tool▁sep｜>{ARGS}"),
    "longcat": ("longcat", f"<longcat_tool_call>\n{JSON}\n</longcat_tool_call>"),
    "deepseek v3.2": (
        "deepseek_v32",
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="python">\n<｜DSML｜parameter name="code" string="true">'
        f"{CODE}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ),
    "kimi k2": (
        "kimi_k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.python:0<|tool_call_argument_begin|>"
        f"{ARGS}<|tool_call_end|><|tool_calls_section_end|>",
    ),
    "minimax m1": ("minimax", f"<tool_calls>\n{JSON}\n</tool_calls>"),
    "minimax m2": (
        "minimax_m2",
        f'<minimax:tool_call>\n<invoke name="python">\n<parameter name="code">{CODE}</parameter>\n</invoke>\n'
        "</minimax:tool_call>",
    ),
    "step 3": (
        "step3",
        '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="python">'
        f'<steptml:parameter name="code">{CODE}</steptml:parameter></steptml:invoke><｜tool_call_end｜>',
    ),
    "internlm": ("internlm", f"<|action_start|><|plugin|>\n{LLAMA}<|action_end|>"),
    "granite": ("granite", f"<|tool_call|>[{JSON}]"),
    "phi": ("phi4_mini_json", f"functools[{JSON}]"),
    "gemma 4": ("gemma4", f'<|tool_call>call:python{{code:<|"|>{CODE}<|"|>}}<tool_call|>'),
    "function gemma": (
        "functiongemma",
        f"<start_function_call>call:python{{code:<escape>{CODE}<escape>}}<end_function_call>",
    ),
    "olmo 3": ("minimax_m2", f"<function_calls>python(code={CODE!r})</function_calls>"),
    "hunyuan": (
        "minimax",
        f"<tool_calls><tool_call>python<tool_sep>\n<arg_key>code</arg_key>\n<arg_value>{CODE}</arg_value></tool_call></tool_calls>",
    ),
    "lfm 2": (UNKNOWN, f"<|tool_call_start|>[python(code={CODE!r})]<|tool_call_end|>"),
    "command a": (
        UNKNOWN,
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "python", "parameters": ' + ARGS + "}]<|END_ACTION|>",
    ),
    "nemotron": (UNKNOWN, f"<TOOLCALL>[{JSON}]</TOOLCALL>"),
    "glaive": (UNKNOWN, f"<functioncall> {JSON}"),
    "capitals": (UNKNOWN, f"<TOOL_CALL>{JSON}</TOOL_CALL>"),
    "tool_use": (UNKNOWN, f"<tool_use>{JSON}</tool_use>"),
    "apertus": (UNKNOWN, '<|tools_prefix|>[{"python": ' + ARGS + "}]<|tools_suffix|>"),
    "name in the tag": ("hermes", f"<tool_call=python>{ARGS}</tool_call>"),
    "name as an attribute": (UNKNOWN, f'<function name="python"><param name="code">{CODE}</param></function>'),
    "deepseek v3.2 in plain letters": (
        "deepseek_v32",
        f'<|DSML|invoke name="python"><|DSML|parameter name="code">{CODE}</|DSML|parameter></|DSML|invoke>',
    ),
    "qwen-agent": (UNKNOWN, f"✿FUNCTION✿: python\n✿ARGS✿: {ARGS}\n✿RESULT✿"),
    "escaped as html": ("hermes", html.escape(f"<tool_call>{JSON}</tool_call>")),
    "gpt-oss": (
        "openai",
        f"<|channel|>commentary to=functions.python <|constrain|>json<|message|>{ARGS}<|call|>",
    ),
}


@pytest.mark.parametrize(("parser", "text"), FAMILIES.values(), ids=FAMILIES)
def test_the_call_is_made(parser: str, text: str) -> None:
    assert NATIVE.parse(text, FinishReason.STOP) == Code(code=CODE)
    found = left_call(text, NATIVE.functions)
    assert found is not None
    assert not found.several
    assert f"--enable-auto-tool-choice --tool-call-parser {parser}" in found.note


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"tool_name": "python", "tool_input": {"code": CODE}}),
        json.dumps({"action": "python", "action_input": {"code": CODE}}),
        json.dumps({"type": "tool_use", "id": "x", "name": "python", "input": {"code": CODE}}),
        json.dumps({"toolUse": {"toolUseId": "x", "name": "python", "input": {"code": CODE}}}),
        json.dumps(
            {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "python", "arguments": ARGS}}]}
        ),
        json.dumps({"recipient_name": "functions.python", "parameters": {"code": CODE}}),
        '{"python": ' + ARGS + "}",
        f"**Tool call:** `{JSON}`",
        f"Thought: I look.\nAction: python\nAction Input: {ARGS}\nObservation:",
        f"python\n{ARGS}",
        f"python(code={CODE!r})",
        f"[python({CODE!r})]",
        f"```tool_code\nprint(default_api.python(code={CODE!r}))\n```",
        f"python({{'code': {CODE!r},}})",
        f"python(```json\n{ARGS}\n```)",
        'python({"code": "' + CODE.replace('"', '\\"') + '"}</tool_call>)',
    ],
)
def test_a_call_without_a_mark_is_made(text: str) -> None:
    assert NATIVE.parse(text, FinishReason.STOP) == Code(code=CODE)


@pytest.mark.parametrize("text", [text for _, text in FAMILIES.values()], ids=FAMILIES)
def test_it_is_no_answer_without_functions_either(text: str) -> None:
    if text.startswith(("[python(", "I call the function:")):
        return  # no mark: without a function of that name this is text as any other
    assert isinstance(DIRECT["reason"].parse(text, FinishReason.STOP), ParseError)


@pytest.mark.parametrize("text", [text for _, text in FAMILIES.values()], ids=FAMILIES)
def test_a_call_that_the_token_limit_cut_is_not_made(text: str) -> None:
    found = NATIVE.parse(text, FinishReason.LENGTH)
    assert isinstance(found, ParseError)
    assert "cut off" in found.reason


BOX = {"box": [1, 2.5, 3, 4], "label": "12", "scale": 2}


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>\n<function=zoom>\n<parameter=box>\n[1, 2.5, 3, 4]\n</parameter>\n<parameter=label>\n12\n"
        "</parameter>\n<parameter=scale>\n2\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>zoom\n<arg_key>box</arg_key>\n<arg_value>[1, 2.5, 3, 4]</arg_value>\n<arg_key>label</arg_key>\n"
        "<arg_value>12</arg_value>\n<arg_key>scale</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
        '<minimax:tool_call>\n<invoke name="zoom">\n<parameter name="box">[1, 2.5, 3, 4]</parameter>\n'
        '<parameter name="label">12</parameter>\n<parameter name="scale">2</parameter>\n</invoke>',
        "[zoom(box=[1, 2.5, 3, 4], label='12', scale=2)]",
        "<tool_call>{'name': 'zoom', 'arguments': {'box': [1, 2.5, 3, 4,], 'label': '12', 'scale': 2,},}</tool_call>",
    ],
)
def test_values_have_the_types_of_the_schema(text: str) -> None:
    assert NATIVE.parse(text, FinishReason.STOP) == ToolCall(name="zoom", arguments=BOX)


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>\n{JSON}\n</tool_call>\n<tool_call>\n{JSON}\n</tool_call>",
        f"<tool_call>\n{JSON}\n{JSON}\n</tool_call>",
        f"[TOOL_CALLS][{JSON}, {JSON}]",
        f"{LLAMA}; {LLAMA}",
        "<tool_call><function=python><parameter=code>1</parameter></function></tool_call>"
        "<tool_call><function=python><parameter=code>2</parameter></function></tool_call>",
    ],
)
def test_the_first_of_several_is_made_and_the_others_are_named(text: str) -> None:
    assert isinstance(NATIVE.parse(text, FinishReason.STOP), Code)
    found = left_call(text, NATIVE.functions)
    assert found is not None
    assert found.several


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>",
        "<tool_call>\n{",
        '<tool_call>\n{"name": "python", "arguments": {"code": "print(1)',
        "<tool_call>print(1)</tool_call>",
        "<tool_call>{}</tool_call>",
        "<tool_call>[]</tool_call>",
        '<tool_call>{"name": "python", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "python", "arguments": {"cell": "1"}}</tool_call>',
        "<function=python>\nprint(1)\n</function>",
        "[TOOL_CALLS]",
        "[TOOL_CALLS]python",
        "<|python_tag|>",
        '<|tool_call>call:python{code:<|"|>1<tool_call|>',
        "<｜tool▁calls▁begin｜>",
        "<minimax:tool_call>",
        "functools[{]",
        "It is blue. <tool_call> {'name': </tool_call>",
    ],
)
def test_what_cannot_be_read_is_corrected(text: str) -> None:
    found = NATIVE.parse(text, FinishReason.STOP)
    assert isinstance(found, ParseError)
    assert found.reason
    assert isinstance(DIRECT["short"].parse(text, FinishReason.STOP), ParseError)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Bob", "age": 3}',
        '{"answer": "B"}',
        '```json\n[{"bbox_2d": [1, 2, 3, 4], "label": "cat"}]\n```',
        "[1, 2, 3, 4]",
        "It is a function=python, and the tool_call is red.",
        "The name is [TOOL CALLS].",
        "<think>I could write <tool_call>{}</tool_call></think>\nIt is blue.",
        "f(python)(x)",
        '{"name": "Bob", "arguments": "none"}',
        "Action: the man is running.",
        "A <tool> tag and an <action>run</action> are in the picture.",
        "python\n3.11",
        "&lt;answer&gt; is what the sign says.",
    ],
)
def test_other_text_stays_an_answer(text: str) -> None:
    assert NATIVE.parse(text, FinishReason.STOP) == Answer(text=text)


def test_an_answer_in_its_tags_after_a_call_stays_one() -> None:
    text = f"<tool_call>\n{JSON}\n</tool_call>\n<answer>B</answer>"
    assert NATIVE.parse(text, FinishReason.STOP) == Answer(text="B")
    assert DIRECT["reason"].parse(text, FinishReason.STOP) == Answer(text="B")
    turned = f"<answer>B</answer> or better:\n<tool_call>\n{JSON}\n</tool_call>"
    assert NATIVE.parse(turned, FinishReason.STOP) == Code(code=CODE)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{'a': 'it''s'}", None),
        ("{'a': True, 'b': None, \"c\": false}", {"a": True, "b": None, "c": False}),
        (r'{"a": "\d+ \u00e9 \n \x41 \\d"}', {"a": "\\d+ é \n \\x41 \\d"}),
        (r"""{'a': 'say "hi" and \'ho\''}""", {"a": "say \"hi\" and 'ho'"}),
        ('{"a": """x\n"y" z"""}', {"a": 'x\n"y" z'}),
        ('{"a": [1, 2, ], }', {"a": [1, 2]}),
        ('{"a": [1, {"b": 2', {"a": [1, {"b": 2}]}),
        ('{"a": "open', None),
        ("{'a': 1]", None),
        ("nothing", None),
        ("", None),
        ("{" * 500, None),
    ],
)
def test_json_is_mended_or_not_read(text: str, wanted: object) -> None:
    found = mended_json(text)
    assert (None if found is None else found[0]) == wanted


@given(
    st.lists(
        st.sampled_from(
            [
                *"{}[]'\",:\\<>| \n",
                "<tool_call>",
                "name",
                "</think>",
                "python(",
                "```",
                *(
                    "[TOOL_CALLS]",
                    "<function=python>",
                    "<parameter=code>",
                    "<arg_key>",
                    "<|python_tag|>",
                    "<｜tool▁calls▁begin｜>",
                ),
            ]
        ),
        max_size=30,
    ).map("".join)
)
def test_any_text_gives_an_action(text: str) -> None:
    found = left_call(text, NATIVE.functions)
    assert found is None or isinstance(found.call, ToolCall | Fault)
    NATIVE.parse(text, FinishReason.STOP)


@given(
    st.dictionaries(
        st.text(max_size=5), st.one_of(st.text(), st.integers(), st.lists(st.text(), max_size=3)), max_size=4
    )
)
def test_good_json_is_read_as_it_is(data: dict[str, object]) -> None:
    assert mended_json(json.dumps(data)) == (data, "")
    assert mended_json(json.dumps(data, ensure_ascii=False)[:-1] + ",}") in (
        (data, ""),
        None if not data else (data, ""),
    )


@pytest.mark.parametrize(
    "text",
    [
        "[TOOL_CALLS]python" + "<|x|>json" * 5000,
        "[TOOL_CALLS]python" + "[CALL_ID]json" * 5000,
        "[TOOL_CALLS]python" + "```json" * 5000,
        '{"name": "\n' * 20_000,
        "<tool_call>" * 20_000,
        "<tool_call>{" + '"""' * 20_000,
        "<tool_call>{" + "'\\'" * 20_000,
        "<tool_call>" + "[" * 50_000,
        "<minimax:tool_call>" + "<a>" * 20_000,
        "<tool_call>x" + "<arg_key>a" * 10_000,
        "<function=python>" + "<parameter=code>" * 10_000,
        "<function=python>" + "<parameter=" * 10_000,
        '<invoke name="python">' + '<parameter name="code" ' * 10_000,
    ],
    ids=range(13),
)
def test_long_texts_that_lead_nowhere_end(text: str) -> None:
    assert not isinstance(NATIVE.parse(text, FinishReason.STOP), Answer) or text.startswith("{")


def test_each_form_names_its_parser_once() -> None:
    assert len({form.family for form in FORMS}) == len(FORMS)
    assert PYTHON in NATIVE.functions
