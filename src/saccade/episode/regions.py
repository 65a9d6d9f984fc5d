"""The parts of the task's pictures that each turn looked at, from what its code says and what its pictures show.

Three ways to know: the code or the arguments of a tool name the box; a picture that came back equals a part of the
original, pixel for pixel. What none of them tells is left out; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from math import ceil, floor
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from saccade.dialects.base import Opening, recorded_dialect
from saccade.dialects.boxes import BOXES, IMAGES, BoxSpace
from saccade.episode.looks import ImageFile, Reader, Value, View, numbers
from saccade.errors import MediaError, SaccadeError
from saccade.media.store import MediaStore
from saccade.record.content import Code, ImagePart, ToolCall
from saccade.record.execution import Status
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory, Turn

# Where a picture is in a larger one, pixel for pixel.
#
# Exact only: a copy that was scaled, compressed or drawn on is not found. A place that is not the only one is no
# answer.

Packed: TypeAlias = npt.NDArray[np.uint32]
Box: TypeAlias = tuple[int, int, int, int]

SMALLEST: Final = 64
"""Pixels below which a picture may lie anywhere by chance."""
_PROBES: Final = 24
_SAMPLE: Final = 4096


def packed(picture: Image.Image) -> Packed:
    """Return the pixels as one number each, height × width; transparency is left out."""
    opaque = np.ascontiguousarray(picture.convert("RGB").convert("RGBA"))
    return np.asarray(opaque.view(np.uint32)[..., 0])


def holds_at(large: Packed, small: Packed, left: int, top: int) -> bool:
    """Return whether `small` is in `large` with its corner at (left, top)."""
    height, width = small.shape
    return bool(np.array_equal(large[top : top + height, left : left + width], small))


def only_place(large: Packed, small: Packed) -> Box | None:
    """Find the one place where `small` is in `large`; None if there is none, more than one, or no telling."""
    height, width = small.shape
    rows, columns = large.shape[0] - height + 1, large.shape[1] - width + 1
    if rows < 1 or columns < 1 or small.size < SMALLEST or (rows, columns) == (1, 1):
        return None
    probes = _distinctive(small)
    if probes is None:
        return None
    (y, x), *others = probes
    hits = np.flatnonzero(large[y : y + rows, x : x + columns] == small[y, x])
    tops, lefts = np.divmod(hits, columns)
    for y, x in others:
        same = large[tops + y, lefts + x] == small[y, x]
        tops, lefts = tops[same], lefts[same]
    if not 1 <= len(tops) <= 8:
        return None
    places = [(int(a), int(b)) for a, b in zip(lefts, tops, strict=True) if holds_at(large, small, int(a), int(b))]
    return (*places[0], places[0][0] + width, places[0][1] + height) if len(places) == 1 else None


def _distinctive(small: Packed) -> list[tuple[int, int]] | None:
    """Return pixels that tell `small` from others, rare colours first; None if a sample of it has one colour only."""
    flat = small.reshape(-1)
    sample = np.unique(np.linspace(0, flat.size - 1, _SAMPLE).astype(np.intp))
    values, first, counts = np.unique(flat[sample], return_index=True, return_counts=True)
    if len(values) < 2:
        return None
    rare = sample[first[np.argsort(counts, kind="stable")][:_PROBES]]
    spread = sample[:: max(1, len(sample) // _PROBES)]
    return [(int(place) // small.shape[1], int(place) % small.shape[1]) for place in (*rare, *spread)]


MOST: Final = 40
"""Regions of one turn that are kept; more could not be told apart on a page."""


class PictureReader(Protocol):
    """Where the pixels of recorded pictures are found."""

    def pixels(self, part: ImagePart) -> Image.Image | None:
        """Return the picture; None if it cannot be had."""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a task's picture that a turn looked at."""

    turn: int
    """From 0."""
    name: str
    """Of the picture in the task's media."""
    box: tuple[float, float, float, float]
    """`xyxy` pixels."""
    seen: bool
    """A picture that came back is this part, pixel for pixel."""
    said: bool
    """The code, or the call of the tool, names it."""
    picture: str = field(default="", compare=False)
    """The sha256 of the picture in which it was seen; empty if it was not."""


