"""`atif`: a folder with a document of ATIF (Agent Trajectory Interchange Format) for each episode, next to `media/`.

Paths of media are relative to the document. Documents of other agents are read too, each step as one turn. Reading and
writing go through the models of the package `atif`, so no document breaks the format's rules.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import ValidationError

from saccade.core.registry import install
from saccade.errors import RecordError, SaccadeError, UnavailableError
from saccade.media.store import MediaStore
from saccade.record.codec import loads
from saccade.record.content import (
    Action,
    Answer,
    Code,
    ImagePart,
    Message,
    ParseError,
    Part,
    Record,
    Role,
    TextPart,
    ToolCall,
    VideoPart,
    clean_text,
)
from saccade.record.execution import Execution, HostedCall
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Provenance, StopReason, TokenCounts, Trajectory, Turn
from saccade.training.sft.curate.pipeline import Media
from saccade.training.sft.formats.files import (
    ConversionOptions,
    MediaIn,
    MediaOut,
    Refused,
    Row,
    TrajectorySource,
    write_documents,
)

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

    Raises `RecordError`: it names a picture that `media` lacks, or audio; it begins with `where`.
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
    """Return sums over the turns, left out where one of them does not say."""
    counts = {f"total_{name}": [getattr(turn.tokens, field) for turn in turns] for name, field in COUNTS.items()}
    counts["total_cost_usd"] = [turn.dollars for turn in turns]
    sums: dict[str, Any] = {name: sum(values) for name, values in counts.items() if None not in values}
    return {**sums, "total_steps": steps}


# A document of ATIF that Saccade wrote, as the trajectory that it was.
#
# Text, calls, what came back, counts and prices are read where ATIF has them, so a document that was edited gives the
# edited trajectory; everything else is read from `extra.saccade`.


def is_own(document: atif.Trajectory) -> bool:
    """Return whether Saccade wrote the document."""
    return isinstance((document.extra or {}).get(SPACE), dict)


def own_media(document: atif.Trajectory) -> Iterator[tuple[str, Row]]:
    """Yield paths of the document's media, and the parts as JSON."""
    for item in (document.extra or {})[SPACE].get("media", []):
        yield item["path"], item["part"]


def read_own(document: atif.Trajectory, media: MediaByPath) -> Trajectory:
    """Return the trajectory of a document that Saccade wrote. `media` maps each path to the file there.

    Raises:
        RecordError: a step has lost its `extra.saccade`, a field is unknown or wrong, a picture is not among `media`.
    """
    own = dict((document.extra or {})[SPACE])
    own.pop("media", None)
    prompt: list[Row] = []
    turns: list[Row] = []
    for step in document.steps:
        where = f"step {step.step_id}"
        mine = (step.extra or {}).get(SPACE) or {}
        kind = mine.get("as")
        if kind == "turn":
            turns.append(_turn(step, mine, media, where))
        elif kind == "prompt" and not turns:
            prompt.append(_message(mine, step.message, media, where))
        elif kind == "request" and turns and "request" not in turns[-1]:
            turns[-1]["request"] = _message(mine, step.message, media, where)
        else:
            raise RecordError(f"{where} does not say what it was (extra.{SPACE}.as): it was added or moved by others")
    about = {**own.get("provenance", {}), "model": document.agent.model_name or ""}
    fields = {**own, "id": document.trajectory_id, "provenance": about, "prompt": prompt, "turns": turns}
    return loads(json.dumps(fields), Trajectory)


def _turn(step: atif.Step, mine: Mapping[str, Any], media: MediaByPath, where: str) -> Row:
    turn = {name: value for name, value in mine.items() if name != "as"}
    if not isinstance(step.message, str):
        raise RecordError(f"{where} holds pictures; what a model of Saccade writes is text")
    turn["text"] = step.message
    hosted, calls = read_hosted(step)
    if hosted:
        turn["hosted"] = hosted
    if len(calls) > 1 or bool(calls) == ("action" in turn):
        raise RecordError(f"{where} has {len(calls)} calls; a turn of Saccade has one action")
    if calls:
        turn["action"] = _action(calls[0])
    results = [] if step.observation is None else own_results(step.observation.results)
    if len(results) > 1 or (step.observation is not None and not step.observation.results):
        raise RecordError(f"{where} has {len(results)} results; a turn of Saccade has one")
    for result in results:
        turn["observation"] = _message((result.extra or {}).get(SPACE) or {}, result.content, media, where)
    if step.metrics is not None:
        for name, field in METRICS.items():
            turn[field] = getattr(step.metrics, name)
        counts = {field: getattr(step.metrics, name) for name, field in COUNTS.items()}
        turn["tokens"] = {**turn.get("tokens", {}), **counts}
    return turn


