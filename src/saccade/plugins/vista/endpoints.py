"""Ask an endpoint for a tool, read the reply, and ask once more if its form is wrong."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, get_args

import httpx
from pydantic import Field, TypeAdapter

from saccade.core.http import Server, is_outage
from saccade.core.registry import install
from saccade.core.retry import OutageError, RetryPolicy, retry_after
from saccade.errors import (
    MissingMediaError,
    ModelError,
    ModelLostError,
    SaccadeError,
    SettingsError,
    ToolLostError,
    UnavailableError,
)
from saccade.models.base import Model, Request
from saccade.models.registry import load_model
from saccade.plugins.vista.weights import ChartTable, as_markdown, look_for_model
from saccade.record.content import ImagePart, Message, TextPart
from saccade.record.trajectory import Sampling
from saccade.tools.base import ToolOutcome, WaitingTool
from saccade.tools.context import ToolContext, wrong_format
from saccade.tools.definition import Alias, Needs, ToolModel
from saccade.tools.measure import LookArguments, picture_of
from saccade.tools.setup import SetupEntry, ToolSetup, tool_setup

SOLVE: Final = "solve:"
"""Begins the name of a model that is the authors' own server: `solve:http://localhost:8001`."""
_PROBE_SECONDS: Final = 5.0

# One question about one picture to a model behind an endpoint, on the background loop, where its connections stay.


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


@dataclass(frozen=True, slots=True)
class Asked:
    """The model of a setup, and the picture that it is asked about."""

    setup: ToolSetup
    retry: RetryPolicy
    png: bytes
    size: tuple[int, int]
    """Width and height."""

    async def reply(self, said: Sequence[str]) -> str:
        """Return the model's reply to the prompt, its reply, our next words, ...: an odd number of texts.

        Raises `ToolLostError`: it was not reached within the retries; `UnavailableError`: it cannot be made, or
        refuses.
        """
        held = _Held(self.png)
        shown = ImagePart(sha256=held.sha256, width=self.size[0], height=self.size[1])
        first, *others = said
        messages = [Message(role="user", parts=(shown, TextPart(text=first)))]
        for turn, text in enumerate(others):
            messages.append(Message(role="user" if turn % 2 else "assistant", parts=(TextPart(text=text),)))
        request = Request(tuple(messages), sampling=Sampling(temperature=0.0, max_tokens=self.setup.max_tokens))
        name = self.setup.model
        try:
            return (await _model(os.getpid(), name, self.retry).complete(request, held)).text
        except ModelLostError as error:
            raise ToolLostError(f"the model {name} was not reached: {error}") from error
        except ModelError as error:
            raise UnavailableError(f"the model {name} did not answer: {error}") from error
        except SaccadeError as error:
            raise UnavailableError(f"the model {name} cannot be used: {error}") from error

    async def solved(self, task: str, question: str) -> str:
        """Return steps and answer of the authors' server for MultiMath, which has prompts of its own.

        Wire: `MultiMathRemoteTool` of Lucanyc/VISTA-Gym, vlm_gym/environments/tools/multimath_server.py. Raises as
        `reply`.
        """
        url = self.setup.model.removeprefix(SOLVE)
        body = {
            "question": question, "task": task, "output_format": "with_steps", "problem_type": "general",
            "image_base64": base64.b64encode(self.png).decode(),
        }  # fmt: skip
        server = _solver(os.getpid(), url, self.retry)
        reply = await server.ask("POST", "/solve", partial(_solution, url), json.dumps(body).encode())
        steps = reply.get("steps") or ()
        lines = [steps] if isinstance(steps, str) else [str(step) for step in steps]
        return "\n".join([*lines, f"Answer: {reply.get('answer', '')}"])


def _solution(url: str, answer: httpx.Response) -> dict[str, Any]:
    if is_outage(answer):
        raise OutageError(f"{url}: {answer.status_code} {answer.text[:300]}", retry_after(answer.headers))
    try:
        reply = answer.json()
    except ValueError:
        reply = None
    if answer.status_code != 200 or not isinstance(reply, dict) or not reply.get("success"):
        why = reply.get("error") if isinstance(reply, dict) else None
        raise UnavailableError(f"{url}/solve did not solve it: {answer.status_code} {why or answer.text[:300]}")
    return reply


# Made once in a process: making a client reads certificates, which takes longer than many a question.


