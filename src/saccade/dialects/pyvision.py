r"""PyVision: a scaffold for any model behind an API. Python in code tags, figures come back as numbered clues.

Presets: `repo` (the released code, the default) and `bound`, which also binds every shown picture as `image_clue_k`
for the next call (it would overwrite a variable of that name that the program made itself).

Kept exactly: one user message and no system message, the tags and numbers of pictures, both forms of the observation,
the cut of 200 + `...` + 200 characters, 20 seconds a call, the names that are there from the start.

Not kept, on purpose (what the released code does, and what happens here):
- no limit of turns: here 30, which a run may change;
- text that mentions the code tag, or that was cut off in it, is run as code: here it is no code;
- without a fence, all words up to the next backticks are run: here only what stands in the code tags;
- an empty text crashes: here it is a parse error;
- a text without code ends the episode whatever it says: here it needs answer tags or a `\boxed{}`, or it is corrected;
- the assistant's closing code tag may come twice in the history: here a turn is kept as it was written;
- an exception without a message is shown as an empty error: here its class is shown;
- only a literal `plt.show()` shows anything, in a loop only the last figure: here every way of showing does;
- after a time-out every result is the one of the call before: here the call is killed;
- one sandbox serves several tasks, which see each other's variables: here each episode has its own;
- pictures are halved for some models: here that is the work of the model client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from saccade.dialects.base import (
    Dialect,
    Observation,
    Opening,
    failure,
    join_texts,
    reject_lost,
    shown,
    system_message,
    with_notes,
)
from saccade.dialects.prompt_texts import CORRECTION, LAST, SYSTEM, Prompts
from saccade.dialects.question import FIGURES, GUARD, clue, opening_parts, pictures_of, question_values, written
from saccade.dialects.text import answers_in, boxed, checked, cut_middle, tagged_code
from saccade.record.content import Action, Answer, ImagePart, Message, ParseError, TextPart, clean_text
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, FinishReason
from saccade.sandbox.base import Limits, SessionOptions, StatePolicy

# The prompt texts of the PyVision dialects, in our own words.
#
# Tags, variable names and formats are the published ones; the sentences are not. The names of the templates are those
# of PyVision's own prompt file, so that such a file can take the place of these texts (`prompt_file`).

ONE_IMAGE = "vistool_with_img_info_v2"
MORE_IMAGES = "vistool_with_img_info_multi_image"
NO_IMAGE = "retool"
NO_HINT = "vis_tool_with_img_info_wo_init_image_v2"
VIDEO = "vis_tool_with_img_info_video_v4"

_HOW = """\
Work on the question below until it is answered. You can look again as often as you need: write Python, and a sandbox \
runs it and shows you what it printed and drew.

Before each piece of code, think about what you want to find out; after it, think about what the result tells you.

Rules for code:
- Wrap one complete script, with its imports, in these tags:
<code>
```python
your code
```
</code>
- {given}
- Show a picture with plt.show(); {see}. Nothing has to be saved.
- Print every value that you want to read with print().
- Variables stay there for your later code.
- The result comes back in <interpreter>...</interpreter>. Never write these tags yourself.

When you know the answer, end with:
<answer>
\\boxed{{{{answer}}}}
</answer>

{information}

