"""Put requests as servers take them: how much a model thinks, in the words of each API, and what a refusal taught.

`off`, `low`, `medium`, `high` or a number of tokens. What a model cannot be told is refused before the first request.
Sources: the APIs' references and the types of openai 3.52, anthropic 2.11 and google-genai 3.6; chat templates of the
families.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from saccade.errors import SettingsError
from saccade.models.base import Request
from saccade.models.pictures import NO_RULES, PictureRules
from saccade.record.content import ImagePart, Message, Part, TextPart
from saccade.record.trajectory import Sampling

# How a request is put where a server refuses the usual way: learned from its refusal, said once, kept for the model. A
# picture that a server does not take is padded or made smaller where that helps, else the model is told in its place,
# if a call of the model's cut it. The pictures of the question are never left out.


@dataclass(frozen=True, slots=True)
class Manner:
    """Another way to put a request."""

    words: str
    """What is done, for the log and the record."""
    servers: str
    """Who needs it, with the report where there is one."""


MANNERS: Final[Mapping[str, Manner]] = {
    "inside": Manner(
        "What the user says after a tool, pictures too, is sent inside the tool's message.",
        "Mistral (LibreChat-AI/agents#344, hermes-agent#20154)",
    ),
    "bridge": Manner(
        "Between a tool's message and the user's stands a short message of the assistant.",
        "Mistral, where a tool's message holds text alone",
    ),
    "system": Manner(
        "The system text is sent at the beginning of the first user message.",
        "Gemma 2 (vLLM#2964, chat-ui#1386), Gemma at Google",
    ),
    "merged": Manner(
        "Messages in a row of one role are sent as one.", "Mistral (autogen#1037), Gemma 3 (adk-python#1373)"
    ),
    "padded": Manner(
        "Pictures with too short a side are padded with black to the right and below; no place in them moves.",
        "Qwen2.5-VL and GLM-4.xV behind vLLM (vLLM#21109, transformers#37264, GLM-V#146), Alibaba",
    ),
    "smaller": Manner("Pictures are sent with at most 2048 pixels a side and 3.75 MB.", "proxies with a limit (413)"),
    "fewer": Manner(
        "The oldest pictures of results are left out, and the model is told so in their places.",
        "vLLM (--limit-mm-per-prompt)",
    ),
    "left out": Manner(
        "A picture of a result that the server refused is left out, and the model is told so in its place.",
        "any server",
    ),
}
"""Name -> way."""

_PICTURE: Final = r"(?=.*(image|picture|photo|pixel|height|width|factor))"
_KINDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "many": (
        r"at most \d+ \S{0,14}\s?(image|picture|multimodal)|too many (image|picture|multimodal)"
        r"|(number|count) of (image|picture)s?.{0,60}(exceed|maximum|limit|at most)"
        r"|maximum (number )?of (image|picture)s"
        r"|(support|accept|allow)s? (only )?(up to )?(\d+|one|a single) (image|picture)"
        r"|(image|picture)s? per (prompt|request).{0,40}(exceed|limit|most)",
        ("fewer", "left out"),
    ),
    "ratio": (r"aspect ratio", ("padded", "left out")),
    "small": (
        _PICTURE
        + r".*(larger than factor|too.small|((smaller|less) than|below) (the )?minimum|do not meet the model restr"
        r"|(must|should) (both )?(be|have) (at least|larger|greater|bigger|more)|minimum (image |picture )?"
        r"(size|dimension|side|width|height|resolution))",
        ("padded", "left out"),
    ),
    "large": (
        _PICTURE + r".*(too.large|too big|exceed|file_too_large|(larger|greater|bigger) than|entity too large)",
        ("smaller", "left out"),
    ),
    "picture": (
        r"(could not|cannot|can't|unable to|failed to) (process|decode|load|read|parse|open).{0,20}(image|picture)"
        r"|(invalid|unsupported|corrupt\w*|empty)[ _].{0,20}(image|picture)"
        r"|(image|picture).{0,30}(not valid|invalid|not supported|unsupported|could not be)",
        ("left out",),
    ),
    "user after tool": (
        r"\buser\b.{0,40}\b(after|following|follows?)\b.{0,30}\btool\b|\btool\b.{0,60}(follow|succeed)ed by"
        r"|after.{0,20}\btool\b.{0,60}(assistant|user)|invalid_request_message_order"
        r"|role to be one of.{0,60}\btool\b.{0,30}but got .?user",
        ("inside", "bridge"),
    ),
    "alternate": (
        r"(must|should|need to|have to|not) alternat|alternat\w+ (between )?.{0,10}user"
        r"|(consecutive|successive).{0,30}(message|role|user)",
        ("merged", "inside", "bridge", "system"),
    ),
    "system": (
        r"system.{0,30}(not|n't|un)[ -]?(be )?(support|allow|accept|permit|enabled)"
        r"|(not|n't|un)[ -]?(support|allow|accept|permit)\w*.{0,30}system"
        r"|(unknown|invalid|unexpected|unsupported|valid|allowed|supported|only).{0,40}\broles?\b|should be .?user\b"
        r"|\broles?\b.{0,40}(invalid|unknown|supported|allowed|permitted|valid|(should|must) be .?user\b)"
        r"|system.{0,5} is not one of|(first|begin|start).{0,40}\buser\b|developer instruction is not enabled",
        ("system",),
    ),
}
"""Kind of refusal -> how its words read, and what is tried, in this order."""
_READ: Final = {name: re.compile(words, re.IGNORECASE | re.DOTALL) for name, (words, _) in _KINDS.items()}
ROLE_KINDS: Final = frozenset({"user after tool", "alternate", "system"})
"""Refusals by a chat template."""
OWN_ERRORS: Final = ROLE_KINDS | {"small", "ratio"}
"""Refusals that some servers give as an error of their own (500)."""
_TOO_LARGE: Final = 413


def kind_of(status: int, words: str) -> str:
    """Return the kind of a refusal in these words; empty if no other way of asking may help."""
    found = next((name for name, pattern in _READ.items() if pattern.search(words)), "")
    return found or ("large" if status == _TOO_LARGE else "")


# What has been found out of a model's server.

_LEAST_SIDE: Final = 28
_MOST_SIDE: Final = 512
_RATIO: Final = 200
_SMALLER: Final = PictureRules(side=2048, data_bytes=5 * 1024 * 1024 * 3 // 4)
_FACTOR: Final = re.compile(r"factor\D{0,3}(\d+)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(?:than|least|minimum\D{0,40}?)\D{0,20}?(\d+)", re.IGNORECASE)
_RATIO_NUMBER: Final = re.compile(r"ratio\D{0,60}?(\d+)", re.IGNORECASE)
_MOST: Final = re.compile(
    r"(?:at most|up to|maximum|limit|only|supports?|accepts?|allows?)\D{0,40}?(\d+)", re.IGNORECASE | re.DOTALL
)
_NOT_SHOWN: Final = "(This picture is not shown: the server takes at most {} pictures in a request.)"
_REFUSED: Final = "(The server did not take this picture: {}. Show another part, or show it in another size.)"
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class Manners:
    """How requests are put."""

    ways: tuple[str, ...] = ()
    """Names in `MANNERS`."""
    rules: PictureRules = NO_RULES
    """For every picture."""
    most_pictures: int | None = None
    unseen: Mapping[str, str] = field(default_factory=dict)
    """sha256 of each picture that was refused -> what stands in its place."""

    def after(self, kind: str, words: str, request: Request, fields: Mapping[str, Any]) -> Manners | None:
        """Return how to ask after a refusal of that kind in these words; None if no way is left.

        Args:
            kind: as `kind_of` names it.
            words: of the server.
            request: what was asked, as it is before `arranged`.
            fields: what was sent.
        """
        own, shown = _pictures(request.messages)
        if kind not in ROLE_KINDS and not (own or shown):
            return None
        wire = fields.get("messages", ())
        for way in _KINDS[kind][1]:
            if way == "left out":
                return self._without_last(words, request)
            if way in self.ways or (kind in ROLE_KINDS and not _helps(way, wire)):
                continue
            changed = replace(self, ways=(*self.ways, way))
            if way == "padded":
                return replace(changed, rules=replace(self.rules, **_least(words)))
            if way == "smaller":
                return replace(
                    changed, rules=replace(_SMALLER, least_side=self.rules.least_side, ratio=self.rules.ratio)
                )
            if way == "fewer":
                most = self._most(words, request)
                if most is None:
                    continue
                return replace(changed, most_pictures=most)
            return changed
        return None

    def instead(self, fields: Mapping[str, Any]) -> Manners | None:
        """Return how to ask where a tool's message with more than text in it is refused, in whatever words."""
        wire = fields.get("messages", ())
        held = any(message["role"] == "tool" and not isinstance(message["content"], str) for message in wire)
        return replace(self, ways=(*self.ways, "bridge")) if held and "bridge" not in self.ways else None

    def _most(self, words: str, request: Request) -> int | None:
        """Return how many pictures may be sent; None if not even those of the question."""
        own, shown = _pictures(request.messages)
        said = _MOST.search(words)
        most = int(said[1]) if said else own + len(shown) // 2
        return most if shown and own <= most < own + len(shown) else None

    def _without_last(self, words: str, request: Request) -> Manners | None:
        _, shown = _pictures(request.messages)
        last = next((message for message, part in reversed(shown) if part.sha256 not in self.unseen), None)
        if last is None:
            return None
        text = _REFUSED.format(words[:_LONGEST].strip().rstrip("."))
        refused = {part.sha256: text for part in last.media if isinstance(part, ImagePart)}
        own = {part.sha256 for part in _question(request.messages)}
        if not refused.keys() - own:
            return None
        ways = self.ways if "left out" in self.ways else (*self.ways, "left out")
        return replace(self, ways=ways, unseen={**self.unseen, **refused})

    def arranged(self, request: Request) -> Request:
        """Return the request without the pictures that the server does not take."""
        if not self.unseen and self.most_pictures is None:
            return request
        own, shown = _pictures(request.messages)
        kept = len(shown) if self.most_pictures is None else max(0, self.most_pictures - own)
        dropped = {id(part) for _, part in shown[: len(shown) - kept]}
        first = _first_answer(request.messages)

        def part_of(part: Part, number: int) -> Part:
            if number < first or not isinstance(part, ImagePart):
                return part
            if part.sha256 in self.unseen:
                return TextPart(text=self.unseen[part.sha256])
            return TextPart(text=_NOT_SHOWN.format(self.most_pictures)) if id(part) in dropped else part

        messages = tuple(
            message.model_copy(update={"parts": tuple(part_of(part, number) for part in message.parts)})
            for number, message in enumerate(request.messages)
        )
        return replace(request, messages=messages)

    def rearranged(self, wire: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return messages of chat completions with the roles that the server takes."""
        if "bridge" in self.ways:
            wire = [
                entry
                for before, message in zip([None, *wire], wire, strict=False)
                for entry in ([_BRIDGE, message] if _follows(before, message) else [message])
            ]
        if "system" in self.ways:
            system = [message for message in wire if message["role"] == "system"]
            wire = [message for message in wire if message["role"] != "system"]
            user = next((at for at, message in enumerate(wire) if message["role"] == "user"), None)
            for message in reversed(system):
                if user is None:
                    wire.insert(0, {**message, "role": "user"})
                    user = 0
                else:
                    wire[user] = {**wire[user], "content": _joined(message["content"], wire[user]["content"])}
        merged: list[dict[str, Any]] = []
        for message in wire:
            last = merged[-1] if merged else None
            same = last is not None and last["role"] == message["role"] and message["role"] in ("user", "assistant")
            inside = "inside" in self.ways and "bridge" not in self.ways and _follows(last, message)
            calls = last is not None and ("tool_calls" in last or "tool_calls" in message)
            if last is not None and (inside or (same and not calls and "merged" in self.ways)):
                merged[-1] = {**last, "content": _joined(last["content"], message["content"])}
            else:
                merged.append(message)
        return merged


USUAL: Final = Manners()
"""The usual way."""
_BRIDGE: Final = {"role": "assistant", "content": "I see the result."}


def _follows(before: Mapping[str, Any] | None, message: Mapping[str, Any]) -> bool:
    return before is not None and before["role"] == "tool" and message["role"] == "user"


def _helps(way: str, wire: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the messages hold what that way puts otherwise."""
    if way == "system":
        return any(message["role"] == "system" for message in wire)
    if way == "merged":
        return any(one["role"] == other["role"] for one, other in pairwise(wire))
    return any(_follows(before, message) for before, message in pairwise(wire))


def _joined(one: Any, other: Any) -> Any:
    """Return two contents in one: a text, or a list of parts where one of them is."""
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}\n\n{other}" if one and other else one or other
    parts = [
        [{"type": "text", "text": content}] if isinstance(content, str) and content else list(content or ())
        for content in (one, other)
    ]
    return [*parts[0], *parts[1]]


