"""Share the ground of tools behind endpoints: ask, read the reply, and ask once more if its form is wrong."""

from __future__ import annotations

import re
import tomllib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from typing import Annotated, Final, Generic, Literal, TypeVar, get_args

from PIL import Image
from pydantic import Field

from saccade.core import sync
from saccade.core.retry import RetryPolicy
from saccade.errors import MissingMediaError, ModelError, ModelLostError, SaccadeError, ToolLostError, UnavailableError
from saccade.models.base import Request
from saccade.models.registry import load_model
from saccade.plugins.vista.chart_readers import ChartTable, as_markdown
from saccade.record.content import ImagePart, Message, TextPart
from saccade.record.trajectory import Sampling
from saccade.tools.base import Tool, ToolOutcome
from saccade.tools.context import ToolContext, wrong_format
from saccade.tools.definition import Alias, Cost, Needs, ToolModel
from saccade.tools.look import LookArguments, look, picture_of
from saccade.tools.setup import SetupEntry, ToolSetup, tool_setup

# One question about one picture to a model behind an endpoint, from a thread that waits.
#
# The model is named as for `--model` and made anew for each question, since connections belong to the loop in which it
# runs. Retries are those of `saccade.core.retry`.


_TRIES: Final = 3
"""Within the seconds of the setup; a call of a tool has a time limit of its own."""


class _Held:
    """The bytes of the one picture."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sha256 = sha256(data).hexdigest()

    def get_bytes(self, sha256: str) -> bytes:
        """Return the picture. Raises `MissingMediaError` for any other."""
        if sha256 != self.sha256:
            raise MissingMediaError(f"there is no picture {sha256}")
        return self.data


def ask(setup: ToolSetup, picture: Image.Image, said: Sequence[str]) -> str:
    """Return the model's reply.

    Args:
        setup: Which model, and how patient.
        picture: What it looks at.
        said: Prompt, its reply, our next words, ...: an odd number of texts.

    Raises:
        ToolLostError: it was not reached within the retries.
        UnavailableError: it cannot be made, or refuses.
    """
    buffer = BytesIO()
    picture.save(buffer, format="PNG")
    held = _Held(buffer.getvalue())
    shown = ImagePart(sha256=held.sha256, width=picture.width, height=picture.height)
    first, *others = said
    messages = [Message(role="user", parts=(shown, TextPart(text=first)))]
    for turn, text in enumerate(others):
        messages.append(Message(role="user" if turn % 2 else "assistant", parts=(TextPart(text=text),)))
    request = Request(tuple(messages), sampling=Sampling(temperature=0.0, max_tokens=setup.max_tokens))
    try:
        return sync.run(_asked(setup, request, held))
    except ModelLostError as error:
        raise ToolLostError(f"the model {setup.model} was not reached: {error}") from error
    except ModelError as error:
        raise UnavailableError(f"the model {setup.model} did not answer: {error}") from error
    except SaccadeError as error:
        raise UnavailableError(f"the model {setup.model} cannot be used: {error}") from error


async def _asked(setup: ToolSetup, request: Request, held: _Held) -> str:
    retry = RetryPolicy(tries=_TRIES, seconds=setup.seconds, total_seconds=setup.seconds)
    model = load_model(setup.model, retry)
    try:
        return (await model.complete(request, held)).text
    finally:
        await model.close()


# The prompts of `prompts.toml`, checked when they are first read.


AnswerForm = Literal["table", "statements", "answer", "text"]


@dataclass(frozen=True, slots=True)
class VlmPrompt:
    """Request, and how its reply is read."""

    form: AnswerForm
    prompt: str

    def filled(self, question: str) -> str:
        """Return the prompt with the caller's question in its place."""
        return self.prompt.replace("{question}", question)

    @property
    def asks(self) -> bool:
        """Whether it has a place for a question."""
        return "{question}" in self.prompt


