"""Prepares the page of an episode: the record itself, and its types and numbers in words.

Templates read the record. The functions here are their filters, and return plain texts and tuples.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, assert_never

from markupsafe import Markup, escape
from pydantic import JsonValue

from saccade.core.registry import install
from saccade.episode.looks import Xyxy
from saccade.episode.regions import Region, regions
from saccade.errors import MediaError, UnavailableError
from saccade.evals.requests import RequestTry
from saccade.media.modes import PixelBudget
from saccade.media.store import MediaStore
from saccade.media.video import Uniform, sample_frames
from saccade.record.content import Action, Answer, Code, MediaPart, ParseError, ToolCall, VideoPart, area
from saccade.record.execution import HostedCall
from saccade.record.task import EvidenceBox, Task
from saccade.record.trajectory import CORRECT, FinishReason, Score, StopReason, Trajectory, Turn
from saccade.report.picture_book import PictureBook, ShownMedia
from saccade.report.words import count, cut_end, duration, known_sum, money, readable, short_model, some, stop_words
from saccade.tasks.media import own_name

if TYPE_CHECKING:
    from pygments.lexer import Lexer

# Cuts a model's text into thought, code, call and answer.
#
# The action of the record decides what ran or answered; the text is only searched for its place. Tags and
# fences of the wire are left out here; the page shows the exact text too.

Kind = Literal["thought", "code", "quoted", "call", "answer"]

_TAGS = re.compile(r"</?(?:think|code|answer|tool_call)>")
_FENCE = re.compile(r"[ \t]*```[ \t]*(?P<language>[\w+-]*)[ \t]*\r?")
_CLOSING = re.compile(r"[ \t]*\n?[ \t]*```[ \t]*(?=\n|\Z)")
_SHORT = 110
"""Characters of arguments that stand on one line."""


@dataclass(frozen=True, slots=True)
class TextSegment:
    """A piece of what the model wrote."""

    kind: Kind
    """`code` and `call` are what was asked for; `quoted` is code that was not run."""
    text: str
    title: str = ""
    """Name of the tool, for a call."""


def segments(turn: Turn) -> tuple[TextSegment, ...]:
    """Cut a turn into pieces: the text after its last hosted call, in reading order, none of them empty."""
    after = turn.text[turn.hosted[-1].at :] if turn.hosted else turn.text
    return tuple(
        segment
        for segment in _segments(after, turn.action)
        if segment.text.strip() or segment.kind in ("call", "answer")
    )


def prose(text: str) -> tuple[TextSegment, ...]:
    """Cut a text that holds no action into pieces, none of them empty."""
    return tuple(segment for segment in _prose(text) if segment.text.strip())


def _segments(written: str, action: Action) -> Iterator[TextSegment]:
    match action:
        case Code(code=code):
            yield from _around(written, code)
        case ToolCall(name=name, arguments=arguments):
            yield from _prose(_without(written, "<tool_call>", "</tool_call>"))
            yield TextSegment("call", _arguments(arguments), name)
        case Answer(text=text):
            before = _without(written, "<answer>", "</answer>")
            if before.strip() != text.strip():
                yield from _prose(before)
            yield TextSegment("answer", text)
        case ParseError():
            yield from _prose(written)
        case _:
            assert_never(action)


def _around(text: str, code: str) -> Iterator[TextSegment]:
    """Yield the code at its last place in the text, and the thoughts before and after it."""
    # The search from the left is linear in every case, the one from the right is not.
    behind = text[::-1].find(code[::-1]) if code else -1
    if behind < 0:  # the dialect read it from JSON, or changed its indent
        yield from _prose(_without(_without(text, "<tool_call>", "</tool_call>"), "```", "```"))
        yield TextSegment("code", code)
        return
    start = len(text) - behind - len(code)
    before = _TAGS.sub("", text[:start]).rstrip()
    head, _, last = before.rpartition("\n")
    yield from _prose(head if _FENCE.fullmatch(last) else before)
    yield TextSegment("code", code)
    after = _TAGS.sub("", text[start + len(code) :])
    closing = _CLOSING.match(after)
    yield from _prose(after[closing.end() :] if closing else after)


def _without(text: str, opening: str, closing: str) -> str:
    """Return `text` without what stands between the marks; a block that is not closed runs to the end."""
    kept = []
    start = 0
    while (at := text.find(opening, start)) >= 0:
        kept.append(text[start:at])
        end = text.find(closing, at + len(opening))
        if end < 0:
            return "".join(kept)
        start = end + len(closing)
    return "".join([*kept, text[start:]])


def _prose(text: str) -> Iterator[TextSegment]:
    """Thoughts, and the code that they quote between fences."""
    lines: list[str] = []
    inside = False
    for line in _TAGS.sub("", text).split("\n"):
        mark = _FENCE.fullmatch(line)
        if mark is None or (inside and mark["language"]):
            lines.append(line)
            continue
        yield _piece(lines, inside)
        lines, inside = [], not inside
    yield _piece(lines, inside)


def _piece(lines: list[str], quoted: bool) -> TextSegment:
    text = "\n".join(lines)
    return TextSegment("quoted", text) if quoted else TextSegment("thought", text.strip())


def _arguments(arguments: Mapping[str, JsonValue]) -> str:
    """Write JSON, on one line where it is short."""
    line = json.dumps(dict(arguments), ensure_ascii=False)
    return line if len(line) <= _SHORT else json.dumps(dict(arguments), ensure_ascii=False, indent=2)


# Python code and JSON as HTML with classes for colours; everything that is not a class of ours is escaped.

LONGEST: Final = 60_000
"""Characters of one piece that get colours."""


def highlighted(code: str, language: str = "python") -> Markup:
    """Return `code` with spans around its tokens. `language` is `python`, `bash` or `json`."""
    from pygments import highlight

    text = readable(cut_end(code)).strip("\n")
    if len(text) > LONGEST:
        return escape(text)
    return Markup(highlight(text, _lexer(language), _formatter()).rstrip("\n"))  # Pygments escapes


@cache
def _lexer(language: str) -> Lexer:
    from pygments.lexers.data import JsonLexer
    from pygments.lexers.python import PythonLexer
    from pygments.lexers.shell import BashLexer

    kinds: dict[str, type[Lexer]] = {"json": JsonLexer, "bash": BashLexer}
    return kinds.get(language, PythonLexer)(stripnl=False)


@cache
def _formatter() -> Any:
    from pygments.formatters.html import HtmlFormatter

    return HtmlFormatter(nowrap=True)


def indented(value: JsonValue) -> str:
    """Write JSON, or a text that may hold JSON, with indents."""
    try:
        data = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return str(value)  # the events of a stream, or a page of some proxy
    return json.dumps(data, ensure_ascii=False, indent=2)


# What is drawn over the pictures of a question: a numbered box for each region that a turn looked at, and evidence.
#
# Large boxes are drawn below small ones, and numbers avoid each other as far as there is room.


_TAG: Final = 26
"""A number is this many times smaller than the longer side of its picture."""

COLOURS: Final = 8
"""Colours that turns take in their order, and then again."""


@dataclass(frozen=True, slots=True)
class Box:
    """A region drawn over a picture."""

    number: str
    """Text at it: the number of the turn, or `E` for evidence."""
    colour: str
    """Name of the class that colours it."""
    edges: Xyxy
    """Pixels of the picture."""
    tag: Xyxy
    """Place of the number, in pixels of the picture."""
    place: str
    """Size and corner in words."""
    title: str
    """How it is known, or what evidence it is."""
    turn: int | None
    """From 1; None for evidence."""


def colour(number: int) -> str:
    """Return the class that colours turn `number`, from 1."""
    return f"hue{(number - 1) % COLOURS}"


def legend(drawn: Iterable[Box]) -> list[Box]:
    """Return the boxes in the order of their turns, evidence last."""
    return sorted(drawn, key=lambda box: (box.turn is None, box.turn or 0))


def boxes(part: MediaPart, regions: list[Region], evidence: list[EvidenceBox]) -> tuple[Box, ...]:
    """Place the boxes over one picture, in drawing order."""
    height = max(part.width, part.height) / _TAG
    looked = [(region.box, str(region.turn + 1), region.turn + 1, _how(region)) for region in regions]
    marks: list[tuple[Xyxy, str, int | None, str]] = [(item.xyxy, "E", None, _evidence(item)) for item in evidence]
    marks += looked
    marks.sort(key=lambda mark: -area(mark[0]))
    tags: list[Xyxy] = []
    drawn = []
    for box, number, turn, title in marks:
        tag = _tag(box, (height * (0.55 * len(number) + 0.55), height), (part.width, part.height), tags)
        tags.append(tag)
        hue = "evidence" if turn is None else colour(turn)
        drawn.append(Box(number, hue, box, tag, _place(box), title, turn))
    return tuple(drawn)


def _tag(box: Xyxy, size: tuple[float, float], room: tuple[int, int], taken: list[Xyxy]) -> Xyxy:
    """Place the number at a corner of the box, inside the picture, over no other number if possible."""
    width, height = size
    left, top, right, bottom = box
    corners = (
        (left, top - height),
        (right - width, top - height),
        (left, bottom),
        (right - width, bottom),
        (left - width, top),
        (right, top),
        (left, top),
    )
    places = [(min(max(x, 0.0), room[0] - width), min(max(y, 0.0), room[1] - height)) for x, y in corners]
    tags = [(x, y, x + width, y + height) for x, y in places]
    return next((tag for tag in tags if not any(_meet(tag, other) for other in taken)), tags[0])


def _meet(one: Xyxy, other: Xyxy) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _place(box: Xyxy) -> str:
    left, top, right, bottom = box
    return f"{right - left:g}×{bottom - top:g} at {left:g}, {top:g}"


def _how(region: Region) -> str:
    if region.seen:
        return "asked for, confirmed by pixels" if region.said else "found by its pixels"
    return "asked for"


def _evidence(item: EvidenceBox) -> str:
    return f"evidence: {item.label}" if item.label else "evidence"


# The frames are evenly spaced and say at which second; those that a call gave back follow with the numbers of their
# turns. Which second of the video a call looked at is not recorded, so it is not said.

FRAMES: Final = 8
"""Frames of a strip, evenly spaced."""
_FACTOR: Final = 4
_PIXELS: Final = 320 * 240


@dataclass(frozen=True, slots=True)
class StripFrame:
    """A frame of a video."""

    picture: ShownMedia
    caption: str
    turn: int | None
    """From 1, of the call that gave it back; None for one of the evenly spaced."""


@dataclass(frozen=True, slots=True)
class VideoView:
    """A video of the task."""

    facts: str
    """Its size and length in words."""
    frames: tuple[StripFrame, ...]
    """Evenly spaced."""
    looked: tuple[StripFrame, ...]
    """Pictures that calls gave back, in their order."""
    href: str
    """The file from the folder of the page; empty if it is not below it."""
    problem: str = ""
    """Why there are no frames."""


def video_view(part: VideoPart, turns: Sequence[Turn], book: PictureBook) -> VideoView:
    """Prepare a video with the pictures that came back in `turns`."""
    facts = f"{part.width}×{part.height}, {part.seconds:.1f} s, {part.frames:,} frames"
    looked = tuple(
        StripFrame(book.add(picture.image), f"turn {number}", number)
        for number, turn in enumerate(turns, 1)
        if turn.execution is not None
        for picture in turn.execution.pictures
    )
    store = book.store
    if store is None:
        return VideoView(facts, (), looked, "", "there is no media folder beside the record")
    try:
        frames = _sampled(part, store, book)
    except UnavailableError:
        return VideoView(facts, (), looked, _href(part, store, book), f"frames need: {install('video')}")
    except (MediaError, OSError) as error:
        why = "missing" if not store.path(part.sha256).is_file() else f"cannot be read: {type(error).__name__}"
        return VideoView(facts, (), looked, "", f"{why} ({part.sha256[:12]}…)")
    return VideoView(facts, frames, looked, _href(part, store, book))


def _sampled(part: VideoPart, store: MediaStore, book: PictureBook) -> tuple[StripFrame, ...]:
    budget = PixelBudget(_FACTOR, _FACTOR**2, _PIXELS)
    frames = sample_frames(store.path(part.sha256), Uniform(min(FRAMES, part.frames)), budget=budget)
    return tuple(
        StripFrame(book.add_image(frame.image, f"{part.sha256[:20]}-{frame.index}"), f"{frame.second:.1f} s", None)
        for frame in frames
    )


def _href(part: VideoPart, store: MediaStore, book: PictureBook) -> str:
    """Return the file's path from the page's folder; empty if not below it: pages hold no other paths."""
    if book.folder is None:
        return ""
    file, folder = store.path(part.sha256).resolve(), book.folder.resolve()
    return file.relative_to(folder).as_posix() if file.is_relative_to(folder) else ""


WARNINGS = {
    FinishReason.LENGTH: "The text was cut off by the limit of tokens.",
    FinishReason.FILTERED: "The provider withheld text.",
    FinishReason.DECLINED: "The model refused to answer.",
}


class Verdict(NamedTuple):
    """Whether the answer was right, as far as a score says so."""

    word: str
    """`right`, `wrong` or `not scored`."""
    right: bool | None


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """A trajectory, and what its page needs of the media store and of the pixels."""

    anchor: str
    """Names the episode in the page."""
    trajectory: Trajectory
    pictures: Mapping[str, ShownMedia]
    """By the SHA-256 of the recorded media."""
    boxes: Mapping[str, tuple[Box, ...]]
    """Over the task's pictures, by their names, in the order in which they are drawn."""
    looked: Mapping[int, int]
    """Regions of the task's pictures that a turn looked at, by its number from 1."""
    videos: Mapping[str, VideoView]
    """Of the task, by their names."""
    wires: tuple[RequestTry, ...] = ()
    """Every request to the model's server, those that failed included; empty if none were kept."""
    running: bool = False
    """Whether what the last turn asked for is being run."""

    @property
    def title(self) -> str:
        return self.trajectory.task.question


