"""Script the styles of an expert as generators that yield moves and are sent what came back.

A move is made after reading what came back before it. An expert that does not get what it needs stops with
`ExpertStopped`; it never answers as if it had.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from saccade.dialects.base import Dialect
from saccade.plugins.worlds.experts.hand import ActionWriter, cells
from saccade.plugins.worlds.experts.scene import Box, ExpertScene, area, around, groups, union
from saccade.plugins.worlds.experts.voice import ThoughtWriter
from saccade.record.content import Action, Answer, Code, ImagePart, Message, VideoPart
from saccade.record.execution import Execution, ExecutionPicture, Status
from saccade.training.sft.synth.experts import ExpertStopped

# What came back after a turn, read from the messages as the model sees them: the inverse of a dialect's `observe`.
#
# Nothing here looks behind the messages: an expert that reads a result reads what a policy would read.


_MARK = "what.was.printed"
_DUMMY = ExecutionPicture(image=ImagePart(sha256="0" * 64, width=1, height=1), source="figure")
_ERROR = re.compile(
    r"(?:\b(?:[A-Z]\w*(?:Error|Exception)|Error|Execution timeout|Timed Out)\b|(?<=execution failed: )).*"
)
_HEADED = re.compile(r"Execution Error \((?P<kind>\w+)\) -+\s+(?P<message>.*)")


@dataclass(frozen=True, slots=True)
class Seen:
    """What came back from one call."""

    text: str
    """What was printed, without the dialect's wrapper; the whole text where the wrapper is that of a failure."""
    pictures: int
    error: str | None
    """The line that names what went wrong; None if nothing did."""

    @property
    def last(self) -> str:
        """The last line that is not blank; empty if there is none."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1] if lines else ""


def observed(dialect: Dialect, messages: Sequence[Message]) -> Message:
    """The newest observation among `messages`; a last request for the answer may stand behind it."""
    return messages[-2] if len(messages) > 1 and messages[-1] == dialect.ask_for_answer() else messages[-1]


def read(dialect: Dialect, text: str, new: int, before: int) -> Seen:
    """The newest observation in `text`, which brought `new` pictures after `before` others."""
    execution = Execution(status=Status.OK, stdout=_MARK + "\n", pictures=(_DUMMY,) * new)
    frame = dialect.observe(execution, before).message.text
    opening, printed, closing = frame.replace(_MARK + "\n", _MARK).partition(_MARK)
    inside = text
    # An observation may continue the message before it, so the newest one is the last.
    matched = opening in text
    if matched and printed:
        inside = text[text.rfind(opening) + len(opening) :] if opening else text
        inside = inside.removesuffix(closing)
    error = _error_in(inside)
    if error is not None:
        return Seen(inside.strip(), new, error)
    silent = not printed and new > 0
    if silent or matched or new > 0 or not inside.strip():
        return Seen("" if silent else inside.strip(), new, None)
    return Seen(inside.strip(), new, None if _says_nothing(dialect, text, before) else inside.strip()[:120])


def _error_in(text: str) -> str | None:
    headed = _HEADED.search(text)
    if headed is not None:
        return f"{headed['kind']}: {headed['message'].strip()}"
    match = _ERROR.search(text)
    return None if match is None else match[0].strip()


def _says_nothing(dialect: Dialect, text: str, before: int) -> bool:
    """Whether this is how the dialect shows a call that ended well and neither printed nor showed anything."""
    return text.endswith(dialect.observe(Execution(status=Status.OK), before).message.text)


@dataclass(frozen=True, slots=True)
class Move:
    """What the expert does in one turn."""

    action: Action
    thought: str


Script = Generator[Move, Seen, None]

LOOKED = frozenset({"visual-search", "circled-letter", "touching-circles", "nested-squares"})
"""Worlds whose answer a crop of the evidence shows; a sample may also say so itself, with the note `look: crop`."""


@dataclass(frozen=True)
class ExpertPart:
    """The scene, and the writers of actions and thoughts for it."""

    scene: ExpertScene
    actions: ActionWriter
    thoughts: ThoughtWriter

    @classmethod
    def of(cls, scene: ExpertScene) -> ExpertPart:
        """The part of an expert in `scene`."""
        return cls(scene, ActionWriter(scene), ThoughtWriter(scene))


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a picture to look at."""

    name: str
    target: Box
    """What must be seen."""
    label: str


def can_crop(part: ExpertPart, left: int) -> bool:
    """Whether looking at the evidence answers the question, within `left` turns."""
    scene = part.scene
    places = windows(part, left - 1 - unseen(part))
    if not part.actions.codes:
        return part.actions.cutter is not None and bool(places)
    shows = scene.world in LOOKED or scene.notes.get("look") == "crop"
    return shows and bool(places) and all(_is_part(place, scene.pictures[place.name]) for place in places)


def can_compute(part: ExpertPart, left: int) -> bool:
    """Whether the task's program can be run, within `left` turns."""
    program = part.scene.task.program
    short = program is not None and len(program) <= part.scene.settings.longest_program
    return part.actions.codes and short and left >= 2


def unseen(part: ExpertPart) -> bool:
    """Whether the dialect shows no picture before the program does: then a crop needs a look at the whole first."""
    return part.scene.opening.pictures == 0


