"""Define the requests to a server of agents, whatever their protocol, and how they are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from saccade.episode.ask import Question
from saccade.errors import (
    IsolationError,
    MediaError,
    ModelError,
    RegistryError,
    SaccadeError,
    SandboxError,
    TooLargeError,
)
from saccade.errors import SettingsError as WrongSettingError
from saccade.media.decode import is_url
from saccade.media.store import from_base64
from saccade.record.trajectory import EpisodeLimits, Sampling, StopReason, Trajectory
from saccade.sandbox.base import MIB
from saccade.tasks.media import FrameSettings, NamedBytes, OwnMedia


class AgentServeSettings(BaseModel):
    """Limits of a server of agents."""

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


_NEUTRAL: Final[Mapping[str, tuple[object, ...]]] = {
    "top_logprobs": (0,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "function_call": ("none", "auto"),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "min_p": (0,),
    "min_tokens": (0,),
    "top_k": (-1,),
    "ignore_eos": (False,),
    "use_beam_search": (False,),
    "skip_special_tokens": (True,),
    "stop": ("", [""]),
    "verbosity": ("medium",),
    "include": (["reasoning.encrypted_content"],),
    "text": ({"format": {"type": "text"}, "verbosity": "medium"}, {"verbosity": "medium"}),
}
"""Fields of other servers and older clients -> values at which they ask for nothing."""


def without_neutral(body: Any, kind: type[BaseModel]) -> Any:
    """`body` without the fields that ask for nothing: blank ones that `kind` does not know, and those at rest."""
    if not isinstance(body, dict):
        return body
    return {
        name: value
        for name, value in body.items()
        if value not in _NEUTRAL.get(name, ()) and (name in kind.model_fields or value not in (None, {}, []))
    }


def not_served(model: str, served: Iterable[str]) -> RequestError:
    """Return the refusal of a model that is none of `served`."""
    message = f"the model {model[:100]!r} is not served here. There are: {', '.join(served)}."
    return RequestError(message, param="model", code="model_not_found", status=404)


# Errors in the form of OpenAI's API: `{"error": {"message", "type", "param", "code"}}` and a status.

UNAUTHORIZED: Final = (
    b'{"error": {"message": "this server asks for a token, in the header Authorization as Bearer TOKEN", '
    b'"type": "invalid_request_error", "param": null, "code": "invalid_api_key"}}'
)
_OUTAGES: Final = {
    StopReason.MODEL_LOST: (502, "model_lost"),
    StopReason.MODEL_REFUSED: (502, "model_refused"),
    StopReason.SANDBOX_LOST: (503, "sandbox_lost"),
    StopReason.TOOL_LOST: (503, "tool_lost"),
    StopReason.CANCELLED: (503, "cancelled"),
}
_KINDS: Final[tuple[tuple[type[SaccadeError], int, str], ...]] = (
    (TooLargeError, 413, "too_large"),
    (MediaError, 400, "invalid_image"),
    (RegistryError, 400, "unknown_name"),
    (WrongSettingError, 400, "invalid_value"),
    (IsolationError, 500, "isolation"),
    (SandboxError, 503, "sandbox_lost"),
    (ModelError, 502, "model_lost"),
)
"""Exception -> status and code; the first that fits."""


def error_body(error: RequestError) -> dict[str, object]:
    """Return the error as it is sent."""
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    kind = "rate_limit_error" if error.status == 429 else kind
    return {"error": {"message": str(error), "type": kind, "param": error.param, "code": error.code}}


def as_request_error(error: Exception) -> RequestError:
    """Return any error as one that can be sent; of a fault of ours the client hears nothing but that it is one."""
    if isinstance(error, RequestError):
        return error
    for kind, status, code in _KINDS:
        if isinstance(error, kind):
            return RequestError(str(error), code=code, status=status)
    if isinstance(error, SaccadeError):
        return RequestError(str(error), code="refused")
    return RequestError("the server failed; its log says why.", code="internal_error", status=500)


def check_outage(trajectory: Trajectory) -> None:
    """Raises `RequestError` if an outage ended the episode."""
    if trajectory.stop in _OUTAGES:
        status, code = _OUTAGES[trajectory.stop]
        detail = trajectory.stop_detail or f"the episode ended as {trajectory.stop.value}."
        raise RequestError(detail, code=code, status=status)


def of_validation(error: ValidationError) -> RequestError:
    """Return the first mistake of a request's fields."""
    first = error.errors(include_url=False, include_input=False)[0]
    param = ".".join(str(step) for step in first["loc"])[:200] or None
    if first["type"] == "extra_forbidden":
        return RequestError(
            f"the parameter {param!r} is not known here, or cannot be honoured. Leave it out.",
            param=param,
            code="unknown_parameter",
        )
    return RequestError(f"{param or 'the body'}: {first['msg']}.", param=param, code="invalid_value")


