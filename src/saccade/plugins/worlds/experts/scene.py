"""Hold the knowledge of an expert (the task with its gold, media, a stream of choices), and write its actions."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pydantic import Field, NonNegativeFloat, model_validator

from saccade.core.settings import Settings
from saccade.dialects.base import Dialect, Opening
from saccade.dialects.thyme import OUTPUT_FOLDER
from saccade.record.content import Code, ImagePart, ToolCall
from saccade.record.task import Task, parse
from saccade.tasks.worlds import Rng

# How experts write: which styles, how long their thoughts are, how they show pictures.

Style = Literal["crop", "compute", "consult", "mistake", "direct"]
STYLES: tuple[Style, ...] = ("crop", "compute", "consult", "mistake", "direct")


class StyleWeights(Settings):
    """How often each style is taken where it fits the sample; 0 for never."""

    crop: NonNegativeFloat = 4.0
    """Cut out where the answer can be seen, look, answer."""
    compute: NonNegativeFloat = 4.0
    """Run the world's program, read what it prints, answer."""
    consult: NonNegativeFloat = 2.0
    """Call a typed tool that measures or reads, answer what it returned. Reading (`ocr`) takes a second or more."""
    mistake: NonNegativeFloat = 1.5
    """A crop or a program with a slip that happens, is noticed and is repaired."""
    direct: NonNegativeFloat = 0.5
    """Answer at once, where the picture is small and the sample is easy."""


class ShowWeights(Settings):
    """How often a picture is shown in each way, in dialects where programs show pictures without saving them."""

    plt: NonNegativeFloat = 3.0
    """`plt.imshow` and `plt.show`: a figure, in matplotlib's own size."""
    show: NonNegativeFloat = 2.0
    """`Image.show`: the pixels as they are."""
    display: NonNegativeFloat = 1.0
    """`display` from IPython: the pixels as they are."""

    @model_validator(mode="after")
    def _some(self) -> ShowWeights:
        if not self.plt + self.show + self.display:
            raise ValueError("one way of showing pictures needs a weight above 0")
        return self


class ExpertSettings(Settings):
    """How an expert acts and what its thoughts are like."""

    styles: StyleWeights = StyleWeights()
    show: ShowWeights = ShowWeights()
    verbosity: Literal["short", "long"] = "long"
    """Thoughts of a few words for tiny models, of a few sentences for others."""
    crop_side: int = Field(448, ge=32, le=2048)
    """Longer side in pixels to which smaller crops are enlarged."""
    wide_percent: int = Field(30, ge=0, le=100)
    """In how many of 100 crops a wider one comes first."""
    cells_percent: int = Field(40, ge=0, le=100)
    """In how many of 100 programs several cells are written."""
    longest_program: int = Field(20_000, ge=0)
    """Characters; samples whose program is longer are not computed."""
    direct_difficulty: float = Field(0.45, ge=0, le=1)
    """Hardest sample (0 to 1 within its world) that is answered at once."""
    direct_pixels: int = Field(400_000, ge=0)
    """Largest picture that is answered at once: above, a model's input would be shrunk."""


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
        return self.task.tags[0] if self.task.tags else ""

    @property
    def world(self) -> str:
        """The world's name without its version."""
        return self.task.source.partition("@")[0]

    @property
    def long(self) -> bool:
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
        if "target" in self.notes:
            return f"the {self.notes['target']}"
        return self.named(self.evidence[0][2] if self.evidence else "")

    def named(self, label: str) -> str:
        if not label:
            return self.rng.choice(("the part in question", "the place that matters", "what is asked about"))
        if label in _PHRASES:
            return _PHRASES[label]
        if label in _COMMON or " " in label:
            return f"the {label}"
        return f'"{label}"'

    @property
    def turns(self) -> int:
        return self.most_turns or self.dialect.limits.turns or 30


def union(boxes: list[Box]) -> Box:
    """Return the smallest box around all. ValueError without any."""
    return min(b[0] for b in boxes), min(b[1] for b in boxes), max(b[2] for b in boxes), max(b[3] for b in boxes)


def area(box: Box) -> int:
    """Return the pixels in a box."""
    return (box[2] - box[0]) * (box[3] - box[1])


# Where an expert cuts: boxes around the evidence with plausible, jittered margins, and places that show nothing.


PixelSize = tuple[int, int]
LEAST = 32
"""Shortest side of a window in pixels, where the picture has as many."""


