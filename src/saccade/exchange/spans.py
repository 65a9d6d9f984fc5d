"""A trajectory as spans by OpenTelemetry's conventions for generative AI; pure data, without their package.

    invoke_agent saccade
        chat gpt-4.1              a turn of the model
        execute_tool run_python   what that turn ran here
        chat gpt-4.1
            execute_tool code_interpreter      what the provider's own sandbox ran meanwhile

No text, code or picture is in them, unless `content` is asked for: see `span_content`. Names of attributes are those of
the conventions (still in development there); what they have no name for stands under `saccade.`.

A record holds how long each turn took and when the episode ended, so spans are laid one after the other: the first
begins where the episode did, and what took time beside model and tools is at the end. Calls of a provider's sandbox
have no times of their own and are moments at the end of their turn.

Source: https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai, as of autumn 2026.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from saccade.errors import RecordError
from saccade.exchange.span_content import agent_content, chat_content, hosted_content, tool_content
from saccade.models.provider import Provider
from saccade.models.registry import PROVIDERS
from saccade.record.action import ToolCall
from saccade.record.execution import Execution
from saccade.record.status import Status
from saccade.record.trajectory import Sampling, Trajectory
from saccade.record.turn import FinishReason, Turn

SpanValue = str | bool | int | float | Sequence[str]
SpanKindName = Literal["internal", "client"]
AGENT: Final = "saccade"
RUN_PYTHON: Final = "run_python"
"""Name of the tool that runs code."""
_HERE: Final = frozenset({"local", "tiny", "scripted", "replay", "solver"})
"""Providers whose models run in this process."""
_FINISHED: Final = {
    FinishReason.STOP: "stop",
    FinishReason.STOP_STRING: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALL: "tool_call",
    FinishReason.FILTERED: "content_filter",
}
_SAMPLING: Final = ("temperature", "top_p", "top_k", "max_tokens", "seed")


@dataclass(frozen=True, slots=True)
class SpanFacts:
    """One span and those below it."""

    name: str
    kind: SpanKindName
    start: int
    """Nanoseconds since 1970, UTC."""
    end: int
    attributes: Mapping[str, SpanValue]
    failed: str = ""
    """Type of the error that it ended with; empty for none."""
    below: tuple[SpanFacts, ...] = field(default=())


def agent_span(trajectory: Trajectory, *, content: bool = False) -> SpanFacts:
    """The spans of an episode, under that of the whole.

    Args:
        trajectory: a recorded episode.
        content: whether texts, code, arguments and output are in attributes too; pictures are named by sha256.

    Raises:
        RecordError: it does not say when it was recorded, so there is no time to give its spans.
    """
    if trajectory.created is None:
        raise RecordError(f"{trajectory.id} does not say when it was recorded, so its spans have no time")
    end = int(trajectory.created.timestamp() * 1e9)
    about = _model(trajectory.provenance.model)
    turns = trajectory.turns
    spent = sum(turn.model_seconds + turn.execution_seconds for turn in turns)
    at = start = end - _nanoseconds(max(trajectory.seconds, spent))
    below: list[SpanFacts] = []
    for number, turn in enumerate(turns):
        said = at + _nanoseconds(turn.model_seconds)
        below.append(_chat(trajectory, number, about, (at, said), content))
        at = said
        if turn.execution is not None:
            at = said + _nanoseconds(turn.execution_seconds)
            below.append(_tool(turn, turn.execution, (said, at), content))
    failed = trajectory.stop.value if trajectory.lost and trajectory.stop is not None else ""
    attributes = {
        **_operation("invoke_agent", failed),
        **about.attributes,
        **_request(trajectory.provenance.sampling),
        **_about(trajectory),
        **_usage(turns),
        **(agent_content(trajectory) if content else {}),
    }
    return SpanFacts(f"invoke_agent {AGENT}", "internal", start, end, attributes, failed, tuple(below))


@dataclass(frozen=True, slots=True)
class _Asked:
    name: str
    kind: SpanKindName
    attributes: Mapping[str, SpanValue]


def _conventional(provider: str) -> str:
    """The name that the conventions give to a provider; any other keeps its own."""
    known = PROVIDERS.load(provider) if provider and PROVIDERS.has(provider) else None
    return (known.telemetry_name if isinstance(known, Provider) else "") or provider or "unknown"


def _model(recorded: str) -> _Asked:
    """What the recorded name `provider:name@address` tells. Of the address only host and port: it may hold a secret."""
    provider, _, rest = recorded.partition(":")
    name, marker, address = rest.rpartition("@http")
    name = name if marker else rest
    found: dict[str, SpanValue] = {"gen_ai.provider.name": _conventional(provider)}
    if name or provider:
        found["gen_ai.request.model"] = name or provider
    if marker:
        parts = urlsplit(f"http{address}")
        if parts.hostname:
            found["server.address"] = parts.hostname
            found["server.port"] = parts.port or (443 if parts.scheme == "https" else 80)
    return _Asked(name or provider or "unknown", "internal" if provider in _HERE else "client", found)


def _chat(trajectory: Trajectory, number: int, about: _Asked, times: tuple[int, int], content: bool) -> SpanFacts:
    turn, provenance = trajectory.turns[number], trajectory.provenance
    attributes: dict[str, SpanValue] = {
        **_operation("chat"),
        **about.attributes,
        **_request(provenance.sampling),
        **_usage((turn,)),
        "gen_ai.conversation.id": trajectory.id,
        "saccade.turn": number,
    }
    if provenance.model_revision:
        attributes["gen_ai.response.model"] = provenance.model_revision
    if turn.finish_reason is not None:
        attributes["gen_ai.response.finish_reasons"] = (_FINISHED[turn.finish_reason],)
    if content:
        attributes |= chat_content(trajectory, number, attributes.get("gen_ai.response.finish_reasons"))
    below = []
    for call in turn.hosted:
        failed = "" if call.execution.status is Status.OK else call.execution.status.value
        own: dict[str, SpanValue] = {
            **_operation("execute_tool", failed),
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.type": "extension",
            "saccade.pictures": len(call.execution.pictures),
            **({"gen_ai.tool.call.id": call.call_id} if call.call_id else {}),
            **(hosted_content(call) if content else {}),
        }
        below.append(SpanFacts(f"execute_tool {call.tool}", "internal", times[1], times[1], own, failed))
    return SpanFacts(f"chat {about.name}", about.kind, *times, attributes, below=tuple(below))


def _tool(turn: Turn, execution: Execution, times: tuple[int, int], content: bool) -> SpanFacts:
    action = turn.action
    name = action.name if isinstance(action, ToolCall) else RUN_PYTHON
    failed = "" if execution.status is Status.OK else execution.status.value
    call_id = turn.calls[0].call_id if turn.calls else None
    attributes: dict[str, SpanValue] = {
        **_operation("execute_tool", failed),
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "saccade.pictures": len(execution.pictures),
        **({"gen_ai.tool.call.id": call_id} if call_id else {}),
        **(tool_content(action, execution) if content else {}),
    }
    return SpanFacts(f"execute_tool {name}", "internal", *times, attributes, failed)


def _operation(name: str, failed: str = "") -> dict[str, SpanValue]:
    return {"gen_ai.operation.name": name, **({"error.type": failed} if failed else {})}


def _request(sampling: Sampling) -> dict[str, SpanValue]:
    return {f"gen_ai.request.{name}": value for name in _SAMPLING if (value := getattr(sampling, name)) is not None}


def _about(trajectory: Trajectory) -> dict[str, SpanValue]:
    found: dict[str, SpanValue] = {
        "gen_ai.agent.name": AGENT,
        "gen_ai.conversation.id": trajectory.id,
        "saccade.task": trajectory.task.id,
        "saccade.rollout": trajectory.rollout,
    }
    texts = {
        "gen_ai.agent.version": trajectory.provenance.saccade,
        "saccade.dialect": trajectory.provenance.dialect,
        "saccade.source": trajectory.task.source,
        "saccade.group": trajectory.group,
        "saccade.stop": trajectory.stop.value if trajectory.stop is not None else "",
    }
    found |= {name: value for name, value in texts.items() if value}
    found |= {f"saccade.score.{score.name}": score.value for score in trajectory.scores if score.value is not None}
    return found


def _usage(turns: Sequence[Turn]) -> dict[str, SpanValue]:
    """Sums; what one of the turns does not say is left out."""
    counts = [turn.tokens for turn in turns]
    named = {
        "gen_ai.usage.input_tokens": [count.context for count in counts],
        "gen_ai.usage.output_tokens": [count.sampled for count in counts],
        "gen_ai.usage.cache_read.input_tokens": [count.context_cached for count in counts],
    }
    found: dict[str, SpanValue] = {}
    for name, values in named.items():
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            found[name] = sum(known)
    prices = [turn.dollars for turn in turns if turn.dollars is not None]
    if prices and len(prices) == len(counts):
        found["saccade.dollars"] = sum(prices)
    return found


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