def _least(words: str) -> dict[str, int]:
    """Return the rule that a picture breaks, in numbers of the server's where it gives them."""
    factor, least = _FACTOR.search(words), _NUMBER.search(words)
    ratio = _RATIO_NUMBER.search(words)
    side = int(factor[1]) if factor else (int(least[1]) + 1 if least and not ratio else _LEAST_SIDE)
    most = int(ratio[1]) if ratio else _RATIO
    return {"least_side": min(max(side, _LEAST_SIDE), _MOST_SIDE), "ratio": max(1, most - 1)}


def _first_answer(messages: Sequence[Message]) -> int:
    return next((at for at, message in enumerate(messages) if message.role == "assistant"), len(messages))


def _question(messages: Sequence[Message]) -> list[ImagePart]:
    before = messages[: _first_answer(messages)]
    return [part for message in before for part in message.parts if isinstance(part, ImagePart)]


def _pictures(messages: Sequence[Message]) -> tuple[int, list[tuple[Message, ImagePart]]]:
    """Return how many pictures the question has, and those that came after it, with their messages."""
    after = messages[_first_answer(messages) :]
    shown = [(message, part) for message in after for part in message.parts if isinstance(part, ImagePart)]
    return len(_question(messages)), shown


Fields = dict[str, Any]
"""Fields of a request."""
Thinking = Callable[[str, Sampling], Fields]
"""The fields for a model, by its name and address, and `sampling`, whose `reasoning` is set. Raises `SettingsError`."""
_OWN: Final = "Another field can be set by sampling.extra_body (docs/models.md)."