def _action(call: atif.ToolCall) -> Row:
    own = (call.extra or {}).get(SPACE) or {}
    if own.get("kind") == "code":
        return {"kind": "code", "code": call.arguments.get("code")}
    return {**own, "kind": "tool_call", "name": call.function_name, "arguments": call.arguments}


def _message(own: Mapping[str, Any], content: Content, media: MediaByPath, where: str) -> Row:
    parts = from_content(content, media, where)
    return {**own.get("message", {}), "parts": [part.model_dump(mode="json") for part in parts]}


# A document of ATIF that another agent wrote, as a trajectory.
#
# Steps before the first one of the agent are the prompt. A step of the agent is a turn: its one call (`run_python` with
# `code` is code, everything else a typed call), an answer if it is the last step and calls nothing, else a turn without
# an action. What changes the meaning of an episode and has no place in a turn is refused by name; `left_out` names the
# rest, which the trajectory's notes repeat.


_UNREAD: Final = {
    "document": ("notes", "final_metrics", "extra"),
    "agent": ("name", "version", "tool_definitions", "extra"),
    "steps": ("timestamp", "model_name", "reasoning_effort", "llm_call_count", "extra"),
    "tool_calls": ("extra",),
    "results": ("extra",),
    "metrics": ("prompt_token_ids", "extra"),
}
"""Fields that a trajectory has no place for, of each object of a document."""


def media_paths(document: atif.Trajectory) -> list[str]:
    """Return the paths of the pictures, each once, in order of first mention."""
    paths: dict[str, None] = {}
    for step in document.steps:
        results = step.observation.results if step.observation else []
        for content in (step.message, *(result.content for result in results)):
            paths |= dict.fromkeys(image_paths(content))
    return list(paths)


def left_out(document: atif.Trajectory) -> list[str]:
    """Return the fields that the document has and a trajectory has no place for, as `steps.timestamp`."""
    names: dict[str, None] = {}
    for kind, item in _objects(document):
        names |= dict.fromkeys(f"{kind}.{name}" for name in _UNREAD[kind] if getattr(item, name) is not None)
    if document.trajectory_id and document.session_id:
        names["document.session_id"] = None
    return list(names)


def read_foreign(document: atif.Trajectory, media: MediaByPath, name: str) -> Trajectory:
    """Return the trajectory; `name` is its id if the document has none. `media` is path -> what lies there.

    Raises `RecordError`: what has no place in a trajectory, by its name.
    """
    _refuse_foreign(document)
    first = next((number for number, step in enumerate(document.steps) if step.source == "agent"), None)
    if first is None:
        raise RecordError("no step is the agent's")
    prompt = tuple(_prompt_message(step, media) for step in document.steps[:first])
    id_ = clean_text(document.trajectory_id or document.session_id or name)
    turns = _turns(document.steps[first:], media)
    unread = left_out(document)
    note = (f"Read from ATIF, which also had {', '.join(unread)}: left out.",) if unread else ()
    answered = isinstance(turns[-1].action, Answer)
    return Trajectory(
        id=id_,
        task=_task(id_, prompt),
        provenance=Provenance(model=clean_text(document.agent.model_name or ""), notes=note),
        prompt=prompt,
        turns=turns,
        stop=StopReason.ANSWERED if answered else None,
        stop_detail="" if answered else "The document does not say why the episode ended.",
    )


def _refuse_foreign(document: atif.Trajectory) -> None:
    """Raise for a document that is not one whole episode of one agent."""
    if document.subagent_trajectories:
        raise RecordError(f"it embeds {len(document.subagent_trajectories)} trajectories of subagents")
    if document.continued_trajectory_ref is not None:
        raise RecordError(f"it is continued in {document.continued_trajectory_ref}: an episode is one document here")
    for step in document.steps:
        where = f"step {step.step_id}"
        if step.is_copied_context:
            raise RecordError(f"{where} was copied from another trajectory (is_copied_context)")
        if step.source == "agent" and step.llm_call_count == 0:
            raise RecordError(f"{where} was not written by a model (llm_call_count is 0)")
        if step.tool_calls and len(step.tool_calls) > 1:
            raise RecordError(f"{where} has {len(step.tool_calls)} calls (tool_calls); a turn has one action")
        if step.source != "agent" and step.observation is not None:
            raise RecordError(f"{where} is a step of the {step.source} with an observation")
        if step.observation and any(result.subagent_trajectory_ref for result in step.observation.results):
            raise RecordError(f"{where} was delegated to a subagent (subagent_trajectory_ref)")


