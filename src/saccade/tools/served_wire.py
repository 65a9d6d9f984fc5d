"""The wire between a host that calls tools and a server that runs them: JSON over HTTP, media by sha256.

    GET  /v1/health                 answers everybody: the server is alive
    GET  /v1/ready                  answers everybody: 200 once every tool can be called, 503 before, with the groups
                                    that are not ready
    GET  /v1/tools                  `ServedTools`
    PUT  /v1/media/{kind}/{sha256}  a file's bytes; kind is image or video
    POST /v1/tools/{name}/calls     `ServedCall` -> `ServedResult`, or `ServedRefusal` with one of these codes:
                                    409 media are missing, 422 the call breaks the wire, 429 the queue is full,
                                    503 the tool's process failed

A call that is sent twice gives the same result twice, since tools have no state.
"""

from __future__ import annotations

import base64
import io
from typing import Final, Literal

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from saccade.record.execution import ExecutionRepair, Status
from saccade.tools.context import Numbering, Problem, ProblemKind, ToolPicture, ToolResult
from saccade.tools.definition import Alias, Cost, Needs, ToolDefinition

PROTOCOL: Final = 1
MediaKind = Literal["image", "video"]


class WireModel(BaseModel):
    """Base of what is sent: frozen, unknown names refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ServedMedium(WireModel):
    """A picture or a video by the name that the model knows."""

    name: str
    kind: MediaKind
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class ServedCall(WireModel):
    """A call of one tool, with the names of all that it may look at."""

    arguments: JsonValue
    alias: str | None = None
    media: tuple[ServedMedium, ...] = ()
    """Oldest first."""
    label: str | None = None
    """New pictures are named `label` + `first`, ...; None: for what made them."""
    first: int = 0
    question: str = ""
    """Of the task, with its choices: what a call leaves out is filled in from it."""
    episode: str = ""
    """An id that all calls of one episode share."""
    seconds: float = Field(gt=0)
    """Time limit; the server's own holds where that is shorter."""

    @property
    def numbering(self) -> Numbering | None:
        return None if self.label is None else Numbering(self.label, self.first)


class ServedPicture(WireModel):
    """A new picture."""

    name: str
    png: str
    """Base64."""


class ServedProblem(WireModel):
    """Why a call gave nothing, with the words for the model and those for a person."""

    kind: ProblemKind
    message: str
    detail: str = ""


class ServedResult(WireModel):
    """Status, value, text and pictures of a call that was done."""

    tool: str
    status: Status
    value: dict[str, JsonValue] | None = None
    text: str = ""
    problem: ServedProblem | None = None
    pictures: tuple[ServedPicture, ...] = ()
    repairs: tuple[ExecutionRepair, ...] = ()


class ServedRefusal(WireModel):
    """Why a call was not done."""

    error: str
    message: str
    missing: tuple[str, ...] = ()
    """Hashes of media to be uploaded."""


class ServedDefinition(WireModel):
    """Description of a tool for a host."""

    name: str
    description: str
    parameters: dict[str, JsonValue]
    returns: dict[str, JsonValue]
    aliases: tuple[str, ...]
    cost: Cost
    group: str = ""
    """The server's group of tools to which it belongs."""

    @classmethod
    def of(cls, tool: ToolDefinition, group: str) -> ServedDefinition:
        return cls(
            name=tool.name,
            description=tool.description,
            parameters=tool.parameters,
            returns=tool.returns,
            aliases=tuple(alias.name for alias in tool.aliases),
            cost=tool.cost,
            group=group,
        )

    def definition(self) -> ToolDefinition:
        """Make it as a toolbox has it. What an alias does to arguments is the server's business."""
        return ToolDefinition(
            name=self.name,
            aliases=tuple(Alias(name) for name in self.aliases),
            description=self.description,
            parameters=self.parameters,
            returns=self.returns,
            needs=Needs(),
            cost=self.cost,
        )


class ServedTools(WireModel):
    """Tools that a server offers."""

    protocol: int = PROTOCOL
    tools: tuple[ServedDefinition, ...]


def sent(result: ToolResult) -> ServedResult:
    """Return a result as it is sent; encodes its pictures."""
    problem = result.problem
    return ServedResult(
        tool=result.tool,
        status=result.status,
        value=None if result.value is None else dict(result.value),
        text=result.text,
        problem=problem and ServedProblem(kind=problem.kind, message=problem.message, detail=problem.detail),
        pictures=tuple(ServedPicture(name=item.name, png=_png(item.image)) for item in result.pictures),
        repairs=result.repairs,
    )


def received(result: ServedResult) -> ToolResult:
    """Return a result as it came; decodes its pictures. Raises `ValueError` or `OSError` for one that is none."""
    problem = result.problem
    return ToolResult(
        result.tool,
        result.status,
        result.value,
        tuple(ToolPicture(item.name, _picture(item.png)) for item in result.pictures),
        result.text,
        None if problem is None else Problem(problem.kind, problem.message, problem.detail),
        result.repairs,
    )


def _png(image: Image.Image) -> str:
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=1)
    return base64.b64encode(out.getvalue()).decode()


def _picture(png: str) -> Image.Image:
    image = Image.open(io.BytesIO(base64.b64decode(png)), formats=("PNG",))
    image.load()
    return image