def _refuse(model: str, why: str) -> SettingsError:
    return SettingsError(f"sampling.reasoning: {model} {why}")


def _level(model: str, sampling: Sampling) -> str:
    """Return the word that was set; raises `SettingsError` for a number."""
    if isinstance(sampling.reasoning, int):
        raise _refuse(model, f"takes off, low, medium or high, and no number of tokens. {_OWN}")
    return str(sampling.reasoning)


def _base(model: str) -> str:
    """Return the name without address, organisation and fine-tuning."""
    name = model.partition("@")[0].lower()
    name = name.split(":")[1] if name.startswith("ft:") else name
    return name.rpartition("/")[2]


# OpenAI: one field, `none` to `high`. Models before GPT-5 do not think; the first GPT-5 and the o series always do.

_PLAIN: Final = re.compile(r"gpt-[34]|chatgpt|gpt-5(\.\d+)?-chat")
_ALWAYS: Final = re.compile(r"o\d|gpt-5($|-(?!chat))")


def openai_effort(model: str, sampling: Sampling) -> str:
    """Return the effort for a model of OpenAI's. Raises `SettingsError` for one that cannot be told so."""
    name, level = _base(model), _level(model, sampling)
    if _PLAIN.match(name):
        raise _refuse(model, "does not think. Leave it out.")
    if level == "off" and _ALWAYS.match(name):
        raise _refuse(model, "always thinks; the least is low.")
    return "none" if level == "off" else level