def _prompt_message(step: atif.Step, media: MediaByPath) -> Message:
    role: Role = "system" if step.source == "system" else "user"
    return Message(role=role, parts=_clean(from_content(step.message, media, f"step {step.step_id}")))


def _turns(steps: list[atif.Step], media: MediaByPath) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for number, step in enumerate(steps):
        where = f"step {step.step_id}"
        if step.source == "agent":
            turns.append(_foreign_turn(step, media, where, last=number == len(steps) - 1))
            continue
        # What follows a turn is what the model was shown after it; behind an observation it is a further request.
        field = "observation" if turns[-1].observation is None else "request"
        if turns[-1].request is not None or (turns[-1].observation is not None and steps[number - 1].source != "agent"):
            raise RecordError(f"{where} is the second message of the {step.source} after one turn")
        turns[-1] = turns[-1].model_copy(update={field: _prompt_message(step, media)})
    return tuple(turns)


def _foreign_turn(step: atif.Step, media: MediaByPath, where: str, *, last: bool) -> Turn:
    if not isinstance(step.message, str):
        texts = [item.text for item in step.message if item.type == "text" and item.text is not None]
        if len(texts) < len(step.message):
            raise RecordError(f"{where}: the agent's message holds more than text")
        said = "".join(texts)
    else:
        said = step.message
    thought = f"<think>{step.reasoning_content}</think>" if step.reasoning_content else ""
    call = step.tool_calls[0] if step.tool_calls else None
    fields: dict[str, Any] = {}
    if step.metrics is not None:
        fields = {field: getattr(step.metrics, name) for name, field in METRICS.items()}
        counts = {field: getattr(step.metrics, name) for name, field in COUNTS.items()}
        fields["tokens"] = TokenCounts.model_validate(counts)
    return Turn(
        text=clean_text(thought + said),
        action=_foreign_action(call, clean_text(said), last=last and step.observation is None),
        observation=_observation(step, media, where),
        **fields,
    )


def _foreign_action(call: atif.ToolCall | None, said: str, *, last: bool) -> Action:
    if call is None:
        return Answer(text=said) if last else ParseError(reason="The step of the agent calls nothing.")
    code = call.arguments.get("code")
    if call.function_name == RUN_PYTHON and isinstance(code, str) and len(call.arguments) == 1:
        return Code(code=clean_text(code))
    return ToolCall(name=call.function_name, arguments=call.arguments, call_id=call.tool_call_id)


def _observation(step: atif.Step, media: MediaByPath, where: str) -> Message | None:
    if step.observation is None:
        return None
    parts = [part for result in step.observation.results for part in from_content(result.content, media, where)]
    if not step.tool_calls:
        return Message(role="user", parts=_clean(parts))
    return Message(role="tool", parts=_clean(parts), call_id=clean_text(step.tool_calls[0].tool_call_id))


def _clean(parts: tuple[Part, ...] | list[Part]) -> tuple[Part, ...]:
    return tuple(TextPart(text=clean_text(part.text)) if isinstance(part, TextPart) else part for part in parts)


def _task(id_: str, prompt: tuple[Message, ...]) -> Task:
    """Read the user's question, with the pictures of the prompt as `image_0` on."""
    parts = dict.fromkeys(part for message in prompt for part in message.media)
    named = tuple(NamedMedia(name=f"image_{number}", part=part) for number, part in enumerate(parts))
    question = "\n\n".join(message.text for message in prompt if message.role == "user")
    return Task(id=id_, question=question, media=named)


def _objects(document: atif.Trajectory) -> Iterator[tuple[str, Any]]:
    """Yield every object of the document with the name that `_UNREAD` has for its kind."""
    yield "document", document
    yield "agent", document.agent
    for step in document.steps:
        yield "steps", step
        for call in step.tool_calls or ():
            yield "tool_calls", call
        for result in step.observation.results if step.observation else ():
            yield "results", result
        if step.metrics is not None:
            yield "metrics", step.metrics


_log = logging.getLogger(__name__)
_VERSION = re.compile(r"ATIF-v1\.[0-8]")
_HARBOR = "trajectory.json"
"""How Harbor calls the document of a trial, somewhere below the trial's folder."""

