"""ChartMoE, ChartAssistant and ChartVLM: tables, captions and answers about a chart by a model behind an endpoint.

Any server of OpenAI's chat completions will do; the papers' weights are served by vLLM or by their authors' code.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from saccade.tools.base import Alias
from saccade.tools.look import LookArguments
from saccade.vlm_tools.tool import QuestionField, VlmTool, endpoint_needs

ChartMoeTask = Literal["to_table", "extract_data", "answer", "analyze", "describe"]


class ChartMoeArguments(LookArguments):
    """Which of the five, and what is asked."""

    task: Annotated[ChartMoeTask, Field(description="What to do; answer needs a question.")]
    question: QuestionField = ""


class ChartMoe(VlmTool[ChartMoeArguments]):
    """Five tasks over one chart."""

    name = "chartmoe"
    suits = (("charts", 1),)
    description = (
        "Ask the chart model ChartMoE: a table, all values, an answer to a question, an analysis or a description. "
        "What it writes may be wrong."
    )
    arguments = ChartMoeArguments
    aliases = tuple(
        Alias(f"chartmoe{sign}{task}", given={"task": task})
        for task in ("to_table", "extract_data", "answer", "analyze", "describe")
        for sign in ("_", ".")
    )
    needs = endpoint_needs(
        "chartmoe",
        "a served chart model; IDEA-FinAI/chartmoe has 8 billion parameters, Apache 2.0",
        "compatible:chartmoe@http://localhost:8000/v1",
    )

    def asked(self, arguments: ChartMoeArguments) -> tuple[str, str]:
        """The task as it was named."""
        return arguments.task, arguments.question


class _Captioner(VlmTool[LookArguments]):
    arguments = LookArguments

    def asked(self, arguments: LookArguments) -> tuple[str, str]:
        return "describe", ""


class ChartAssistant(_Captioner):
    """A caption by ChartAssistant."""

    name = "chartassistant"
    suits = (("charts", 6),)
    description = "Have the model ChartAssistant write a caption of a chart. What it writes may be wrong."
    aliases = (Alias("chart_assistant"), Alias("chartast"))
    needs = endpoint_needs(
        "chartassistant",
        "a served chart model; ChartAst-S has 13 billion parameters, its licence is for research alone",
        "compatible:chartassistant@http://localhost:8000/v1",
    )


class ChartVlm(_Captioner):
    """A caption with colours by ChartVLM."""

    name = "chartvlm"
    suits = (("charts", 7),)
    description = "Have the model ChartVLM write a caption of a chart with the colours of its series. It may be wrong."
    aliases = (Alias("chart_vlm"),)
    needs = endpoint_needs(
        "chartvlm",
        "a served chart model; ChartVLM has 7 or 14 billion parameters, CC BY-NC 4.0 as its authors publish it",
        "compatible:chartvlm@http://localhost:8000/v1",
    )
