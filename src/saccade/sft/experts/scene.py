"""What one expert knows: the task with its gold, how its media are found in the dialect, and a stream of choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from saccade.dialects.base import Dialect, Opening
from saccade.record.content import ImagePart
from saccade.record.task import Task
from saccade.sft.experts.settings import ExpertSettings
from saccade.tasks.worlds.rng import Rng

Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels of a picture of the task at its full size."""

# What the evidence boxes of worlds are called where the label is a kind of thing, not a text in the picture.
_COMMON = frozenset(
    {"crossing", "difference", "grid", "label", "pie", "ring", "word"}
    | {"circle", "hexagon", "octagon", "pentagon", "square", "triangle"}
)
_PHRASES = {
    "circles": "the pair of circles",
    "nested squares": "the drawing with the squares",
    "start": "the place where it starts",
    "end": "the place where it ends",
    "most": "the largest area",
    "lightest": "the lightest patch",
    "darkest": "the darkest patch",
    "value": "the framed patch",
    "same": "the pair of patches",
}


@dataclass(frozen=True)
class ExpertScene:
    """Everything that a style may use."""

    task: Task
    dialect: Dialect
    opening: Opening
    rng: Rng
    settings: ExpertSettings
    notes: Mapping[str, str]
    most_turns: int | None = None
    """Of the episode; None: those of the dialect."""

    @property
    def answer(self) -> str:
        """The gold answer; a generated task always has one."""
        assert self.task.answer is not None
        return self.task.answer

    @property
    def kind(self) -> str:
        """The kind of question."""
        return self.task.tags[0] if self.task.tags else ""

    @property
    def world(self) -> str:
        """The world's name without its version."""
        return self.task.source.partition("@")[0]

    @property
    def long(self) -> bool:
        """Whether thoughts are written out."""
        return self.settings.verbosity == "long"

    @cached_property
    def pictures(self) -> dict[str, ImagePart]:
        """The task's pictures by the name of their medium."""
        return {item.name: item.part for item in self.task.media if isinstance(item.part, ImagePart)}

    @cached_property
    def shown_as(self) -> dict[str, str]:
        """Name of a medium -> the variable bound to it, where there is one."""
        return {name: variable for variable, name in self.opening.bindings.items()}

    @cached_property
    def evidence(self) -> tuple[tuple[str, Box, str], ...]:
        """Where the answer can be seen: name of the picture, box in whole pixels, label."""
        boxes = ((box.image, box.xyxy, box.label) for box in self.task.evidence)
        return tuple((name, (int(x0), int(y0), int(x1), int(y1)), label) for name, (x0, y0, x1, y1), label in boxes)

    @property
    def subject(self) -> str:
        """What the question is about, in words."""
        if "target" in self.notes:
            return f"the {self.notes['target']}"
        return self.named(self.evidence[0][2] if self.evidence else "")

    def named(self, label: str) -> str:
        """A label of the evidence in words."""
        if not label:
            return self.rng.choice(("the part in question", "the place that matters", "what is asked about"))
        if label in _PHRASES:
            return _PHRASES[label]
        if label in _COMMON or " " in label:
            return f"the {label}"
        return f'"{label}"'

    @property
    def turns(self) -> int:
        """Turns that are allowed, the answer included."""
        return self.most_turns or self.dialect.limits.turns or 30


def union(boxes: list[Box]) -> Box:
    """The smallest box around all. ValueError without any."""
    return min(b[0] for b in boxes), min(b[1] for b in boxes), max(b[2] for b in boxes), max(b[3] for b in boxes)


def area(box: Box) -> int:
    """The pixels in a box."""
    return (box[2] - box[0]) * (box[3] - box[1])