Question:
{{query}}
"""


def _text(given: str, see: str, information: str) -> str:
    return _HOW.format(given=given, see=see, information=information)


FRAME = {
    SYSTEM: "",
    CORRECTION: "Error: {reason}",
    LAST: "No more code can be run. Give your final answer now, from what you have seen so far:\n"
    "<answer>\n\\boxed{{answer}}\n</answer>",
}
"""What is said besides the question. There is no system message, unless a prompt file has one."""
RL_FRAME = {name: text for name, text in FRAME.items() if name != LAST}
"""The same where episodes end at their limits."""

OWN = Prompts(
    {
        **FRAME,
        ONE_IMAGE: _text(
            "The picture with the number i is there as the PIL image `image_clue_i`, so the first is `image_clue_0`.",
            "it is drawn with matplotlib, for instance a crop, an enlargement or a plot",
            "Image Width: {width}; Image Height: {height}",
        ),
        MORE_IMAGES: _text(
            "The picture with the number i is there as the PIL image `image_clue_i`, counted from 0.",
            "it is drawn with matplotlib, for instance a crop, an enlargement or a plot",
            "{image_information}",
        ),
        NO_IMAGE: _text(
            "Variables, files and the network are empty at the start: all that you know stands in the question.",
            "it is drawn with matplotlib, for instance a plot",
            "There is no picture.",
        ),
        NO_HINT: _text(
            "You do not see the picture yet: it is there as the PIL image `image_hint_0`.",
            "it is drawn with matplotlib, and the only way to see the picture or a part of it",
            "{image_information}",
        ),
        VIDEO: _text(
            "You do not see the video: it is there as the decord VideoReader `video_clue_0`.",
            "it is drawn with matplotlib, and the only way to see frames, so sample some first and more when needed",
            "{image_information}",
        ),
    },
    "Saccade's own prompts",
)
RL_OWN = Prompts({name: text for name, text in OWN.templates.items() if name != LAST}, OWN.source)
LONGEST_TEXT = 400
"""Characters of printed text, and of an error, that are shown."""
SESSION = SessionOptions(
    state=StatePolicy.KEEP, preload=("matplotlib", "plt", "Image", "io", "base64", "np"), last_expression=False
)
NO_ACTION = (
    "Your text holds neither code in <code> tags nor an answer. Write code between <code> and </code>, "
    "or the final answer as <answer>\n\\boxed{answer}\n</answer>."
)


@dataclass(frozen=True, slots=True)
class PyVisionDialect(Dialect):
    """The dialect of PyVision; see the module."""

    id: str
    bind_pictures: bool = False
    """Whether shown pictures become variables."""
    prompts: Prompts = OWN
    stop: tuple[str, ...] = ("</code>",)
    session: SessionOptions = SESSION
    sandbox: Limits = field(default_factory=lambda: Limits(wall_seconds=20, cpu_seconds=20))
    limits: EpisodeLimits = field(default_factory=lambda: EpisodeLimits(turns=30, idle_turns=4))

    def with_prompts(self, prompts: Prompts) -> Self:
        """Return the same dialect with the texts of `prompts`, those for one and for more pictures among them."""
        return replace(self, prompts=self.prompts.replaced_by(prompts, (ONE_IMAGE, MORE_IMAGES)))

    def open(self, task: Task) -> Opening:
        """Return one user message; `image_clue_i` is the i-th picture.

        Raises `SettingsError` for a task with a video.
        """
        named = pictures_of(task, self.id)
        pictures = [image for _, image in named]
        values = {**question_values(task), **information(pictures)}
        template = self.prompts.around_query(template_for(len(named)), values)
        parts = opening_parts(task, pictures, template, after_tag="\n\n")
        return Opening(
            messages=(*system_message(self.prompts), Message(role="user", parts=parts)),
            bindings={f"image_clue_{number}": name for number, (name, _) in enumerate(named)},
            files={},
            pictures=len(named),
        )

    def parse(self, text: str, finish: FinishReason) -> Action:
        """Return the code of the last code block; without one the last answer in tags, or in a box."""
        text = clean_text(text)
        code = tagged_code(text, finish)
        if code is not None:
            return code
        answers = answers_in(text)
        answer = answers[-1] if answers else (boxed(text) or "").strip()
        return Answer(text=answer) if answer else ParseError(reason=NO_ACTION)

    def write(self, action: Action, thought: str = "") -> str:
        """Return the thought, then fenced code in code tags, or the boxed answer in answer tags."""
        return checked(self, written(action, thought), action)

    def observe(self, execution: Execution, pictures: int) -> Observation:
        """Return a user message: text and pictures of a call that ended well, else the error alone."""
        reject_lost(execution)
        if execution.status is not Status.OK:
            late = execution.status is Status.TIMEOUT
            report = "Timeout Error" if late else f"Error: {failure(execution).message}"
            text = f"<interpreter>{GUARD.escape(cut_middle(report, longest=LONGEST_TEXT))}</interpreter>\n"
            return Observation(Message(role="user", parts=(TextPart(text=text),)), {}, pictures)
        images = shown(execution, FIGURES)
        printed = GUARD.escape(with_notes(cut_middle(execution.stdout, longest=LONGEST_TEXT), execution))
        numbered = dict(enumerate(images, pictures))
        parts = join_texts(
            (
                TextPart(text=f"<interpreter>\nText Result:\n{printed or 'None'}\nImage Result:\n"),
                *(part for number, image in numbered.items() for part in clue(number, image)),
                TextPart(text="</interpreter>\n" if images else "None</interpreter>\n"),
            )
        )
        bound: Mapping[str, ImagePart] = {}
        if self.bind_pictures:
            bound = {f"image_clue_{number}": image for number, image in numbered.items()}
        return Observation(Message(role="user", parts=parts), bound, pictures + len(images))

    def correct(self, reason: str, pictures: int) -> Observation | None:
        text = f"<interpreter>{self.prompts.fill(CORRECTION, {'reason': reason})}</interpreter>\n"
        return Observation(Message(role="user", parts=(TextPart(text=text),)), {}, pictures)


def template_for(pictures: int) -> str:
    """Return the name of the template for so many pictures."""
    return NO_IMAGE if not pictures else ONE_IMAGE if pictures == 1 else MORE_IMAGES


def information(pictures: list[ImagePart]) -> dict[str, str]:
    """Return what templates may say about pictures: the size of the first, and one line of size for each."""
    lines = [
        f"width of image_clue_{number}: {image.width}, height of image_clue_{number}: {image.height}\n"
        for number, image in enumerate(pictures)
    ]
    size = {"width": str(pictures[0].width), "height": str(pictures[0].height)} if pictures else {}
    return {"image_information": "".join(lines), **size}


PRESETS: Mapping[str, Dialect] = {
    "repo": PyVisionDialect("pyvision@1:repo"),
    "bound": PyVisionDialect("pyvision@1:bound", bind_pictures=True),
}