@dataclass(frozen=True)
class _Opening:
    names: dict[str, Value]
    files: dict[str, View]
    label: str
    pictures: Mapping[str, View]
    """Those of the task, in the size in which calls and code count."""
    shown: int
    """Pictures that the model saw before its first turn."""


def regions(trajectory: Trajectory, book: PictureReader) -> tuple[Region, ...]:
    """Return the regions that can be located, in the order of the turns."""
    return tuple(_Search(trajectory, book).run()) if _pictures(trajectory.task) else ()


class _Search:
    def __init__(self, trajectory: Trajectory, book: PictureReader) -> None:
        self.trajectory = trajectory
        self.book = book
        self.opening = _opening(trajectory)
        self.reader = Reader(dict(self.opening.names), self.opening.files)
        self.located: dict[str, View] = {}
        """By sha256: pictures that came back and are a part of the task's."""
        self.numbered: list[View | None] = []
        self.numbered += list(self.opening.pictures.values())[: self.opening.shown]
        self.boxes = BoxSpace(trajectory.provenance.boxes or BoxSpace.FULL)
        self.packed: dict[str, Packed | None] = {}

    def run(self) -> Iterator[Region]:
        for number, turn in enumerate(self.trajectory.turns):
            views = self._said(turn)
            seen = dict(self._seen(turn, views))
            for view in islice(dict.fromkeys((*views, *seen)), MOST):
                name = seen.get(view, "")
                yield Region(number, view.name, view.box, seen=bool(name), said=view in views, picture=name)
            self._number(turn)

    def _said(self, turn: Turn) -> tuple[View, ...]:
        execution, action = turn.execution, turn.action
        if execution is None:
            return ()
        if execution.status is not Status.OK:
            if isinstance(action, Code) and execution.committed:
                self.reader.distrust(action.code)
            return ()
        if isinstance(action, Code):
            # Edges between pixels: what the program got are whole ones.
            return tuple(dict.fromkeys(_plain(view) for view in self.reader.read(action.code)))
        return self._asked(action) if isinstance(action, ToolCall) else ()

    def _asked(self, call: ToolCall) -> tuple[View, ...]:
        arguments = call.arguments
        box = next((_numbers(arguments[key]) for key in BOXES if key in arguments), None)
        view = self._target(next((arguments[key] for key in IMAGES if key in arguments), None))
        if box is None or view is None:
            return ()
        if self.boxes is BoxSpace.THOUSAND:
            view = replace(view, width=1000, height=1000)
        if arguments.get("units") == "normalized" or call.name.endswith("_normalized"):
            box = (box[0] * view.width, box[1] * view.height, box[2] * view.width, box[3] * view.height)
        part = view.crop(box)
        if part is not None and self.boxes is not BoxSpace.FULL:  # as tools round what was mapped: outwards
            left, top, right, bottom = (round(edge, 3) for edge in part.box)
            part = replace(part, box=(floor(left), floor(top), ceil(right), ceil(bottom)))
        return () if part is None else (_plain(part),)

    def _target(self, wanted: object) -> View | None:
        """Return the picture that a tool's call names, by the rules of `saccade.tools.context`."""
        if wanted is None:
            return self.numbered[0] if self.numbered else None
        if isinstance(wanted, int) and not isinstance(wanted, bool):
            return self.numbered[wanted - 1] if 1 <= wanted <= len(self.numbered) else None
        known = self.reader.names.get(wanted) if isinstance(wanted, str) else None
        return known if isinstance(known, View) else None

    def _seen(self, turn: Turn, views: tuple[View, ...]) -> Iterator[tuple[View, str]]:
        originals = {part.sha256 for part in _parts(self.trajectory.task).values()}
        for picture in (picture for execution in turn.executions for picture in execution.pictures):
            part = picture.image
            if part.sha256 in self.located or part.sha256 in originals:
                continue
            view = self._place(part, views)
            if view is not None:
                self.located[part.sha256] = view
                yield _plain(view), part.sha256

    def _place(self, part: ImagePart, views: tuple[View, ...]) -> View | None:
        """Return where in the task's pictures `part` lies: where the code says, else at the only place where it can."""
        image = self.book.pixels(part)
        if image is None:
            return None
        small = packed(image)
        for view in views:
            left, top, right, bottom = (round(edge) for edge in view.box)
            original = self._original(view.name)
            same_size = (right - left, bottom - top) == (part.width, part.height)
            if original is not None and same_size and holds_at(original, small, left, top):
                return replace(view, width=part.width, height=part.height)
        for name in _pictures(self.trajectory.task):
            original = self._original(name)
            box = None if original is None else only_place(original, small)
            if box is not None:
                return View(name, box, part.width, part.height)
        return None

    def _original(self, name: str) -> Packed | None:
        if name not in self.packed:
            image = self.book.pixels(_parts(self.trajectory.task)[name])
            self.packed[name] = None if image is None else packed(image)
        return self.packed[name]

    def _number(self, turn: Turn) -> None:
        """Give the pictures that were shown the names under which later turns may call them."""
        for part in turn.observation.media if turn.observation is not None else ():
            view = self.located.get(part.sha256)
            name = f"{self.opening.label}{len(self.numbered)}"
            self.numbered.append(view)
            if view is not None:
                # A program's own variable of that name stays what it is.
                self.reader.names.setdefault(name, view)