@dataclass(frozen=True, slots=True)
class EpisodeCard:
    """An episode on the index: little enough to keep while many trajectories are read."""

    href: str
    """Its anchor, until it is known in which file the episode is."""
    id: str
    question: str
    answer: str | None
    verdict: Verdict
    stop: str
    answered: bool
    turns: int
    picture: ShownMedia | None


def episode_view(
    anchor: str,
    trajectory: Trajectory,
    book: PictureBook,
    *,
    wires: tuple[RequestTry, ...] = (),
    running: bool = False,
) -> EpisodeView:
    """Gather what the page of a trajectory shows; its pictures are added to `book`."""
    looked = regions(trajectory, book)
    task = trajectory.task
    return EpisodeView(
        anchor,
        trajectory,
        {part.sha256: book.add(part) for part in trajectory.media()},
        {
            item.name: boxes(
                item.part,
                [region for region in looked if region.name == item.name],
                [box for box in task.evidence if box.image == item.name],
            )
            for item in task.media
        },
        Counter(region.turn + 1 for region in looked),
        {
            item.name: video_view(item.part, trajectory.turns, book)
            for item in task.media
            if isinstance(item.part, VideoPart)
        },
        wires,
        running,
    )


def card(href: str, trajectory: Trajectory, book: PictureBook) -> EpisodeCard:
    """Return the episode as it is shown on an index."""
    pictures = [item.part for item in trajectory.task.media]
    return EpisodeCard(
        href,
        trajectory.id,
        trajectory.task.question,
        trajectory.answer,
        verdict(trajectory.scores),
        stop_words(trajectory.stop),
        trajectory.stop is StopReason.ANSWERED,
        len(trajectory.turns),
        book.add(pictures[0]) if pictures else None,
    )


