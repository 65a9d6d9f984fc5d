"""A trajectory as a document of ATIF (Agent Trajectory Interchange Format, of the Harbor project), version 1.8.

The messages of the prompt are steps of the system, the user or the agent; every turn is a step of the agent with its
call, what came back and its counts; a last request for the answer is a step of the user. What ATIF has no place for
stands under `saccade` in the `extra` of the object that it belongs to, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from saccade.core.plugins import install
from saccade.errors import RecordError, UnavailableError
from saccade.record.base import Record
from saccade.record.content import Code, ImagePart, Message, Part, TextPart, ToolCall, VideoPart
from saccade.record.execution import Execution, HostedCall
from saccade.record.trajectory import Trajectory, Turn
from saccade.training.sft.formats.files import Row

if TYPE_CHECKING:
    import atif


# Texts and pictures as ATIF's content, and back.
#
# ATIF names PNG, JPEG, GIF and WebP pictures by path. A video, or a picture of another type, becomes the line
# `[media: PATH]`, which is read back as what is at that path.


SPACE: Final = "saccade"
"""The key under which `extra` holds what ATIF has no place for."""
RUN_PYTHON: Final = "run_python"
"""Name of the function that a step calls to run code; its argument is `code`."""
NAMED: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types of pictures that ATIF names."""
MediaByPath: TypeAlias = Mapping[str, ImagePart | VideoPart]
"""Path as a document writes it -> what lies there."""
Content: TypeAlias = "str | Sequence[atif.ContentPart] | None"


def load_atif() -> Any:
    """Return the module `atif`: the format's models. Raises `UnavailableError` without it."""
    try:
        import atif
    except ImportError as error:
        raise UnavailableError(f"ATIF's models are not installed: {install('data')}") from error
    return atif


def to_content(parts: Sequence[Part], paths: Mapping[str, str]) -> str | list[dict[str, Any]]:
    """Return a text alone as it is, anything else as a list. `paths` is sha256 -> path."""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return [_to_item(part, paths) for part in parts]


def from_content(content: Content, media: MediaByPath, where: str) -> tuple[Part, ...]:
    """Return the parts of some content. `media` holds what is at its paths.

    Raises:
        RecordError: it names a picture that `media` lacks, or audio; it begins with `where`.
    """
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextPart(text=content),)
    return tuple(_from_item(item, media, where) for item in content)


def image_paths(content: Content) -> list[str]:
    """Return the paths of the pictures of some content."""
    items = [] if content is None or isinstance(content, str) else content
    return [item.source.path for item in items if item.type == "image" and item.source is not None]


def _to_item(part: Part, paths: Mapping[str, str]) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    path = paths[part.sha256]
    if isinstance(part, ImagePart) and part.mime in NAMED:
        return {"type": "image", "source": {"media_type": part.mime, "path": path}}
    return {"type": "text", "text": _line(path)}


def _from_item(item: atif.ContentPart, media: MediaByPath, where: str) -> Part:
    if item.type == "text":
        text = item.text or ""
        lines = {_line(path): part for path, part in media.items()} if text.startswith(_line("")[:-1]) else {}
        return lines.get(text, TextPart(text=text))
    if item.type == "image" and item.source is not None and item.source.path in media:
        return media[item.source.path]
    if item.type == "image" and item.source is not None:
        raise RecordError(f"{where} shows {item.source.path}, which is not among the file's media")
    raise RecordError(f"{where} holds {item.type}, and Saccade has no part for it")


def _line(path: str) -> str:
    return f"[media: {path}]"


# Calls of a provider's own sandbox in ATIF: a call and a result each, next to those of the turn's own action.
#
# Everything that a reader of ATIF shows is where ATIF has it; what is read back is the record under `extra.saccade`.


_KIND: Final = "hosted"


def hosted_calls(calls: Sequence[HostedCall], turn: int, paths: Mapping[str, str]) -> tuple[list[Row], list[Row]]:
    """Return the calls of turn `turn` (from 0), and their results. `paths` is sha256 -> path."""
    made, results = [], []
    for number, call in enumerate(calls):
        name = f"hosted-{turn}-{number}"
        made.append(
            {
                "tool_call_id": name,
                "function_name": call.tool,
                "arguments": {"code": call.code, "language": call.language},
                "extra": {SPACE: {"kind": _KIND, "call": call.model_dump(mode="json")}},
            }
        )
        content = to_content(_parts(call.execution), paths)
        results.append({"source_call_id": name, "content": content, "extra": {SPACE: {"kind": _KIND}}})
    return made, results


def read_hosted(step: atif.Step) -> tuple[list[Row], list[atif.ToolCall]]:
    """Return the calls of the provider's sandbox in a step, and its other calls."""
    own: list[atif.ToolCall] = []
    hosted: list[Row] = []
    for call in step.tool_calls or ():
        extra = (call.extra or {}).get(SPACE) or {}
        if extra.get("kind") == _KIND:
            hosted.append({**extra["call"], "code": call.arguments.get("code"), "tool": call.function_name})
        else:
            own.append(call)
    return hosted, own


def own_results(results: Iterable[atif.ObservationResult]) -> list[atif.ObservationResult]:
    """Return the results that are not those of a provider's sandbox."""
    return [result for result in results if ((result.extra or {}).get(SPACE) or {}).get("kind") != _KIND]


def _parts(execution: Execution) -> tuple[Part, ...]:
    printed = [execution.stdout, execution.stderr, execution.traceback or "", *execution.notes]
    text = "\n".join(piece.rstrip("\n") for piece in printed if piece)
    return (TextPart(text=text or f"({execution.status.value})"), *(picture.image for picture in execution.pictures))


VERSION: Final = "ATIF-v1.8"
AGENT: Final = "saccade"
UNKNOWN: Final = "unknown"
COUNTS: Final = {"prompt_tokens": "context", "completion_tokens": "sampled", "cached_tokens": "context_cached"}
"""ATIF's count -> that of `TokenCounts`."""
METRICS: Final = {"cost_usd": "dollars", "completion_token_ids": "token_ids", "logprobs": "logprobs"}
"""ATIF's metric -> the field of `Turn`."""
_SOURCES: Final = {"system": "system", "assistant": "agent"}


def write_document(trajectory: Trajectory, paths: Mapping[str, str]) -> Row:
    """Return the document.

    `paths` is the sha256 of each of the trajectory's media -> the path that is written for it.
    """
    steps = [
        _message_step("prompt", _SOURCES.get(message.role, "user"), message, paths) for message in trajectory.prompt
    ]
    for number, turn in enumerate(trajectory.turns):
        steps.append(_turn_step(turn, number, paths))
        if turn.request is not None:
            steps.append(_message_step("request", "user", turn.request, paths))
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
    """Return the fields of a record that differ from their defaults, as JSON."""
    fields = type(record).model_fields
    left = {name for name in fields if name in without or getattr(record, name) == fields[name].default}
    return record.model_dump(mode="json", exclude=left)


def _message_step(kind: str, source: str, message: Message, paths: Mapping[str, str]) -> Row:
    return {
        "source": source,
        "message": to_content(message.parts, paths),
        "extra": {SPACE: {"as": kind, "message": kept(message, {"parts"})}},
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
    """Return the call that the turn's action is; the code as the dialect cut it out."""
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
