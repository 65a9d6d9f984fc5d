"""DiagramFormalizer, G-LLaVA and MultiMath: statements and answers about a diagram by a model behind an endpoint."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from saccade.tools.base import Alias
from saccade.tools.look import LookArguments
from saccade.vlm_tools.tool import QuestionField, VlmTool, endpoint_needs


class FormalizerArguments(LookArguments):
    """Which statements are wanted, of which picture."""

    task: Annotated[
        Literal["image_cdl", "construction_cdl"],
        Field(description="image_cdl: measures and marks; construction_cdl: points, lines and circles."),
    ] = "image_cdl"


class DiagramFormalizer(VlmTool[FormalizerArguments]):
    """Statements of a diagram by a trained parser."""

    name = "diagram_formalizer"
    suits = (("diagrams of geometry", 2),)
    description = (
        "Have the model DiagramFormalizer write the statements of a geometry diagram in CDL. It reads more kinds of "
        "diagrams than `image_cdl`; what it writes may be wrong."
    )
    arguments = FormalizerArguments
    aliases = (
        Alias("diagramformalizer"),
        Alias("diagram_formalizer_image_cdl", given={"task": "image_cdl"}),
        Alias("diagram_formalizer_construction_cdl", given={"task": "construction_cdl"}),
    )
    needs = endpoint_needs(
        "diagram_formalizer",
        "a served diagram parser; DFE-GPS has 9 billion parameters, see its model card for the licence",
        "compatible:dfe-gps@http://localhost:8000/v1",
    )

    def asked(self, arguments: FormalizerArguments) -> tuple[str, str]:
        """The task as it was named."""
        return arguments.task, ""


class SolverArguments(LookArguments):
    """The problem that the picture belongs to."""

    question: QuestionField


class _Solver(VlmTool[SolverArguments]):
    arguments = SolverArguments

    def asked(self, arguments: SolverArguments) -> tuple[str, str]:
        return "solve", arguments.question


class GLlava(_Solver):
    """A geometry problem by G-LLaVA."""

    name = "gllava"
    suits = (("problems of geometry", 3),)
    description = (
        "Have the model G-LLaVA solve a geometry problem with its diagram. Gives its reasoning and answer, which may "
        "be wrong."
    )
    aliases = (Alias("g_llava", {"problem": "question"}),)
    needs = endpoint_needs(
        "gllava",
        "a served geometry model; G-LLaVA has 7 or 13 billion parameters, under the licence of Llama 2",
        "compatible:g-llava@http://localhost:8000/v1",
    )


class MultiMath(_Solver):
    """A mathematics problem by MultiMath."""

    name = "multimath"
    suits = (("problems of geometry", 4),)
    description = (
        "Have the model MultiMath solve a mathematics problem with its picture. Gives its reasoning and answer, which "
        "may be wrong."
    )
    aliases = (Alias("multimath_server"),)
    needs = endpoint_needs(
        "multimath",
        "a served mathematics model; multimath-7b-llava-v1.5 has 7 billion parameters, under DeepSeek's licence",
        "compatible:multimath@http://localhost:8000/v1",
    )