def verdict(scores: Iterable[Score]) -> Verdict:
    """Tell whether the answer is right, by the score `correct`."""
    value = next((score.value for score in scores if score.name == CORRECT), None)
    if value is None:
        return Verdict("not scored", None)
    right = True if value >= 1 else False if value <= 0 else None
    return Verdict({True: "right", False: "wrong", None: f"{CORRECT} {value:g}"}[right], right)


def choices(task: Task, answer: str | None) -> Iterator[tuple[str, str, bool, bool]]:
    """Yield letter and text of each choice, whether it is the `answer`, and whether it is the gold answer."""
    given = "" if answer is None else answer.strip().casefold()
    for number, choice in enumerate(task.choices):
        mark = ascii_uppercase[number] if len(task.choices) <= 26 else str(number + 1)
        chosen = given in (choice.strip().casefold(), mark.casefold())
        yield mark, choice, chosen, choice in task.right_choices


def is_frame(name: str) -> bool:
    """Tell whether a picture is a frame that was sampled before the episode, by its name `video@1.50s#45`."""
    return name.partition("@")[2].partition("s#")[2].isdecimal()


def deed(turn: Turn, running: bool = False) -> str:
    """Say in a few words what the model did in a turn; `running`: what it asked for has not come back yet."""
    if running:
        return f"calls {turn.action.name} …" if isinstance(turn.action, ToolCall) else "runs code …"
    if turn.hosted:
        calls = f"{len(turn.hosted)} call{'s' * (len(turn.hosted) != 1)} of the provider's sandbox"
        return f"{'answered' if isinstance(turn.action, Answer) else 'wrote no answer'} after {calls}"
    match turn.action:
        case Code():
            return "ran code" if turn.execution is not None else "wrote code that was not run"
        case ToolCall(name=name):
            return f"called {name}" if turn.execution is not None else f"asked for {name}, which was not called"
        case Answer():
            return "answered"
    return "wrote no action"


