"""Define the base of all records, and the content of messages: texts, pictures, videos, actions.

Media are named by sha256; their bytes are in a media store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    model_validator,
)

# The base of every record. What JSON could not give back exactly (NaN, infinity, a lone surrogate) is refused when the
# record is built. Fields cannot be set again; a mapping inside a record is read-only by agreement only.


SCHEMA_VERSION: Final = 1
"""Version of the stored form. It grows with every change that an older reader could not read: a new field too, for
every field is written and an unknown one is refused."""

SchemaVersion = Literal[1]
"""The field by which a record says its version."""


class Record(BaseModel):
    """Base of everything that is stored."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def clean_text(text: str) -> str:
    """Return `text` with every lone surrogate (which UTF-8 cannot hold) replaced by U+FFFD; all else as it is."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _storable_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"holds a lone surrogate at position {error.start}, which JSON cannot give back; pass it through clean_text"
        ) from None
    return text


def _storable_json(value: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    _check_texts(dict(value))
    return value


def _check_texts(value: JsonValue) -> None:
    if isinstance(value, str):
        _storable_text(value)
    elif isinstance(value, list):
        for item in value:
            _check_texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            _storable_text(key)
            _check_texts(item)


Text = Annotated[str, AfterValidator(_storable_text)]
"""Any text without lone surrogates."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_storable_text)]
"""A short text that is not empty."""

JsonObject = Annotated[Mapping[str, JsonValue], AfterValidator(_storable_json)]
"""A JSON object; texts without lone surrogates, and in a `Record` numbers are finite."""

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""Lower-case hexadecimal sha256 of the encoded bytes."""


# What a model's text was understood to ask for. Exactly one action per turn; a text that says nothing is one too.


class Code(Record):
    """Run this Python code in the session."""

    kind: Literal["code"] = "code"
    code: Text
    """The code as the dialect cut it out, before any repair."""


class ToolCall(Record):
    """Call a typed tool with these arguments."""

    kind: Literal["tool_call"] = "tool_call"
    name: Name
    arguments: JsonObject
    call_id: Text | None = None
    """The identifier that a function-calling API gave to the call."""
    sealed: Text | None = None
    """Opaque data that the API wants back with the call: a signature, or reasoning that is encrypted."""


class Answer(Record):
    """End the episode with this answer."""

    kind: Literal["answer"] = "answer"
    text: Text


class ParseError(Record):
    """The text holds no action that the dialect knows. Not an exception: the model may read `reason`."""

    kind: Literal["parse_error"] = "parse_error"
    reason: Text


Action = Annotated[Code | ToolCall | Answer | ParseError, Field(discriminator="kind")]
"""Action of a turn: code to run, a tool call, an answer, or nothing that the dialect knows."""

ImageMode = Literal["L", "RGB", "RGBA"]
Role = Literal["system", "user", "assistant", "tool"]


class TextPart(Record):
    """A piece of text, exactly as it was written or shown."""

    kind: Literal["text"] = "text"
    text: Text


class ImagePart(Record):
    """A still picture. Size and mode are those of the decoded picture, after its EXIF orientation was applied."""

    kind: Literal["image"] = "image"
    sha256: Sha256
    width: PositiveInt
    """Pixels."""
    height: PositiveInt
    """Pixels."""
    mode: ImageMode = "RGB"
    mime: Annotated[str, StringConstraints(pattern=r"^image/[a-z0-9.+-]+$")] = "image/png"
    """Type of the stored bytes."""


class VideoSample(Record):
    """Which frames of a video a model is shown, as one video."""

    indices: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)]
    """Numbers of the frames, from 0, in the order in which they are shown."""
    pixels: PositiveInt
    """Of one frame, at most."""


class VideoPart(Record):
    """A video. `frames`, `fps` and `seconds` are those of the stored stream, not of a sample of it."""

    kind: Literal["video"] = "video"
    sha256: Sha256
    width: PositiveInt
    """Pixels."""
    height: PositiveInt
    """Pixels."""
    frames: PositiveInt
    fps: PositiveFloat
    """Mean frames per second."""
    seconds: PositiveFloat
    mime: Annotated[str, StringConstraints(pattern=r"^(video|image)/[a-z0-9.+-]+$")] = "video/mp4"
    """Type of the stored bytes; an animated GIF or WebP is an `image/` type."""
    sample: VideoSample | None = None
    """Frames shown where it is shown as a video; None: those that the model's own processor takes."""

    @model_validator(mode="after")
    def _sampled(self) -> Self:
        if self.sample is not None and max(self.sample.indices) >= self.frames:
            raise ValueError(f"a video of {self.frames} frames has no frame {max(self.sample.indices)}")
        return self


MediaPart = Annotated[ImagePart | VideoPart, Field(discriminator="kind")]
Part = Annotated[TextPart | ImagePart | VideoPart, Field(discriminator="kind")]


class Message(Record):
    """Message of one role: parts in reading order."""

    role: Role
    parts: tuple[Part, ...]
    calls: tuple[ToolCall, ...] = ()
    """Of role `assistant`: the calls that an API's own function calling gave besides the text."""
    call_id: Text | None = None
    """Of role `tool`: the identifier of the call that it answers."""

    @property
    def text(self) -> str:
        """The text parts joined without anything between them."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def media(self) -> tuple[ImagePart | VideoPart, ...]:
        """The pictures and videos in their order."""
        return tuple(part for part in self.parts if not isinstance(part, TextPart))


# Texts in which `<image>` and `<video>` stand for media: one that is meant as itself has a backslash before its end.


_LITERAL = re.compile(r"<(image|video)(\\*)>")
_WRITTEN = re.compile(r"<(image|video)\\(\\*)>")


def escape_places(text: str) -> str:
    r"""Return `text` with every literal `<image>` and `<video>` as `<image\>`; one with backslashes gets one more."""
    return _LITERAL.sub(r"<\1\2\\>", text)


def unescape_places(text: str) -> str:
    """Return what `escape_places` was given."""
    return _WRITTEN.sub(r"<\1\2>", text)


# Boxes `x0, y0, x1, y1` in pixels, and how far two of them hold the same.


Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def area(box: Box) -> float:
    """Return pixels inside a box; 0 for an empty or reversed one."""
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)


def overlap(one: Box, other: Box) -> float:
    """Return pixels that both boxes hold."""
    return area((max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])))


def iou(one: Box, other: Box) -> float:
    """Return the intersection over union, 0 to 1; 0 if both are empty."""
    shared = overlap(one, other)
    union = area(one) + area(other) - shared
    return shared / union if union > 0 else 0.0