@cache
def prompts_of(tool: str) -> dict[str, VlmPrompt]:
    """Return task -> prompt of a tool."""
    tables = tomllib.loads((files(__package__) / "prompts.toml").read_text("utf-8"))
    prompts = {task: VlmPrompt(**entry) for task, entry in tables[tool].items()}
    assert all(prompt.form in get_args(AnswerForm) for prompt in prompts.values()), "the file is our own"
    return prompts


# Replies of a model, read by the form that was asked for.
#
# A reply that is not of its form is no result: it raises `ReplyError`, whose text the model is told when it is asked
# once more. Only what stands in a code fence counts.


_FENCE: Final = re.compile(r"```[\w-]*\n(.*?)```", re.DOTALL)
_RULE: Final = re.compile(r":?-{2,}:?")
_STATEMENT: Final = re.compile(r"[A-Z][A-Za-z]+\(.+\)")
_ANSWER: Final = re.compile(r"(?:^|\n)\W{0,3}(?:final )?answer\W{0,3}:(.+)$", re.IGNORECASE)


class ReplyError(ValueError):
    """A reply that is not of the form asked for; its text says what is missing, for the model."""


class ReadReply(ToolModel):
    """A reply taken apart; only the part of its form is filled."""

    table: ChartTable | None = None
    statements: tuple[str, ...] = Field(default=())
    answer: str = ""


def read_reply(text: str, form: AnswerForm) -> ReadReply:
    """Read a reply.

    Raises:
        ReplyError: it is not of that form, or empty.
    """
    inner = _FENCE.search(text)
    body = (inner[1] if inner else text).strip()
    if not body:
        raise ReplyError("the reply is empty")
    if form == "table":
        return ReadReply(table=_table(body))
    if form == "statements":
        return ReadReply(statements=_statements(body))
    return ReadReply(answer=_answer(text)) if form == "answer" else ReadReply()


def _table(body: str) -> ChartTable:
    rows = [
        tuple(cell.strip() for cell in line.strip().strip("|").split("|")) for line in body.splitlines() if "|" in line
    ]
    kept = [row for row in rows if not all(_RULE.fullmatch(cell) for cell in row)]
    if len(kept) < 2:
        raise ReplyError("there is no Markdown table with a header and a row")
    if uneven := next((row for row in kept if len(row) != len(kept[0])), None):
        raise ReplyError(f"the row {' | '.join(uneven)!r} has {len(uneven)} cells, the header has {len(kept[0])}")
    return ChartTable(title="", header=kept[0], rows=tuple(kept[1:]))


def _statements(body: str) -> tuple[str, ...]:
    lines = [line.strip().lstrip("-*0123456789. ").rstrip(".;,") for line in body.splitlines()]
    kept = [line for line in lines if line]
    for line in kept:
        if not _STATEMENT.fullmatch(line) or line.count("(") != line.count(")"):
            raise ReplyError(f"{line[:80]!r} is no statement like Equal(LengthOfLine(AB),5)")
    return tuple(kept)


def _answer(text: str) -> str:
    match = _ANSWER.search(text.strip())
    answer = match[1].strip(" *_$`.") if match else ""
    if not answer:
        raise ReplyError("there is no last line `Answer: ...`")
    return answer


QuestionField = Annotated[str, Field(max_length=4000, description="The question or problem, in words.")]
_AGAIN = "That could not be read: {why}. Write the whole reply again, in the form that was asked for and nothing else."


class VlmResult(ToolModel):
    """Reply of the model."""

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
        """Return task and question that the arguments mean."""

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
    """Return the needs of a tool that asks a model behind an endpoint."""
    return Needs(("openai",), weights, "pip install 'saccade[models]'", SetupEntry(tool, "model", example))


# ChartMoE, ChartAssistant and ChartVLM: tables, captions and answers about a chart by a model behind an endpoint.
#
# Any server of OpenAI's chat completions will do; the papers' weights are served by vLLM or by their authors' code.


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
        """Return the task as it was named."""
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


# DiagramFormalizer, G-LLaVA and MultiMath: statements and answers about a diagram by a model behind an endpoint.


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
        """Return the task as it was named."""
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
