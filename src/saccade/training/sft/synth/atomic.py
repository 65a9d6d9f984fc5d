"""CodeDance's three atomic categories of code: asked for in a prompt, and told from what the code really calls.

    transform   cut out, enlarge, turn or filter a picture
    compute     measure, count, do arithmetic
    edit        draw on a picture or plot

Code that does several things has the category that says most of it: edit before transform before compute. It is told by
the names of what is called; a function of the user's own under another name is not recognised.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final, get_args

from saccade.models.base import Completion, MediaReader, Model, Request
from saccade.record.content import Code, TextPart
from saccade.record.trajectory import Trajectory
from saccade.training.sft.synth.made import DiscardedError
from saccade.training.sft.synth.settings import AtomicCategory

TAG: Final = "atomic:"
"""Begins the tag of a category."""
ATOMIC_PROMPTS: Final[dict[AtomicCategory, str]] = {
    "transform": "Use code for one thing alone: to see better. Cut out the region that decides the answer, enlarge, "
    "turn or brighten it, show it, and answer from what you see then.",
    "compute": "Use code for one thing alone: to calculate. Write down as numbers what the picture shows, let Python "
    "do the measuring, algebra or adding up, print the result, and answer by it.",
    "edit": "Use code for one thing alone: to draw. Put boxes, lines, points or numbers onto the picture that make the "
    "answer visible, show the result, check it, and answer by it.",
}
_EDITS = (
    *("rectangle", "rounded_rectangle", "ellipse", "circle", "polygon", "polylines", "line", "arrowedLine", "arc"),
    *("chord", "pieslice", "point", "text", "multiline_text", "putText", "drawContours", "paste", "alpha_composite"),
    *("plot", "scatter", "bar", "annotate", "axhline", "axvline", "axline", "add_patch", "add_artist"),
    *("fill_between", "hlines", "vlines"),
)
_TRANSFORMS = (
    *("crop", "resize", "thumbnail", "rotate", "transpose", "transform", "enhance", "filter", "autocontrast"),
    *("equalize", "equalizeHist", "invert", "expand", "flip", "warpAffine", "warpPerspective", "getRectSubPix"),
    *("GaussianBlur", "cvtColor", "threshold", "Canny", "pyrUp", "rot90", "fliplr", "flipud"),
)
_COMPUTES = (
    *("sum", "len", "min", "max", "abs", "round", "sorted", "sqrt", "hypot", "mean", "median", "std", "atan2", "dot"),
    *("norm", "solve", "count"),
)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


def atomic_category(code: str) -> AtomicCategory | None:
    """Return the category of one piece of code; None if it is of none, or no Python."""
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError):
        return None
    called = {_name(node.func) for node in nodes if isinstance(node, ast.Call)}
    if called.intersection(_EDITS):
        return "edit"
    if called.intersection(_TRANSFORMS) or any(_cuts_out(node) for node in nodes):
        return "transform"
    counts = any(isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC) for node in nodes)
    return "compute" if counts or called.intersection(_COMPUTES) else None


def atomic_categories(trajectory: Trajectory) -> tuple[AtomicCategory, ...]:
    """Return the categories of all code that the trajectory ran, each once, in the order of the settings."""
    categories = {atomic_category(turn.action.code) for turn in trajectory.turns if isinstance(turn.action, Code)}
    return tuple(name for name in get_args(AtomicCategory) if name in categories)


def labelled(trajectory: Trajectory, asked: AtomicCategory | None = None) -> Trajectory:
    """Return the trajectory, its task tagged with the categories of its code.

    Raises `DiscardedError`: none of them is the one that was asked for.
    """
    categories = atomic_categories(trajectory)
    if asked is not None and asked not in categories:
        raise DiscardedError("other category", f"no code of category {asked}, but {', '.join(categories) or 'none'}")
    tags = tuple(tag for tag in trajectory.task.tags if not tag.startswith(TAG))
    task = trajectory.task.model_copy(update={"tags": (*tags, *(f"{TAG}{name}" for name in categories))})
    return trajectory.model_copy(update={"task": task})


class HintedModel:
    """A model that is given a sentence more than the dialect says; it is in no record, so nobody is trained on it."""

    def __init__(self, model: Model, hint: str) -> None:
        self.name = model.name
        self._model = model
        self._hint = hint

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the model's reply to the request, with the hint at the end of the user's first message.

        Raises what it raises.
        """
        messages = list(request.messages)
        at = next((number for number, message in enumerate(messages) if message.role == "user"), None)
        if at is not None:
            hint = TextPart(text=f"\n\n{self._hint}")
            messages[at] = messages[at].model_copy(update={"parts": (*messages[at].parts, hint)})
        hinted = Request(
            tuple(messages), request.stop, request.sampling, request.tools, request.context_tokens, request.room
        )
        return await self._model.complete(hinted, media, on_text=on_text)

    async def close(self) -> None:
        """Do nothing: the run closes the model."""


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _cuts_out(node: ast.AST) -> bool:
    """Whether it is `image[a:b, c:d]`."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Tuple)
        and sum(isinstance(item, ast.Slice) for item in node.slice.elts) >= 2
    )
