"""How much a model thinks (`sampling.reasoning`), in the words of each API; and fields and headers of a user's own.

`off`, `low`, `medium`, `high` or a number of tokens. What a model cannot be told is refused before the first request.
Sources: the APIs' references and the types of openai 3.52, anthropic 2.11 and google-genai 3.6; chat templates of the
families.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from saccade.errors import SettingsError
from saccade.record.trajectory import Sampling

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
    """For OpenAI's chat completions."""
    return {"reasoning_effort": openai_effort(model, sampling)}


def responses_thinking(model: str, sampling: Sampling) -> Fields:
    """For the Responses API."""
    return {"reasoning": {"effort": openai_effort(model, sampling)}}


def azure_thinking(model: str, sampling: Sampling) -> Fields:
    """For Azure, whose deployments have names of their own."""
    level = _level(model, sampling)
    return {"reasoning_effort": "none" if level == "off" else level}


# Other servers of chat completions, by their address.


def compatible_thinking(model: str, sampling: Sampling) -> Fields:
    """For any other server of chat completions: OpenRouter's and Alibaba's fields, or OpenAI's."""
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
    """For vLLM and SGLang, by the name of the checkpoint."""
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
    """For Anthropic's messages; a budget comes on top of the default limit of tokens."""
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
    """For Gemini: the field `thinking_config`."""
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
