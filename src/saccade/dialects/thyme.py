r"""`thyme`: code in `<code>`, and one assistant message that holds the whole trajectory.

    <think>...<code>\n```python\n...\n```\n</code><sandbox_output>...</sandbox_output>...</think>\n<answer>...</answer>

An observation has role `assistant`: it continues the assistant message before it, without a change of turns; whoever
sends the messages joins neighbours of that role. The picture is named by its path in the prompt and in `image_path`;
where it is shown scaled down, its size in the prompt and the file are those of what is shown (`boxes=full`: of the
picture itself). Code saves what it wants to see and prints where. `<think>` opens once, in the first turn, and closes
before the answer.

Not reproduced of the released code: printed text lost next to a picture, errors hidden from the model in evaluation,
number formats and crop coordinates rewritten, greedy sampling of code alone (so `<code>` is no stop string). Shown
beyond it: figures, and text printed before an error. Presets: `eval` (5 turns) and `train` (two calls and an answer).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from posixpath import normpath
from types import MappingProxyType

from saccade.dialects.base import (
    Dialect,
    Observation,
    Opening,
    ends_inside,
    failure,
    join_texts,
    question_parts,
    reject_lost,
    system_message,
    with_notes,
)
from saccade.dialects.boxes import BoxSpace
from saccade.dialects.prompt_texts import SYSTEM, USER, Prompts
from saccade.dialects.question import TagGuard, pictures_of, question_values
from saccade.dialects.text import answer_in, blocks, checked, code_in_block
from saccade.record.content import Action, Answer, Code, Message, ParseError, Part, TextPart, clean_text
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, FinishReason
from saccade.sandbox.base import Limits, SessionOptions, StatePolicy

OUTPUT_FOLDER = "/mnt/data/temp_processed_images"
"""Where the checkpoints were trained to save pictures; stands for the workspace."""

SYSTEM_PROMPT = f"""\
Answer questions about pictures, and look closer with Python where that helps.

