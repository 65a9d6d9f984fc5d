"""World `video-events`: short clips, H.264 or VP9, of coloured things that appear, move and leave.

The raw frames are the same on every machine; the encoded bytes depend on the codec libraries that PyAV brings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from itertools import permutations
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from pydantic import Field

from saccade.core.registry import install
from saccade.errors import SettingsError, UnavailableError
from saccade.plugins.worlds import reading
from saccade.plugins.worlds.canvas import COLOURS, Box, Colour, blank, free_place
from saccade.plugins.worlds.charts.frame import decimal_text
from saccade.plugins.worlds.program import compose
from saccade.record.task import AnswerType
from saccade.tasks.worlds import Clip, Knobs, Rng, World, WorldSample

if TYPE_CHECKING:
    from av import VideoStream
    from av.container import OutputContainer

# Frames to an encoded clip, H.264 in MP4 or VP9 in WebM, by PyAV (extra `video`).
#
# The encoded bytes may differ between versions of the codec libraries; only the frames given in are the same
# everywhere.

VideoCodec = Literal["h264", "vp9"]

_CODECS: dict[VideoCodec, tuple[str, str, str, dict[str, str]]] = {
    "h264": ("libx264", "mp4", "video/mp4", {"crf": "20", "preset": "veryfast", "threads": "1"}),
    "vp9": (
        "libvpx-vp9",
        "webm",
        "video/webm",
        {"crf": "30", "b": "0", "deadline": "realtime", "cpu-used": "8", "threads": "1"},
    ),
}


def encode_clip(frames: Iterable[NDArray[np.uint8]], fps: int, codec: VideoCodec) -> Clip:
    """Return a clip of RGB frames (H×W×3, at least one, all of one size with even sides) at a constant rate.

    Raises:
        UnavailableError: PyAV is not installed.
        ValueError: there is no frame.
    """
    try:
        import av
    except ImportError as error:
        raise UnavailableError(
            f"video worlds encode with PyAV, which is not installed. Run: {install('video')}"
        ) from error
    encoder, container, mime, options = _CODECS[codec]
    file, count, stream = BytesIO(), 0, None
    with av.open(file, "w", format=container) as output:
        for pixels in frames:
            if stream is None:
                stream = _add_stream(output, encoder, Fraction(fps), options)
                stream.height, stream.width = pixels.shape[:2]
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts = count
            output.mux(stream.encode(frame))
            count += 1
        if stream is None:
            raise ValueError("a clip needs at least one frame")
        output.mux(stream.encode())
        width, height = stream.width, stream.height
    return Clip(file.getvalue(), width, height, count, float(fps), mime)


def _add_stream(output: OutputContainer, encoder: str, rate: Fraction, options: dict[str, str]) -> VideoStream:
    from av import VideoStream

    stream = output.add_stream(encoder, rate=rate, options=options)
    if not isinstance(stream, VideoStream):
        raise TypeError(f"{encoder} encodes no video")
    stream.pix_fmt = "yuv420p"
    return stream


# Scenes of coloured things that appear, move along lanes and leave: the raw frames of the video worlds.
#
# Every coordinate is a whole number, so the frames are equal on every machine. Things never touch one another: each
# stands in a place or a lane of its own, or follows another one there after a pause.


SIZE: Final = (320, 240)
"""Width and height of every frame in pixels."""
THING_COLOURS: Final = ("red", "yellow", "green", "blue", "purple")
"""Hues far enough from each other to survive an encoder."""
Shape = Literal["circle", "square", "triangle"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing, visible in the frames `first <= frame < end`."""

    colour: str
    shape: Shape
    size: int
    """Side of its box in pixels."""
    first: int
    end: int
    centre: tuple[int, int]
    """In frame `first`."""
    step: tuple[int, int] = (0, 0)
    """Motion in 1/256 pixel a frame."""

    @property
    def name(self) -> str:
        return f"{self.colour} {self.shape}"

    def box(self, frame: int) -> Box:
        """Return its box in a frame; may reach beyond the edges."""
        x, y = (at + (step * (frame - self.first) >> 8) for at, step in zip(self.centre, self.step, strict=True))
        half = self.size // 2
        return x - half, y - half, x - half + self.size, y - half + self.size


