r"""What of a task a model may see: its question with the choices, its pictures and videos by number, where they stand.

The gold answer, the evidence and the program of a task are never read here. Placeholders of pictures in a question are
`<image>` (the n-th one is the n-th picture), `<image 1>` (counted from one) and `<IMAGE_PLACE_HOLDER_0>` (from zero);
where videos are shown as such, `<video>` (the n-th one is the n-th video). A literal `<image>` or `<video>` that is no
place is written with a backslash before its end: `<image\>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import count
from string import ascii_uppercase
from typing import Self

from saccade.errors import SettingsError
from saccade.record.content import (
    Action,
    Answer,
    Code,
    ImagePart,
    MediaPart,
    Part,
    TextPart,
    VideoPart,
    unescape_places,
)
from saccade.record.task import AnswerType, Task


class VideoNotShownError(SettingsError):
    """The dialect shows pictures only, and the task has a video."""

    fact = ""
    """What is wrong, without the advice to show frames."""

    @classmethod
    def of(cls, dialect: str, video: str, task: str) -> Self:
        fact = f"dialect {dialect} shows pictures only, but {video!r} of task {task} is a video"
        advice = "Use a dialect for videos, such as pyvision-rl-video, or have frames of it shown (frames.fps=1)."
        error = cls(f"{fact}. {advice}")
        error.fact = fact
        return error


_PLACEHOLDER = re.compile(r"<image>|<image (?P<one>\d{1,4})>|<IMAGE_PLACE_HOLDER_(?P<zero>\d{1,4})>|(?P<video><video>)")


def question_text(task: Task) -> str:
    """Return the question, and one line for each choice: `A. first`. More than 26 choices are numbered from 1."""
    marks: Iterable[str] = ascii_uppercase if len(task.choices) <= 26 else map(str, count(1))
    return "\n".join([task.question, *(f"{mark}. {choice}" for mark, choice in zip(marks, task.choices, strict=False))])


_FORMS = {
    AnswerType.CHOICE: ("multiple-choice", "the letter of one choice"),
    AnswerType.YES_NO: ("yes/no", "yes or no"),
    AnswerType.NUMBER: ("numerical", "a number"),
    AnswerType.BOX: ("grounding", "[left, top, right, bottom] in pixels"),
    AnswerType.LIST: ("listing", "the items, with commas between them"),
}
_FORM = ("visual", "a word, a number or a short phrase")


def question_values(task: Task) -> dict[str, str]:
    """Return what a template may have filled in of the question: `query`, `task_type` and `output_format`.

    The last two are as much as the type of the answer tells.
    """
    kind, form = _FORMS.get(task.answer_type, _FORM)
    return {"query": question_text(task), "task_type": kind, "output_format": form}


def split_at_pictures(text: str, pictures: int) -> tuple[str | int, ...]:
    """Return `text` cut at its placeholders: pieces of text, and between them the indices of pictures, from 0.

    Each index comes at most once. A placeholder of a picture that is not there, or that stands at an earlier place
    already, stays in the text as it is.
    """
    return _split(text, range(pictures), ())


def split_at_media(text: str, media: Sequence[MediaPart]) -> tuple[str | int, ...]:
    """Cut `text` like `split_at_pictures`, at placeholders of videos too: the indices are those in `media`."""
    pictures = [index for index, part in enumerate(media) if isinstance(part, ImagePart)]
    videos = [index for index, part in enumerate(media) if isinstance(part, VideoPart)]
    return _split(text, pictures, videos)


def _split(text: str, pictures: Sequence[int], videos: Sequence[int]) -> tuple[str | int, ...]:
    pieces: list[str | int] = []
    used: set[int] = set()
    plain = seen = start = 0
    for mark in _PLACEHOLDER.finditer(text):
        if mark["video"]:
            number, seen = seen, seen + 1
        elif mark["one"]:
            number = int(mark["one"]) - 1
        elif mark["zero"]:
            number = int(mark["zero"])
        else:
            number, plain = plain, plain + 1
        known = videos if mark["video"] else pictures
        if 0 <= number < len(known) and known[number] not in used:
            used.add(known[number])
            pieces += [text[start : mark.start()], known[number]]
            start = mark.end()
    pieces.append(text[start:])
    return tuple(unescape_places(piece) if isinstance(piece, str) else piece for piece in pieces if piece != "")


def pictures_of(task: Task, dialect: str) -> tuple[tuple[str, ImagePart], ...]:
    """Return names and pictures of the task's media, in their order. Raises `VideoNotShownError` if the task has a
    video.
    """
    for item in task.media:
        if isinstance(item.part, VideoPart):
            raise VideoNotShownError.of(dialect, item.name, task.id)
    return tuple((item.name, item.part) for item in task.media if isinstance(item.part, ImagePart))


def videos_of(task: Task, dialect: str) -> tuple[tuple[str, VideoPart], ...]:
    """Return names and videos of the task's media, in their order. Raises `SettingsError` if the task has none."""
    found = tuple((item.name, item.part) for item in task.media if isinstance(item.part, VideoPart))
    if not found:
        raise SettingsError(
            f"dialect {dialect} is for videos, and task {task.id} has none of them in {len(task.media)} media. Use a "
            "dialect for pictures, such as pyvision-rl-image."
        )
    return found


