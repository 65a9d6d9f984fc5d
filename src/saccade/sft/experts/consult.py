"""The style of dialects with typed tools: calls of tools that measure, read or solve, and an answer from what they say.

Where the tools lead to no answer, or to one that the expert sees to be wrong, it says so, looks at the evidence itself
if a turn is left for a crop, and answers what it sees.
"""

from __future__ import annotations

from saccade.record.action import Answer
from saccade.sft.experts import ways_colours, ways_geometry, ways_reading, ways_scenes
from saccade.sft.experts.plays import ExpertPart, Move, Play, can_crop, crop
from saccade.sft.experts.tool_ways import ToolWay
from saccade.sft.synth.experts import ExpertStopped

_WAYS: tuple[ToolWay, ...] = (*ways_colours.WAYS, *ways_scenes.WAYS, *ways_reading.WAYS, *ways_geometry.WAYS)


def ways_for(part: ExpertPart, left: int) -> list[ToolWay]:
    """The ways in which tools that are on offer answer this question within `left` turns."""
    return [way for way in _WAYS if way.possible(part, left)]


def consult(part: ExpertPart, left: int) -> Play:
    """Call the tools of a way that fits, and answer.

    Raises:
        ExpertStopped: no way fits, or a call failed.
    """
    scene, ways = part.scene, ways_for(part, left)
    if not ways:
        raise ExpertStopped(f"no tool answers {scene.task.id} in {scene.dialect.id}")
    found = yield from scene.rng.choice(ways).play(part)
    if found.answer is not None and found.answer.casefold() == scene.answer.casefold():
        yield Move(Answer(text=found.answer), part.voice.say("consulted", answer=found.answer))
    elif can_crop(part, left - found.calls):
        yield from crop(part, left - found.calls, part.voice.say("doubt"))
    else:
        yield Move(Answer(text=scene.answer), part.voice.say("by_eye", answer=scene.answer))