@dataclass(frozen=True, slots=True)
class VideoScene:
    """A background and the things before it."""

    frames: int
    fps: int
    background: Image.Image
    things: tuple[Thing, ...]

    def draw(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the frames in order, each H×W×3 RGB."""
        for frame in range(self.frames):
            picture = self.background.copy()
            pen = ImageDraw.Draw(picture)
            for thing in self.things:
                if thing.first <= frame < thing.end:
                    _put(pen, thing, thing.box(frame))
            yield np.asarray(picture)


def _put(pen: ImageDraw.ImageDraw, thing: Thing, box: Box) -> None:
    x0, y0, x1, y1 = box[0], box[1], box[2] - 1, box[3] - 1
    fill = COLOURS[thing.colour]
    if thing.shape == "circle":
        pen.ellipse((x0, y0, x1, y1), fill=fill)
    elif thing.shape == "square":
        pen.rectangle((x0, y0, x1, y1), fill=fill)
    else:
        pen.polygon([((x0 + x1) // 2, y0), (x1, y1), (x0, y1)], fill=fill)


_GREYS: tuple[Colour, ...] = ((232, 232, 228), (58, 60, 66), (198, 202, 210), (24, 26, 30), (214, 208, 196))


def random_background(rng: Rng) -> Image.Image:
    """Return dull paper: flat, with a floor, or with blocks of other greys."""
    paper = rng.choice(_GREYS)
    picture, pen = blank(SIZE, paper)
    style = rng.choice(("flat", "floor", "blocks"))
    if style == "floor":
        pen.rectangle((0, rng.integer(120, 190), *SIZE), fill=_shade(paper, -14))
    elif style == "blocks":
        for _ in range(rng.integer(4, 12)):
            x, y = rng.integer(-30, SIZE[0]), rng.integer(-30, SIZE[1])
            box = (x, y, x + rng.integer(20, 120), y + rng.integer(20, 90))
            pen.rectangle(box, fill=_shade(paper, rng.integer(-16, 16)))
    return picture


def _shade(colour: Colour, by: int) -> Colour:
    red, green, blue = (max(0, min(255, channel + by)) for channel in colour)
    return red, green, blue


_SPEED = 60
"""Slow enough to be followed by four looks a second: things of one colour are 60 pixels apart or more."""


@dataclass(frozen=True, slots=True)
class Span:
    """When something is visible, in frames; `end` exclusive."""

    first: int
    end: int
    fps: int


def still_things(rng: Rng, names: list[tuple[str, Shape]], spans: list[Span]) -> list[Thing]:
    """Return things at random places that stand still; places keep 14 pixels off each other."""
    while True:
        taken: list[Box] = []
        things = []
        for (colour, shape), span in zip(names, spans, strict=True):
            size = rng.integer(28, 44)
            place = free_place(rng, (size, size), (4, 4, SIZE[0] - 4, SIZE[1] - 4), taken, 14)
            if place is None:
                break
            taken.append(place)
            centre = (place[0] + size // 2, place[1] + size // 2)
            things.append(Thing(colour, shape, size, span.first, span.end, centre))
        if len(things) == len(names):
            return things


def lane_thing(rng: Rng, lane: tuple[int, int, bool], name: tuple[str, Shape], span: Span, *, slides: bool) -> Thing:
    """Return a thing that moves along its lane during its span.

    It makes at most `_SPEED` pixels a second. `lane` is (number, how many there are, whether they are columns).
    If it `slides`, it may come in over the edge.
    """
    number, count, columns = lane
    across, along = SIZE if columns else SIZE[::-1]
    pitch = across // count
    size = rng.integer(min(26, pitch - 12), min(40, pitch - 10))
    beside = number * pitch + pitch // 2
    start = -size // 3 if slides and rng.chance(40) else rng.integer(size // 2 + 4, along // 3)
    finish = rng.integer(along * 3 // 5, along - size // 2 - 4)
    finish = min(finish, start + _SPEED * (span.end - span.first) // span.fps)
    if rng.chance(50):
        start, finish = along - start, along - finish
    step = ((finish - start) << 8) // max(1, span.end - 1 - span.first)
    centre = (beside, start) if columns else (start, beside)
    return Thing(*name, size, span.first, span.end, centre, (0, step) if columns else (step, 0))


# Scenes and questions of the video world, of the families of VSI-Bench (Yang et al., 2024).
#
# Counting, order of appearance, when, for how long, where, which way, and which is nearest. A scene is made for its
# question; everything has a colour of its own but where things of a colour are counted.


VideoKind = Literal["count", "order", "when", "how-long", "where", "direction", "distance"]
KINDS: Final[tuple[VideoKind, ...]] = get_args(VideoKind)


@dataclass(frozen=True, slots=True)
class Length:
    """How long a clip is."""

    fps: int
    """Even, so that half a second is a whole number of frames."""
    halves: int
    """Length in half seconds, at least 4."""

    @property
    def half(self) -> int:
        return self.fps // 2

    def span(self, first: int, end: int) -> Span:
        """Draw from one half second to another."""
        return Span(first * self.half, end * self.half, self.fps)


@dataclass(frozen=True, slots=True)
class VideoQuestion:
    """The things of a scene and a question about them."""

    things: tuple[Thing, ...]
    question: str
    answer: str
    answer_type: AnswerType
    lines: str
    """End of the program; `video` is defined before it."""
    choices: tuple[str, ...] = ()
    target: Thing | None = None
    """The thing that is asked about, if it is one."""


def video_question(rng: Rng, kind: VideoKind, length: Length, most: int) -> VideoQuestion:
    """Draw a scene of two to `most` things (up to five, more when they are counted) and a question of a kind."""
    return _MAKERS[kind](rng, length, most)


def _names(rng: Rng, count: int) -> list[tuple[str, Shape]]:
    return [(colour, rng.choice(SHAPES)) for colour in rng.sample(THING_COLOURS, count)]


def _span(rng: Rng, length: Length, first: int | None = None) -> Span:
    """Draw at least a second, on half seconds; more often than not it ends before the clip does."""
    start = rng.integer(0, length.halves - 3) if first is None else first
    end = length.halves if rng.chance(25) else rng.integer(start + 2, length.halves)
    return length.span(start, end)


def _in_lanes(rng: Rng, length: Length, most: int, *, slides: bool) -> list[Thing]:
    count, columns = rng.integer(2, most), rng.chance(40)
    lanes = rng.sample(range(count), count)
    names = _names(rng, count)
    return [
        lane_thing(rng, (lane, count, columns), name, _span(rng, length), slides=slides)
        for lane, name in zip(lanes, names, strict=True)
    ]


def _count(rng: Rng, length: Length, most: int) -> VideoQuestion:
    lanes, columns = rng.integer(3, 4), rng.chance(40)
    colours = rng.sample(THING_COLOURS, rng.integer(2, 3))
    things: list[Thing] = []
    for lane in range(lanes):
        clock = rng.integer(0, 2)
        while clock + 2 <= length.halves and len(things) < most + 3:
            end = min(length.halves, clock + rng.integer(2, max(3, length.halves // 2)))
            name = (rng.choice(colours), rng.choice(SHAPES))
            span = length.span(clock, end)
            things.append(lane_thing(rng, (lane, lanes, columns), name, span, slides=True))
            clock = end + rng.integer(2, 6)
    colour = rng.choice(things).colour
    question = (
        f"How many different {colour} objects appear in the course of the video? "
        "What has disappeared does not come back; anything that appears later is another object."
    )
    answer = str(sum(thing.colour == colour for thing in things))
    return VideoQuestion(tuple(things), question, answer, AnswerType.NUMBER, f"print(count_tracks(video, {colour!r}))")


def _order(rng: Rng, length: Length, most: int) -> VideoQuestion:
    count, columns = rng.integer(3, max(3, min(4, most))), rng.chance(40)
    starts = sorted(rng.sample(range(0, length.halves - 2, 2), count))
    names = _names(rng, count)
    lanes = rng.sample(range(count), count)
    things = [
        lane_thing(rng, (lane, count, columns), name, _span(rng, length, start), slides=True)
        for lane, name, start in zip(lanes, names, starts, strict=True)
    ]
    listed = rng.shuffled(things)
    numbers = {thing.name: str(number) for number, thing in enumerate(listed, start=1)}
    right = ", ".join(numbers[thing.name] for thing in things)
    others = [text for text in map(", ".join, permutations(numbers.values())) if text != right]
    choices = rng.shuffled([right, *rng.sample(others, 3)])
    names_text = ", ".join(f"{name} ({number})" for name, number in numbers.items())
    lines = (
        f'names = "{names_text}".split(", ")\n'
        "first = {name: span_of(video, name.split()[0])[0] for name in names}\n"
        'print(first)\nprint(", ".join(name.split()[2].strip("()") for name in sorted(names, key=first.get)))'
    )
    question = f"In which order do these objects appear for the first time: {names_text}?"
    return VideoQuestion(tuple(things), question, right, AnswerType.CHOICE, lines, tuple(choices))


def _time(rng: Rng, length: Length, most: int, *, lasting: bool) -> VideoQuestion:
    things = _in_lanes(rng, length, most, slides=False)
    target = rng.choice(things)
    start = f"first, end = span_of(video, {target.colour!r})\nprint(first, end)\n"
    if lasting:
        question = f"For how many seconds can the {target.name} be seen?"
        frames, lines = target.end - target.first, start + "print(show((end - first) / video.get_avg_fps()))"
    else:
        question = f"How many seconds after the start of the video does the {target.name} appear?"
        frames, lines = target.first, start + "print(show(first / video.get_avg_fps()))"
    answer = decimal_text(frames // length.half * 5, 1)
    return VideoQuestion(tuple(things), question, answer, AnswerType.NUMBER, lines, target=target)


def _where(rng: Rng, length: Length, most: int) -> VideoQuestion:
    names = _names(rng, rng.integer(2, most))
    while True:
        things = still_things(rng, names, [_span(rng, length) for _ in names])
        target = things[0]
        x, y = target.centre
        if abs(x - SIZE[0] // 2) > 30 and abs(y - SIZE[1] // 2) > 30:
            break
    rows, columns = ("top", "bottom"), ("left", "right")
    answer = f"{rows[y > SIZE[1] // 2]} {columns[x > SIZE[0] // 2]}"
    choices = tuple(f"{row} {column}" for row in rows for column in columns)
    lines = (
        f"x, y = places(video, {target.colour!r})[0]\nprint(x, y)\nheight, width = video[0].asnumpy().shape[:2]\n"
        'print("bottom" if y > height / 2 else "top", "right" if x > width / 2 else "left")'
    )
    question = f"In which quarter of the picture is the {target.name}?"
    return VideoQuestion(tuple(things), question, answer, AnswerType.CHOICE, lines, choices, target)


def _direction(rng: Rng, length: Length, most: int) -> VideoQuestion:
    things = _in_lanes(rng, length, most, slides=True)
    target = rng.choice(things)
    answer = ("right" if target.step[0] > 0 else "left") if target.step[0] else "down" if target.step[1] > 0 else "up"
    lines = (
        f"path = places(video, {target.colour!r})\nprint(path[0], path[-1])\n"
        "across, down = path[-1][0] - path[0][0], path[-1][1] - path[0][1]\n"
        'if abs(across) > abs(down):\n    print("right" if across > 0 else "left")\n'
        'else:\n    print("down" if down > 0 else "up")'
    )
    question = f"In which direction does the {target.name} move?"
    choices = ("left", "right", "up", "down")
    return VideoQuestion(tuple(things), question, answer, AnswerType.CHOICE, lines, choices, target)


def _distance(rng: Rng, length: Length, most: int) -> VideoQuestion:
    names = _names(rng, rng.integer(3, max(3, most)))
    late = length.halves // 2
    while True:
        # All are there together from the middle of the clip for a second.
        spans = [length.span(rng.integer(0, late - 1), rng.integer(late + 2, length.halves)) for _ in names]
        target, *others = still_things(rng, names, spans)
        near, second, *_ = sorted(others, key=lambda thing: _squared(thing, target))
        # The second is at least a third farther away: 16/9 of the squared distance.
        if 9 * _squared(second, target) >= 16 * _squared(near, target):
            break
    question = f"Which object stands nearest to the {target.name}?"
    things = tuple(rng.shuffled([target, *others]))
    choices = tuple(rng.shuffled([thing.name for thing in others]))
    lines = (
        f"names = {list(choices)!r}\nhome = places(video, {target.colour!r})[-1]\n"
        "far = {name: dist(places(video, name.split()[0])[-1], home) for name in names}\nprint(far)\n"
        "print(min(far, key=far.get))"
    )
    return VideoQuestion(things, question, near.name, AnswerType.CHOICE, lines, choices, target)


def _squared(a: Thing, b: Thing) -> int:
    return (a.centre[0] - b.centre[0]) ** 2 + (a.centre[1] - b.centre[1]) ** 2


_MAKERS: Final[dict[VideoKind, Callable[[Rng, Length, int], VideoQuestion]]] = {
    "count": _count,
    "order": _order,
    "when": lambda rng, length, most: _time(rng, length, most, lasting=False),
    "how-long": lambda rng, length, most: _time(rng, length, most, lasting=True),
    "where": _where,
    "direction": _direction,
    "distance": _distance,
}
_RATES = (10, 12, 20, 24, 30)


class VideoKnobs(Knobs):
    """How long a clip is, how much happens in it, and how it is encoded."""

    least_frames: int = Field(60, ge=60, le=900)
    most_frames: int = Field(900, ge=120, le=900)
    things: int = Field(5, ge=3, le=5)
    """Most things; three more where things are counted."""
    kinds: tuple[VideoKind, ...] = KINDS
    codecs: tuple[VideoCodec, ...] = ("h264", "vp9")


def plan(rng: Rng, knobs: VideoKnobs) -> tuple[VideoKind, VideoScene, VideoQuestion]:
    """Return the kind of question, raw scene and question of a clip: all of it but the encoding.

    Raises:
        SettingsError: the knobs allow no length.
    """
    lengths = [
        Length(fps, halves)
        for fps in _RATES
        for halves in range(10, 61)
        if knobs.least_frames <= fps // 2 * halves <= knobs.most_frames
    ]
    if not lengths:
        raise SettingsError(
            f"no clip of 5 to 30 seconds has {knobs.least_frames} to {knobs.most_frames} frames; widen the range"
        )
    length = rng.choice(lengths)
    kind = rng.choice(knobs.kinds)
    asked = video_question(rng, kind, length, knobs.things)
    scene = VideoScene(length.halves * length.half, length.fps, random_background(rng), asked.things)
    return kind, scene, asked


def draw(rng: Rng, knobs: VideoKnobs) -> WorldSample:
    """Return one clip and a question about it. Raises as `plan` and `encode_clip`."""
    kind, scene, asked = plan(rng, knobs)
    codec = rng.choice(knobs.codecs)
    notes = {}
    if asked.target:
        notes = {
            "target": asked.target.name,
            "first frame": str(asked.target.first),
            "end frame": str(asked.target.end),
        }
    return WorldSample(
        question=asked.question,
        media={"video_clue_0": encode_clip(scene.draw(), scene.fps, codec)},
        answer=asked.answer,
        answer_type=asked.answer_type,
        choices=asked.choices,
        program=compose(reading, last="video = video_clue_0\n" + asked.lines),
        difficulty=(scene.frames / 900 + len(scene.things) / 8) / 2,
        tags=(kind, codec),
        notes=notes,
    )


WORLD = World("video-events@3", "When, where, how long, how many: things that come and go in a clip.", VideoKnobs, draw)