def openai_thinking(model: str, sampling: Sampling) -> Fields:
    """Return the fields for OpenAI's chat completions."""
    return {"reasoning_effort": openai_effort(model, sampling)}


def responses_thinking(model: str, sampling: Sampling) -> Fields:
    """Return the fields for the Responses API."""
    return {"reasoning": {"effort": openai_effort(model, sampling)}}


def azure_thinking(model: str, sampling: Sampling) -> Fields:
    """Return the fields for Azure, whose deployments have names of their own."""
    level = _level(model, sampling)
    return {"reasoning_effort": "none" if level == "off" else level}


# Other servers of chat completions, by their address.


def compatible_thinking(model: str, sampling: Sampling) -> Fields:
    """Return the fields for any other server of chat completions: OpenRouter's and Alibaba's fields, or OpenAI's."""
    value, address = sampling.reasoning, model.partition("@")[2]
    if "openrouter.ai" in address:
        own: Fields = {"max_tokens": value} if isinstance(value, int) else {"effort": value}
        return {"extra_body": {"reasoning": {"enabled": False} if value == "off" else own}}
    if "aliyuncs.com" in address and (isinstance(value, int) or value == "off"):
        budget = {"thinking_budget": value} if isinstance(value, int) else {}
        return {"extra_body": {"enable_thinking": value != "off", **budget}}
    return azure_thinking(model, sampling)


