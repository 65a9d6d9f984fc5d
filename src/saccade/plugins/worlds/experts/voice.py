"""Write the thoughts of an expert: the templates of its verbosity, filled with what the scene knows.

    say(rng, "[I see|There is] {what}[ here|][.|!]", what="a sign")

Of the alternatives in brackets a seeded stream chooses. They may be nested; an empty one leaves the piece out. Slots in
braces are filled last, so that what fills them is never read as a template.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from saccade.plugins.worlds.experts.scene import Box, ExpertScene
from saccade.tasks.worlds.rng import Rng

# Hold the templates of experts' thoughts for `voice.say`: short for tiny models, long for others.
#
# Slots: `subject` (what the question is about), `noun` (what is asked for), `box`, `answer`, `error`, `what` (the kind
# of task), `place` (a rough place in the picture).


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
        """A thought for `occasion`, a key of the templates; `box` in the picture `name` is where the expert looks."""
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
    """One of the sentences that the templates allow, with capitals where sentences begin.

    Raises:
        KeyError: a template has a slot that is not given.
    """
    text = templates if isinstance(templates, str) else rng.choice(templates)
    while match := _INNERMOST.search(text):
        text = text[: match.start()] + rng.choice(match[1].split("|")) + text[match.end() :]
    text = _SLOT.sub(lambda slot: str(slots[slot[1]]), " ".join(text.split()))
    return _START.sub(lambda start: start[0].upper(), text)
