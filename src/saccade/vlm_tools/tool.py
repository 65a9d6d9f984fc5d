"""What all tools of this package share: ask, read the reply, and ask once more if it was not of its form."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Generic, TypeVar

from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.base import Cost, Needs, Tool, ToolOutcome
from saccade.tools.context import ToolContext
from saccade.tools.look import LookArguments, look, picture_of
from saccade.tools.problem import wrong_format
from saccade.tools.setup import SetupEntry, tool_setup
from saccade.tools.weighted.chart_tables import ChartTable, as_markdown
from saccade.vlm_tools.client import ask
from saccade.vlm_tools.prompts import VlmPrompt, prompts_of
from saccade.vlm_tools.replies import ReadReply, ReplyError, read_reply

QuestionField = Annotated[str, Field(max_length=4000, description="The question or problem, in words.")]
_AGAIN = "That could not be read: {why}. Write the whole reply again, in the form that was asked for and nothing else."


class VlmResult(ToolModel):
    """What the model replied."""

    image: str
    task: str
    text: str
    """The whole reply."""
    table: ChartTable | None
    statements: tuple[str, ...]
    answer: str
    """Empty where no answer was asked for."""
    repaired: bool
    """Whether the first reply was of another form and it was asked again."""


A = TypeVar("A", bound=LookArguments)


class VlmTool(Tool[A, VlmResult], Generic[A]):
    """A tool that asks a model; a subclass says which arguments it has and which task they mean."""

    result = VlmResult
    cost = Cost.HEAVY

    @abstractmethod
    def asked(self, arguments: A) -> tuple[str, str]:
        """Task and question that the arguments mean."""

    def run(self, arguments: A, context: ToolContext) -> ToolOutcome[VlmResult]:
        """Ask, read, and at most once ask again."""
        task, question = self.asked(arguments)
        prompt = prompts_of(self.name)[task]
        if prompt.asks and not question.strip():
            raise wrong_format(f"The task {task} of {self.name} needs a question. Give it as `question`.")
        seen = look(arguments, context)
        setup, picture = tool_setup(self.name), picture_of(seen.rgb)
        words = prompt.filled(question)
        text = ask(setup, picture, [words])
        try:
            read, repaired = read_reply(text, prompt.form), False
        except ReplyError as error:
            text = ask(setup, picture, [words, text, _AGAIN.format(why=error)])
            read, repaired = read_reply(text, prompt.form), True
        value = VlmResult(
            image=seen.image,
            task=task,
            text=text,
            table=read.table,
            statements=read.statements,
            answer=read.answer,
            repaired=repaired,
        )
        return ToolOutcome(value, text=_shown(read, prompt, text))


def _shown(read: ReadReply, prompt: VlmPrompt, text: str) -> str:
    if read.table is not None:
        return as_markdown(read.table)
    return "\n".join(read.statements) if prompt.form == "statements" else text.strip()


def endpoint_needs(tool: str, weights: str, example: str) -> Needs:
    """What a tool needs that asks a model behind an endpoint."""
    return Needs(("openai",), weights, "pip install 'saccade[models]'", SetupEntry(tool, "model", example))
