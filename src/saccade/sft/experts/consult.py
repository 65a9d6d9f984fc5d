"""The style of dialects with typed tools: calls of tools that measure, read or solve, and an answer from what they say.

Where the tools lead to no answer, or to one that the expert sees to be wrong, it says so, looks at the evidence itself
if a turn is left for a crop, and answers what it sees.
"""

from __future__ import annotations

from saccade.record.action import Answer
from saccade.sft.experts import ways_colours, ways_geometry, ways_reading, ways_scenes
from saccade.sft.experts.plays import ExpertPart, Move, Script, can_crop, crop
from saccade.sft.experts.tool_ways import ToolStrategy
from saccade.sft.synth.experts import ExpertStopped

_STRATEGIES: tuple[ToolStrategy, ...] = (
    *ways_colours.STRATEGIES,
    *ways_scenes.STRATEGIES,
    *ways_reading.STRATEGIES,
    *ways_geometry.STRATEGIES,
)


def strategies_for(part: ExpertPart, left: int) -> list[ToolStrategy]:
    """List the strategies whose tools are on offer and that answer this question within `left` turns."""
    return [item for item in _STRATEGIES if item.possible(part, left)]


def consult(part: ExpertPart, left: int) -> Script:
    """Call the tools of a strategy that fits, and answer.

    Raises:
        ExpertStopped: no strategy fits, or a call failed.
    """
    scene, strategies = part.scene, strategies_for(part, left)
    if not strategies:
        raise ExpertStopped(f"no tool answers {scene.task.id} in {scene.dialect.id}")
    found = yield from scene.rng.choice(strategies).play(part)
    if found.answer is not None and found.answer.casefold() == scene.answer.casefold():
        yield Move(Answer(text=found.answer), part.thoughts.say("consulted", answer=found.answer))
    elif can_crop(part, left - found.calls):
        yield from crop(part, left - found.calls, part.thoughts.say("doubt"))
    else:
        yield Move(Answer(text=scene.answer), part.thoughts.say("by_eye", answer=scene.answer))
