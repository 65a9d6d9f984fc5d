"""Where servers depart from the protocols that they speak: one table of what is read all the same, and its readers.

A departure is read the same whichever server it comes from. It is noted in the record (`Turn.notes`), and the log says
it once for each model. What says that an answer broke off, or that another try may cure it, stays an outage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from saccade.core.retry import OutageError
from saccade.models.base import Usage
from saccade.record.trajectory import FinishReason


class Reading(Protocol):
    """What the readers write into: a `PartialAnswer`."""

    usage: Usage

    def add_text(self, piece: str) -> None:
        """Take the next piece of the text."""

    def add_thought(self, piece: str) -> None:
        """Take the next piece of a thought."""

    def decline(self, piece: str) -> None:
        """Take the next piece of a refusal."""

    def note(self, text: str) -> None:
        """Keep a sentence for the record."""

    def bend(self, name: str, *came: str) -> None:
        """Note a departure, by its name in the table."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """One departure from a protocol, in words."""

    words: str
    """For the record and the log; `{}` is what came."""
    servers: str
    """Who sends it, with the report where there is one."""


TOLERANCES: Final[Mapping[str, Tolerance]] = {
    "name": Tolerance(
        "A call's name came as {} and was read as {}.",
        "gateways",
    ),
    "end": Tolerance(
        "The reason for the end came as {} and was read as {}.",
        "LiteLLM#12481 (end_turn), Together (eos), Cohere, Bedrock and GLM through gateways",
    ),
    "unknown end": Tolerance(
        "The reason for the end, {}, is unknown and was read as a stop.",
        "gateways",
    ),
    "blank end": Tolerance(
        "A reason for the end came as {}, which was read as none.",
        "SGLang#3912, Ollama#4357",
    ),
    "no end": Tolerance(
        "No reason for the end was given; the answer is whole by {}.",
        "AIShell#350, pi#4558",
    ),
    "parts": Tolerance(
        "The text came as a list of parts; they were joined.",
        "Mistral (vercel/ai#8072, inspect_ai#2389)",
    ),
    "unknown part": Tolerance(
        "A part of the kind {} was left out of the text.",
        "Mistral (references), OpenRouter (pictures)",
    ),
    "arguments": Tolerance(
        "The arguments of a call came as {} in place of JSON text.",
        "llama.cpp#20198, LiteLLM#37792",
    ),
    "no arguments": Tolerance(
        "The arguments of a call came as {}, which was read as none.",
        "vLLM#19419",
    ),
    "double arguments": Tolerance(
        "The arguments of a call were JSON text inside JSON text.",
        "vLLM#54964 (Hermes parser, Granite 4)",
    ),
    "one number": Tolerance(
        "Two calls came under one number; they were told apart.",
        "LiteLLM#37792",
    ),
    "split name": Tolerance(
        "The name of a function came in pieces; they were joined.",
        "Gemini's OpenAI protocol (continue#5849), NeMo Switchyard#785",
    ),
    "bare call": Tolerance(
        "A call came as {}.",
        "OpenAI's older protocol, Ollama's own",
    ),
    "message": Tolerance(
        "The message stood under `{}`.",
        "gateways",
    ),
    "usage": Tolerance(
        "Counts of tokens stood under `{}`.",
        "Moonshot (pi#2017), Groq",
    ),
    "whole": Tolerance(
        "A stream was asked for, and the answer came whole.",
        "gateways, mock servers",
    ),
    "empty stream": Tolerance(
        "A stream was asked for and brought nothing; the answer was asked for whole.",
        "llama.cpp behind llama-cpp-python (functions with `tool_choice`)",
    ),
    "streamed": Tolerance(
        "A whole answer was asked for, and it came as a stream.",
        "gateways",
    ),
}
"""Name -> departure."""

# Why an answer ended.

_ENDS: Final[Mapping[FinishReason, str]] = {
    FinishReason.STOP: "stop end_turn turn_end turn_complete eos eos_token eos_found eos_token_id end end_of_turn "
    "end_of_text endoftext im_end <|im_end|> </s> eot eot_id eom stop_sequence stop_string stop_str stop_token "
    "stop_token_id stop_id stop_criteria_met complete completed finish finished final ended done normal natural ok "
    "success",
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALL: "tool_calls tool_call tool_use tool function_call function_calls",
    FinishReason.FILTERED: "recitation language blocklist spii prohibited_content image_prohibited_content "
    "image_recitation model_armor error_toxic moderation blocked",
    FinishReason.DECLINED: "refusal refused refuse declined",
}
ENDS: Final[Mapping[str, FinishReason]] = {word: end for end, words in _ENDS.items() for word in words.split()}
"""Words of any provider for the end, in small letters with underscores."""
_KINDS: Final[Mapping[FinishReason, re.Pattern[str]]] = {
    FinishReason.LENGTH: re.compile(r"length|max_|token_budget|limit$|context_window"),
    FinishReason.FILTERED: re.compile(r"filter|safety|content_policy|sensitive|harmful|guardrail|toxic"),
}
"""How other words for an end read."""
_BROKEN: Final = re.compile(
    r"error|abort|fail|interrupt|cancel|network|insufficient|time_?out|unavailable|overload|exception|crash|kill|lost"
    r"|disconnect|malformed|unexpected|invalid|incomplete|busy|preempt|unspecified|missing|too_many|^other$|no_image"
    r"|image_other"
)
"""Words that say that something broke."""
_UNENDED: Final = frozenset(
    ("null", "none", "nil", "undefined", "unspecified", "not_finished", "unfinished", "in_progress", "generating")
)
"""Words that say that there is more to come."""


def end_of(word: object, answer: Reading, known: Collection[str]) -> FinishReason | None:
    """Return the reason that `word` gives for the end, None if it gives none; what is not among `known` is noted.
    Raises `OutageError` if it says that something broke.
    """
    if isinstance(word, Mapping) and word:  # SGLang's own form
        word = word.get("type") or word.get("reason")
    if isinstance(word, list) and len(word) == 1:
        word = word[0]
    if word is None:
        return None
    key = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", re.split(r"[.:]", str(word).strip())[-1].strip()).lower()
    key = re.sub(r"[- ]", "_", key).removeprefix("finish_reason_")
    if not word or key in _UNENDED:
        answer.bend("blank end", repr(word))
        return None
    if key not in ENDS and _BROKEN.search(key):
        raise OutageError(f"ended its answer for the reason {word!r}.")
    end = ENDS.get(key) or next((kind for kind, words in _KINDS.items() if words.search(key)), None)
    if end is None:
        answer.bend("unknown end", repr(word))
    elif word not in known:
        answer.bend("end", repr(word), end.value)
    if end in (FinishReason.FILTERED, FinishReason.DECLINED):
        answer.note(f"The provider ended the answer with {word!r}.")
    return end or FinishReason.STOP


# Texts.

_TEXTS: Final = frozenset({"text", "output_text", "input_text", "text_delta", "markdown", "final"})
_THOUGHTS: Final = frozenset(
    {"thinking", "think", "reasoning", "reasoning_text", "reasoning_content", "thought", "analysis", "summary_text"}
)
_CALLS: Final = frozenset({"tool_use", "toolUse", "tool_call", "function_call", "functionCall"})
_UNDER: Final = ("text", "thinking", "think", "reasoning", "reasoningText", "content", "summary", "value", "parts")
"""Where a part has its text."""


def flat(value: object) -> str:
    """Return the text of a part, however deep it is in lists and objects."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(flat, value))
    if isinstance(value, Mapping):
        return next((flat(value[name]) for name in _UNDER if value.get(name)), "")
    return ""