# Keeps what a program printed from being taken for a tag of the protocol.
#
# The rule: a backslash is put after the `<` of every protocol tag in the text, opening or closing, in any case and with
# any blanks inside: `</interpreter>` becomes `<\/interpreter>`. A tag that already has backslashes gets one more, so
# that no two texts become one. Text that holds no protocol tag is not changed. Markers of chat templates, `<|name|>`,
# always count as tags. This guards the text of messages; that printed text is also tokenised without special tokens is
# the tokeniser's work.


class TagGuard:
    r"""The tags of one dialect. `names` are regular expressions of tag names, e.g. `code` or `image_clue_\d+`."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        any_name = "|".join(self.names)
        tag = rf"(?:\s*(?:/\s*)?(?:{any_name})\s*(?:/\s*)?>|\|\w+\|>)" if self.names else r"\|\w+\|>"
        self._any = re.compile(rf"<(?=\\*{tag})", re.IGNORECASE)
        self._tag = re.compile(f"<{tag}", re.IGNORECASE)

    def escape(self, text: str) -> str:
        return self._any.sub(lambda _: "<\\", text)

    def tags(self, text: str) -> tuple[str, ...]:
        """Return every protocol tag in `text`, in order, as it stands there."""
        return tuple(match.group() for match in self._tag.finditer(text))


# What the PyVision dialects share: pictures in numbered clue tags, in openings and in observations.
#
# Numbers start at 0 and are never given twice; a picture keeps the number under which it was first shown.


GUARD = TagGuard(
    [
        *("code", "interpreter", "answer", "tool_response", "think", "image"),
        *(r"image_clue_\d+", r"image_hint_\d+", r"video_clue_\d+"),
    ]
)
FIGURES = ("figure", "show", "display")
"""How a program shows a picture in these dialects; saved files and last values are not shown."""


def clue(number: int, image: ImagePart, after: str = "") -> tuple[Part, ...]:
    """Return a picture between the tags of its number, with `after` behind the closing tag."""
    return TextPart(text=f"<image_clue_{number}>"), image, TextPart(text=f"</image_clue_{number}>{after}")


def opening_parts(
    task: Task, pictures: Sequence[ImagePart], template: Sequence[str], *, after_tag: str = "", before_text: str = ""
) -> tuple[Part, ...]:
    """Return the first message: the pictures in their tags, then the template with the question at each of its cuts.

    A picture with a placeholder in the question stands there instead of in front. `after_tag` follows the closing tag
    of a picture in front, `before_text` comes between the last of them and the template.
    """
    question = question_text(task)
    pieces = split_at_pictures(question, len(pictures))
    inside = {piece for piece in pieces if isinstance(piece, int)}
    parts: list[Part] = []
    for number, image in enumerate(pictures):
        if number not in inside:
            parts += clue(number, image, after_tag)
    first, *others = template
    text = (before_text if parts else "") + first
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
        else:
            parts += [TextPart(text=text), *clue(piece, pictures[piece])]
            text = ""
    parts.append(TextPart(text=text + question.join(others)))
    return tuple(part for part in parts if not isinstance(part, TextPart) or part.text)


def written(action: Action, thought: str) -> str:
    """Return the text of a turn in the form that these dialects ask for. Raises `ValueError` if the action is neither
    code nor an answer.
    """
    before = f"{thought}\n\n" if thought else ""
    match action:
        case Code(code=code):
            return f"{before}<code>\n```python\n{code}\n```\n</code>"
        case Answer(text=text):
            return f"{before}<answer>\n\\boxed{{{text}}}\n</answer>"
    raise ValueError(f"an action of kind {action.kind} cannot be said in a PyVision dialect")
