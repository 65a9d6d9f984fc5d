"""What a server of agents is asked, whatever protocol it came in; and how a request is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from saccade.episode.asking import Question
from saccade.errors import SaccadeError
from saccade.record.trajectory import EpisodeLimits, Sampling
from saccade.sandbox.limits import MIB
from saccade.tasks.frames import FrameSettings


class AgentServeSettings(BaseModel):
    """What a server of agents allows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_requests: int = Field(default=64, ge=1)
    """Most episodes at once."""
    max_waiting: int = Field(default=64, ge=0)
    """Most requests that wait for one of them to end; further ones are refused with 429."""
    max_body_bytes: int = Field(default=32 * MIB, ge=1024)
    """Largest request, pictures included."""
    max_media: int = Field(default=32, ge=0)
    """Most pictures and videos of a request."""
    max_turns: int = Field(default=64, ge=1)
    """Most turns that a request may ask for."""
    request_seconds: float = Field(default=600.0, gt=0)
    """Longest time of an episode, for which a request may ask for less; and of a request's way to the server."""


class AgentOptions(BaseModel):
    """The field `saccade` of a request: what the protocol has no words for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dialect: str = ""
    """By name; empty: the server's, or the one that suits the model."""
    limits: EpisodeLimits = EpisodeLimits()
    """In place of the dialect's; not above the server's."""
    tools: tuple[str, ...] = ()
    """Typed tools to offer, by name."""
    choices: tuple[str, ...] = ()
    """Possible answers."""
    frames: FrameSettings = FrameSettings()
    """Videos shown as frames."""
    trajectory: bool = False
    """Whether the whole trajectory is sent back, as it would be stored."""
    media: bool = False
    """Whether the pictures that it names are sent back too, as data URLs by sha256."""


@dataclass(frozen=True, slots=True)
class AgentQuestion:
    """One question to an agent."""

    model: str
    question: Question
    sampling: Sampling = field(default_factory=Sampling)
    options: AgentOptions = field(default_factory=AgentOptions)
    stop: tuple[str, ...] = ()
    """The answer ends before the first of these."""
    stream: bool = False
    with_usage: bool = False
    """Whether a stream ends with the usage."""
    with_outputs: bool = False
    """Whether outputs of code are sent back with it."""
    ignored: tuple[str, ...] = ()
    """Fields of the request that are taken and change nothing."""


class RequestError(SaccadeError):
    """A request that is refused; `status`, `code` and `param` are those of OpenAI's errors."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param, self.code, self.status = param, code, status


def not_served(model: str, served: Iterable[str]) -> RequestError:
    """The refusal of a model that is none of `served`."""
    message = f"the model {model[:100]!r} is not served here. There are: {', '.join(served)}."
    return RequestError(message, param="model", code="model_not_found", status=404)