def add_content(value: object, answer: Reading) -> None:
    """Put the content of a message into `answer`: a text, or a list of parts. Calls among them are read elsewhere."""
    if isinstance(value, str) or value is None:
        answer.add_text(value or "")
        return
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    parts = value if isinstance(value, list) else [value]
    if parts:
        answer.bend("parts")
    for part in parts:
        if not isinstance(part, dict):
            answer.add_text(part if isinstance(part, str) else "" if part is None else json.dumps(part))
            continue
        kind = part.get("type") or next((name for name in (*_CALLS, "reasoningContent") if name in part), "text")
        if kind == "reasoningContent" or kind in _THOUGHTS or part.get("thought") is True:
            answer.add_thought(flat(part.get("reasoningContent", part)))
        elif kind in _TEXTS:
            answer.add_text(flat(part) if part.keys() & {"type", *_UNDER} else json.dumps(part))
        elif kind == "refusal":
            answer.decline(str(part.get("refusal") or ""))
        elif kind not in _CALLS:
            answer.bend("unknown part", repr(kind))


_THOUGHT_NAMES: Final = (
    *("reasoning_content", "reasoning", "thinking", "reasoning_details", "reasoning_text", "reasoningContent"),
    *("thinking_content", "thinking_blocks", "thought", "thoughts"),
)


def thought_of(message: Mapping[str, Any]) -> str:
    """Return what the server took out of the text; servers that send it under several names repeat it."""
    return next((thought for name in _THOUGHT_NAMES if (thought := flat(message.get(name)))), "")


# Calls.


def argument_piece(value: object, answer: Reading) -> str:
    """Return a piece of a call's arguments as JSON text."""
    if isinstance(value, str):
        return value
    if value is None or value == []:
        answer.bend("no arguments", json.dumps(value))
        return ""
    answer.bend("arguments", "an object" if isinstance(value, dict) else f"`{json.dumps(value)[:40]}`")
    return json.dumps(value, ensure_ascii=False)


