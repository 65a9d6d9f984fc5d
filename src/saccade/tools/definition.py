"""Describe tools without calling them: names, texts, schemas, needed packages, and the cost of a call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from math import ceil, floor
from typing import Annotated, Literal, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from saccade.core.registry import did_you_mean
from saccade.tools.context import CallProblem, Problem, ProblemKind, wrong_format
from saccade.tools.setup import SetupEntry


class Cost(StrEnum):
    """Rough cost of a call."""

    LIGHT = "light"
    """Milliseconds on one CPU core."""
    MEDIUM = "medium"
    """Up to seconds on one CPU core."""
    HEAVY = "heavy"
    """Wants an accelerator."""
    WAITING = "waiting"
    """Waits for a server, which does the work: nothing of this machine."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Requirements beyond Saccade's own dependencies."""

    modules: tuple[str, ...] = ()
    """Top-level Python modules."""
    weights: str | None = None
    """The model weights that are loaded, or None."""
    install: str = ""
    """The command that installs all of it."""
    setup: SetupEntry | None = None
    """Entry that the setup of tools must have, or None."""

    def missing(self) -> tuple[str, ...]:
        """Return the modules that cannot be found, and what the setup of tools does not name."""
        modules = tuple(name for name in self.modules if find_spec(name) is None)
        return modules if self.setup is None or self.setup.named else (*modules, str(self.setup))

    @property
    def remedy(self) -> str:
        """How to get what is missing, in a few words for a person; empty if nothing is."""
        if not self.missing():
            return ""
        steps = [self.install] if self.install and any(find_spec(name) is None for name in self.modules) else []
        if self.setup is not None and not self.setup.named:
            steps.append(self.setup.todo)
        return "; ".join(steps) or ", ".join(self.missing())


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of a tool, under which published models call it, and how its arguments map to the tool's own."""

    name: str
    rename: Mapping[str, str] = field(default_factory=dict)
    """Argument as it is written under this alias -> argument of the tool."""
    given: Mapping[str, JsonValue] = field(default_factory=dict)
    """Arguments that the alias implies; they cannot be written under it."""
    ignored: tuple[str, ...] = ()
    """Arguments that are accepted and have no effect, such as a label for the reader."""


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool as a paper names it."""

    family: str
    name: str
    """The paper's name."""
    tool: str
    """The registered name."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Arguments with which the registered tool does what the paper's does."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """Description of a tool for callers."""

    name: str
    aliases: tuple[Alias, ...]
    description: str
    """One paragraph that a model may read."""
    parameters: dict[str, JsonValue]
    """JSON Schema of the arguments."""
    returns: dict[str, JsonValue]
    """JSON Schema of the value."""
    needs: Needs
    cost: Cost


# Types that the arguments of many tools share: which image, which box, which units, which colour.
#
# Coordinates are those of the named image, origin top left, x to the right, y down. A box is the edges of a region,
# `[left, top, right, bottom]`: pixel (0, 0) is the box [0, 0, 1, 1]. Units are pixels unless the call says
# `normalized`, where 0..1 spans the image; they are never inferred from the numbers.


Units: TypeAlias = Literal["pixels", "normalized"]
Xyxy: TypeAlias = tuple[float, float, float, float]
Point: TypeAlias = tuple[float, float]
PixelBox: TypeAlias = tuple[int, int, int, int]

ImageChoice: TypeAlias = Annotated[
    str | int | None,
    Field(description="Name of the image, or its number counted from 1. Default: the first image."),
]
BoxField: TypeAlias = Annotated[Xyxy, Field(description="[left, top, right, bottom], left < right and top < bottom.")]
RegionField: TypeAlias = Annotated[
    Xyxy | None, Field(description="[left, top, right, bottom] of the region to look at. Default: the whole image.")
]
UnitsField: TypeAlias = Annotated[
    Units, Field(description="Units of all coordinates: pixels of the image, or normalized to 0..1.")
]
Channel: TypeAlias = Annotated[int, Field(ge=0, le=255)]
Rgb: TypeAlias = tuple[Channel, Channel, Channel]
ColorField: TypeAlias = Annotated[Rgb, Field(description="Red, green, blue, each 0..255.")]


def pixel_box(box: Xyxy, units: Units, size: tuple[int, int], min_side: int = 1) -> PixelBox:
    """Return the whole pixels of `box` inside an image of `size` (width, height): rounded outwards, then clipped to the
    image.

    Always 0 <= left < right <= width and 0 <= top < bottom <= height.

    Raises `CallProblem`: the edges are in the wrong order, normalised ones leave 0..1, or after clipping less than
    `min_side` pixels are left.
    """
    left, top, right, bottom = box
    if left >= right or top >= bottom:
        raise wrong_format(
            f"The box {_show(box)} is empty: it must be [left, top, right, bottom] with left < right and top < bottom. "
            "Put the smaller coordinate first."
        )
    scaled = _scaled(box, units, size)
    clipped = _clipped(scaled, size)
    width, height = clipped[2] - clipped[0], clipped[3] - clipped[1]
    if min(width, height) < min_side:
        hint = ' If these are fractions, say units="normalized".' if units == "pixels" and max(box) <= 1 else ""
        raise wrong_format(
            f"Of the box {_show(box)}, {max(width, 0)} × {max(height, 0)} pixels are inside the image, which is "
            f"{size[0]} × {size[1]}; at least {min_side} × {min_side} are needed. Choose a larger box inside it.{hint}"
        )
    return clipped


def region(box: Xyxy | None, units: Units, size: tuple[int, int]) -> PixelBox:
    """Do as `pixel_box`, with None for the whole image."""
    return (0, 0, *size) if box is None else pixel_box(box, units, size)


def pixel_point(point: Point, units: Units, size: tuple[int, int]) -> tuple[float, float]:
    """Return `point` in pixels. Raises `CallProblem` if it is outside the image."""
    x, y, _, _ = _scaled((*point, *point), units, size)
    if not (0 <= x <= size[0] and 0 <= y <= size[1]):
        raise wrong_format(
            f"The point [{x:g}, {y:g}] is outside the image, which is {size[0]} × {size[1]}. Choose one inside it."
        )
    return x, y


def _scaled(box: Xyxy, units: Units, size: tuple[int, int]) -> Xyxy:
    if units == "pixels":
        return box
    if not all(0 <= value <= 1 for value in box):
        raise wrong_format(
            f"{_show(box)} is not normalized: each coordinate must be 0..1. "
            'Divide by the width or height, or say units="pixels".'
        )
    width, height = size
    return box[0] * width, box[1] * height, box[2] * width, box[3] * height


def _clipped(box: Xyxy, size: tuple[int, int]) -> PixelBox:
    # Clamped before rounding: the floor of 1e308 is an integer of 309 digits.
    width, height = size
    left, right = (min(max(value, 0.0), float(width)) for value in (box[0], box[2]))
    top, bottom = (min(max(value, 0.0), float(height)) for value in (box[1], box[3]))
    return floor(left), floor(top), ceil(right), ceil(bottom)


def _show(box: Xyxy) -> str:
    return "[" + ", ".join(f"{value:g}" for value in box) + "]"


# Arguments of tools: strict pydantic models, and the check that turns any JSON into one of them or a problem.
#
# Types are those of JSON, taken strictly: "3" is no number and 3.5 no integer. Unknown names are refused with the
# nearest known one. Nothing is guessed or filled in beyond the defaults that the schema states.


_SHOWN = 4
_VALUE_CHARACTERS = 80


class ToolModel(BaseModel):
    """Base of the arguments and of the results of tools; its JSON Schema is the tool's."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


