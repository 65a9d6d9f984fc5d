"""Write an expert's actions in a dialect: crops as code or calls, programs under the right names.

Cells do not rely on one another: each imports and opens what it uses, unless the dialect has it there from the start.
"""

from __future__ import annotations

import ast
import re

from saccade.dialects.thyme import OUTPUT_FOLDER
from saccade.plugins.worlds.experts.scene import Box, ExpertScene, zoom
from saccade.record.content import Code, ToolCall
from saccade.record.task import parse

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
        """Return the code of a crop that is shown."""
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
