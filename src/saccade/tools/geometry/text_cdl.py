"""`text_cdl` and `goal_cdl`: the statements and the goal of a problem's text, in CDL and as logic forms."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.geometry.cdl import as_cdl
from saccade.tools.geometry.english import read_english


class ProblemText(ToolModel):
    """A problem in words."""

    text: Annotated[str, Field(min_length=1, max_length=4000, description="The problem as it is worded.")]


class TextCdlResult(ToolModel):
    """What the text states."""

    cdl: tuple[str, ...]
    """Statements in the language of FormalGeo; those without a counterpart are in `logic_forms` alone."""
    logic_forms: tuple[str, ...]
    """The same as logic forms of Geometry3K, as `inter_gps` takes them; the goal is among them as Find(...)."""
    unread: tuple[str, ...]
    """Clauses that were not understood."""


class TextCdl(Tool[ProblemText, TextCdlResult]):
    """Statements of a text."""

    name = "text_cdl"
    suits = (("problems of geometry", 0),)
    description = (
        "Turn the wording of a plane geometry problem into formal statements. Gives them in CDL and as logic forms, "
        "and the clauses that were not understood. Looks at no picture."
    )
    arguments = ProblemText
    result = TextCdlResult

    def run(self, arguments: ProblemText, context: ToolContext) -> ToolOutcome[TextCdlResult]:
        """Phrases by rules."""
        statements = read_english(arguments.text)
        forms = (*statements.statements, *([statements.goal] if statements.goal else []))
        cdl = tuple(one for form in statements.statements if (one := as_cdl(form)) is not None)
        return ToolOutcome(TextCdlResult(cdl=cdl, logic_forms=forms, unread=statements.unread))


class GoalCdlResult(ToolModel):
    """What the text asks for."""

    cdl: str | None
    """As in Value(LengthOfLine(AB)); null if the text asks for nothing that is known."""
    logic_form: str | None
    """As in Find(LengthOf(Line(A,B)))."""


class GoalCdl(Tool[ProblemText, GoalCdlResult]):
    """The goal of a text."""

    name = "goal_cdl"
    suits = (("problems of geometry", 1),)
    description = (
        "Turn what a plane geometry problem asks for into a formal goal. Gives it in CDL and as a logic form, or null "
        "if no goal was understood. Looks at no picture."
    )
    arguments = ProblemText
    result = GoalCdlResult

    def run(self, arguments: ProblemText, context: ToolContext) -> ToolOutcome[GoalCdlResult]:
        """The first request that is understood."""
        goal = read_english(arguments.text).goal or None
        value = GoalCdlResult(cdl=None if goal is None else as_cdl(goal), logic_form=goal)
        return ToolOutcome(value, text="" if goal else "No goal was understood in this text.")
