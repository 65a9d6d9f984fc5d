"""Calls of functions that a server left in the text, because it was started without a parser for them, or a wrong one.

Every family of models has a form of its own: `FORMS` names the mark by which each is known, and what makes a server
take such calls out of the text. `left_call` finds the first call and reads it, forgiving what models get wrong in JSON
(single quotes, trailing commas, line breaks in texts, brackets that are not closed). Nothing is evaluated.
"""

from __future__ import annotations

import ast
import html
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
from saccade.record.content import ToolCall, clean_text


@dataclass(frozen=True, slots=True)
class Form:
    """One way in which models write calls."""

    family: str
    mark: str
    """Regular expression of what begins a call, or several."""
    vllm: str = ""
    """Name of the parser that vLLM has for it; empty for none that is known."""
    sglang: str = ""
    """The same of SGLang; empty for none."""


_DEEPSEEK: Final = r"<[｜|]tool[▁_]calls?[▁_]begin[｜|]>"
FORMS: Final = (
    Form("Qwen3-Coder", r"<tool_call>\s*<function=|<function=[\w.-]+>", "qwen3_coder", "qwen3_coder"),
    Form("Seed-OSS", r"<seed:tool_call>", "seed_oss"),
    Form("GLM", r"<tool_call>\s*[\w.-]+\s*(?:<tool_sep>\s*)?(?=<arg_key>|</tool_call>)", "glm45", "glm45"),
    Form("Hermes", r"<tool_call\b[^>|]*>|<function_call>|<tools>\s*(?=[{\[])", "hermes", "qwen25"),
    Form("Llama 3", r"<\|python_tag\|>", "llama3_json", "llama3"),
    Form("Llama 4", r"<\|python_start\|>", "llama4_pythonic", "pythonic"),
    Form("Mistral", r"\[TOOL_CALLS\]", "mistral", "mistral"),
    Form("Step3", r"<｜tool_calls?_begin｜>|<steptml:", "step3", "step3"),
    Form("Kimi", r"<\|tool_calls?_(?:section_)?begin\|>", "kimi_k2", "kimi_k2"),
    Form("DeepSeek V3", _DEEPSEEK + rf"(?=\s*(?:{_DEEPSEEK}\s*)?function\b)", "deepseek_v3", "deepseekv3"),
    Form("DeepSeek V3.1", _DEEPSEEK, "deepseek_v31", "deepseekv31"),
    Form("DeepSeek V3.2", r"<[｜|]DSML[｜|]", "deepseek_v32", "deepseekv32"),
    Form("MiniMax", r"<minimax:tool_call>|<function_calls>|<invoke name=", "minimax_m2", "minimax-m2"),
    Form("MiniMax M1", r"<tool_calls>", "minimax"),
    Form("InternLM", r"<\|action_start\|>", "internlm"),
    Form("LongCat", r"<longcat_tool_call>", "longcat"),
    Form("Granite", r"<\|tool_call\|>", "granite"),
    Form("Gemma 4", r"<\|tool_call>", "gemma4"),
    Form("Phi-4-mini", r"\bfunctools\[(?=\s*\{)", "phi4_mini_json"),
    Form("gpt-oss", r"<\|channel\|>\w+ to=|<\|start\|>assistant to=|\bto=functions\.", "openai", "gpt-oss"),
    Form("Gemma 3", r"```tool_c(?:ode|all)\b", "pythonic", "pythonic"),
    Form("Command A", r"<\|START_ACTION\|>"),
    Form("Nemotron", r"<TOOLCALL>"),
    Form("LFM2", r"<\|tool_call_start\|>", "", "lfm2"),
    Form("FunctionGemma", r"<start_function_call>", "functiongemma"),
    Form(
        "unknown",
        r"(?i:<\|?(?:\w+:)?(?:tool|function)s?[_-]?(?:calls?|use|code|prefix)(?:[_:-]\w+)*(?:[=\s][^<>\n]*)?\|?>"
        r"|\[TOOL_CALLS?\]|<(?:tool|action)>\s*(?=[{\[])|<(?:function|tool)\s+name=|✿FUNCTION✿)",
    ),
)
_PLAIN: Final = Form("Llama 3", "", "llama3_json", "llama3")
"""A JSON object without any mark."""
_PYTHONIC: Final = Form("pythonic", "", "pythonic", "pythonic")
_LABELLED: Final = Form("ReAct", "")
_SLIP: Final = Form("slip", "")
"""`name(arguments)`, as a call of the protocol comes whose arguments are no JSON."""
_MARK: Final = re.compile("|".join(f"(?P<f{number}>{form.mark})" for number, form in enumerate(FORMS)))
_NEXT: Final = re.compile("|".join(form.mark for form in FORMS if form.family != "unknown"))
_PLAIN_START: Final = re.compile(r"(?=(?:\[\s*)?\{\s*[\"']\w+[\"']\s*:)(?<!\[)")
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
        if self.form is _SLIP:
            read = "" if isinstance(self.call, Fault) else "; they were read as they were meant"
            return f"The arguments of a call were no JSON{read}."
        sglang = f", SGLang with --tool-call-parser {self.form.sglang}" if self.form.sglang else ""
        vllm = self.form.vllm or "and the parser of the model's family"
        return (
            f"The server left a call of a function in the text ({self.form.family} form), and it was read there. Start "
            f"vLLM with --enable-auto-tool-choice --tool-call-parser {vllm}{sglang}, llama.cpp with --jinja."
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
        plain = html.unescape(text)
        escaped = plain != text and re.search(r"&(?:quot|lt|#34|#60);", text)
        return _unmarked(text, functions) or (left_call(plain, functions) if escaped else None)
    form = FORMS[int((mark.lastgroup or "f0")[1:])]
    call, rest = _read(text[mark.start() :], form, functions)
    several = isinstance(call, ToolCall) and (_more(rest) or _NEXT.search(rest) is not None)
    return LeftCall(form, call, several)


def _read(text: str, form: Form, functions: Sequence[ToolSpec]) -> tuple[ToolCall | Fault, str]:
    for tagged in _TAGGED:
        found = tagged.call(text, functions)
        if found is not None:
            return found
    body = _MARKED_TEXT.sub(lambda match: json.dumps(match[1] or match[2] or ""), _MARKS_BEFORE.sub("", text, count=1))
    named = _NAMED.match(body)
    name = named["name"] if named else ""
    if name or body.lstrip()[:1] in ("{", "["):
        mended = mended_json(body[named.end() - 1 if named else 0 :])
        if mended is not None:
            data, rest = mended
            if isinstance(data, list) and len(data) > 1:
                rest = json.dumps(data[1]) + rest
            return _of_json(data, name, functions), rest
        if body.lstrip()[:1] == "{" or name:
            return Fault(FaultKind.NOT_JSON, "The arguments of the call are no JSON object."), ""
    if (call := _of_python(_FENCE_END.split(body.strip())[0], functions)) is not None:
        return call, ""
    if form.family == "Llama 3" and body.strip():  # its own interpreter takes the code as it is
        return ToolCall(name="python", arguments={"code": clean_text(body.strip())}), ""
    return Fault(FaultKind.NOT_JSON, "The call cannot be read."), ""


def _unmarked(text: str, functions: Sequence[ToolSpec]) -> LeftCall | None:
    """Read a call that is only JSON, or a Python call: the whole text, or of an offered function."""
    names = {function.name for function in functions}
    whole = text.strip()
    fenced = fences(whole)
    if len(fenced) == 1 and whole.startswith("```"):
        whole = fenced[0].body.strip()
    if (call := _of_python(whole, functions)) is not None and call.name in names:
        return LeftCall(_PYTHONIC, call)
    if (found := _labelled(whole, functions)) is not None:
        return LeftCall(_LABELLED, found)
    slip = re.search(_SLIPPED.format("|".join(map(re.escape, names))), whole) if names else None
    if slip:
        mended = mended_json(whole[slip.end() :]) if slip["line"] is not None else None
        fault = Fault(FaultKind.NOT_JSON, "The arguments of the call are no JSON object.")
        return LeftCall(_SLIP, _of_json(mended[0], slip["name"], functions) if mended else fault)
    for start in islice(_PLAIN_START.finditer(whole), _MOST_STARTS):
        mended = mended_json(whole[start.end() :])
        if mended is None:
            continue
        data, rest = mended
        first = data[0] if isinstance(data, list) and data else data
        call_or_fault = _of_json(data, "", functions)
        name = call_or_fault.name if isinstance(call_or_fault, ToolCall) else ""
        alone = not start.start() and not rest.strip() and isinstance(first, dict)
        if isinstance(call_or_fault, ToolCall) and _shaped(first, names) and (name in names or alone):
            return LeftCall(_PLAIN, call_or_fault, (isinstance(data, list) and len(data) > 1) or _more(rest))
    return None


def _labelled(text: str, functions: Sequence[ToolSpec]) -> ToolCall | Fault | None:
    """Read an offered function's name on a line, and its arguments under it, as ReAct, Qwen-Agent and GLM-4 do."""
    names = "|".join(re.escape(function.name) for function in functions)
    found = re.search(_LABELS.format(names), text, re.M) if names else None
    if found is None:
        return None
    mended = mended_json(text[found.end() :])
    if mended is not None and isinstance(mended[0], dict):
        return _of_json(mended[0], found["name"], functions)
    if found["label"]:
        return Fault(FaultKind.NOT_JSON, "The arguments of the call are no JSON object.")
    return None


def _shaped(data: Any, names: set[str]) -> bool:
    """Return whether an object has nothing but a name and arguments, as calls have."""
    inner = _unwrapped(data)
    keys = inner.keys() - _BESIDE
    if len(keys) == 1:
        return keys <= names
    name, arguments = keys & set(_NAME_KEYS), [inner[key] for key in keys & set(_ARGUMENT_KEYS)]
    held = len(arguments) == 1 and (isinstance(arguments[0], dict) or str(arguments[0]).lstrip().startswith("{"))
    return len(keys) == 2 and len(name) == 1 and held


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
            return _of_json(mended[0], head["name"], functions), rest  # as `<function=name>{...}</function>`
        if not arguments and body.strip():
            return Fault(FaultKind.BAD_ARGUMENTS, f"The arguments of the call of {head['name']} cannot be read."), rest
        typed = {key: _typed(value, key, schema) for key, value in arguments.items()}
        return _of_json({"name": head["name"], "arguments": typed}, "", functions), rest


_OPEN = r"<(?:\w+:|[｜|]DSML[｜|])?"
_SHUT = r"</(?:\w+:|[｜|]DSML[｜|])?"
_QUOTED = r"=[\"']?(?P<{}>[^\"'<>\s]+)[\"']?[^<>]*>"
_TAGGED: Final = (
    _Tagged(
        re.compile(
            r"(?:<[\w:]*tool_call>\s*)?<(?:function|tool|tool_call)(?:\s+name)?=[\"']?(?P<name>[\w.-]+)[\"']?\s*>", re.I
        ),
        re.compile(
            rf"<param(?:eter)?(?:\s+name)?{_QUOTED.format('key')}\n?(?P<value>.*?)\n?"
            r"(?:</param(?:eter)?>|(?=<param(?:eter)?[\s=])|\Z)",
            re.S,
        ),
        re.compile(r"</function>|</[\w:]*tool_call>|</tool>", re.I),
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
        re.compile(
            r"(?:<tool_calls>\s*)?<tool_call>\s*(?P<name>[\w.-]+)\s*(?:<tool_sep>\s*)?(?=<arg_key>|</tool_call>)"
        ),
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
    r"(?:\s*(?:<[|｜/]?[^<>]*>|\[TOOL_CALLS?\]|functools(?=\[)|```(?:tool_code|tool_call|json|python)?[ \t]*\n))+"
)
_NAMED = re.compile(
    r"\s*(?:<\|channel\|>\w+ |commentary |analysis )?(?:to=|call:)?"
    r"(?:functions\.|✿FUNCTION✿:\s*|function\s*<[｜|]tool[▁_]sep[｜|]>)?"
    r"(?P<name>[A-Za-z_][\w-]*)(?::\d+)?"
    r"(?>(?:\[CALL_ID\]\w*|\[ARGS\]|<[|｜][^<>{]*[|｜]>|\s|✿ARGS✿:|```|json\b)*)\{"
)
_FENCE_END = re.compile(r"\n```|<\|(?:python_end|tool_call_end|e\w+_id)\|>|</\w+>\s*\Z")
_MARKED_TEXT = re.compile(r"<\|\"\|>(.*?)<\|\"\|>|<escape>(.*?)<escape>", re.S)
"""A text between marks, as Gemma 4 and FunctionGemma write it."""
_LABELS = (
    r"^[ \t]*(?P<label>(?:\*\*)?(?:Action|Tool|Function)(?:\*\*)?:(?:\*\*)?[ \t]*)?[`*]*(?P<name>{})[`*]*[ \t]*\n\s*"
    r"(?(label)(?:\*\*)?(?:Action Input|Tool Input|Input|Arguments|Args|Parameters)(?:\*\*)?:(?:\*\*)?\s*|)"
    r"(?:```(?:json)?\s*)?(?(label)|(?=\{{))"
)
_SLIPPED = r"(?P<line>^|\n)?\b(?P<name>{})\((?:\s|```|json\b|\[)*(?=\{{)"
_NAME_KEYS = ("name", "tool", "tool_name", "function_name", "recipient_name", "function", "action", "toolName")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "tool_input", "action_input", "params", "kwargs")
_WRAPPINGS = ("tool_calls", "tool_call", "function_call", "functionCall", "tool_use", "toolUse", "function")
_BESIDE = frozenset({"type", "id", "call_id", "tool_call_id", "toolUseId", "index"})
_NAMESPACE = re.compile(r"^(?:functions|tools|default_api)\.|:\d+$")


def _unwrapped(data: Any) -> dict[str, Any]:
    """Return the object that holds a name and arguments: `data`, its first item, or what an API's wrapping holds."""
    for _ in range(4):
        if isinstance(data, list):
            data = data[0] if data else {}
        elif isinstance(data, dict):
            inner = next((data[key] for key in _WRAPPINGS if isinstance(data.get(key), dict | list)), None)
            if inner is None:
                return data
            data = inner
    return data if isinstance(data, dict) else {}


def _of_json(data: Any, name: str = "", functions: Sequence[ToolSpec] = ()) -> ToolCall | Fault:
    """Return the call of an object, or of the first one of a list; with a `name` the object holds the arguments."""
    if name:
        data = {"name": name, "arguments": data[0] if isinstance(data, list) and data else data}
    elif isinstance(data, list | dict):
        data = {key: value for key, value in _unwrapped(data).items() if key not in _BESIDE}
        [only] = data if len(data) == 1 else [""]
        if any(function.name == only for function in functions):
            data = {"name": only, "arguments": data[only]}
        key = next((key for key in _NAME_KEYS if isinstance(data.get(key), str)), "name")
        holder = next((key for key in _ARGUMENT_KEYS if key in data), "arguments")
        if len(data) == 2 and key in data and holder in data:
            data = {"name": data[key], "arguments": data[holder]}
    try:
        read = read_call(json.dumps(data))
    except (ValueError, RecursionError):
        return Fault(FaultKind.NOT_JSON, "The call holds what JSON cannot hold.")
    if not isinstance(read, ReadCall):
        return read
    return read.call.model_copy(update={"name": _NAMESPACE.sub("", read.call.name) or read.call.name})


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
        elif token == ":" and pieces and pieces[-1].isidentifier():  # a name without quotes
            pieces[-1] = f'"{pieces[-1]}"'
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


def _of_python(text: str, functions: Sequence[ToolSpec] = ()) -> ToolCall | None:
    """Return the first call of a list of Python calls whose arguments are literals, as `[zoom(box=[1, 2, 3, 4])]`."""
    if not re.match(r"[\[(\s]*[A-Za-z_][\w.]*\(", text):
        return None
    text = re.sub(r"\Aprint\((.*)\)\Z", r"\1", text.strip(), flags=re.S)
    try:
        tree = ast.parse(text, mode="eval").body
        first = tree.elts[0] if isinstance(tree, ast.List) and tree.elts else tree
        if not isinstance(first, ast.Call) or not isinstance(first.func, ast.Name | ast.Attribute):
            return None
        name = first.func.id if isinstance(first.func, ast.Name) else ast.unparse(first.func).removesuffix(".call")
        name = _NAMESPACE.sub("", name)
        schema = next((function.parameters for function in functions if function.name == name), {})
        known = schema.get("properties")
        order = list(known) if isinstance(known, dict) else []
        arguments = {word: ast.literal_eval(value) for word, value in zip(order, first.args, strict=False)}
        if len(arguments) < len(first.args):
            return None
        if len(first.args) == 1 and isinstance(given := ast.literal_eval(first.args[0]), dict):
            arguments = given  # the arguments as an object
        arguments |= {word.arg: ast.literal_eval(word.value) for word in first.keywords if word.arg is not None}
        call = _of_json({"name": name, "arguments": arguments})
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return call if isinstance(call, ToolCall) else None