def _opening(trajectory: Trajectory) -> _Opening:
    """Return what the program found at its start; nothing where the dialect is not known here."""
    pictures = _pictures(trajectory.task)
    try:
        opening = recorded_dialect(trajectory.provenance.dialect).open(trajectory.task)
    except SaccadeError:
        return _Opening({}, {}, "image_", pictures, len(pictures))
    if trajectory.provenance.boxes == BoxSpace.SHOWN:
        pictures = _as_shown(pictures, opening, trajectory)
    files = {path: pictures[name] for path, name in opening.files.items() if name in pictures}
    names: dict[str, Value] = {key: pictures[name] for key, name in opening.bindings.items() if name in pictures}
    names |= {key: ImageFile(files[path]) for key, path in opening.strings.items() if path in files}
    return _Opening(names, files, opening.label, pictures, opening.pictures)


def _as_shown(pictures: Mapping[str, View], opening: Opening, trajectory: Trajectory) -> dict[str, View]:
    """Return the pictures in the size in which the prompt shows them, where it shows the same number of pictures."""
    planned, shown = (
        [part for message in messages for part in message.media if isinstance(part, ImagePart)]
        for messages in (opening.messages, trajectory.prompt)
    )
    if len(planned) != len(shown):
        return dict(pictures)
    sizes = {before.sha256: (part.width, part.height) for before, part in zip(planned, shown, strict=True)}
    views = dict(pictures)
    for name, part in _parts(trajectory.task).items():
        width, height = sizes.get(part.sha256, (part.width, part.height))
        views[name] = replace(views[name], width=width, height=height)
    return views


def _plain(view: View) -> View:
    """Return the place alone, on whole pixels where it nearly is on them."""
    left, top, right, bottom = (round(edge, 2) for edge in view.box)
    return replace(view, box=(left, top, right, bottom), width=1, height=1, array=False)


def _parts(task: Task) -> dict[str, ImagePart]:
    return {item.name: item.part for item in task.media if isinstance(item.part, ImagePart)}


def _pictures(task: Task) -> Mapping[str, View]:
    return {name: View.full(name, part.width, part.height) for name, part in _parts(task).items()}


def _numbers(value: object) -> tuple[float, float, float, float] | None:
    four = numbers(tuple(value), 4) if isinstance(value, list | tuple) else None
    return None if four is None else (four[0], four[1], four[2], four[3])


@dataclass(frozen=True, slots=True)
class StoredPixels:
    """Reads each picture anew."""

    store: MediaStore

    def pixels(self, part: ImagePart) -> Image.Image | None:
        """Return the picture; None if the store does not hold it or it cannot be decoded."""
        try:
            return self.store.open(part).decode()
        except (MediaError, OSError):
            return None
