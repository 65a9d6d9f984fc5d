"""A trajectory as a document of ATIF (Agent Trajectory Interchange Format, of the Harbor project), version 1.8.

The messages of the prompt are steps of the system, the user or the agent; every turn is a step of the agent with its
call, what came back and its counts; a last request for the answer is a step of the user. What ATIF has no place for
stands under `saccade` in the `extra` of the object that it belongs to, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from saccade.record.action import Code, ToolCall
from saccade.record.base import Record
from saccade.record.content import Message
from saccade.record.trajectory import Trajectory
from saccade.record.turn import Turn
from saccade.sft.formats.atif_content import RUN_PYTHON, SPACE, to_content
from saccade.sft.formats.atif_hosted import hosted_calls
from saccade.sft.formats.row_files import Row

VERSION: Final = "ATIF-v1.8"
AGENT: Final = "saccade"
UNKNOWN: Final = "unknown"
COUNTS: Final = {"prompt_tokens": "context", "completion_tokens": "sampled", "cached_tokens": "context_cached"}
"""ATIF's count -> that of `TokenCounts`."""
METRICS: Final = {
    "cost_usd": "dollars",
    "completion_token_ids": "token_ids",
    "logprobs": "logprobs",
}
"""ATIF's metric -> the field of `Turn`."""
_SOURCES: Final = {"system": "system", "assistant": "agent"}


def write_document(trajectory: Trajectory, paths: Mapping[str, str]) -> Row:
    """The document. `paths` is the sha256 of each of the trajectory's media -> the path that is written for it."""
    steps = [_prompt_step(message, paths) for message in trajectory.prompt]
    for number, turn in enumerate(trajectory.turns):
        steps.append(_turn_step(turn, number, paths))
        if turn.request is not None:
            steps.append(_request_step(turn.request, paths))
    about = trajectory.provenance
    own = kept(trajectory, {"id", "prompt", "turns", "provenance"})
    media = [{"path": paths[part.sha256], "part": part.model_dump(mode="json")} for part in trajectory.media()]
    return {
        "schema_version": VERSION,
        "session_id": trajectory.group or trajectory.id,
        "trajectory_id": trajectory.id,
        "agent": {
            "name": AGENT,
            "version": about.saccade or UNKNOWN,
            **({"model_name": about.model} if about.model else {}),
        },
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": _totals(trajectory.turns, len(steps)),
        "extra": {
            SPACE: {
                "schema_version": trajectory.schema_version,
                **own,
                "provenance": kept(about, {"model"}),
                "media": media,
            }
        },
    }


def kept(record: Record, without: Collection[str]) -> Row:
    """The fields of a record that differ from their defaults, as JSON."""
    fields = type(record).model_fields
    left = {name for name in fields if name in without or getattr(record, name) == fields[name].default}
    return record.model_dump(mode="json", exclude=left)


def _prompt_step(message: Message, paths: Mapping[str, str]) -> Row:
    return {
        "source": _SOURCES.get(message.role, "user"),
        "message": to_content(message.parts, paths),
        "extra": {SPACE: {"as": "prompt", "message": kept(message, {"parts"})}},
    }


def _request_step(message: Message, paths: Mapping[str, str]) -> Row:
    return {
        "source": "user",
        "message": to_content(message.parts, paths),
        "extra": {SPACE: {"as": "request", "message": kept(message, {"parts"})}},
    }


def _turn_step(turn: Turn, number: int, paths: Mapping[str, str]) -> Row:
    held = {"text", "observation", "request", "tokens", "hosted", *METRICS.values()}
    call = _call(turn, number)
    own = {"as": "turn", **kept(turn, {*held, "action"} if call else held)}
    if tokens := kept(turn.tokens, COUNTS.values()):
        own["tokens"] = tokens
    step: Row = {"source": "agent", "message": turn.text, "extra": {SPACE: own}}
    calls, results = hosted_calls(turn.hosted, number, paths)
    if call is not None:
        calls.append(call)
    if turn.observation is not None:
        result = {
            "content": to_content(turn.observation.parts, paths),
            "extra": {SPACE: {"message": kept(turn.observation, {"parts"})}},
        }
        answers = {"source_call_id": call["tool_call_id"]} if call is not None else {}
        results.append({**answers, **result})
    if calls:
        step["tool_calls"] = calls
    if results:
        step["observation"] = {"results": results}
    if metrics := _metrics(turn):
        step["metrics"] = metrics
    return step


def _call(turn: Turn, number: int) -> Row | None:
    """The call that the turn's action is; the code as the dialect cut it out."""
    action = turn.action
    if isinstance(action, ToolCall):
        return {
            "tool_call_id": action.call_id or f"call-{number}",
            "function_name": action.name,
            "arguments": dict(action.arguments),
            "extra": {SPACE: kept(action, {"name", "arguments"}) | {"kind": action.kind}},
        }
    if isinstance(action, Code):
        given = turn.calls[0].call_id if turn.calls else None
        return {
            "tool_call_id": given or f"call-{number}",
            "function_name": RUN_PYTHON,
            "arguments": {"code": action.code},
            "extra": {SPACE: {"kind": action.kind}},
        }
    return None


def _metrics(turn: Turn) -> Row:
    counts = {name: getattr(turn.tokens, field) for name, field in COUNTS.items()}
    counts |= {name: getattr(turn, field) for name, field in METRICS.items()}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in counts.items() if value is not None
    }


def _totals(turns: Iterable[Turn], steps: int) -> Row:
    """Sums over the turns; left out where one of them does not say."""
    counts = {f"total_{name}": [getattr(turn.tokens, field) for turn in turns] for name, field in COUNTS.items()}
    counts["total_cost_usd"] = [turn.dollars for turn in turns]
    sums: dict[str, Any] = {name: sum(values) for name, values in counts.items() if None not in values}
    return {**sums, "total_steps": steps}
