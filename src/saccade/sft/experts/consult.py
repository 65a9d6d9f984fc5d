"""The style of dialects with typed tools that measure or read: one call, and an answer from what it returned.

A colour and a word are answered exactly as the tool gives them, right or wrong; of a table the numbers that were read
are what the expert calculates with.
"""

from __future__ import annotations

import json

from pydantic import JsonValue

from saccade.record.action import Answer, ToolCall
from saccade.sft.experts.plays import ExpertPart, ExpertStopped, Move, Play
from saccade.sft.experts.seen import Seen

_COLOURS, _READER = "color_stats", "ocr"


def tool_for(part: ExpertPart) -> str | None:
    """The tool of the dialect that answers this kind of question; None if there is none."""
    scene = part.scene
    if part.hand.codes:
        return None
    if scene.world == "pixel-colour" and scene.kind == "value" and _COLOURS in part.hand.tools:
        return _COLOURS
    written = scene.world == "table-arithmetic" or (scene.world == "rotated-dark-text" and scene.kind == "rotated")
    return _READER if written and _READER in part.hand.tools else None


def consult(part: ExpertPart, left: int) -> Play:
    """Call the tool and answer."""
    scene = part.scene
    tool = tool_for(part)
    if tool is None:
        raise ExpertStopped(f"no tool answers {scene.task.id} in {scene.dialect.id}")
    seen = yield Move(ToolCall(name=tool, arguments=_arguments(part, tool)), part.voice.say("consult", tool=tool))
    if seen.error is not None:
        raise ExpertStopped(f"the tool {tool} failed on {scene.task.id}: {seen.error}")
    answer = _colour(seen) if tool == _COLOURS else scene.answer if scene.world == "table-arithmetic" else _word(seen)
    yield Move(Answer(text=answer), part.voice.say("consulted", answer=answer))


def _arguments(part: ExpertPart, tool: str) -> dict[str, JsonValue]:
    if tool == _READER:
        return {}
    (name, (x0, y0, x1, y1), _), *_ = part.scene.evidence
    # Inside the frame around the patch, and not exactly in its middle.
    left, top = (part.scene.rng.integer(5, 7) for _ in range(2))
    return {"image": part.scene.shown_as[name], "box": [x0 + left, y0 + top, x1 - left, y1 - top]}


def _colour(seen: Seen) -> str:
    return ", ".join(str(round(channel)) for channel in _result(seen)["mean"])


def _word(seen: Seen) -> str:
    return str(_result(seen)["text"])


def _result(seen: Seen) -> dict[str, list[float]]:
    try:
        found = json.loads(seen.text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ExpertStopped(f"a tool gave no result that can be read: {seen.text[:100]!r}")
    return found