_MADE_ANEW = frozenset({"session_id", "final_metrics", "steps"})
"""Fields of a document that writing makes of the others; steps are compared one by one."""


@dataclass(frozen=True, slots=True)
class AtifFormat:
    """The format; see the module's head."""

    def read(self, path: Path, options: ConversionOptions, store: MediaStore) -> TrajectorySource:
        """See `Format`. Each document is a row, in the order of the files' names."""
        models = load_atif()
        return TrajectorySource(_read(_documents(path), models, options, store), store)

    def write(
        self, trajectories: Iterable[Trajectory], media: Media, folder: Path, options: ConversionOptions
    ) -> list[Refused]:
        models = load_atif()
        out = MediaOut(media, folder, options.root)
        return write_documents(trajectories, folder, lambda each: checked_document(each, out, models), indent=2)


def checked_document(trajectory: Trajectory, out: MediaOut, models: Any) -> dict[str, Any]:
    """Return the document of a trajectory.

    Raises `RecordError`: ATIF's models refuse it, or reading it would not give the trajectory back.
    """
    parts = {part.sha256: part for part in trajectory.media()}
    paths = {sha256: out.path(part) for sha256, part in parts.items()}
    document = _valid(write_document(trajectory, paths), models)
    written: dict[str, Any] = document.to_json_dict()
    if read_own(_valid(written, models), {paths[sha256]: part for sha256, part in parts.items()}) != trajectory:
        raise RecordError("reading the document would not give it back")
    return written


def _read(
    files: list[Path], models: Any, options: ConversionOptions, store: MediaStore
) -> Iterator[Trajectory | Refused]:
    for number, file in enumerate(files):
        try:
            document = _valid(json.loads(file.read_text(encoding="utf-8-sig")), models)
            yield _trajectory(document, MediaIn(options.images or file.parent, store), file)
        except (SaccadeError, OSError, ValueError, KeyError, TypeError) as error:
            reason = clean_text(str(error)) or type(error).__name__
            yield Refused(row=number, id=clean_text(file.name), reason=reason)


def _trajectory(document: atif.Trajectory, media: MediaIn, file: Path) -> Trajectory:
    if is_own(document):
        parts = {path: _checked(path, part, media) for path, part in own_media(document)}
        trajectory = read_own(document, parts)
        unread = _added(document, write_document(trajectory, {part.sha256: path for path, part in parts.items()}))
    else:
        trajectory = read_foreign(document, {path: media.image(path) for path in media_paths(document)}, file.stem)
        unread = left_out(document)
    if unread:
        _log.warning("%s: Saccade has no place for %s; left out", file, ", ".join(unread))
    return trajectory


def _added(document: atif.Trajectory, again: Mapping[str, Any]) -> list[str]:
    """Return where a document of Saccade's holds additions of others, which reading does not keep."""
    now, then = document.to_json_dict(), dict(again)
    names = [f"document.{name}" for name in now if name not in _MADE_ANEW and now[name] != then.get(name)]
    for mine, theirs in zip(now["steps"], then["steps"], strict=True):
        names += [f"step {mine['step_id']}.{name}" for name in mine if mine[name] != theirs.get(name)]
    return names


def _checked(path: str, recorded: Mapping[str, Any], media: MediaIn) -> ImagePart | VideoPart:
    """Return the file at the path, which must be what was written."""
    part = media.video(path) if recorded.get("kind") == "video" else media.image(path)
    if part.sha256 != recorded.get("sha256"):
        raise RecordError(f"{path} is not the file that was written: its sha256 is another")
    return part


def _documents(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = sorted(path.glob("*.json")) or sorted(path.rglob(_HARBOR))
    if not files:
        raise RecordError(f"{path} holds no ATIF document: no *.json, and no {_HARBOR} in a folder below it.")
    return files


def _valid(row: object, models: Any) -> atif.Trajectory:
    """Return the document of a JSON object. Raises `RecordError` for what is none, with every field that is wrong."""
    try:
        document: atif.Trajectory = models.Trajectory.model_validate(row)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors(include_url=False)]
        raise RecordError("it is no ATIF document: " + "; ".join(wrong)) from error
    if not _VERSION.fullmatch(document.schema_version):
        raise RecordError(f"its schema_version is {document.schema_version!r}; ATIF-v1.0 to ATIF-v1.8 are read")
    return document


FORMAT = AtifFormat()
