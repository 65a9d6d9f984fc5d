"""Script the styles of an expert as generators that yield moves and are sent what came back.

A move is made after reading what came back before it. An expert that does not get what it needs stops with
`ExpertStopped`; it never answers as if it had.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from saccade.dialects.base import Dialect
from saccade.plugins.worlds.experts.scene import ActionWriter, Box, ExpertScene, area, around, cells, groups, union
from saccade.record.content import Action, Answer, Code, ImagePart, Message, VideoPart
from saccade.record.execution import Execution, ExecutionPicture, Status
from saccade.tasks.worlds import Rng
from saccade.training.sft.synth.settings import ExpertStopped

# Thoughts of an expert: templates as in say(rng, "[I see|There is] {what}[ here|][.|!]", what="a sign"). A seeded
# stream chooses one of the alternatives in brackets; slots in braces are filled last, so that their text is never read
# as a template.

# Templates, short for tiny models and long for others. Slots: `subject` (of the question), `noun` (of what is asked
# for), `box`, `answer`, `error`, `what` (the kind of task), `place` (a rough place in the picture).

NOUNS = {
    "letter": "letter",
    "number": "number",
    "dot": "colour of the dot",
    "colour": "colour",
    "count": "number",
    "value": "value",
    "difference": "difference",
    "extreme": "name",
    "sum": "sum",
    "side-by-colour": "position",
    "side-by-letter": "position",
    "when": "time",
    "how-long": "duration",
    "rows": "number of rows",
    "columns": "number of columns",
    "length": "length",
    "where": "place",
    "dark": "word",
    "rotated": "word",
}
"""Kind of question -> what is asked for; `answer` for others."""

PhraseTable = dict[str, tuple[str, ...]]

SHORT: PhraseTable = {
    "consult": ("[Use|Call] {tool}[ here| for the {noun}|].", "[Let|Have] {tool} [find|tell] the {noun}."),
    "then": ("[Now|Then|Next] {tool}.", "[And|Now] [have|let] {tool} go on."),
    "consulted": ("It [returns|gives] {answer}.", "The {noun} is {answer}.", "[So|Hence] {answer}."),
    "doubt": ("[No use|That does not help]: [look at|zoom in on] {subject}.", "[Look|See] for myself: {subject}."),
    "by_eye": ("[No use|That does not settle it]: I see {answer}.", "[By eye|In the picture]: {answer}."),
    "overview": ("[Look at|Show] the [whole|full] picture.", "[First|Start with] the [whole|full] picture."),
    "look": (
        "[Look|Zoom in] at {subject}.",
        "{subject}[ is small| is tiny|]: [crop|zoom|cut it out].",
        "[I need to see|Let me see] {subject} [closer|larger].",
        "[Crop|Cut out] {subject}[ first|].",
    ),
    "wide": (
        "[Look|Zoom in] around {place}.",
        "{subject} [should be|may be|is] {place}.",
        "[First|Start with] {place}.",
    ),
    "closer": (
        "[There it is|I see it][.|:] [closer|zoom in more].",
        "[Still small|Too small][.|:] [crop again|closer].",
    ),
    "next": ("Now {subject}.", "[Next|Then]: {subject}.", "[And|Also] {subject}[, closer|]."),
    "read": (
        "[It shows|I see|It is] {answer}.",
        "The {noun} is {answer}.",
        "[Now clear|Clear now]: {answer}.",
        "{noun}: {answer}.",
    ),
    "compute": (
        "[Compute|Measure] the {noun}.",
        "[Let code|Let Python] [find|measure] the {noun}.",
        "Run code[ for the {noun}|].",
    ),
    "begin": (
        "[First|Start with] the [tools|helpers].",
        "Set up[ first|].",
        "[Prepare|Define] [the steps|what is needed].",
    ),
    "go_on": ("[Now|Then] the rest.", "Go on[ to the {noun}|].", "[Finish|Now finish] it."),
    "result": ("[It prints|Output:|The code says] {answer}.", "The {noun} is {answer}.", "So {answer}."),
    "frames": ("Look at [some|a few] frames.", "[Show|See] frames first."),
    "missed": (
        "[Not there|Wrong place|Nothing here][.|:] [look elsewhere|try again].",
        "{subject} is not here. [Again|Elsewhere].",
    ),
    "repair": ("{error}. [Fix it|Correct it|Again].", "[Failed|Error]: {error}. [Retry|Fix that]."),
    "direct": ("[I see|It is|Clearly] {answer}.", "The {noun} is {answer}.", "[No code needed|Easy]: {answer}."),
}

LONG: PhraseTable = {
    "consult": (
        "[I need exact values, and my eye does not give them|This should not be guessed]: the tool {tool} [can tell me|"
        "gives me] what I need for the {noun}.",
        "To [get|find] the {noun}, I [call|use] {tool} [first|on the picture], [which is more reliable than a look|"
        "then I can answer].",
        "[Let me|I will] have {tool} [take care of this|do the measuring and reading].",
    ),
    "then": (
        "[With this|With what came back], [the next step is|I go on with] {tool}.",
        "[Next|Now] I [hand this to|call] {tool}[ to get the {noun}|].",
        "That is the first half. [Now|Then] {tool} [takes over|does the rest].",
    ),
    "doubt": (
        "[This result does not answer the question|What came back cannot be right or is not enough], so I "
        "[look myself|zoom in on {subject} myself].",
        "The tool [did not read this well|is of no use here]. [I check|Let me check] {subject} [with my own eyes|in a "
        "crop].",
    ),
    "by_eye": (
        "[The tools leave this open|That does not settle it]. [Going by|From] the picture itself, the {noun} is "
        "{answer}.",
        "[I cannot rest the answer on this result|This result is not enough]; [in the picture|looking at it] I find "
        "{answer}.",
    ),
    "consulted": (
        "[From|According to] what the tool returned, the {noun} is {answer}.",
        "[With this result|Now that I have the values], the [answer is clear|question is settled]: {answer}.",
        "The [tool's result|output] [gives|leads to] {answer}[ as the {noun}|].",
    ),
    "overview": (
        "[I have not seen the picture yet|The picture has not been shown yet], so I [start with|first take] a look at "
        "[all of it|the whole of it].",
        "[First|Before anything else] I [show|look at] the [whole|full] picture[ to see where to look closer|].",
    ),
    "look": (
        "[The question is about|I am asked about] {subject}[, which is too small to read here|, and I cannot make out "
        "enough at this size|]. [Let me|I will] [crop|cut out] the [area|region] [around it|where it is] and "
        "[enlarge it|look closer|zoom in].",
        "To [find|read|tell] the {noun} I need [more detail|a closer view]. [{subject} is {place}|It is {place}], so I "
        "[crop|cut out] {box}[ and enlarge it| and show it|].",
        "[At this scale|From here] {subject} is [only a few pixels|hard to make out|not clear enough]. [A crop of|"
        "Zooming into] {box} should [show|settle] it.",
        "{subject} [seems to be|is] {place}. [I will zoom in there|Let me look at that part at full resolution] "
        "[before I answer|to get the {noun} right|to be sure].",
    ),
    "wide": (
        "I am not sure [yet |]where exactly {subject} is, [but it looks as if it were|probably] {place}. [I start with|"
        "First I take] a [generous|wide] crop.",
        "[Let me|I will] first [look at|cut out] a larger part {place}[, then go closer| to find {subject}|].",
        "{subject} should be {place}. A [rough|wide] crop [around {box}|there] will [tell|show where it is].",
    ),
    "closer": (
        "[I can see|Now I see] {subject}[ there|], but it is [still small|not large enough yet]. [A tighter crop|"
        "Cropping {box}] will [show|bring out] the {noun}.",
        "That is the right [area|part]. [Now|Next] I [go closer|zoom in further], to {box}.",
        "{subject} is in this crop. To [be sure of|read] the {noun} I [narrow it down|cut tighter].",
    ),
    "next": (
        "[Next|Now] I need {subject}[ as well|], which is {place}.",
        "That was the first part. [Now|Then] {subject}: I [crop|look at] {box}.",
        "[The other place to check is|I also have to look at] {subject}, {place}.",
    ),
    "read": (
        "[In the crop|Enlarged,|Now] [I can see it clearly|it is clear|it can be read]: the {noun} is {answer}.",
        "The [crop|close-up] shows {subject}[ well|], and the {noun} is {answer}. [That answers the question.|]",
        "[This settles it|Now there is no doubt]: {answer}.",
        "[Looking at|From] the [enlarged part|crop], I [read|find] {answer}[ as the {noun}|].",
    ),
    "compute": (
        "[This is easier to measure than to guess|Counting or measuring by eye would be risky here], so I [write|use] "
        "[code|a short program] that [finds|works out] the {noun} [from the pixels|step by step].",
        "[I will|Let me] [compute|determine] the {noun} [with code|in Python|from the pixels][, and print it|].",
        "The {noun} can be [found|worked out] [exactly|reliably] [with some image processing|by a program]. [I print "
        "the result.|Its last line will be the result.|]",
        "[Rather than trust my eye|To be precise], I [let Python|have code] [work out|find] the {noun}.",
    ),
    "begin": (
        "[I begin with|First come] the [helpers|definitions] that the program needs[ to find the {noun}|].",
        "[In two steps|Step by step]: [this cell|the first cell] [prepares|sets up] [the picture and the functions|"
        "what I need], the next one finishes.",
        "[Let me|I will] [set up|prepare] the [steps|measurement] first.",
    ),
    "go_on": (
        "[That worked|The first part ran]. [Now|Next] [the rest|the second part], which [prints|gives] the {noun}.",
        "[With that in place|Everything is defined now], I can [compute|get] the {noun}.",
        "[Good|So far so good]. [Now I finish the computation|What is left is the result itself].",
    ),
    "result": (
        "The [program|code] [prints|gives|reports] {answer}[, so that is the {noun}|, which is the {noun}|].",
        "[According to the output|From the result], the {noun} is {answer}.",
        "[The last line says|It printed] {answer}. [That is the answer.|]",
    ),
    "frames": (
        "[Before I measure|First] I [look at|show] [some|a few] frames [of the video|spread over the video] to see "
        "what [happens|is going on].",
        "[Let me see|I want to see] what the video [shows|is about]: some frames from beginning to end.",
    ),
    "missed": (
        "[This crop|That part] does not show {subject}[; I was looking in the wrong place|]. [It must be|I should "
        "look] {place}[ instead|].",
        "[Hmm,|No,] {subject} is not [in this part|here]. I [try|take] {box} [instead|next].",
        "[Nothing useful here|That was the wrong place]: {subject} is {place}, so I crop there.",
    ),
    "repair": (
        "[That failed|The call failed] with [an error|this message]: {error}. [My mistake|That was my slip]; [I "
        "correct it|here is the corrected version|I fix it and run it again].",
        "[I see the problem|The error is clear] ({error}). [Let me|I will] [fix|correct] that.",
        "{error}: [I made a mistake in the last step|that was wrong]. [Again, correctly|Once more, done right].",
    ),
    "direct": (
        "[This can be seen|I can see this] [without code|at a glance|directly in the picture]: the {noun} is {answer}.",
        "[The picture is small and clear|Everything is large enough to see], so I [need no code|can answer at once]: "
        "{answer}.",
        "[Looking at|In] the picture, the {noun} is [clearly |]{answer}[; no need to zoom in|].",
    ),
}
_INNERMOST = re.compile(r"\[([^\[\]]*)\]")
_START = re.compile(r"(?:^|(?<=[.!?] ))[a-z]")
_SLOT = re.compile(r"\{(\w+)\}")
_ROWS = ("at the top", "in the middle", "at the bottom")
_COLUMNS = ("on the left", "", "on the right")


class ThoughtWriter:
    """Writes the thoughts of one scene."""

    def __init__(self, scene: ExpertScene) -> None:
        self._scene = scene
        self._voice = LONG if scene.long else SHORT

    def say(self, occasion: str, *, box: Box | None = None, name: str = "", label: str = "", **slots: str) -> str:
        """Return a thought for `occasion`, a key of the templates; the expert looks at `box` in the picture `name`."""
        scene = self._scene
        subject = scene.named(label) if label else scene.subject
        filled = {
            "subject": subject,
            "noun": NOUNS.get(scene.kind, "answer"),
            "box": str(box) if box is not None else "that part",
            "place": self._place(name, box),
            **slots,
        }
        return say(scene.rng, self._voice[occasion], **filled)

    def _place(self, name: str, box: Box | None) -> str:
        part = self._scene.pictures.get(name)
        if box is None or part is None:
            return "somewhere in the picture"
        column = min(2, 3 * (box[0] + box[2]) // (2 * part.width))
        row = min(2, 3 * (box[1] + box[3]) // (2 * part.height))
        return f"{_ROWS[row]} {_COLUMNS[column]}".strip()


def say(rng: Rng, templates: str | Sequence[str], **slots: object) -> str:
    """Return one of the sentences that the templates allow, with capitals where sentences begin.

    Raises `KeyError`: a template has a slot that is not given.
    """
    text = templates if isinstance(templates, str) else rng.choice(templates)
    while match := _INNERMOST.search(text):
        text = text[: match.start()] + rng.choice(match[1].split("|")) + text[match.end() :]
    text = _SLOT.sub(lambda slot: str(slots[slot[1]]), " ".join(text.split()))
    return _START.sub(lambda start: start[0].upper(), text)


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
    """Result of one call."""

    text: str
    """Text that was printed, without the dialect's wrapper; the whole text where the wrapper is that of a failure."""
    pictures: int
    error: str | None
    """The line that names what went wrong; None if nothing did."""

    @property
    def last(self) -> str:
        """The last line that is not blank; empty if there is none."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1] if lines else ""


def observed(dialect: Dialect, messages: Sequence[Message]) -> Message:
    """Return the newest observation among `messages`; a last request for the answer may stand behind it."""
    return messages[-2] if len(messages) > 1 and messages[-1] == dialect.ask_for_answer() else messages[-1]


def read(dialect: Dialect, text: str, new: int, before: int) -> Seen:
    """Return the newest observation in `text`, which brought `new` pictures after `before` others."""
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
    """Return whether this is how the dialect shows a call that ended well and neither printed nor showed anything."""
    return text.endswith(dialect.observe(Execution(status=Status.OK), before).message.text)


@dataclass(frozen=True, slots=True)
class Move:
    """Action of the expert in one turn."""

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
        return cls(scene, ActionWriter(scene), ThoughtWriter(scene))


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a picture to look at."""

    name: str
    target: Box
    """Part that must be seen."""
    label: str