def hosted(turn: Turn) -> Iterator[tuple[tuple[TextSegment, ...], HostedCall]]:
    """Yield each call of the provider's own sandbox, and before it what the model wrote since the call before."""
    begin = 0
    for call in turn.hosted:
        yield prose(turn.text[begin : call.at]), call
        begin = call.at


def turn_facts(turn: Turn) -> Iterator[tuple[str, str]]:
    """Yield name and value of what is known of a turn's time, tokens and price."""
    if turn.model_seconds:
        yield "model", duration(turn.model_seconds)
    ran = turn.execution_seconds or (turn.execution.timings.wall if turn.execution is not None else 0.0)
    if ran:
        yield "run", duration(ran)
    tokens = turn.tokens
    for name, value in (
        ("tokens read", tokens.context),
        ("of them visual", tokens.context_visual),
        ("of them cached", tokens.context_cached),
        ("tokens written", tokens.sampled),
    ):
        if value is not None:
            yield name, count(value)
    if turn.dollars is not None:
        yield "cost", money(turn.dollars)


def chips(trajectory: Trajectory) -> Iterator[tuple[str, str]]:
    """Yield name and value of the figures at the head of the page."""
    turns, made = trajectory.turns, trajectory.provenance
    if made.model:
        yield "model", short_model(made.model)
    if made.dialect:
        yield "dialect", made.dialect
    yield "turns", f"{len(turns):,}"
    yield "pictures back", f"{sum(len(execution.pictures) for turn in turns for execution in turn.executions):,}"
    if trajectory.seconds:
        yield "time", duration(trajectory.seconds)
    written = known_sum(turn.tokens.sampled for turn in turns)
    if written is not None:
        yield "tokens written", count(int(written))
    dollars = known_sum(turn.dollars for turn in turns)
    if dollars is not None:
        yield "cost", money(dollars)