- Think inside <think> and </think>. To run code, write it inside your thoughts as
<code>
```python
...
```
</code>
- The outcome follows at once in <sandbox_output> and </sandbox_output>; go on thinking from there.
- The user names the path of the picture and its size in pixels; open the picture by that path.
- Save every picture that you make (`processed_path`) under {OUTPUT_FOLDER}/ and print its path, or print the result.
- Variables and imports stay from one piece of code to the next.
- Write no code where looking is enough.
- End with </think> and then the answer in <answer> and </answer>.
"""

_SUFFIXES = {"image/jpeg": ".jpg", "image/gif": ".gif", "image/bmp": ".bmp", "image/tiff": ".tiff"}
_FORMAT = "\n\n### **Output Format (strict adherence required):**\n\n<think>...</think>\n<answer>...</answer>\n"
OWN = Prompts({SYSTEM: SYSTEM_PROMPT, USER: "{query}{image_information}" + _FORMAT}, "Saccade's own prompts")
_SESSION = SessionOptions(
    state=StatePolicy.KEEP,
    repairs=("code_fence", "stray_indent", "cv_for_cv2", "missing_import", "path_alias", "clamp_crop"),
    path_aliases={OUTPUT_FOLDER: "."},
    preload=("os", "random", "string", "math", "Image", "np", "numpy", "json", "re", "cv2"),
    last_expression=False,
)
_SANDBOX = Limits(wall_seconds=10.0, cpu_seconds=10)
_LIMITS = EpisodeLimits(turns=5, images=10)


@dataclass(frozen=True, slots=True)
class ThymeDialect(Dialect):
    """The dialect; see the module's head."""

    id: str = "thyme@1"
    stop: tuple[str, ...] = ("</code>", "</answer>")
    session: SessionOptions = _SESSION
    sandbox: Limits = _SANDBOX
    limits: EpisodeLimits = _LIMITS
    boxes: BoxSpace = BoxSpace.SHOWN
    prompts: Prompts = OWN

    def open(self, task: Task) -> Opening:
        """Return the first messages. Raises `SettingsError` for a task with a video."""
        pictures = pictures_of(task, self.id)
        paths = [f"image_{index}{_SUFFIXES.get(part.mime, '.png')}" for index, (_, part) in enumerate(pictures)]
        details = "".join(
            f'\n\n### User Image Path:** "{path}"\n### User Image Size:** "{part.width}x{part.height}"'
            for path, (_, part) in zip(paths, pictures, strict=True)
        )
        text = self.prompts.fill(USER, {**question_values(task), "image_information": details})
        user = Message(role="user", parts=question_parts(text, [part for _, part in pictures]))
        strings = {"temp_output_dir": "."} | ({"image_path": paths[0]} if paths else {})
        return Opening(
            messages=(*system_message(self.prompts), user),
            bindings={},
            files={path: name for path, (name, _) in zip(paths, pictures, strict=True)},
            pictures=len(pictures),
            strings=strings,
        )

    def parse(self, text: str, finish: FinishReason) -> Action:
        """Return the first code or answer that is closed, whichever begins first; anything else is a parse error."""
        text = clean_text(text)
        cut = ends_inside(text, ("code", "answer")) if finish is FinishReason.LENGTH else None
        if cut is not None:
            return ParseError(reason=f"The text was cut off by the token limit inside <{cut}>.")
        code = next(iter(blocks(text, "code")), None)
        before = text.partition("<code>")[0]
        answer = next(iter(blocks(before if code is not None else text, "answer")), None)
        if answer is not None and answer.closed:
            return Answer(text=answer_in(answer.body))
        if code is None:
            return ParseError(reason=_nothing(answer is not None, finish))
        if not code.closed:
            return ParseError(reason="The code was cut off: <code> is never closed with </code>.")
        program, _ = code_in_block(code.body, last=False)
        if not program.strip():
            return ParseError(reason="There is no code between <code> and </code>.")
        return Code(code=program)

    def write(self, action: Action, thought: str = "", *, first: bool = True) -> str:
        """Return the canonical text of a turn; `first` tells whether it opens the message, and so has the `<think>`.

        Raises ValueError for an action that cannot be said in this dialect.
        """
        opening = "<think>" if first else ""
        if isinstance(action, Code):
            text = f"{opening}{thought}\n<code>\n```python\n{action.code}\n```\n</code>"
        elif isinstance(action, Answer):
            text = f"{opening}{thought}</think>\n<answer>{action.text}</answer>"
        else:
            raise ValueError(f"thyme cannot say an action of kind {action.kind!r}; it knows code and answer")
        return checked(self, text, action)

    def observe(self, execution: Execution, pictures: int) -> Observation:
        """Return what was printed and the pictures, inside the assistant's message.

        Raises ValueError for a lost execution.
        """
        reject_lost(execution)
        images = tuple(picture.image for picture in execution.pictures)
        text = with_notes(_printed(execution), execution)
        if execution.status is not Status.OK:
            found = failure(execution)
            reason = "'Timed Out'" if execution.status is Status.TIMEOUT else found.message
            text = _line(text) + f"Sandbox for N/A: Code execution failed: {reason}"
        parts: tuple[Part, ...] = (
            TextPart(text="<sandbox_output>" + _GUARD.escape(text)),
            *images,
            TextPart(text="</sandbox_output>"),
        )
        return Observation(Message(role="assistant", parts=join_texts(parts)), {}, pictures + len(images))


_GUARD = TagGuard(("think", "code", "answer", "sandbox_output", "processed_image", "image"))


def _printed(execution: Execution) -> str:
    """Return what was printed, without the lines that only say where a shown picture is."""
    paths = {normpath(picture.path) for picture in execution.pictures if picture.path is not None}
    lines = execution.stdout.splitlines(keepends=True)
    return "".join(line for line in lines if _workspace_path(line.strip()) not in paths) + execution.stderr


def _workspace_path(path: str) -> str:
    return normpath(path.removeprefix(OUTPUT_FOLDER).lstrip("/") if path.startswith(OUTPUT_FOLDER + "/") else path)


def _line(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _nothing(opened: bool, finish: FinishReason) -> str:
    if opened:
        return "The answer was cut off: <answer> is never closed with </answer>."
    if finish is FinishReason.LENGTH:
        return "The text was cut off by the token limit before there was code or an answer."
    return "There is neither code in <code> and </code> nor an answer in <answer> and </answer>."


PRESETS: Mapping[str, ThymeDialect] = MappingProxyType(
    {"eval": ThymeDialect(), "train": ThymeDialect(id="thyme@1:train", limits=EpisodeLimits(turns=3, images=6))}
)