def around(rng: Rng, box: Box, size: PixelSize, *, widen: int = 1) -> Box:
    """Return a box around `box` inside a picture of `size`, with random margins of its size times `widen`."""
    # Small things are not hit exactly: the least margin is a hundredth of the picture.
    least = max(size) // 100 + 4
    # People like round numbers.
    step = rng.choice((1, 5, 10))
    edges = []
    for axis in (0, 1):
        side = box[axis + 2] - box[axis]
        before, after = (widen * (least + side * rng.integer(5, 70) // 100) for _ in range(2))
        low, high = box[axis] - before, box[axis + 2] + after
        edges.append(_inside(low - low % step, high + -high % step, size[axis]))
    (x0, x1), (y0, y1) = edges
    return x0, y0, x1, y1


def _inside(low: int, high: int, size: int) -> tuple[int, int]:
    """Return the part of the span that is in 0..size, made `LEAST` long where there is room.

    Some tools want that much.
    """
    low, high = max(0, low), min(size, high)
    high = min(size, max(high, low + LEAST))
    return max(0, min(low, high - LEAST)), high


def elsewhere(rng: Rng, box: Box, size: PixelSize) -> Box | None:
    """Return a box of the same size that shows nothing of `box`; None where the picture has no room for one."""
    width, height = box[2] - box[0], box[3] - box[1]
    if width > size[0] // 2 or height > size[1] // 2:
        return None
    for _ in range(40):
        x, y = rng.integer(0, size[0] - width), rng.integer(0, size[1] - height)
        if x + width <= box[0] or x >= box[2] or y + height <= box[1] or y >= box[3]:
            return x, y, x + width, y + height
    return None


def groups(boxes: list[Box], most: int) -> list[Box]:
    """Return the evidence as windows to look at: all of it in one if it lies together, else one each.

    Empty if that would be more than `most` windows.
    """
    together = union(boxes)
    if len(boxes) == 1 or area(together) <= 12 * sum(map(area, boxes)):
        return [together]
    return boxes if len(boxes) <= most else []


def zoom(box: Box, side: int) -> int:
    """Return how many times, 1 to 16, a crop of `box` must be enlarged to be about `side` pixels long."""
    return max(1, min(16, round(side / max(box[2] - box[0], box[3] - box[1]))))


# Write an expert's actions in a dialect: crops as code or calls, programs under the right names.
#
# Cells do not rely on one another: each imports and opens what it uses, unless the dialect has it there from the start.


_CUTTERS = ("crop", "image_zoom_in_tool")
_IMPORTS = {
    "Image": "from PIL import Image",
    "np": "import numpy as np",
    "plt": "import matplotlib.pyplot as plt",
    "display": "from IPython.display import display",
    "VideoReader": "from decord import VideoReader",
}
_SAVING = ("thyme", "codev")


class ActionWriter:
    """Writes the actions of one scene."""

    def __init__(self, scene: ExpertScene) -> None:
        self.scene = scene
        self.tools = frozenset(tool.name for tool in scene.dialect.tools)
        """Names of the typed tools that the dialect offers."""
        self.cutter = next((name for name in _CUTTERS if name in self.tools), None)
        """The tool that crops; None where pictures are cropped by code, or not at all."""
        self._family = scene.dialect.id.partition("@")[0]
        self.codes = not scene.dialect.offers_tools or self._family == "native"
        """Whether turns may be code."""
        if self.codes:
            self.cutter = None
        self._preloaded = frozenset(scene.dialect.session.preload)
        self._saved = 0

    def look(self, name: str, box: Box) -> Code | ToolCall:
        """Cut `box` out of the picture `name`, enlarge it, show it."""
        factor = zoom(box, self.scene.settings.crop_side)
        if self.cutter is not None:
            return self._call(name, box, factor)
        return Code(code=self.crop_code(name, box, factor))

    def _call(self, name: str, box: Box, factor: int) -> ToolCall:
        if self.cutter == "image_zoom_in_tool":
            arguments: dict[str, object] = {"bbox_2d": list(box)}
            if self.scene.rng.chance(60):
                arguments["label"] = self.scene.subject
        else:
            arguments = {"image": self.scene.shown_as[name], "box": list(box)}
            if factor > 1:
                arguments["scale"] = factor
        return ToolCall.model_validate({"name": self.cutter, "arguments": arguments})

    def crop_code(self, name: str, box: Box, factor: int) -> str:
        rng = self.scene.rng
        variable, lines, needed = self.opened(name)
        crop = rng.choice(("crop", "part", "region", "piece", "closer"))
        if rng.chance(40):
            lines += [f"box = {box}", f"{crop} = {variable}.crop(box)"]
        else:
            lines.append(f"{crop} = {variable}.crop({box})")
        if factor > 1 and rng.chance(50):
            lines.append(f"{crop} = {crop}.resize(({crop}.width * {factor}, {crop}.height * {factor}))")
        elif factor > 1:
            size = ((box[2] - box[0]) * factor, (box[3] - box[1]) * factor)
            lines.append(f"{crop} = {crop}.resize({size}, Image.LANCZOS)")
            needed.append("Image")
        shown, more = self.show(crop)
        return "\n".join([*self.imports([*needed, *more]), *lines, *shown])

    def show(self, expression: str) -> tuple[list[str], list[str]]:
        """Return lines that show a Pillow image, and the names that they need."""
        if self._family in _SAVING:
            self._saved += 1
            folder = OUTPUT_FOLDER + "/" if self._family == "thyme" else ""
            path = f"{folder}{expression}_{self._saved}.png"
            return [f'processed_path = "{path}"', f"{expression}.save(processed_path)", "print(processed_path)"], []
        weights = self.scene.settings.show
        way = weighted_index(self.scene, (weights.plt, weights.show, weights.display))
        if way == 0:
            off = ['plt.axis("off")'] if self.scene.rng.chance(60) else []
            return [f"plt.imshow({expression})", *off, "plt.show()"], ["plt"]
        return ([f"{expression}.show()"], []) if way == 1 else ([f"display({expression})"], ["display"])

    def opened(self, name: str) -> tuple[str, list[str], list[str]]:
        """Return the variable of a medium, the lines that open it, and the names that those need."""
        bound = self.scene.shown_as.get(name)
        if bound is not None:
            return bound, [], []
        path = next(path for path, medium in self.scene.opening.files.items() if medium == name)
        known = next((variable for variable, text in self.scene.opening.strings.items() if text == path), None)
        given = known if known is not None and (known != "image_path" or self.scene.rng.chance(70)) else f'"{path}"'
        if name in self.scene.pictures:
            return name, [f"{name} = Image.open({given})"], ["Image"]
        return name, [f"{name} = VideoReader({given})"], ["VideoReader"]

    def imports(self, names: list[str]) -> list[str]:
        """Import lines for names that are not there from the start."""
        return [_IMPORTS[name] for name in dict.fromkeys(names) if name not in self._preloaded]

    def program(self, program: str) -> str:
        """Return a world's program, over the names that its media have in this dialect."""
        renamed, lines, needed = {}, list[str](), list[str]()
        for item in self.scene.task.media:
            variable, opening, wanted = self.opened(item.name)
            if variable != item.name:
                renamed[item.name] = variable
            lines += opening
            needed += wanted
        text = rename(program, renamed).strip("\n")
        if not lines:
            return text
        future, rest = _future(text)
        return "\n".join([*future, *self.imports(needed), *lines, "", rest])


def rename(program: str, names: dict[str, str]) -> str:
    """Return the program with names changed wherever they occur as whole words."""
    if not names:
        return program
    return re.sub(rf"\b({'|'.join(map(re.escape, names))})\b", lambda match: names[match[1]], program)


def cells(program: str, cut: int) -> tuple[str, ...]:
    """Return the program in two cells, cut at about `cut` per cent of its statements; in one where it has too few."""
    nodes = parse(program).body
    first_real = next((i for i, n in enumerate(nodes) if not isinstance(n, ast.Import | ast.ImportFrom)), len(nodes))
    low, high = first_real + 1, len(nodes) - 1
    if low > high:
        return (program,)
    place = nodes[low + (high - low) * cut // 100]
    decorators = getattr(place, "decorator_list", [])
    start = min([place.lineno, *(d.lineno for d in decorators)]) - 1
    lines = program.splitlines()
    while start > 0 and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    head, tail = "\n".join(lines[:start]).strip("\n"), "\n".join(lines[start:]).strip("\n")
    future, _ = _future(head)
    return head, "\n".join([*future, tail])


def weighted_index(scene: ExpertScene, weights: tuple[float, ...]) -> int:
    """Return a place in `weights`, each as often as its weight says. At least one is above 0."""
    rounded = [round(1000 * weight) for weight in weights]
    drawn = scene.rng.integer(1, max(1, sum(rounded)))
    for place, weight in enumerate(rounded):
        drawn -= weight
        if drawn <= 0 and weight:
            return place
    return max(range(len(weights)), key=lambda place: weights[place])


def _future(text: str) -> tuple[list[str], str]:
    """Return the import from `__future__` that opens a program, and the rest."""
    first, _, rest = text.partition("\n")
    return ([first], rest.lstrip("\n")) if first.startswith("from __future__") else ([], text)