def settings(trajectory: Trajectory) -> list[tuple[str, str]]:
    """Return name and value of what the episode was made with and from, as far as it is known."""
    task, made = trajectory.task, trajectory.provenance
    sampling = made.sampling.model_dump(exclude_none=True)
    limits = made.limits.model_dump(exclude_none=True)
    facts = (
        ("trajectory", trajectory.id),
        ("task", task.id),
        ("source", " · ".join(filter(None, (task.source, task.split)))),
        ("group", f"{trajectory.group}, rollout {trajectory.rollout}" if trajectory.group else ""),
        ("recorded", trajectory.created.isoformat(" ", "seconds") if trajectory.created is not None else ""),
        ("Saccade", made.saccade),
        ("model", made.model),
        ("revision", made.model_revision),
        ("dialect", made.dialect),
        ("after an exception", made.state_policy),
        ("repairs", ", ".join(made.repairs)),
        ("isolation", ", ".join(made.layers)),
        *((f"sampling: {name.replace('_', ' ')}", f"{value:g}") for name, value in sampling.items()),
        *((f"limit: {name.replace('_', ' ')}", f"{value:g}") for name, value in limits.items()),
    )
    return [(name, value) for name, value in facts if value]


def wire_title(sent: RequestTry) -> str:
    """Say of a request its number, its address and how it ended."""
    ended = "no answer" if sent.status is None else f"HTTP {sent.status}"
    return f"{sent.number + 1}. {sent.path or 'not sent'} · {ended} · {duration(sent.seconds)}"


FILTERS = (
    own_name,
    verdict,
    deed,
    hosted,
    turn_facts,
    chips,
    settings,
    wire_title,
    duration,
    money,
    known_sum,
    some,
    stop_words,
)
"""Functions of one value that templates call by their names."""