def can_crop(part: ExpertPart, left: int) -> bool:
    """Return whether looking at the evidence answers the question, within `left` turns."""
    scene = part.scene
    places = windows(part, left - 1 - unseen(part))
    if not part.actions.codes:
        return part.actions.cutter is not None and bool(places)
    shows = scene.world in LOOKED or scene.notes.get("look") == "crop"
    return shows and bool(places) and all(_is_part(place, scene.pictures[place.name]) for place in places)


def can_compute(part: ExpertPart, left: int) -> bool:
    """Return whether the task's program can be run, within `left` turns."""
    program = part.scene.task.program
    short = program is not None and len(program) <= part.scene.settings.longest_program
    return part.actions.codes and short and left >= 2


def unseen(part: ExpertPart) -> bool:
    """Tell whether the dialect shows no picture before the program does; a crop then needs a whole view first."""
    return part.scene.opening.pictures == 0


def _is_part(place: Window, picture: ImagePart) -> bool:
    """Return whether there is anything to cut away: a crop of nearly everything shows nothing new."""
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
    """Return the task's program in one cell, or in two where that is allowed and drawn."""
    scene = part.scene
    program = part.actions.program(scene.task.program or "")
    if most >= 2 and scene.rng.chance(scene.settings.cells_percent):
        return cells(program, scene.rng.integer(30, 100))
    return (program,)


def frames_code(part: ExpertPart) -> str | None:
    """Return a cell that shows frames from all over the task's video; None without one."""
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