# vLLM and SGLang: what the checkpoint's own chat template reads.


@dataclass(frozen=True, slots=True)
class _Family:
    """A family of checkpoints, and how its template is told to think."""

    names: str
    """Regular expression for the end of the path, in small letters."""
    switch: str = ""
    """The template's variable for thinking or not; empty if there is none."""
    efforts: tuple[str, ...] = ()
    """What it takes as `reasoning_effort`."""
    thinks: bool = False
    """Without a switch: it always thinks, or never."""


_FAMILIES: Final = (
    _Family(r".*qwen3.*(-thinking|qwq)|.*(qwq|qvq)", thinks=True),
    _Family(r".*qwen3.*(-instruct|-coder)"),
    _Family(r".*qwen3", switch="enable_thinking"),
    _Family(r".*qwen[12]"),
    _Family(r".*glm-4\.1v.*thinking", thinks=True),
    _Family(r".*glm-(4\.[5-9]|[5-9])", switch="enable_thinking"),
    _Family(r".*deepseek-(r1|reasoner)", thinks=True),
    _Family(r".*deepseek-v(3\.[1-9]|[4-9])", switch="thinking"),
    _Family(r".*kimi.*thinking", thinks=True),
    _Family(r".*kimi-k2\.[5-9]", switch="thinking"),
    _Family(r".*gpt-oss", efforts=("low", "medium", "high")),
    _Family(r".*gemma-?4", switch="enable_thinking"),
    _Family(r".*gemma"),
    _Family(r".*granite-(3\.[23]|4)", switch="thinking"),
    _Family(r".*hunyuan-a13b", switch="enable_thinking"),
    _Family(r".*nemotron-nano", switch="enable_thinking"),
    _Family(r".*magistral", thinks=True),
    _Family(r".*(internvl[23]|llava|pixtral|llama-[34]|molmo)"),
)


def _family(model: str) -> _Family | None:
    name = _base(model)
    return next((family for family in _FAMILIES if re.match(family.names, name)), None)


def template_thinking(model: str, sampling: Sampling) -> Fields:
    """Return the fields for vLLM and SGLang, by the name of the checkpoint."""
    level, family = _level(model, sampling), _family(model)
    thinks = level != "off"
    if family is None:
        return {"extra_body": {"chat_template_kwargs": {"enable_thinking": thinks, "thinking": thinks}}}
    if family.switch:
        return {"extra_body": {"chat_template_kwargs": {family.switch: thinks}}}
    if family.efforts:
        if level not in family.efforts:
            raise _refuse(model, f"takes {', '.join(family.efforts)}, not {level}.")
        return {"reasoning_effort": level}
    always = "always thinks, and how much cannot be chosen" if family.thinks else "does not think"
    raise _refuse(model, f"{always}. Leave it out, or serve another checkpoint. {_OWN}")