ToolModelT = TypeVar("ToolModelT", bound=ToolModel)


def check_arguments(model: type[ToolModelT], arguments: object) -> ToolModelT:
    """Return `arguments`, which a model wrote, as an object of `model`.

    Raises `CallProblem`: they do not follow the schema; lists up to four mistakes.
    """
    read = _read(model, arguments)
    if isinstance(read, ToolModel):
        return read
    lines = [problem.message for problem in read]
    rest = len(lines) - _SHOWN
    more = [f"and {rest} more"] if rest > 0 else []
    raise CallProblem(read[0].kind, "; ".join(lines[:_SHOWN] + more) + f". Arguments are {_names(model)}.")


def mistakes(model: type[ToolModel], arguments: object) -> tuple[Problem, ...]:
    """Return every single mistake in `arguments`, which a model wrote; empty if they follow the schema."""
    read = _read(model, arguments)
    return () if isinstance(read, ToolModel) else read


def _read(model: type[ToolModelT], arguments: object) -> ToolModelT | tuple[Problem, ...]:
    if not isinstance(arguments, Mapping):
        message = f"Arguments are a JSON object, not {_json_type(arguments)}"
        return (Problem(ProblemKind.SCHEMA, message),)
    try:
        text = json.dumps(dict(arguments), allow_nan=False)
        return model.model_validate_json(text)
    except ValidationError as error:
        return _problems(model, error.errors(include_url=False, include_context=False))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"Arguments hold something that JSON cannot (use finite numbers, texts and lists): {_cut(str(error))}"
        return (Problem(ProblemKind.ARGUMENT_FORMAT, message),)