def calls_of(message: Mapping[str, Any], answer: Reading) -> Iterator[tuple[int | None, str, str, object]]:
    """Yield the number, id, name and arguments of each call, or piece of one, in a message of chat completions."""
    calls = message.get("tool_calls") or ()
    if isinstance(calls, str):
        answer.bend("bare call", "a text in place of a list")
        calls = json.loads(calls)
    if isinstance(calls, Mapping):
        answer.bend("bare call", "an object in place of a list")
        calls = (calls,)
    content = message.get("content")
    if not calls and isinstance(content, list) and (calls := [part for part in content if _is_call(part)]):
        answer.bend("bare call", "a part of the text")
        calls = [next((part[name] for name in _CALLS if name in part), part) for part in calls]
    for call in calls:
        if call is None:
            continue
        function = call.get("function") or call.get("custom")
        if not isinstance(function, Mapping):
            if function is None and not call.get("name"):
                function = {}
            else:
                answer.bend("bare call", "a name without its `function`")
                function = call if function is None else {**call, "name": function}
        sent = next((function[name] for name in ("arguments", "parameters", "input", "args") if name in function), "")
        call_id = next((call[name] for name in ("id", "call_id", "toolUseId") if call.get(name) is not None), "")
        yield call.get("index"), str(call_id), _plain_name(str(function.get("name") or ""), answer), sent
    old = message.get("function_call")
    if isinstance(old, Mapping) and not calls:
        answer.bend("bare call", "`function_call`, the older form")
        yield 0, "", str(old.get("name") or ""), old.get("arguments", "")


def _is_call(part: object) -> bool:
    return isinstance(part, dict) and (part.get("type") in _CALLS or not _CALLS.isdisjoint(part))


def _plain_name(name: str, answer: Reading) -> str:
    """Return a function's name without what the model's format writes around it."""
    plain = re.sub(r"^\s*(?:functions\.)?(\w[\w.-]*?)(?::\d+)?\s*(?:<\|.*)?$", r"\1", name, flags=re.DOTALL)
    if plain != name:
        answer.bend("name", repr(name), repr(plain))
    return plain


def parsed_arguments(text: str, answer: Reading) -> dict[str, Any] | None:
    """Return the arguments of a call that is whole; None if they are no JSON object."""
    if text.strip() in ("", "null", "[]", "None", '""'):
        if text.strip():
            answer.bend("no arguments", f"`{text.strip()}`")
        return {}
    values, rest = [], text.removeprefix("\ufeff").strip()
    try:
        while rest:  # some streams begin with {} or send the whole again at the end
            value, end = _LENIENT.raw_decode(rest)
            rest = rest[end:].strip()
            values += [value] if value not in values else []
        if {} in values and len(values) > 1:
            values.remove({})
        [value] = values
        depth = 0
        while isinstance(value, str) and (depth := depth + 1) < _DEEPEST:
            value = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if depth and isinstance(value, dict):
        answer.bend("double arguments")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        answer.bend("arguments", "a list of one object")
        value = value[0]
    return value if isinstance(value, dict) else None


_LENIENT: Final = json.JSONDecoder(strict=False)
"""Takes line breaks in texts."""
_DEEPEST: Final = 4


# Counts of tokens.


def _count(counts: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = counts.get(name)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return int(value)
    return None


def _details(usage: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    return next((usage[name] for name in names if isinstance(usage.get(name), Mapping)), {})


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Return the counts, under the names of OpenAI's two APIs or those of DeepSeek and Moonshot.

    xAI does not count thoughts among what was written, which shows in the total.
    """
    prompt = _count(usage, "prompt_tokens", "input_tokens")
    sampled = _count(usage, "completion_tokens", "output_tokens")
    read = _details(usage, "prompt_tokens_details", "input_tokens_details")
    written = _details(usage, "completion_tokens_details", "output_tokens_details")
    thought = _count(written, "reasoning_tokens")
    thought = _count(usage, "reasoning_tokens") if thought is None else thought
    cached = _count(read, "cached_tokens")
    cached = _count(usage, "prompt_cache_hit_tokens", "cached_tokens") if cached is None else cached
    total = _count(usage, "total_tokens")
    if thought and None not in (prompt, sampled) and total == (prompt or 0) + (sampled or 0) + thought:
        sampled = (sampled or 0) + thought
    return Usage(prompt_tokens=prompt, cached_tokens=cached, sampled_tokens=sampled, reasoning_tokens=thought)


def read_usage(body: Mapping[str, Any], answer: Reading) -> None:
    """Put the counts of tokens of a body of chat completions into `answer`, wherever they stand."""
    if isinstance(usage := body.get("usage"), Mapping):
        answer.usage = usage_of(usage)
        return
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    for place, holder in (("x_groq", body.get("x_groq")), ("choices[0]", first)):
        if isinstance(holder, Mapping) and isinstance(usage := holder.get("usage"), Mapping):
            answer.bend("usage", place)
            answer.usage = usage_of(usage)
