"""A document of ATIF that Saccade wrote, as the trajectory that it was.

Text, calls, what came back, counts and prices are read where ATIF has them, so a document that was edited gives the
edited trajectory; everything else is read from `extra.saccade`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from saccade.errors import RecordError
from saccade.record.codec import loads
from saccade.record.trajectory import Trajectory
from saccade.sft.formats.atif_content import SPACE, Content, MediaByPath, from_content
from saccade.sft.formats.atif_hosted import own_results, read_hosted
from saccade.sft.formats.atif_write import COUNTS, METRICS
from saccade.sft.formats.row_files import Row

if TYPE_CHECKING:
    import atif


def is_own(document: atif.Trajectory) -> bool:
    """Whether Saccade wrote it."""
    return isinstance((document.extra or {}).get(SPACE), dict)


def own_media(document: atif.Trajectory) -> Iterator[tuple[str, Row]]:
    """Paths of the document's media, and the parts as JSON."""
    for item in (document.extra or {})[SPACE].get("media", []):
        yield item["path"], item["part"]


def read_own(document: atif.Trajectory, media: MediaByPath) -> Trajectory:
    """The trajectory. `media` is path -> what lies there.

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
