"""The images and videos of an episode, by name, as tools see them.

An image is decoded when it is first asked for and kept as RGB. A context never changes: what a tool made is added by
`extended`, which gives a new context over the same decoded images. It does not decode files itself: the caller gives
pictures, functions that make them, or encoded pictures that decode themselves (those of a media store). A context can
be pickled: an encoded picture then travels as the name of its file; others travel decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Protocol, runtime_checkable

from PIL import Image
from pydantic import JsonValue

from saccade.core.registry import did_you_mean
from saccade.errors import ToolError
from saccade.record.execution import ExecutionRepair, Status

# What went wrong in a call of a tool, as a type, with one text for the model and one for the person.
#
# Kinds feed the error taxonomy of VISTA (E1 schema, E2 argument name, E3 argument format, E5 tool output). Whether an
# argument had the right content (E4) and whether the model reasoned well (E6) cannot be seen from one call.


class ProblemKind(StrEnum):
    """Kind of mistake."""

    SCHEMA = "schema"
    """The call does not have the shape of a call: no such tool, no object of arguments, a missing argument."""
    ARGUMENT_NAME = "argument_name"
    """An argument that the tool does not have."""
    ARGUMENT_FORMAT = "argument_format"
    """A value of the wrong type, range, length or order; a box outside its picture."""
    UNKNOWN_IMAGE = "unknown_image"
    """An image or a video that the episode does not have."""
    TOOL_FAILURE = "tool_failure"
    """The tool itself failed, or gave a result that breaks its own schema."""
    UNAVAILABLE = "unavailable"
    """The tool needs something that is not installed here."""

    @property
    def vista(self) -> str | None:
        """The class of VISTA's taxonomy: `E1`, `E2`, `E3` or `E5`; None for an unavailable tool."""
        return _VISTA[self]


