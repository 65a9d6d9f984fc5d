"""What a page shows, as plain frozen data: the seam between the record and the templates.

Texts are as they were written; the templates make hidden characters visible and escape everything.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from saccade.report.picture_book import ShownMedia


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and a value in a list of facts."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class PieceView:
    """A piece of a model's text, or of a message."""

    kind: str
    """`thought`, `code`, `quoted`, `call`, `answer`, `text` or `picture`."""
    text: str = ""
    title: str = ""
    code: Markup | None = None
    """The text with colours, where it has some."""
    picture: ShownMedia | None = None


@dataclass(frozen=True, slots=True)
class Talk:
    """A message, as it was shown to the model."""

    title: str
    role: str
    pieces: tuple[PieceView, ...]


@dataclass(frozen=True, slots=True)
class PictureOut:
    """A picture that came back."""

    picture: ShownMedia
    caption: str


@dataclass(frozen=True, slots=True)
class ExecutionView:
    """What running the action gave."""

    status: str
    good: bool
    time: str
    state: str
    """What became of the session's state; empty for a tool."""
    stdout: str
    stderr: str
    value: str
    traceback: str
    pictures: tuple[PictureOut, ...]
    files: tuple[Fact, ...]
    repairs: tuple[Fact, ...]
    notes: tuple[str, ...]

    @property
    def silent(self) -> bool:
        """Whether nothing came back at all."""
        texts = (self.stdout, self.stderr, self.value, self.traceback)
        return not (any(text.strip() for text in texts) or self.pictures or self.files)


@dataclass(frozen=True, slots=True)
class BoxView:
    """A region drawn over a picture."""

    number: str
    """What is written at it: the number of the turn, or `E` for evidence."""
    colour: str
    """Name of the class that colours it."""
    edges: tuple[float, float, float, float]
    """`xyxy` pixels of the picture."""
    tag: tuple[float, float, float, float]
    """Where the number stands, `xyxy` pixels of the picture."""
    place: str
    """Size and corner in words."""
    title: str
    """How it is known, or what evidence it is."""
    turn: int | None
    """From 1; None for evidence."""


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
    """What calls gave back, in their order."""
    href: str
    """The file from the folder of the page; empty if it does not lie below it."""
    problem: str = ""
    """Why there are no frames."""


@dataclass(frozen=True, slots=True)
class Original:
    """A picture of the task, and what is drawn over it."""

    name: str
    picture: ShownMedia
    boxes: tuple[BoxView, ...]
    """In the order in which they are drawn."""
    video: VideoView | None = None
    """If it is a video; then there are no boxes."""

    @property
    def is_frame(self) -> bool:
        """Whether it is a frame that was sampled before the episode, by its name `video@1.50s#45`."""
        return self.name.partition("@")[2].partition("s#")[2].isdecimal()

    @property
    def legend(self) -> tuple[BoxView, ...]:
        """The boxes in the order of their turns, evidence last."""
        return tuple(sorted(self.boxes, key=lambda box: (box.turn is None, box.turn or 0)))


@dataclass(frozen=True, slots=True)
class HostedView:
    """A call of the provider's own sandbox."""

    said: tuple[PieceView, ...]
    """What the model wrote since the call before."""
    title: str
    code: Markup
    ran: ExecutionView


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn as the page shows it."""

    number: int
    """From 1."""
    colour: str
    deed: str
    """What the model did, in a few words."""
    hosted: tuple[HostedView, ...]
    """What ran in the provider's sandbox while the model wrote; it comes before `pieces`."""
    pieces: tuple[PieceView, ...]
    exact: str
    """What the model wrote, character for character."""
    problem: str
    """Why the text held no action; empty if it did."""
    warning: str
    """What else a reader should know of the text, such as that it was cut off."""
    ran: ExecutionView | None
    shown: tuple[Talk, ...]
    """What the model was shown afterwards."""
    facts: tuple[Fact, ...]
    looked: int
    """Regions of the task's pictures that are drawn for this turn."""


@dataclass(frozen=True, slots=True)
class TableView:
    """Rows of texts under their heads; the last row sums up."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerdictView:
    """Whether the answer was right, as far as a score says so."""

    word: str
    """`right`, `wrong` or `not scored`."""
    right: bool | None


@dataclass(frozen=True, slots=True)
class WireView:
    """One try of a request to the model's server, as it went over the wire."""

    title: str
    """Its number, address and how it ended."""
    good: bool
    request: str
    response: str


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """One trajectory as a page shows it."""

    anchor: str
    id: str
    question: str
    originals: tuple[Original, ...]
    choices: tuple[tuple[str, str, str], ...]
    """Letter, text, and a class: `chosen`, `gold`, `chosen gold` or nothing."""
    answer: str | None
    gold: str | None
    verdict: VerdictView
    stop: str
    stop_detail: str
    answered: bool
    outage: bool
    chips: tuple[Fact, ...]
    turns: tuple[TurnView, ...]
    prompt: tuple[Talk, ...]
    table: TableView
    scores: tuple[tuple[str, str, str, str], ...]
    """Name, value, weight, detail."""
    settings: tuple[Fact, ...]
    resolved: str
    """The settings of the command as TOML; empty if none were kept."""
    wires: tuple[WireView, ...] = ()
    """Every request to the model's server, those that failed included; empty if none were kept."""


@dataclass(frozen=True, slots=True)
class EpisodeCard:
    """An episode on the index."""

    href: str
    """Its anchor, until it is known in which file it lies."""
    id: str
    question: str
    answer: str | None
    gold: str | None
    verdict: VerdictView
    stop: str
    answered: bool
    turns: str
    picture: ShownMedia | None


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in a list of runs."""

    name: str
    href: str
    """Empty if it has no page."""
    cells: tuple[tuple[str, str], ...]
    """Of each further column the text, and what it is sorted by: a number or a text, empty if not known."""


@dataclass(frozen=True, slots=True)
class Other:
    """Another episode of the same task, as a link."""

    href: str
    name: str
    verdict: VerdictView