def _problems(model: type[ToolModel], errors: Sequence[ErrorDetails]) -> tuple[Problem, ...]:
    order = (ProblemKind.ARGUMENT_NAME, ProblemKind.SCHEMA, ProblemKind.ARGUMENT_FORMAT)
    problems = {Problem(kind := _kind(error), _line(model, kind, error)): None for error in errors}
    # A misspelt name also shows as a missing argument: the name is the cause, so it comes first.
    return tuple(sorted(problems, key=lambda problem: order.index(problem.kind)))


def _kind(error: ErrorDetails) -> ProblemKind:
    if error["type"] == "extra_forbidden":
        return ProblemKind.ARGUMENT_NAME
    # A number for the place: a list that is too short, which is the format of a value and not a missing argument.
    missing = error["type"] == "missing" and not isinstance(error["loc"][-1], int)
    return ProblemKind.SCHEMA if missing else ProblemKind.ARGUMENT_FORMAT


def _line(model: type[ToolModel], kind: ProblemKind, error: ErrorDetails) -> str:
    where = _cut(".".join(str(step) for step in error["loc"]))
    if kind is ProblemKind.ARGUMENT_NAME:
        # The fields of nested objects are not known here; pydantic's place names the object.
        known = model.model_fields if len(error["loc"]) == 1 else ()
        return f"There is no argument {where!r}. {did_you_mean(where, known)}".rstrip(" ?.")
    if kind is ProblemKind.SCHEMA:
        return f"The argument {where!r} is missing"
    if error["type"] == "missing":
        place = _cut(".".join(str(step) for step in error["loc"][:-1]))
        return f"The argument {place!r} is wrong: the list is too short"
    return f"The argument {where!r} is wrong: {_cut(error['msg'])} (got {_cut(json.dumps(error['input']))})"


def _names(model: type[ToolModel]) -> str:
    fields = model.model_fields.items()
    return ", ".join(name if field.is_required() else f"{name} (optional)" for name, field in fields)


def _cut(text: str) -> str:
    clean = text.encode("utf-8", "replace").decode()
    return clean if len(clean) <= _VALUE_CHARACTERS else clean[:_VALUE_CHARACTERS] + "..."


def _json_type(value: object) -> str:
    names = {str: "a text", list: "a list", bool: "a truth value", type(None): "null"}
    return names.get(cast(type, type(value)), "a number" if isinstance(value, int | float) else type(value).__name__)
