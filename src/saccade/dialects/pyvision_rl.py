r"""PyVision-RL for images and for videos: as PyVision, inside a tool response, and an answer comes before code.

Families: `pyvision-rl-image` (the picture is in the first turn, as `image_clue_0`), `pyvision-rl-image-no-hint` (it is
only a variable, `image_hint_0`) and `pyvision-rl-video` (only `video_clue_0`; no frame is in the context, but a picture
next to the video is, as `image_clue_0`). Presets: `paper` (the default: a failed call is shown and the model may
continue, 32K tokens of context) and `repo` (as the released training: a text without an action ends the episode, and so
does the first failed call; 32000 + 20480 tokens). In both: 5 turns, so 4 calls; 32 pictures; 30 seconds a call; printed
text is not cut. The evaluation in the paper takes 30 turns: a setting of the run.

A prompt file may say `{image_info}` (the variant without a first picture) and `{video_info}`, as the released one does:
they are the lines with which the checkpoints were trained.

Kept exactly: the wrapper and line breaks of observations (they differ between the three), one line break between the
closing tag of the picture and the text, pictures numbered from the number of those shown, the last answer before code,
the last code block before a bare fence. A text that the token limit cut off is an error, whatever it holds.

Not kept, on purpose (what the released code does, and what happens here):
- with several pictures the first is bound under the number of the last one, and numbers skip: here both are in order;
- a literal `<image>` in a question shows the same number twice: here it stands for its own picture, once;
- a figure with an extreme shape raises in the program: here it is shown, and its budget is the media's;
- the assistant's turn before an observation has no end marker: here the chat template closes it;
- the template without a first picture has a backspace where `\boxed` should be: here such a file is refused;
- an exception without a message is shown as an empty error: here its class is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

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
from saccade.dialects.prompt_texts import CORRECTION, Prompts
from saccade.dialects.pyvision import (
    MORE_IMAGES,
    NO_ACTION,
    NO_HINT,
    ONE_IMAGE,
    RL_OWN,
    SESSION,
    VIDEO,
    information,
    template_for,
)
from saccade.dialects.question import (
    FIGURES,
    GUARD,
    clue,
    opening_parts,
    pictures_of,
    question_values,
    videos_of,
    written,
)
from saccade.dialects.text import CUT, answers_in, checked, fenced_code, tagged_code, was_cut
from saccade.record.content import Action, Answer, ImagePart, Message, ParseError, TextPart, clean_text
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, FinishReason
from saccade.sandbox.base import MIB, Limits, SessionOptions

_PAPER = EpisodeLimits(turns=5, context_tokens=32_768, images=32)
_REPO = EpisodeLimits(turns=5, context_tokens=52_480, response_tokens=20_480, images=32, failed_calls=0)
_OPEN = "<tool_response>\n<interpreter>"
_CLOSE = "</interpreter>\n\n</tool_response>"
_VIDEO_SESSION = SESSION.model_copy(update={"preload": (*SESSION.preload, "VideoReader", "cpu")})


@dataclass(frozen=True, slots=True)
class PyVisionRLDialect(Dialect):
    """What the three families share, and the opening with the pictures in the first turn."""

    id: str
    limits: EpisodeLimits
    corrects: bool
    """Whether a model that did nothing is told so; else the episode ends."""
    prompts: Prompts = RL_OWN
    stop: tuple[str, ...] = ("</code>",)
    session: SessionOptions = SESSION
    sandbox: Limits = field(default_factory=lambda: Limits(wall_seconds=30, cpu_seconds=30, pictures=32))

    before_figures: ClassVar[str] = "Text Result:\n"
    """What follows the opening tags when pictures are shown."""
    after_text: ClassVar[str] = ""
    """What follows the printed text when no picture is shown."""
    templates: ClassVar[tuple[str, ...]] = (ONE_IMAGE, MORE_IMAGES)

    def with_prompts(self, prompts: Prompts) -> Self:
        """Return the same dialect with the texts of `prompts`, those of its kinds of questions among them."""
        return replace(self, prompts=self.prompts.replaced_by(prompts, self.templates))

    def open(self, task: Task) -> Opening:
        """Return one user message; `image_clue_i` is the i-th picture.

        Raises `SettingsError` for a task with a video.
        """
        named = pictures_of(task, self.id)
        pictures = [image for _, image in named]
        values = {**question_values(task), **information(pictures)}
        template = self.prompts.around_query(template_for(len(named)), values)
        parts = join_texts(opening_parts(task, pictures, template, before_text="\n"))
        return Opening(
            messages=(*system_message(self.prompts), Message(role="user", parts=parts)),
            bindings={f"image_clue_{number}": name for number, (name, _) in enumerate(named)},
            files={},
            pictures=len(named),
        )

    def parse(self, text: str, finish: FinishReason) -> Action:
        """Return the last answer that is not empty; else the last code block; else the last Python fence."""
        if was_cut(finish):
            return ParseError(reason=CUT)
        text = clean_text(text)
        answers = answers_in(text)
        answer = next((answer for answer in reversed(answers) if answer), None)
        if answer is not None:
            return Answer(text=answer)
        return tagged_code(text, finish) or fenced_code(text, finish) or ParseError(reason=NO_ACTION)

    def write(self, action: Action, thought: str = "") -> str:
        """Return the thought, then fenced code in code tags, or the boxed answer in answer tags."""
        return checked(self, written(action, thought), action)

    def observe(self, execution: Execution, pictures: int) -> Observation:
        """Return a user message: text and pictures of a call that ended well, else the error alone."""
        reject_lost(execution)
        if execution.status is not Status.OK:
            late = execution.status is Status.TIMEOUT
            report = "Execution timeout" if late else f"Execution error: {failure(execution).message}"
            return _say(GUARD.escape(report), pictures)
        images = shown(execution, FIGURES)
        printed = GUARD.escape(with_notes(execution.stdout, execution))
        if not images:
            return _say(f"\nText Result:\n{printed}{self.after_text}", pictures)
        parts = join_texts(
            (
                TextPart(text=f"{_OPEN}{self.before_figures}{printed}\nImage Result:\n"),
                *(part for number, image in enumerate(images, pictures) for part in clue(number, image)),
                TextPart(text=_CLOSE),
            )
        )
        return Observation(Message(role="user", parts=parts), {}, pictures + len(images))

    def correct(self, reason: str, pictures: int) -> Observation | None:
        """Return the reason in the form of an error, or None where such an episode ends."""
        return _say(self.prompts.fill(CORRECTION, {"reason": reason}), pictures) if self.corrects else None


@dataclass(frozen=True, slots=True)
class PyVisionRLNoHintDialect(PyVisionRLDialect):
    """The variant that shows no picture before the program does."""

    before_figures: ClassVar[str] = "\nText Result:\n"
    templates: ClassVar[tuple[str, ...]] = (NO_HINT,)

    def open(self, task: Task) -> Opening:
        """Return one user message of text; `image_hint_i` is the i-th picture. Raises `SettingsError` for a video."""
        named = pictures_of(task, self.id)
        lines = [
            f"Image Width: {image.width}; Image Height: {image.height}\nThe picture is there as `image_hint_{number}`."
            for number, (_, image) in enumerate(named)
        ]
        trained = [
            f"Image Width: {image.width}; Image Height: {image.height}\n"
            f"The original image hint has been read into the global variable `image_hint_{number}`."
            for number, (_, image) in enumerate(named)
        ]
        values = {**information([image for _, image in named]), "image_information": "\n".join(lines)}
        values["image_info"] = "\n".join(trained)
        return _bound_alone(
            task,
            self.prompts,
            self.prompts.around_query(NO_HINT, {**question_values(task), **values}),
            {f"image_hint_{number}": name for number, (name, _) in enumerate(named)},
        )


@dataclass(frozen=True, slots=True)
class PyVisionRLVideoDialect(PyVisionRLDialect):
    """The variant for videos; no frame is shown before the program does, but for pictures next to them."""

    before_figures: ClassVar[str] = "\nText Result:\n"
    after_text: ClassVar[str] = "\n"
    templates: ClassVar[tuple[str, ...]] = (VIDEO,)
    session: SessionOptions = _VIDEO_SESSION
    # The video is in the workspace.
    sandbox: Limits = field(
        default_factory=lambda: Limits(
            wall_seconds=30, cpu_seconds=30, pictures=32, file_bytes=2048 * MIB, workspace_bytes=2176 * MIB
        )
    )

    def open(self, task: Task) -> Opening:
        """Return one user message; `video_clue_j` is the j-th video, `image_clue_i` the i-th picture, which is shown.

        Raises `SettingsError` if there is no video.
        """
        named = videos_of(task, self.id)
        beside = [(item.name, item.part) for item in task.media if isinstance(item.part, ImagePart)]
        sizes = [
            f"Frame Width: {video.width}; Frame Height: {video.height};\n"
            f"Video Length: {video.frames}; Sample FPS: {video.fps:.2f}\n"
            for _, video in named
        ]
        lines = [f"{size}The video is there as `video_clue_{number}`." for number, size in enumerate(sizes)]
        trained = [
            f"{size}The original video has been read into the global variable `video_clue_{number}`."
            for number, size in enumerate(sizes)
        ]
        pictures = [
            f"Image Width: {image.width}; Image Height: {image.height}\nThe picture is there as `image_clue_{number}`."
            for number, (_, image) in enumerate(beside)
        ]
        first = named[0][1]
        values = {
            **question_values(task),
            "image_information": "\n".join([*lines, *pictures]),
            "video_info": "\n".join([*trained, *pictures]),
            "width": str(first.width),
            "height": str(first.height),
        }
        return _bound_alone(
            task,
            self.prompts,
            self.prompts.around_query(VIDEO, values),
            {
                **{f"video_clue_{number}": name for number, (name, _) in enumerate(named)},
                **{f"image_clue_{number}": name for number, (name, _) in enumerate(beside)},
            },
            [image for _, image in beside],
        )


def _bound_alone(
    task: Task,
    prompts: Prompts,
    template: tuple[str, ...],
    bindings: Mapping[str, str],
    pictures: Sequence[ImagePart] = (),
) -> Opening:
    """Return what is there for programs under the names of `bindings`; of it, `pictures` alone are shown."""
    parts = join_texts(opening_parts(task, pictures, template, before_text="\n"))
    messages = (*system_message(prompts), Message(role="user", parts=parts))
    return Opening(messages=messages, bindings=bindings, files={}, pictures=len(pictures))


def _say(text: str, pictures: int) -> Observation:
    message = Message(role="user", parts=(TextPart(text=f"{_OPEN}{text}{_CLOSE}"),))
    return Observation(message, {}, pictures)


def _presets(family: type[PyVisionRLDialect], name: str) -> Mapping[str, Dialect]:
    return {
        "paper": family(f"{name}@1:paper", _PAPER, corrects=True),
        "repo": family(f"{name}@1:repo", _REPO, corrects=False),
    }


IMAGE = _presets(PyVisionRLDialect, "pyvision-rl-image")
IMAGE_NO_HINT = _presets(PyVisionRLNoHintDialect, "pyvision-rl-image-no-hint")
VIDEO_PRESETS = _presets(PyVisionRLVideoDialect, "pyvision-rl-video")
