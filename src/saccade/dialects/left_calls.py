"""Calls of functions that a server left in the text, because it was started without a parser for them, or a wrong one.

Every family of models has a form of its own: `FORMS` names the mark by which each is known, and what makes a server
take such calls out of the text. `left_call` finds the first call and reads it, forgiving what models get wrong in JSON
(single quotes, trailing commas, line breaks in texts, brackets that are not closed). Nothing is evaluated.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from saccade.dialects.base import Fault, FaultKind
from saccade.dialects.calls import ReadCall, read_call
from saccade.dialects.text import fences
from saccade.models.base import ToolSpec
from saccade.record.base import clean_text
from saccade.record.content import ToolCall


@dataclass(frozen=True, slots=True)
class Form:
    """One way in which models write calls."""

    family: str
    mark: str
    """Regular expression of what begins a call, or several."""
    vllm: str
    """Name of the parser that vLLM has for it."""
    sglang: str = ""
    """The same of SGLang; empty for none."""


_DEEPSEEK: Final = r"<[｜|]tool[▁_]calls?[▁_]begin[｜|]>"
FORMS: Final = (
    Form("Qwen3-Coder", r"<tool_call>\s*<function=|<function=[\w.-]+>", "qwen3_coder", "qwen3_coder"),
    Form("Seed-OSS", r"<seed:tool_call>", "seed_oss"),
    Form("GLM", r"<tool_call>\s*[\w.-]+\s*(?=<arg_key>|</tool_call>)", "glm45", "glm45"),
    Form("Hermes", r"<tool_call\b[^>]*>|<function_call>|<tools>\s*(?=[{\[])", "hermes", "qwen25"),
    Form("Llama 3", r"<\|python_tag\|>", "llama3_json", "llama3"),
    Form("Llama 4", r"<\|python_start\|>", "llama4_pythonic", "pythonic"),
    Form("Mistral", r"\[TOOL_CALLS\]", "mistral", "mistral"),
    Form("Step3", r"<｜tool_calls?_begin｜>|<steptml:", "step3", "step3"),
    Form("Kimi", r"<\|tool_calls?_(?:section_)?begin\|>", "kimi_k2", "kimi_k2"),
    Form("DeepSeek V3", _DEEPSEEK + rf"(?=\s*(?:{_DEEPSEEK}\s*)?function\b)", "deepseek_v3", "deepseekv3"),
    Form("DeepSeek V3.1", _DEEPSEEK, "deepseek_v31", "deepseekv31"),
    Form("DeepSeek V3.2", r"<｜DSML｜", "deepseek_v32", "deepseekv32"),
    Form("MiniMax", r"<minimax:tool_call>|<function_calls>|<invoke name=", "minimax_m2", "minimax-m2"),
    Form("MiniMax M1", r"<tool_calls>", "minimax"),
    Form("InternLM", r"<\|action_start\|>", "internlm"),
    Form("LongCat", r"<longcat_tool_call>", "longcat"),
    Form("Granite", r"<\|tool_call\|>", "granite"),
    Form("Gemma 4", r"<\|tool_call>", "gemma4"),
    Form("Phi-4-mini", r"\bfunctools\[(?=\s*\{)", "phi4_mini_json"),
    Form("gpt-oss", r"<\|channel\|>\w+ to=|<\|start\|>assistant to=|\bto=functions\.", "openai", "gpt-oss"),
    Form("Gemma 3", r"```tool_code\b", "pythonic", "pythonic"),
)
_PLAIN: Final = Form("Llama 3", "", "llama3_json", "llama3")
"""A JSON object without any mark."""
_PYTHONIC: Final = Form("pythonic", "", "pythonic", "pythonic")
_MARK: Final = re.compile("|".join(f"(?P<f{number}>{form.mark})" for number, form in enumerate(FORMS)))
_PLAIN_START: Final = re.compile(
    r"^[ \t]*(?=\[?\s*\{\s*[\"'](?:name|type|function|tool|arguments|parameters)[\"'])", re.M
)
_MOST_STARTS: Final = 20
"""Beginnings of objects that are looked at, for each may be read to the end of the text."""
_THOUGHT_END: Final = "</think>"


@dataclass(frozen=True, slots=True)
class LeftCall:
    """A call that stands in a text."""

    form: Form
    call: ToolCall | Fault
    several: bool = False
    """Whether the text holds more calls than this, the first one."""

    @property
    def note(self) -> str:
        """A line for a person: how the call was found, and what makes the server take it out."""
        sglang = f", SGLang with --tool-call-parser {self.form.sglang}" if self.form.sglang else ""
        return (
            f"The server left a call of a function in the text ({self.form.family} form), and it was read there. Start "
            f"vLLM with --enable-auto-tool-choice --tool-call-parser {self.form.vllm}{sglang}, llama.cpp with --jinja."
        )


def left_call(text: str, functions: Sequence[ToolSpec] = ()) -> LeftCall | None:
    """Return the first call that `text` holds outside of thoughts, read or with what is wrong with it.

    Args:
        text: what the model wrote.
        functions: what it may call: their schemas say which arguments are texts, and their names tell a call without
            a mark from other JSON.
    """
    spoken = text.rpartition(_THOUGHT_END)[2]
    text = spoken if spoken.strip() else text
    mark = _MARK.search(text)
    if mark is None:
        return _unmarked(text, {function.name for function in functions})
    form = FORMS[int((mark.lastgroup or "f0")[1:])]
    call, rest = _read(text[mark.start() :], form, functions)
    several = isinstance(call, ToolCall) and (_more(rest) or _MARK.search(rest) is not None)
    return LeftCall(form, call, several)


def _read(text: str, form: Form, functions: Sequence[ToolSpec]) -> tuple[ToolCall | Fault, str]:
    """Return the call at the beginning of `text`, and what follows it."""
    for tagged in _TAGGED:
        found = tagged.call(text, functions)
        if found is not None:
            return found
    body = _MARKS_BEFORE.sub("", text, count=1)
    named = _NAMED.match(body)
    name = named["name"] if named else ""
    if name or body.lstrip()[:1] in ("{", "["):
        mended = mended_json(body[named.end() - 1 if named else 0 :])
        if mended is not None:
            data, rest = mended
            if isinstance(data, list) and len(data) > 1:
                rest = json.dumps(data[1]) + rest
            return _of_json(data, name), rest
        if body.lstrip()[:1] == "{" or name:
            return Fault(FaultKind.NOT_JSON, "The arguments of the call are no JSON object."), ""
    if (call := _of_python(_FENCE_END.split(body.strip())[0])) is not None:
        return call, ""
    if form.family == "Llama 3" and body.strip():  # its own interpreter takes the code as it is
        return ToolCall(name="python", arguments={"code": clean_text(body.strip())}), ""
    return Fault(FaultKind.NOT_JSON, "The call cannot be read."), ""


def _unmarked(text: str, names: set[str]) -> LeftCall | None:
    """Read a call that is only JSON, or a list of Python calls: the whole text, or of an offered function."""
    whole = text.strip()
    fenced = fences(whole)
    if len(fenced) == 1 and whole.startswith("```"):
        whole = fenced[0].body.strip()
    if whole.startswith("[") and (call := _of_python(whole)) is not None and call.name in names:
        return LeftCall(_PYTHONIC, call)
    for start in islice(_PLAIN_START.finditer(whole), _MOST_STARTS):
        mended = mended_json(whole[start.end() :])
        if mended is None:
            continue
        data, rest = mended
        first = data[0] if isinstance(data, list) and data else data
        call_or_fault = _of_json(data)
        name = call_or_fault.name if isinstance(call_or_fault, ToolCall) else ""
        alone = not start.start() and not rest.strip() and isinstance(first, dict) and _shaped(first)
        if isinstance(call_or_fault, ToolCall) and ((name in names and _shaped(first)) or alone):
            return LeftCall(_PLAIN, call_or_fault, (isinstance(data, list) and len(data) > 1) or _more(rest))
    return None


def _shaped(data: dict[str, Any]) -> bool:
    """Whether an object has nothing but a name and arguments, as calls have."""
    inner = data["function"] if isinstance(data.get("function"), dict) else data
    keys = inner.keys() - {"type", "id"}
    return keys in ({"name", "arguments"}, {"name", "parameters"}, {"tool", "parameters"}, {"function", "parameters"})


def _more(rest: str) -> bool:
    return re.match(r"[\s;,]*\{\s*\"(?:name|type)\"", rest) is not None


# Calls whose arguments stand between tags of their own: the value of each is a text, or JSON where the schema says so.


@dataclass(frozen=True, slots=True)
class _Tagged:
    head: re.Pattern[str]
    argument: re.Pattern[str]
    end: re.Pattern[str]

    def call(self, text: str, functions: Sequence[ToolSpec]) -> tuple[ToolCall | Fault, str] | None:
        head = self.head.match(text)
        if head is None:
            return None
        ended = self.end.search(text, head.end())
        body, rest = (text[head.end() : ended.start()], text[ended.end() :]) if ended else (text[head.end() :], "")
        schema = next((function.parameters for function in functions if function.name == head["name"]), {})
        arguments = {match["key"].strip(): match["value"] for match in self.argument.finditer(body)}
        if not arguments and (mended := mended_json(body.strip())) and isinstance(mended[0], dict):
            return _of_json(mended[0], head["name"]), rest  # as `<function=name>{...}</function>`
        if not arguments and body.strip():
            return Fault(FaultKind.BAD_ARGUMENTS, f"The arguments of the call of {head['name']} cannot be read."), rest
        typed = {key: _typed(value, key, schema) for key, value in arguments.items()}
        return _of_json({"name": head["name"], "arguments": typed}), rest


_OPEN = r"<(?:\w+:|｜DSML｜)?"
_SHUT = r"</(?:\w+:|｜DSML｜)?"
_QUOTED = r"=[\"']?(?P<{}>[^\"'<>\s]+)[\"']?[^<>]*>"
_TAGGED: Final = (
    _Tagged(
        re.compile(r"(?:<[\w:]*tool_call>\s*)?<function=[\"']?(?P<name>[\w.-]+)[\"']?>"),
        re.compile(
            r"<parameter" + _QUOTED.format("key") + r"\n?(?P<value>.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.S
        ),
        re.compile(r"</function>|</[\w:]*tool_call>"),
    ),
    _Tagged(
        re.compile(rf"(?:<[^<>]*>\s*(?:function)?)*?{_OPEN}invoke\s+name" + _QUOTED.format("name"), re.S),
        re.compile(
            rf"{_OPEN}parameter\s+name{_QUOTED.format('key')}\n?(?P<value>.*?)\n?"
            rf"(?:{_SHUT}parameter>|(?={_OPEN}parameter\s)|\Z)",
            re.S,
        ),
        re.compile(rf"{_SHUT}invoke>|{_SHUT}(?:tool_calls?|function_calls)>"),
    ),
    _Tagged(
        re.compile(r"<tool_call>\s*(?P<name>[\w.-]+)\s*(?=<arg_key>|</tool_call>)"),
        re.compile(
            r"<arg_key>(?P<key>[^<]*)</arg_key>\s*<arg_value>\n?(?P<value>.*?)\n?(?:</arg_value>|(?=<arg_key>)|\Z)",
            re.S,
        ),
        re.compile(r"</tool_call>"),
    ),
)


def _typed(value: str, key: str, schema: dict[str, object]) -> object:
    """Return the value as JSON, unless the schema says that it is a text or it is no JSON."""
    known = schema.get("properties")
    given = known.get(key) if isinstance(known, dict) else None
    if isinstance(given, dict) and given.get("type") == "string":
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


# Calls in JSON, with the name in it or before it.

_MARKS_BEFORE = re.compile(
    r"(?:\s*(?:<[|｜/]?[^<>]*>|\[TOOL_CALLS\]|functools(?=\[)|```(?:tool_code|json|python)?[ \t]*\n))+"
)
_NAMED = re.compile(
    r"\s*(?:<\|channel\|>\w+ |commentary |analysis )?(?:to=|call:)?(?:functions\.|function\s*<[｜|]tool[▁_]sep[｜|]>)?"
    r"(?P<name>[A-Za-z_][\w-]*)(?::\d+)?"
    r"(?>(?:\[CALL_ID\]\w*|\[ARGS\]|<[|｜][^<>{]*[|｜]>|\s|```|json\b)*)\{"
)
_FENCE_END = re.compile(r"\n```|<\|python_end\|>|<\|e\w+_id\|>")


def _of_json(data: object, name: str = "") -> ToolCall | Fault:
    """Return the call of an object, or of the first one of a list; with a `name` the object holds the arguments."""
    if isinstance(data, list):
        data = data[0] if data else None
    if name:
        data = {"name": name, "arguments": data}
    elif isinstance(data, dict):
        inner = data["function"] if isinstance(data.get("function"), dict) else data
        data = {key: value for key, value in inner.items() if key not in ("type", "id")}
        if isinstance(data.get("function"), str):
            data["name"] = data.pop("function")
    try:
        read = read_call(json.dumps(data))
    except (ValueError, RecursionError):
        return Fault(FaultKind.NOT_JSON, "The call holds what JSON cannot hold.")
    return read.call if isinstance(read, ReadCall) else read


_TOKEN = re.compile(
    r"\s+|[\[\]{}:,]|\"\"\"(?:\\.|(?!\"\"\").)*\"\"\"|\"(?:[^\"\\]|\\.)*\"|'''(?:\\.|(?!''').)*'''|'(?:[^'\\]|\\.)*'"
    r"|[^\s\[\]{}:,\"']+",
    re.S,
)
_PARTNER = {"}": "{", "]": "["}
_WORDS = {"True": "true", "False": "false", "None": "null"}
_DEEPEST = 50


def mended_json(text: str) -> tuple[Any, str] | None:
    """Return the object or list at the beginning of `text`, and the text after it; None if it cannot be read.

    Read as a model means it: single quotes, trailing commas, line breaks in texts, escapes that JSON does not know, the
    constants of Python, and closing brackets that are missing at the end.
    """
    try:
        data, end = json.JSONDecoder(strict=False).raw_decode(text.lstrip())
        return data, text.lstrip()[end:]
    except (ValueError, RecursionError):
        pass
    pieces: list[str] = []
    open_brackets: list[str] = []
    end = 0
    for token, ends in _tokens(text):
        end = ends
        if token in _PARTNER:
            if not open_brackets or open_brackets.pop() != _PARTNER[token]:
                return None
            if pieces[-1] == ",":
                pieces.pop()
        elif token in ("{", "["):
            open_brackets.append(token)
        pieces.append(_WORDS.get(token, token))
        if not open_brackets or len(open_brackets) > _DEEPEST:
            break
    cut = bool(open_brackets) and text[end : end + 1] in ("'", '"')  # inside a text
    if cut or len(pieces) < 2 or pieces[0] not in ("{", "["):
        return None
    while pieces[-1] == ",":
        pieces.pop()
    pieces += ["}" if bracket == "{" else "]" for bracket in reversed(open_brackets)]
    try:
        return json.loads("".join(pieces), strict=False), text[end:]
    except (ValueError, RecursionError):
        return None


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Yield the tokens of JSON, texts in double quotes, and where each ends; up to what is none."""
    at = 0
    while match := _TOKEN.match(text, at):
        at, token = match.end(), match.group()
        if token[0] in "\"'":
            width = 3 if token[:3] in ('"""', "'''") and len(token) >= 6 else 1
            token = _requoted(token[width:-width])
        if token[0] == "<":  # a closing mark
            return
        if token.strip():
            yield token, at