def _is_part(place: Window, picture: ImagePart) -> bool:
    """Whether there is anything to cut away: a crop of nearly everything shows nothing new."""
    return 2 * area(place.target) <= picture.width * picture.height


def windows(part: ExpertPart, most: int) -> list[Window]:
    """Split the evidence into at most `most` windows; empty if that is impossible."""
    chosen_windows: list[Window] = []
    evidence = part.scene.evidence
    for name in part.scene.pictures:
        boxes = [box for image, box, _ in evidence if image == name]
        labels = [label for image, _, label in evidence if image == name]
        if not boxes:
            continue
        # A tool that only crops shows all that is asked about, except where parts are read one by one.
        apart = part.actions.codes or part.scene.world in LOOKED
        chosen = groups(boxes, most) if apart else [union(boxes)]
        if not chosen:
            return []
        single = len(chosen) == len(boxes)
        chosen_windows += [Window(name, box, labels[i] if single else "") for i, box in enumerate(chosen)]
    return chosen_windows if len(chosen_windows) <= most else []


def crop(part: ExpertPart, left: int, opening: str | None = None) -> Script:
    """Look at the evidence, sometimes first too widely, and say what it shows; `opening` is the first thought."""
    places = windows(part, left - 1 - unseen(part))
    rng = part.scene.rng
    spare = left - 1 - len(places) - unseen(part)
    if unseen(part):
        first = next(iter(part.scene.pictures.items()))
        everything = part.actions.look(first[0], (0, 0, first[1].width, first[1].height))
        _picture(part, (yield Move(everything, part.thoughts.say("overview"))))
    for number, window in enumerate(places):
        picture = part.scene.pictures[window.name]
        size = (picture.width, picture.height)
        occasion = "look" if number == 0 else "next"
        if number == 0 and opening is None and spare > 0 and rng.chance(part.scene.settings.wide_percent):
            wide = around(rng, window.target, size, widen=rng.integer(3, 6))
            thought = part.thoughts.say("wide", box=wide, name=window.name, label=window.label)
            _picture(part, (yield Move(part.actions.look(window.name, wide), thought)))
            occasion = "closer"
        box = around(rng, window.target, size)
        thought = part.thoughts.say(occasion, box=box, name=window.name, label=window.label)
        if number == 0 and opening is not None:
            thought = opening
        _picture(part, (yield Move(part.actions.look(window.name, box), thought)))
    yield Move(Answer(text=part.scene.answer), part.thoughts.say("read", answer=part.scene.answer))


def compute(part: ExpertPart, left: int, opening: str | None = None) -> Script:
    """Run the world's program in one cell or two and answer what it printed; `opening` is the first thought."""
    scene = part.scene
    pieces = program_cells(part, left - 1)
    spare = left - 1 - len(pieces)
    frames = frames_code(part)
    if frames is not None and spare > 0 and opening is None and scene.rng.chance(scene.settings.wide_percent):
        _picture(part, (yield Move(Code(code=frames), part.thoughts.say("frames"))))
    said = ["compute"] if len(pieces) == 1 else ["begin", "go_on"]
    seen = None
    for number, (piece, occasion) in enumerate(zip(pieces, said, strict=True)):
        thought = opening if number == 0 and opening is not None else part.thoughts.say(occasion)
        seen = yield Move(Code(code=piece), thought)
        if seen.error is not None:
            raise ExpertStopped(f"the program of {scene.task.id} failed in {scene.dialect.id}: {seen.error}")
    if seen is None or not seen.last:
        raise ExpertStopped(f"the program of {scene.task.id} printed nothing in {scene.dialect.id}")
    yield Move(Answer(text=seen.last), part.thoughts.say("result", answer=seen.last))


def direct(part: ExpertPart, left: int) -> Script:
    """Answer at once."""
    yield Move(Answer(text=part.scene.answer), part.thoughts.say("direct", answer=part.scene.answer))


def program_cells(part: ExpertPart, most: int) -> tuple[str, ...]:
    """The task's program in one cell, or in two where that is allowed and drawn."""
    scene = part.scene
    program = part.actions.program(scene.task.program or "")
    if most >= 2 and scene.rng.chance(scene.settings.cells_percent):
        return cells(program, scene.rng.integer(30, 100))
    return (program,)


def frames_code(part: ExpertPart) -> str | None:
    """A cell that shows frames from all over the task's video; None without one."""
    video = next((item for item in part.scene.task.media if isinstance(item.part, VideoPart)), None)
    if video is None:
        return None
    variable, lines, needed = part.actions.opened(video.name)
    count = part.scene.rng.integer(3, 6)
    return "\n".join(
        [
            *part.actions.imports([*needed, "plt"]),
            *lines,
            f"fig, axes = plt.subplots(1, {count}, figsize=({3 * count}, 3))",
            "for k, ax in enumerate(axes):",
            f"    index = k * (len({variable}) - 1) // {count - 1}",
            f"    ax.imshow({variable}[index].asnumpy())",
            '    ax.set_title(f"frame {index}")',
            "plt.show()",
        ]
    )


def _picture(part: ExpertPart, seen: Seen) -> None:
    if seen.error is not None or seen.pictures == 0:
        said = seen.error or "no picture came back"
        raise ExpertStopped(f"a look at {part.scene.task.id} failed in {part.scene.dialect.id}: {said}")