_VISTA: dict[ProblemKind, str | None] = {
    ProblemKind.SCHEMA: "E1",
    ProblemKind.ARGUMENT_NAME: "E2",
    ProblemKind.ARGUMENT_FORMAT: "E3",
    ProblemKind.UNKNOWN_IMAGE: "E3",
    ProblemKind.TOOL_FAILURE: "E5",
    ProblemKind.UNAVAILABLE: None,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a call gave nothing."""

    kind: ProblemKind
    message: str
    """For the model: what happened, why, what to do."""
    detail: str = ""
    """For the person who runs the episode; never shown to the model. Empty where `message` says it all."""
    own_code: bool = False
    """Whether a user's own tool gave what no tool may give, which ends the command."""


class CallProblem(Exception):  # noqa: N818 - it is caught inside this package and leaves it as a `Problem`
    """Raised by `Tool.run` and its helpers for what the model wrote; `Tool.call` turns it into a result."""

    def __init__(self, kind: ProblemKind, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(kind, message)


def wrong_format(message: str) -> CallProblem:
    """Return a value of the wrong range, order or size, to be raised."""
    return CallProblem(ProblemKind.ARGUMENT_FORMAT, message)


@runtime_checkable
class EncodedImage(Protocol):
    """A picture that lies somewhere as encoded bytes."""

    @property
    def sha256(self) -> str:
        """Of the encoded bytes."""

    def encoded(self) -> bytes:
        """Return the bytes of the picture's file. Raises `MediaError`."""

    def decode(self) -> Image.Image:
        """Return the pixels. Raises `MediaError`."""


ImageSource = Image.Image | Callable[[], Image.Image] | EncodedImage


@dataclass(frozen=True, slots=True)
class NamedImage:
    """A decoded RGB image and its name."""

    name: str
    image: Image.Image

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.image.size


class _Slot:
    def __init__(self, source: ImageSource) -> None:
        self.source = source

    @cached_property
    def image(self) -> Image.Image:
        if isinstance(self.source, Image.Image):
            return _rgb(self.source)
        return _rgb(self.source.decode() if isinstance(self.source, EncodedImage) else self.source())

    def __reduce__(self) -> tuple[type[_Slot], tuple[ImageSource]]:
        # A function may belong to this process alone (a lambda, a closure): what it makes travels in its place.
        return _Slot, (self.source if isinstance(self.source, EncodedImage) else self.image,)


class _OwnSlot(_Slot):
    def __init__(self, of: _Slot) -> None:
        super().__init__(of.source)
        self._of = of

    @cached_property
    def image(self) -> Image.Image:
        return self._of.image.copy()


@dataclass(frozen=True, slots=True)
class Numbering:
    """New pictures are named by a running number: `label` + `first`, `label` + (`first` + 1), ..."""

    label: str
    first: int


class ToolContext:
    """Named images in the order in which they came up, and named videos (paths of files)."""

    def __init__(
        self,
        images: Mapping[str, ImageSource],
        videos: Mapping[str, Path] | None = None,
        *,
        numbering: Numbering | None = None,
        question: str = "",
        episode: str = "",
    ) -> None:
        """Without `numbering` new pictures are named for what made them.

        Args:
            images: The images by name, oldest first.
            videos: Paths of the videos by name.
            numbering: How new pictures are named.
            question: The question of the task with its choices, as the model reads it; empty if there is none.
            episode: An id that all calls of one episode share; empty outside of episodes.
        """
        self._images = {name: _Slot(source) for name, source in images.items()}
        self._videos = dict(videos or {})
        self._numbering = numbering
        self.question, self.episode = question, episode

    @property
    def images(self) -> tuple[str, ...]:
        """Names of the images, oldest first."""
        return tuple(self._images)

    @property
    def videos(self) -> tuple[str, ...]:
        """Names of the videos."""
        return tuple(self._videos)

    def image(self, which: str | int | None) -> NamedImage:
        """Return the image of that name or, for a number, at that place counted from 1; None is the first image.

        Raises:
            CallProblem: there is none; the message lists the names.
            MediaError: the picture cannot be decoded.
        """
        name = self._pick(which, self.images, "image")
        return NamedImage(name, self._images[name].image)

    def source(self, name: str) -> ImageSource:
        """Return what the image of that very name is made from. Raises `KeyError`."""
        return self._images[name].source

    @property
    def numbering(self) -> Numbering | None:
        """How new pictures are named; None: for what made them."""
        return self._numbering

    def video(self, which: str | None) -> tuple[str, Path]:
        """Return name and path of the video of that name; None is the first video.

        Raises `CallProblem`: there is none; the message lists the names.
        """
        name = self._pick(which, self.videos, "video")
        return name, self._videos[name]

    def fresh_names(self, stems: Iterable[str]) -> tuple[str, ...]:
        """Return a new name for each stem: `crop_1`, `crop_2`, ... with the smallest free numbers, or as numbered."""
        if self._numbering is not None:
            label, first = self._numbering.label, self._numbering.first
            return tuple(f"{label}{number}" for number, _ in enumerate(stems, first))
        taken = {*self._images, *self._videos}
        names = []
        for stem in stems:
            number = 1
            while f"{stem}_{number}" in taken:
                number += 1
            taken.add(f"{stem}_{number}")
            names.append(f"{stem}_{number}")
        return tuple(names)

    def extended(self, images: Mapping[str, Image.Image]) -> ToolContext:
        """Return a context that has these images too, as the newest. Raises `ToolError` if a name is taken."""
        taken = [name for name in images if name in self._images or name in self._videos]
        if taken:
            raise ToolError(f"the context already has {', '.join(taken)}; take names from fresh_names")
        numbering = self._numbering and replace(self._numbering, first=self._numbering.first + len(images))
        bigger = ToolContext({}, self._videos, numbering=numbering, question=self.question, episode=self.episode)
        bigger._images = {**self._images, **{name: _Slot(image) for name, image in images.items()}}
        return bigger

    def own(self) -> ToolContext:
        """Return a context of the same images, each copied when asked for: drawing changes no other context."""
        copied = ToolContext({}, self._videos, numbering=self._numbering, question=self.question, episode=self.episode)
        copied._images = {name: _OwnSlot(slot) for name, slot in self._images.items()}
        return copied

    def _pick(self, which: str | int | None, names: tuple[str, ...], kind: str) -> str:
        if not names:
            raise CallProblem(ProblemKind.UNKNOWN_IMAGE, f"This episode has no {kind}. Use a tool that needs none.")
        if which is None:
            return names[0]
        if isinstance(which, int):
            if 1 <= which <= len(names):
                return names[which - 1]
            raise CallProblem(
                ProblemKind.UNKNOWN_IMAGE,
                f"There is no {kind} number {_short(which)}: numbers go from 1 to {len(names)}. Use one of these.",
            )
        if which in names:
            return which
        hint = did_you_mean(which, names) or f"Known: {', '.join(names[:12])}, ..."
        raise CallProblem(ProblemKind.UNKNOWN_IMAGE, f"There is no {kind} named {_short(which)!r}. {hint}")


def _short(which: str | int) -> str:
    # An int of thousands of digits cannot be written as text at all.
    if isinstance(which, int):
        return str(which) if abs(which) < 10**9 else "of that size"
    return which if len(which) <= 60 else which[:60] + "..."


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB":
        return image
    from saccade.media.modes import to_plain, to_rgb  # late: it brings NumPy

    return to_rgb(to_plain(image))


# What a call of a tool gave back, in one frozen object; nothing in it is a mock of a result.


@dataclass(frozen=True, slots=True)
class ToolPicture:
    """A picture that a tool made, under a name that was free in the context."""

    name: str
    image: Image.Image


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Status, value, pictures and text of one call."""

    tool: str
    """The tool's own name, or the name that was asked for if there is no such tool."""
    status: Status
    """`OK`; `ERROR` with the model's mistake or the tool's failure; `REFUSED` if the tool is unavailable here;
    `OUT_OF_MEMORY`; `LOST` if a picture of the task cannot be decoded."""
    value: Mapping[str, JsonValue] | None = None
    """JSON that follows the tool's result schema; None unless the status is `OK`."""
    pictures: tuple[ToolPicture, ...] = ()
    text: str = ""
    """Text for the model: a summary of the result, or what went wrong and what to do. Empty if `LOST`."""
    problem: Problem | None = None
    """None if and only if the status is `OK`."""
    repairs: tuple[ExecutionRepair, ...] = ()
    """What was filled in or read otherwise in the call's arguments, for the record."""

    @property
    def ok(self) -> bool:
        """True if the tool did what it was asked to."""
        return self.status is Status.OK

    def images(self) -> dict[str, Image.Image]:
        """Return the pictures by name, as `ToolContext.extended` takes them."""
        return {picture.name: picture.image for picture in self.pictures}


def failed(tool: str, status: Status, problem: Problem) -> ToolResult:
    """Return a call that gave nothing. An outage of ours (`LOST`) has no text for the model."""
    return ToolResult(tool, status, text="" if status is Status.LOST else problem.message, problem=problem)


# Name what a call does to a picture: the operations of PyVision's taxonomy, for typed tools and code alike.


class Operation(StrEnum):
    """Effect of a call."""

    CROP = "crop"
    ZOOM = "zoom"
    """A picture or a part of it is enlarged."""
    ROTATE = "rotate"
    """Turned or mirrored."""
    ENHANCE = "enhance"
    """Contrast, brightness, sharpness, noise, colours."""
    SEGMENT = "segment"
    """Pixels are told apart: thresholds, colour masks, clusters, connected parts."""
    DETECT_EDGES = "detect_edges"
    """Edges, contours, lines, circles, corners."""
    HISTOGRAM = "histogram"
    """Of colours or brightness."""
    NUMERICAL_ANALYSIS = "numerical_analysis"
    """Numbers are computed and printed."""
    OCR = "ocr"
    DRAW = "draw"
    """Marks on a picture: boxes, points, lines, labels, a grid."""
    SKETCH = "sketch"
    """A picture or a chart is drawn that is not the task's."""
    FRAME_FETCH = "frame_fetch"
    """Frames of a video."""
    COMPARE = "compare"
    """Pictures or parts are put side by side, or their difference or likeness is computed."""
    NO_OPERATION = "no_operation"
    """A picture is shown as it is, or nothing is done to one."""
    OTHER = "other"
    """Something is done that is none of these."""
    UNREADABLE = "unreadable"
    """The code is no Python, or too long to be read."""
