"""Scenes and questions of the video world, of the families of VSI-Bench (Yang et al., 2024).

Counting, order of appearance, when, for how long, where, which way, and which is nearest. A scene is made for its
question; everything has a colour of its own but where things of a colour are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Final, Literal, get_args

from saccade.record.task import AnswerType
from saccade.tasks.worlds.chart_frame import decimal_text
from saccade.tasks.worlds.rng import Rng
from saccade.tasks.worlds.video_scene import (
    SHAPES,
    SIZE,
    THING_COLOURS,
    Shape,
    Span,
    Thing,
    lane_thing,
    still_things,
)

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
        """Frames in half a second."""
        return self.fps // 2

    def span(self, first: int, end: int) -> Span:
        """From one half second to another."""
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
    """A scene of two to `most` things (up to five, more when they are counted) and a question of a kind about it."""
    return _MAKERS[kind](rng, length, most)


def _names(rng: Rng, count: int) -> list[tuple[str, Shape]]:
    return [(colour, rng.choice(SHAPES)) for colour in rng.sample(THING_COLOURS, count)]


def _span(rng: Rng, length: Length, first: int | None = None) -> Span:
    """At least a second, on half seconds; more often than not it ends before the clip does."""
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
