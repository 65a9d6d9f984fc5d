"""A document of ATIF that another agent wrote, as a trajectory.

Steps before the first one of the agent are the prompt. A step of the agent is a turn: its one call (`run_python` with
`code` is code, everything else a typed call), an answer if it is the last step and calls nothing, else a turn without
an action. What changes the meaning of an episode and has no place in a turn is refused by name; `left_out` names the
rest, which the trajectory's notes repeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from saccade.errors import RecordError
from saccade.record.action import Action, Answer, Code, ParseError, ToolCall
from saccade.record.base import clean_text
from saccade.record.content import Message, Part, Role, TextPart
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Provenance, StopReason, Trajectory
from saccade.record.turn import TokenCounts, Turn
from saccade.sft.formats.atif_content import RUN_PYTHON, MediaByPath, from_content, image_paths
from saccade.sft.formats.atif_write import COUNTS, METRICS

if TYPE_CHECKING:
    import atif

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
    """Where the pictures lie, each once, in order of first mention."""
    paths: dict[str, None] = {}
    for step in document.steps:
        results = step.observation.results if step.observation else []
        for content in (step.message, *(result.content for result in results)):
            paths |= dict.fromkeys(image_paths(content))
    return list(paths)


def left_out(document: atif.Trajectory) -> list[str]:
    """The fields that the document has and a trajectory has no place for, as `steps.timestamp`."""
    names: dict[str, None] = {}
    for kind, item in _objects(document):
        names |= dict.fromkeys(f"{kind}.{name}" for name in _UNREAD[kind] if getattr(item, name) is not None)
    if document.trajectory_id and document.session_id:
        names["document.session_id"] = None
    return list(names)


def read_foreign(document: atif.Trajectory, media: MediaByPath, name: str) -> Trajectory:
    """The trajectory; `name` is its id if the document has none. `media` is path -> what lies there.

    Raises:
        RecordError: what has no place in a trajectory, by its name.
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
            turns.append(_turn(step, media, where, last=number == len(steps) - 1))
            continue
        # What follows a turn is what the model was shown after it; behind an observation it is a further request.
        field = "observation" if turns[-1].observation is None else "request"
        if turns[-1].request is not None or (turns[-1].observation is not None and steps[number - 1].source != "agent"):
            raise RecordError(f"{where} is the second message of the {step.source} after one turn")
        turns[-1] = turns[-1].model_copy(update={field: _prompt_message(step, media)})
    return tuple(turns)


def _turn(step: atif.Step, media: MediaByPath, where: str, *, last: bool) -> Turn:
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
        action=_action(call, clean_text(said), last=last and step.observation is None),
        observation=_observation(step, media, where),
        **fields,
    )


def _action(call: atif.ToolCall | None, said: str, *, last: bool) -> Action:
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
    """What the user asked, with the pictures of the prompt as `image_0` on."""
    parts = dict.fromkeys(part for message in prompt for part in message.media)
    named = tuple(NamedMedia(name=f"image_{number}", part=part) for number, part in enumerate(parts))
    question = "\n\n".join(message.text for message in prompt if message.role == "user")
    return Task(id=id_, question=question, media=named)


def _objects(document: atif.Trajectory) -> Iterator[tuple[str, Any]]:
    """Every object of the document with the name that `_UNREAD` has for its kind."""
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
