"""Inter-GPS's place: logic forms of a problem's text and diagram to the answer.

The original searches a list of theorems; this one fits a figure to the statements (`saccade.tools.geometry.solve`), so
it gives no proof. It says which statements it used, which it could not read, and when the goal is left open.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.base import Alias, Cost, Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.fields import Point
from saccade.tools.geometry.exact import exact_form
from saccade.tools.geometry.solve import SolveStatus, solve
from saccade.tools.geometry.terms import FormError
from saccade.tools.problem import wrong_format

LogicForm = Annotated[str, Field(min_length=1, max_length=400)]


class InterGpsArguments(ToolModel):
    """A problem in logic forms."""

    text_logic: Annotated[
        tuple[LogicForm, ...],
        Field(max_length=60, description="Logic forms of the text, with what is asked as Find(...), as in Find(x)."),
    ]
    diagram_logic: Annotated[
        tuple[LogicForm, ...],
        Field(max_length=200, description="Logic forms of the diagram, such as Equals(LengthOf(Line(A,B)),5)."),
    ] = ()
    points: Annotated[
        dict[str, Point] | None,
        Field(description="Where the points are drawn, as {A: [x, y]}; helps where a statement has two readings."),
    ] = None


class UnreadForm(ToolModel):
    """A statement that was left out."""

    form: str
    why: str


class SolvedLetter(ToolModel):
    """An unknown of the diagram in the figure that was found."""

    name: str
    value: float


class InterGpsResult(ToolModel):
    """The answer, or why there is none."""

    status: SolveStatus
    """open: the statements do not fix the goal; contradiction: no figure satisfies them."""
    value: float | None
    exact: str
    """A closed form such as 5*sqrt(3); empty if none fits."""
    letters: tuple[SolvedLetter, ...]
    used: tuple[str, ...]
    unread: tuple[UnreadForm, ...]


class InterGps(Tool[InterGpsArguments, InterGpsResult]):
    """Logic forms to an answer."""

    name = "inter_gps"
    suits = (("problems of geometry", 2),)
    description = (
        "Solve a plane geometry problem given as logic forms of Geometry3K. Needs Find(...) for what is asked. Says "
        "solved with the value, open if the statements do not fix it, or contradiction. `text_cdl` and `image_cdl` "
        "write such forms."
    )
    arguments = InterGpsArguments
    result = InterGpsResult
    aliases = (Alias("intergps"),)
    cost = Cost.MEDIUM

    def run(self, arguments: InterGpsArguments, context: ToolContext) -> ToolOutcome[InterGpsResult]:
        """Read, fit, and read the goal off."""
        try:
            solved = solve((*arguments.text_logic, *arguments.diagram_logic), arguments.points)
        except FormError as error:
            raise wrong_format(f"The goal cannot be read: {error}. Write it as in Find(LengthOf(Line(A,B)))") from error
        value = None if solved.value is None else float(f"{solved.value:.10g}")
        result = InterGpsResult(
            status=solved.status,
            value=value,
            exact="" if value is None else exact_form(value),
            letters=tuple(SolvedLetter(name=name, value=float(f"{one:.6g}")) for name, one in solved.letters.items()),
            used=solved.used,
            unread=tuple(UnreadForm(form=form, why=why) for form, why in solved.unread),
        )
        return ToolOutcome(result, text=_words(result))


def _words(result: InterGpsResult) -> str:
    if result.value is not None:
        exact = f" = {result.exact}" if result.exact and result.exact != f"{result.value:g}" else ""
        line = f"Solved: {result.value:g}{exact}."
    elif result.status == "open":
        line = "Open: the statements do not fix what is asked. Add what is missing."
    else:
        line = "Contradiction: no figure was found in which all statements hold. Check the forms."
    left = "; ".join(f"{item.form} ({item.why})" for item in result.unread)
    return line + (f" Left out: {left}." if left else "")
