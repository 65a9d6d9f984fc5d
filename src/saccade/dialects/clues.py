"""What the PyVision dialects share: pictures in numbered clue tags, in openings and in observations.

Numbers start at 0 and are never given twice; a picture keeps the number under which it was first shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from saccade.dialects.question import question_text, split_at_pictures
from saccade.dialects.tags import TagGuard
from saccade.record.action import Action, Answer, Code
from saccade.record.content import ImagePart, Part, TextPart
from saccade.record.task import Task

GUARD = TagGuard(
    [
        *("code", "interpreter", "answer", "tool_response", "think", "image"),
        *(r"image_clue_\d+", r"image_hint_\d+", r"video_clue_\d+"),
    ]
)
FIGURES = ("figure", "show", "display")
"""How a program shows a picture in these dialects; saved files and last values are not shown."""


def clue(number: int, image: ImagePart, after: str = "") -> tuple[Part, ...]:
    """A picture between the tags of its number, with `after` behind the closing tag."""
    return TextPart(text=f"<image_clue_{number}>"), image, TextPart(text=f"</image_clue_{number}>{after}")


def opening_parts(
    task: Task, pictures: Sequence[ImagePart], template: Sequence[str], *, after_tag: str = "", before_text: str = ""
) -> tuple[Part, ...]:
    """The first message: the pictures in their tags, then the template with the question at each of its cuts.

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
    """The text of a turn in the form that these dialects ask for.

    Raises:
        ValueError: the action is neither code nor an answer.
    """
    before = f"{thought}\n\n" if thought else ""
    match action:
        case Code(code=code):
            return f"{before}<code>\n```python\n{code}\n```\n</code>"
        case Answer(text=text):
            return f"{before}<answer>\n\\boxed{{{text}}}\n</answer>"
    raise ValueError(f"an action of kind {action.kind} cannot be said in a PyVision dialect")
