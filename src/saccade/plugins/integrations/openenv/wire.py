"""Define messages between an OpenEnv client and the server: actions, observations and states, as pydantic models.

Client and server share this module and nothing else. Pictures travel as bytes in base64, in the encoding in which the
media store holds them; no path of either machine travels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.flow import limits_with
from saccade.episode.settings import SpeechSettings
from saccade.media.store import MediaStore
from saccade.record.trajectory import EpisodeLimits
from saccade.sandbox.registry import sandbox_at
from saccade.training.env.look_again import LookAgainEnv, LookAgainOptions


class TurnAction(Action):  # type: ignore[misc]
    """One turn of the agent: a whole text in the dialect, or a call of one of the server's MCP tools."""

    type: Literal["turn", "call_tool", "list_tools"] = "turn"
    text: str | None = None
    """Of `turn`: everything that the model wrote, up to a stop string of the dialect."""
    tool_name: str | None = None
    """Of `call_tool`."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Of `call_tool`."""

    @model_validator(mode="after")
    def _of_its_type(self) -> TurnAction:
        # PydanticCustomError and not ValueError: OpenEnv sends the list of errors as JSON, which no exception is.
        if (self.type == "turn") != (self.text is not None):
            raise PydanticCustomError("turn_text", "give `text` with the type `turn`, and with no other")
        if (self.type == "call_tool") != (self.tool_name is not None) or (self.arguments and self.type != "call_tool"):
            raise PydanticCustomError(
                "tool_call", "give `tool_name` and `arguments` with the type `call_tool`, and with no other"
            )
        return self


class LookPicture(BaseModel):
    """A picture's bytes."""

    model_config = ConfigDict(extra="forbid")

    mime: str
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    data: str = Field(repr=False)
    """Base64."""


class LookPart(BaseModel):
    """A piece of a message: a text, or the place of a picture or video."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text", "image", "video"]
    text: str | None = None
    """Of `text`."""
    picture: int | None = None
    """Of `image`: its place in the observation's `pictures`, from 0. A video's frames do not travel."""


class LookMessage(BaseModel):
    """Message of one role, in order."""

    model_config = ConfigDict(extra="forbid")

    role: str
    content: list[LookPart]


class LookObservation(Observation):  # type: ignore[misc]
    """New messages of the conversation since the last observation; at the start, the whole prompt.

    `done` and `reward` are OpenEnv's: the reward is 0.0 until the last step.
    """

    text: str = ""
    r"""All of it as one text that marks roles (`[user]`) and places of media (`<image>`, `<video>`; in a text that
    holds one itself `<image\>`). A program may print roles: `messages` are exact."""
    messages: list[LookMessage] = Field(default_factory=list)
    pictures: list[LookPicture] = Field(default_factory=list)
    """Those that stand in `messages`, in order."""
    task: str = ""
    """Its id."""
    turns: int = 0
    action: str | None = None
    """Action of the last turn: `code`, `tool_call`, `answer`, `parse_error`."""
    status: str | None = None
    """How what was run ended; None if nothing was run."""
    stop: str | None = None
    """At the end: why the episode ended."""
    truncated: bool = False
    """At the end: it was cut off, by a limit or an outage, and not ended by the agent."""
    lost: bool = False
    """At the end: an outage of the server. Such an episode says nothing about the agent; do not train on it."""
    answer: str | None = None
    """At the end."""
    scores: dict[str, float | None] = Field(default_factory=dict)
    """At the end: the named parts of the reward."""
    trajectory: dict[str, Any] | None = None
    """At the end, if the server sends it: the record as JSON, which `Trajectory.model_validate` reads; its pictures are
    named by the sha256 of their bytes."""

    def shown(self, message: LookMessage) -> Iterator[str | LookPicture]:
        """Yield the texts and pictures of a message, in order; a video has nothing to show."""
        for part in message.content:
            if part.type == "text":
                yield part.text or ""
            elif part.picture is not None:
                yield self.pictures[part.picture]


class LookState(State):  # type: ignore[misc]
    """Where an episode stands. It holds neither the question nor the gold answer."""

    task: str = ""
    """Its id; empty before the first reset."""
    dialect: str = ""
    done: bool = False


# What a server of the environment plays, and how many sessions it lends out.


class OpenEnvSettings(SpeechSettings):
    """Everything that decides how the episodes of a server of the environment are played."""

    tasks: tuple[str, ...] = ("visual-search",)
    """Sources of tasks by name, as `saccade.training.env.LookAgainEnv` takes them."""
    dialect: str = "pyvision"
    """How the agent is spoken to."""
    rubric: str = ""
    """A reward preset; empty: right or wrong by the task's own grader."""
    limits: EpisodeLimits = EpisodeLimits()
    """Those that are set stand in place of the dialect's."""
    max_sessions: int = Field(default=32, ge=1)
    """Most sessions at once; a further one is refused."""
    idle_seconds: float = Field(default=1800.0, gt=0)
    """A session without a message for so long is closed."""
    send_trajectory: bool = False
    """Whether the last observation holds the whole record, the gold answer with it."""

    def environment(self, store: MediaStore) -> LookAgainEnv:
        """Return one environment, whose pictures go into `store`. Raises as `LookAgainEnv` does."""
        dialect = load_dialect(self.dialect)
        options: LookAgainOptions = {
            "rubric": self.rubric or None,
            "limits": limits_with(dialect.limits, **self.limits.model_dump()),
            "tools": self.tools,
            "tool_list": self.tool_list or None,
            "prompt_file": self.prompt_file or None,
            "prompt_names": self.prompt_names,
            "session": self.session,
            "media": self.media,
        }
        if self.sandbox != "local":
            options["sandbox"] = lambda: sandbox_at(self.sandbox, dialect.sandbox)
        return LookAgainEnv(self.tasks, dialect, store, **options)

    def spoken(self) -> Dialect:
        return self.prepared(load_dialect(self.dialect))[0]