@lru_cache(maxsize=64)
def _model(_pid: int, name: str, retry: RetryPolicy) -> Model:
    return load_model(name, retry)


@lru_cache(maxsize=64)
def _solver(_pid: int, url: str, retry: RetryPolicy) -> Server:
    headers = {"content-type": "application/json"}
    return Server(url.rstrip("/"), headers, retry=retry, seconds=retry.seconds, lost=ToolLostError, level=logging.INFO)


# The prompts of `prompts.toml`, and those of a user's file of the same form in their place.


AnswerForm = Literal["table", "statements", "answer", "text"]


class VlmPrompt(ToolModel):
    """Request, and how its reply is read."""

    form: AnswerForm
    prompt: str

    def filled(self, question: str) -> str:
        return self.prompt.replace("{question}", question)

    @property
    def asks(self) -> bool:
        return "{question}" in self.prompt


def prompts_of(tool: str) -> dict[str, VlmPrompt]:
    """Return task -> prompt of a tool, by the file that its setup names where that has the task.

    Raises `SettingsError`: the file cannot be read, or is not of that form.
    """
    own = _prompts((files(__package__) / "prompts.toml").read_text("utf-8"))[tool]
    path = tool_setup(tool).prompts
    if not path:
        return own
    try:
        given = _prompts(Path(path).read_text("utf-8")).get(tool, {})
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} is no file of prompts for {tool}: {error}") from error
    if unknown := sorted(given.keys() - own.keys()):
        raise SettingsError(f"{path}: {tool} has no task {', '.join(unknown)}. It has: {', '.join(own)}.")
    return own | given


@lru_cache(maxsize=16)
def _prompts(text: str) -> dict[str, dict[str, VlmPrompt]]:
    return TypeAdapter(dict[str, dict[str, VlmPrompt]]).validate_python(tomllib.loads(text))


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
    """Read a reply. Raises `ReplyError`: it is not of that form, or empty."""
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


QuestionField = Annotated[
    str, Field(max_length=8000, description="The question or problem, in words. Default: that of the task.")
]
NAMES_OF_THE_QUESTION: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(("problem", "query", "prompt", "text", "arguments", "problem_text"), "question")
    | dict.fromkeys(("image_path", "image_url", "picture", "img"), "image")
)
"""As the released tools and published calls have them."""
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


class VlmTool(WaitingTool[A, VlmResult], Generic[A]):
    """A tool that asks a model; a subclass says which arguments it has and which task they mean."""

    result = VlmResult

    def __init__(self) -> None:
        """Raises `SettingsError` if a file of prompts that the setup names cannot be used."""
        prompts_of(self.name)

    def asked(self, arguments: A) -> tuple[str, str]:
        """Return the task and the question; a tool without either describes what it sees."""
        return getattr(arguments, "task", "describe"), getattr(arguments, "question", "")

    async def answer(self, arguments: A, context: ToolContext) -> ToolOutcome[VlmResult]:
        """Ask, read, and at most once ask again."""
        task, question = self.asked(arguments)
        prompt = prompts_of(self.name)[task]
        if prompt.asks and not question.strip():
            raise wrong_format(f"The task {task} of {self.name} needs a question. Give it as `question`.")
        image, model = await asyncio.to_thread(self._seen, arguments, context)
        words, repaired = prompt.filled(question), False
        if model.setup.model.startswith(SOLVE):
            text = await model.solved(task, question)
            read = read_reply(text, prompt.form)
        else:
            text = await model.reply([words])
            try:
                read = read_reply(text, prompt.form)
            except ReplyError as error:
                text = await model.reply([words, text, _AGAIN.format(why=error)])
                read, repaired = read_reply(text, prompt.form), True
        value = VlmResult(image=image, task=task, text=text, repaired=repaired, **dict(read))
        return ToolOutcome(value, text=_shown(read, prompt, text))

    async def ready(self) -> str:
        name = tool_setup(self.name).model
        solver = name.startswith(SOLVE)
        address = name.removeprefix(SOLVE) if solver else name.rpartition("@")[2]
        try:
            if not solver:
                _model(os.getpid(), name, self.retry)
            if address.startswith(("http://", "https://")):
                async with httpx.AsyncClient(timeout=_PROBE_SECONDS, trust_env=False) as client:
                    answer = await client.get(f"{address.rstrip('/')}/{'health' if solver else 'models'}")
                return f"{address} answers {answer.status_code}" if answer.status_code >= 500 else ""
        except (SaccadeError, httpx.HTTPError) as error:
            return f"{name} cannot be reached: {error or type(error).__name__}"
        return ""

    def _seen(self, arguments: A, context: ToolContext) -> tuple[str, Asked]:
        seen = look_for_model(arguments, context)
        picture, buffer = picture_of(seen.rgb), BytesIO()
        picture.save(buffer, format="PNG", compress_level=1)
        return seen.image, Asked(tool_setup(self.name), self.retry, buffer.getvalue(), picture.size)