# Messages of OpenAI's APIs as one question: the texts of a conversation, its pictures and videos.
#
# An agent is asked one question. A single message of the user is it, as it stands. Of a longer conversation the earlier
# messages come first, each behind its role, and the last one of the user after them. Pictures stand where they stood.

_DATA: Final = re.compile(r"\s*data:[^,]*;\s*base64\s*,", re.IGNORECASE)
"""Of any type: the bytes decide."""
_NAME: Final = 100
"""Characters of a file's name that are kept, from its end."""
_ROLES: Final = {
    "system": "Instructions",
    "developer": "Instructions",
    "user": "User",
    "assistant": "Assistant",
    "tool": "Tool",
}
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})
_PICTURES: Final = {"image_url": "image_url", "input_image": "image_url"}
_VIDEOS: Final = {"video_url": "video_url", "input_video": "video_url"}


@dataclass
class MessageTexts:
    """Messages so far, and the media that they show."""

    messages: list[tuple[str, str]] = field(default_factory=list)
    """Role and text."""
    media: list[OwnMedia] = field(default_factory=list)
    videos: int = 0

    def question(self) -> str:
        """Return all of it as one text. Raises `RequestError`: the last message is not one of the user or of a tool."""
        if not self.messages or self.messages[-1][0] not in ("user", "tool"):
            raise RequestError("the last message must be one of the user.", param="messages", code="invalid_value")
        if len(self.messages) == 1:
            return self.messages[0][1]
        return "\n\n".join(f"{_ROLES[role]}: {text}" for role, text in self.messages)


def read_messages(messages: Sequence[Any], *, allow_urls: bool, most: int, param: str) -> MessageTexts:
    """Return the conversation in `messages`, each with `role` and `content`.

    Raises `RequestError`: one has another form, or asks for what this server does not do.
    """
    talk = MessageTexts()
    # Frames of a video are pictures too, so the numbers of placeholders would not be those of the pictures.
    placed = not any(_has_video(message) for message in messages)
    for index, message in enumerate(messages):
        where = f"{param}[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in _ROLES:
            known = ", ".join(_ROLES)
            raise RequestError(f"{where}.role is none of {known}.", param=f"{where}.role", code="invalid_value")
        talk.messages.append((role, _text(message.get("content"), talk, placed, f"{where}.content", allow_urls)))
    if len(talk.media) > most:
        raise RequestError(
            f"{len(talk.media)} pictures and videos are more than the {most} that this server takes.", param=param
        )
    return talk


def _has_video(message: Any) -> bool:
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, list) and any(_kind(part) in _VIDEOS for part in content)


def _kind(part: Any) -> str:
    return str(part.get("type")) if isinstance(part, dict) else ""


def _text(content: Any, talk: MessageTexts, placed: bool, where: str, allow_urls: bool) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise RequestError(f"{where} is neither a text nor a list of parts.", param=where, code="invalid_value")
    pieces: list[str] = []
    for index, part in enumerate(content):
        kind = _kind(part)
        if kind in _TEXTS:
            pieces.append(_string(part.get("text", part.get("refusal")), f"{where}[{index}].text"))
        elif kind in _PICTURES or kind in _VIDEOS:
            key = {**_PICTURES, **_VIDEOS}[kind]
            talk.media.append(read_media(part.get(key), f"{where}[{index}].{key}", allow_urls=allow_urls))
            talk.videos += kind in _VIDEOS
            # Pictures without a mark come first anyway; marks are needed only behind a text.
            if placed and (pieces or len(talk.messages) > 0):
                pieces.append(f"<image {len(talk.media)}>")
        else:
            raise RequestError(
                f"{where}[{index}] is of the type {kind[:60]!r}. This server takes text, pictures (image_url, "
                "input_image) and videos (video_url, input_video).",
                param=f"{where}[{index}]",
                code="invalid_value",
            )
    return "\n".join(pieces)


def read_media(value: Any, where: str, *, allow_urls: bool = False) -> OwnMedia:
    """Return the bytes of a data URL, or an address; a path of this machine is neither.

    Besides its `url` the value may have a `filename`, by which errors and pages call the bytes.

    Raises `RequestError`: it is neither, or an address and `allow_urls` is false.
    """
    given = value if isinstance(value, dict) else {"url": value}
    url, name = _string(given.get("url"), where), given.get("filename") or ""
    match = _DATA.match(url)
    if match is not None:
        try:
            data = from_base64(unquote(url[match.end() :]))
        except ValueError as error:
            raise RequestError(f"{where} is no base64: {error}.", param=where, code="invalid_image_url") from None
        return NamedBytes(data, _string(name, where)[-_NAME:]) if name else data
    if is_url(url) and allow_urls:
        return url
    why = "this server fetches nothing from other hosts" if is_url(url) else "it is no data URL of a picture or a video"
    raise RequestError(
        f"{where}: {why}. Send the bytes, as data:image/png;base64,...", param=where, code="invalid_image_url"
    )


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise RequestError(f"{where} is no text.", param=where, code="invalid_value")
    return value