def template_says(model: str, sampling: Sampling) -> str:
    """Return what a user should know of the setting on vLLM and SGLang; empty if there is nothing."""
    family, level = _family(model), sampling.reasoning
    if family is None:
        return (
            f"how {model.partition('@')[0]} is told to think is not known by its name: its chat template is given "
            "enable_thinking and thinking, and may read neither. See its documentation, and sampling.extra_body."
        )
    if family.switch and level != "off":
        return f"{model.partition('@')[0]} thinks or does not: {level} is the same as high."
    return ""


# Anthropic: adaptive with an effort from 4.6 on; a budget of tokens up to 4.6.

_CLAUDE_PLAIN: Final = re.compile(r"claude-(2|instant|3-(opus|sonnet|haiku|5))")
_CLAUDE_BUDGET: Final = re.compile(r"claude-(3-7|(haiku|sonnet|opus)-4(-[015])?(-\d{8})?$)")
_CLAUDE_BOTH: Final = re.compile(r"claude-(sonnet|opus)-4-6")
_BUDGETS: Final = {"low": 2048, "medium": 8192, "high": 24576}
_LEAST_BUDGET: Final = 1024


def anthropic_thinking(model: str, sampling: Sampling) -> Fields:
    """Return the fields for Anthropic's messages; a budget comes on top of the default limit of tokens."""
    name, value = _base(model), sampling.reasoning
    if value == "off":
        return {} if _CLAUDE_PLAIN.match(name) else {"thinking": {"type": "disabled"}}
    if _CLAUDE_PLAIN.match(name):
        raise _refuse(model, "does not think. Leave it out.")
    if sampling.temperature not in (None, 1) or sampling.top_k is not None or (sampling.top_p or 1) < 0.95:
        raise _refuse(model, "thinks only at temperature 1, without top_k, and with top_p from 0.95. Leave them out.")
    if isinstance(value, str) and not _CLAUDE_BUDGET.match(name):
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": value}}
    budget = value if isinstance(value, int) else _BUDGETS[str(value)]
    if not (_CLAUDE_BUDGET.match(name) or _CLAUDE_BOTH.match(name)):
        raise _refuse(model, "decides itself how many tokens it thinks. Write low, medium or high.")
    if budget < _LEAST_BUDGET:
        raise _refuse(model, f"thinks at least {_LEAST_BUDGET} tokens.")
    if sampling.max_tokens is not None and sampling.max_tokens <= budget:
        raise _refuse(
            model, f"would think {budget} tokens, and sampling.max_tokens leaves {sampling.max_tokens} for all."
        )
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


# Gemini: a budget of tokens up to 2.5, a level from 3 on.

_GEMINI_PLAIN: Final = re.compile(r"gemini-(1|2\.0|pro\b)")
_GEMINI_BUDGET: Final = re.compile(r"gemini-2\.5")
_GEMINI_BUDGETS: Final = {"off": 0, "low": 1024, "medium": 8192, "high": 24576}


def gemini_thinking(model: str, sampling: Sampling) -> Fields:
    """Return the fields for Gemini: the field `thinking_config`."""
    name, value = _base(model), sampling.reasoning
    always = "pro" in name
    if _GEMINI_PLAIN.match(name):
        if value == "off":
            return {}
        raise _refuse(model, "does not think. Leave it out.")
    if value == "off" and always:
        raise _refuse(model, "always thinks; the least is low.")
    if _GEMINI_BUDGET.match(name):
        budget = value if isinstance(value, int) else _GEMINI_BUDGETS[str(value)]
        return {"thinking_config": {"thinking_budget": budget}}
    level = _level(model, sampling)
    return {"thinking_config": {"thinking_level": "minimal" if level == "off" else level}}


# Fields and headers of a user's own.


def headers_of(sampling: Sampling) -> Mapping[str, str]:
    """Return the headers of a user's own, as they are sent."""
    return {name: value.get_secret_value() for name, value in (sampling.extra_headers or {}).items()}