def _shown(read: ReadReply, prompt: VlmPrompt, text: str) -> str:
    if read.table is not None:
        return as_markdown(read.table)
    return "\n".join(read.statements) if prompt.form == "statements" else text.strip()


def endpoint_needs(tool: str, weights: str, example: str) -> Needs:
    """Return the needs of a tool that asks a model behind an endpoint."""
    return Needs(("openai",), weights, install("models"), SetupEntry(tool, "model", example))


# ChartMoE, ChartAssistant and ChartVLM: tables, captions and answers about a chart by a model behind an endpoint.
# ChartMoE's tasks are the paper's five and four more of the released tool.
#
# Any server of OpenAI's chat completions will do; the papers' weights are served by vLLM or by their authors' code.


ChartMoeTask = Literal[
    "to_table", "extract_data", "answer", "analyze", "describe", "summarize", "compare", "trend", "title"
]


class ChartMoeArguments(LookArguments):
    """What is wanted of the chart, and what is asked."""

    task: Annotated[ChartMoeTask, Field(description="What to do; answer needs a question.")]
    question: QuestionField = ""


class ChartMoe(VlmTool[ChartMoeArguments]):
    """Tasks over one chart."""

    name = "chartmoe"
    suits = (("charts", 1),)
    description = (
        "Ask the chart model ChartMoE: a table, all values, an answer to a question, an analysis, a description, a "
        "summary, a comparison, the trend or the title. What it writes may be wrong."
    )
    arguments = ChartMoeArguments
    renames = NAMES_OF_THE_QUESTION
    from_task = "question"
    aliases = tuple(
        Alias(f"chartmoe{sign}{task}", given={"task": task}) for task in get_args(ChartMoeTask) for sign in ("_", ".")
    )
    needs = endpoint_needs(
        "chartmoe",
        "a served chart model; IDEA-FinAI/chartmoe has 8 billion parameters, Apache 2.0",
        "compatible:chartmoe@http://localhost:8000/v1",
    )


class _Captioner(VlmTool[LookArguments]):
    arguments = LookArguments
    renames = MappingProxyType({other: own for other, own in NAMES_OF_THE_QUESTION.items() if own == "image"})


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
        Literal["image_cdl", "construction_cdl", "solve"],
        Field(description="image_cdl: measures, marks; construction_cdl: points, lines, circles; solve: the answer."),
    ] = "image_cdl"
    question: QuestionField = ""


class DiagramFormalizer(VlmTool[FormalizerArguments]):
    """Statements of a diagram by a trained parser."""

    name = "diagram_formalizer"
    suits = (("diagrams of geometry", 2),)
    description = (
        "Have the model DiagramFormalizer write the statements of a geometry diagram in CDL. It reads more kinds of "
        "diagrams than `image_cdl`; what it writes may be wrong."
    )
    arguments = FormalizerArguments
    renames = NAMES_OF_THE_QUESTION
    from_task = "question"
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


class SolverArguments(LookArguments):
    """The problem that the picture belongs to, and what is wanted of it."""

    question: QuestionField = ""
    task: Annotated[
        Literal["solve", "analyze", "explain"],
        Field(description="solve: the answer; analyze: what is given and asked; explain: how it is solved."),
    ] = "solve"


class _Solver(VlmTool[SolverArguments]):
    arguments = SolverArguments
    renames = NAMES_OF_THE_QUESTION
    from_task = "question"


class GLlava(_Solver):
    """A geometry problem by G-LLaVA."""

    name = "gllava"
    suits = (("problems of geometry", 3),)
    description = (
        "Have the model G-LLaVA solve a geometry problem with its diagram. Gives its reasoning and answer, which may "
        "be wrong."
    )
    aliases = (Alias("g_llava"),)
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
