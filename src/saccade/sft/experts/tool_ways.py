"""Describe a strategy with typed tools: which tools it calls, which samples it fits, what it reads off their results.

It is a generator as any script, but does not answer: it returns the answer that the tools lead to, or None where they
lead to none, and how many calls it took.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import JsonValue

from saccade.record.action import ToolCall
from saccade.sft.experts.plays import ExpertPart, Move
from saccade.sft.experts.scene import Box
from saccade.sft.experts.seen import Seen
from saccade.sft.synth.experts import ExpertStopped


class Consulted(NamedTuple):
    """What the tools led to."""

    answer: str | None
    calls: int


Consulting = Generator[Move, Seen, Consulted]


@dataclass(frozen=True, slots=True)
class ToolStrategy:
    """Answers a kind of question with typed tools."""

    name: str
    tools: tuple[str, ...]
    """In the order in which they are called, one call each: all must be on offer."""
    fits: Callable[[ExpertPart], bool]
    play: Callable[[ExpertPart], Consulting]

    def possible(self, part: ExpertPart, left: int) -> bool:
        """Whether it fits the sample, its tools are on offer, and its calls and an answer fit in `left` turns."""
        return (
            not part.actions.codes
            and part.actions.tools.issuperset(self.tools)
            and len(self.tools) < left
            and self.fits(part)
        )


def use(
    part: ExpertPart, tool: str, arguments: Mapping[str, JsonValue], occasion: str = "consult"
) -> Generator[Move, Seen, Seen]:
    """Call a tool and give back what came of it.

    Raises:
        ExpertStopped: the call failed.
    """
    call = ToolCall(name=tool, arguments=dict(arguments))
    seen = yield Move(call, part.thoughts.say(occasion, tool=tool))
    if seen.error is not None:
        raise ExpertStopped(f"the tool {tool} failed on {part.scene.task.id}: {seen.error}")
    return seen


def result_of(seen: Seen) -> dict[str, Any]:
    """The JSON that a result opens with.

    Raises:
        ExpertStopped: it opens with none.
    """
    try:
        found = json.loads(seen.text.partition("\n")[0])
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ExpertStopped(f"a tool gave no result that can be read: {seen.text[:100]!r}")
    return found


def named_picture(part: ExpertPart) -> dict[str, JsonValue]:
    """The argument that names the task's first picture; often left out where there is only one."""
    scene = part.scene
    name = next(iter(scene.pictures))
    return {} if len(scene.pictures) == 1 and scene.rng.chance(50) else {"image": scene.shown_as[name]}


def inside(part: ExpertPart, box: Box, least: int, most: int) -> list[JsonValue]:
    """A box a few pixels inside `box`, not exactly in its middle."""
    left, top = (part.scene.rng.integer(least, most) for _ in range(2))
    return [box[0] + left, box[1] + top, box[2] - left, box[3] - top]


def is_world(*names: str, kinds: tuple[str, ...] = ()) -> Callable[[ExpertPart], bool]:
    """Whether a sample is of one of these worlds, and of one of these kinds if any are named."""
    return lambda part: part.scene.world in names and (not kinds or part.scene.kind in kinds)


def near(text: str, gold: str, part: float) -> bool:
    """Whether two texts are numbers that differ by at most `part` of the second."""
    try:
        return abs(float(text) - float(gold)) <= part * abs(float(gold))
    except ValueError:
        return False