def _requoted(body: str) -> str:
    """Return the text between quotes as a JSON text; escapes that JSON does not know are kept as they are."""
    body = re.sub(r"\\(.)", lambda pair: pair[1] if pair[1] == "'" else _escape(pair), body, flags=re.S)
    return '"' + re.sub(r'(?<!\\)((?:\\\\)*)"', r'\1\\"', body) + '"'


def _escape(pair: re.Match[str]) -> str:
    known = pair[1] in '"\\/bfnrt' or re.match(r"u[0-9a-fA-F]{4}", pair.string[pair.start(1) :])
    return pair.group() if known else "\\" + pair.group()


def _of_python(text: str) -> ToolCall | None:
    """Return the first call of a list of Python calls whose arguments are literals, as `[zoom(box=[1, 2, 3, 4])]`."""
    text = re.sub(r"\Aprint\((.*)\)\Z", r"\1", text.strip(), flags=re.S)
    try:
        tree = ast.parse(text, mode="eval").body
        first = tree.elts[0] if isinstance(tree, ast.List) and tree.elts else tree
        if not isinstance(first, ast.Call) or not isinstance(first.func, ast.Name | ast.Attribute) or first.args:
            return None
        name = first.func.id if isinstance(first.func, ast.Name) else ast.unparse(first.func).removesuffix(".call")
        arguments = {word.arg: ast.literal_eval(word.value) for word in first.keywords if word.arg is not None}
        call = _of_json({"name": name, "arguments": arguments})
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return call if isinstance(call, ToolCall) else None
