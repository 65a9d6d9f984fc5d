"""CodeV: Python in code tags inside the thought, results as sandbox output, pictures from files and figures.

The paper alone is the source. It does not state the role of the observation, the fence in the code tags, the number of
turns or the seconds of a call; here these are the user's role, a Python fence (read with or without one), 5 turns and
10 seconds. A text is stopped at the closing code tag, and a closing think tag after it, as in the paper's examples, is
read too.

Kept exactly: the lines with path and size of the picture (a bare file name; the odd asterisks and the sign between
width and height belong to the format), `image_path` and the loaded `image`, the tags of code, answer and output; new
picture files of the workspace and figures are shown; text, pictures and errors come back together. With more pictures
each has its lines, and its variables are `image_1`, `image_path_1` and so on.

A state policy is not stated either: variables persist, and what ran before an exception stays. Repairs are those that
the paper names (formatting, paths, missing imports, boxes and slices beyond the picture), and each is logged. The
pictures of the task are read-only to the program: writing, removing or renaming one is refused with a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from saccade.dialects.base import (
    Dialect,
    Observation,
    Opening,
    failure,
    join_texts,
    question_parts,
    reject_lost,
    shown,
    system_message,
    with_notes,
)
from saccade.dialects.boxes import BoxSpace
from saccade.dialects.prompt_texts import CORRECTION, LAST, SYSTEM, USER, Prompts
from saccade.dialects.question import TagGuard, pictures_of, question_values
from saccade.dialects.text import CUT, answers_in, checked, tagged_code, was_cut
from saccade.dialects.thyme import OUTPUT_FOLDER
from saccade.record.content import Action, Answer, Code, ImagePart, Message, ParseError, Part, TextPart, clean_text
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, FinishReason
from saccade.sandbox.base import Limits, SessionOptions, StatePolicy

GUARD = TagGuard(("think", "code", "answer", "sandbox_output", "image"))
SOURCES = ("figure", "show", "display", "file")
_SYSTEM = """\
Goal: answer the question about the picture. Think first, and look closer with Python where that helps.

Python execution rules:
- Write code as <code>
```python
your code
```
</code>; it is run in a sandbox, and its output comes back in <sandbox_output></sandbox_output>.
- The path of the picture is in `image_path`, the loaded picture in `image`.
- Save every picture that you make in the working folder and print its file name, or show it with plt.show().
- Variables and imports stay there for your later code. Delete, move and rename no files.
"""
OWN = Prompts(
    {
        SYSTEM: _SYSTEM,
        CORRECTION: "Error: {reason}",
        LAST: "No more code can be run. Give your final answer now in <answer></answer>.",
        USER: "{query}\n\n{image_information}\n\nThink inside <think></think>, with code in it where needed, "
        "and end with <answer></answer>.",
    },
    "Saccade's own prompts",
)
_SESSION = SessionOptions(
    state=StatePolicy.KEEP,
    repairs=(
        *("code_fence", "stray_indent", "cv_for_cv2", "missing_import", "path_alias"),
        *("clamp_crop", "clamp_slice", "near_path", "read_only"),
    ),
    path_aliases={OUTPUT_FOLDER: ".", "/mnt/data": "."},
    preload=("os", "math", "json", "re", "Image", "np", "plt", "cv2"),
    last_expression=False,
)
_SUFFIXES = {"image/jpeg": ".jpg", "image/png": ".png", "image/webp": ".webp", "image/gif": ".gif", "image/bmp": ".bmp"}
_NO_ACTION = "Your text holds neither code in <code></code> nor an answer in <answer></answer>. Write one of them."


@dataclass(frozen=True, slots=True)
class CodeVDialect(Dialect):
    """The dialect of CodeV; see the module."""

    id: str = "codev@1"
    prompts: Prompts = OWN
    stop: tuple[str, ...] = ("</code>",)
    session: SessionOptions = _SESSION
    sandbox: Limits = field(default_factory=lambda: Limits(wall_seconds=10, cpu_seconds=10))
    limits: EpisodeLimits = field(default_factory=lambda: EpisodeLimits(turns=5))
    boxes: BoxSpace = BoxSpace.FULL

    def open(self, task: Task) -> Opening:
        """Return a system and a user message, pictures first. Raises `SettingsError` for a task with a video."""
        named = pictures_of(task, self.id)
        pictures = [image for _, image in named]
        ends = [f"_{number}" if number else "" for number in range(len(named))]
        paths = [f"{number}{_SUFFIXES.get(image.mime, '.png')}" for number, image in enumerate(pictures, 1)]
        size = {"width": str(pictures[0].width), "height": str(pictures[0].height)} if pictures else {}
        lines = "\n".join(_lines(path, image) for path, image in zip(paths, pictures, strict=True))
        text = self.prompts.fill(USER, {**question_values(task), "image_information": lines, **size})
        return Opening(
            messages=(
                *system_message(self.prompts),
                Message(role="user", parts=question_parts(text, pictures)),
            ),
            bindings={f"image{end}": name for end, (name, _) in zip(ends, named, strict=True)},
            files={path: name for path, (name, _) in zip(paths, named, strict=True)},
            pictures=len(named),
            strings={f"image_path{end}": path for end, path in zip(ends, paths, strict=True)},
        )

    def parse(self, text: str, finish: FinishReason) -> Action:
        """Return the code of the first complete code block; without one the last answer."""
        text = clean_text(text)
        code = tagged_code(text, finish, last=False)
        if code is not None:
            return code
        answers = answers_in(text)
        if answers and answers[-1]:
            return Answer(text=answers[-1])
        return ParseError(reason=CUT if was_cut(finish) else _NO_ACTION)

    def write(self, action: Action, thought: str = "") -> str:
        """Write the thought with fenced code in code tags, or the closed thought and the answer in answer tags."""
        match action:
            case Code(code=code):
                return checked(self, f"<think>{thought}\n<code>\n```python\n{code}\n```\n</code>", action)
            case Answer(text=text):
                return checked(self, f"<think>{thought}</think>\n<answer>{text}</answer>", action)
        raise ValueError(f"an action of kind {action.kind} cannot be said in {self.id}")

    def observe(self, execution: Execution, pictures: int) -> Observation:
        """Return a user message with what was printed, the pictures and, of a failed call, the error."""
        reject_lost(execution)
        text = with_notes(execution.stdout, execution)
        if execution.status is not Status.OK:
            found = failure(execution)
            text += ("\n" if text and not text.endswith("\n") else "") + f"{found.kind}: {found.message}"
        return _output(GUARD.escape(text), shown(execution, SOURCES), pictures)

    def correct(self, reason: str, pictures: int) -> Observation | None:
        return _output(self.prompts.fill(CORRECTION, {"reason": reason}), (), pictures)


def _lines(path: str, image: ImagePart) -> str:
    return f'### User Image Path:** "{path}"\n### User Image Size:** "{image.width}×{image.height}"'


def _output(text: str, images: tuple[ImagePart, ...], pictures: int) -> Observation:
    parts: tuple[Part, ...] = (TextPart(text=f"<sandbox_output>{text}"), *images, TextPart(text="</sandbox_output>"))
    return Observation(Message(role="user", parts=join_texts(parts)), {}, pictures + len(images))


PRESETS: Mapping[str, Dialect] = {"": CodeVDialect()}
