"""Texts and pictures as ATIF's content, and back.

ATIF names PNG, JPEG, GIF and WebP pictures by path. A video, or a picture of another type, becomes the line
`[media: PATH]`, which is read back as what lies at that path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from saccade.errors import RecordError, UnavailableError
from saccade.record.content import ImagePart, Part, TextPart, VideoPart

if TYPE_CHECKING:
    import atif

SPACE: Final = "saccade"
"""The key under which `extra` holds what ATIF has no place for."""
RUN_PYTHON: Final = "run_python"
"""Name of the function that a step calls to run code; its argument is `code`."""
NAMED: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types of pictures that ATIF names."""
MediaByPath: TypeAlias = Mapping[str, ImagePart | VideoPart]
"""Path as a document writes it -> what lies there."""
Content: TypeAlias = "str | Sequence[atif.ContentPart] | None"


def load_atif() -> Any:
    """The module `atif`: the format's models. Raises `UnavailableError` without it."""
    try:
        import atif
    except ImportError as error:
        raise UnavailableError("ATIF's models are not installed: pip install 'saccade[data]'") from error
    return atif


def to_content(parts: Sequence[Part], paths: Mapping[str, str]) -> str | list[dict[str, Any]]:
    """A text alone as it is, anything else as a list. `paths` is sha256 -> path."""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return [_to_item(part, paths) for part in parts]


def from_content(content: Content, media: MediaByPath, where: str) -> tuple[Part, ...]:
    """The parts of some content. `media` holds what lies at its paths.

    Raises:
        RecordError: it names a picture that `media` lacks, or audio; it begins with `where`.
    """
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextPart(text=content),)
    return tuple(_from_item(item, media, where) for item in content)


def image_paths(content: Content) -> list[str]:
    """Where the pictures of some content lie."""
    items = [] if content is None or isinstance(content, str) else content
    return [item.source.path for item in items if item.type == "image" and item.source is not None]


def _to_item(part: Part, paths: Mapping[str, str]) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    path = paths[part.sha256]
    if isinstance(part, ImagePart) and part.mime in NAMED:
        return {"type": "image", "source": {"media_type": part.mime, "path": path}}
    return {"type": "text", "text": _line(path)}


def _from_item(item: atif.ContentPart, media: MediaByPath, where: str) -> Part:
    if item.type == "text":
        text = item.text or ""
        lines = {_line(path): part for path, part in media.items()} if text.startswith(_line("")[:-1]) else {}
        return lines.get(text, TextPart(text=text))
    if item.type == "image" and item.source is not None and item.source.path in media:
        return media[item.source.path]
    if item.type == "image" and item.source is not None:
        raise RecordError(f"{where} shows {item.source.path}, which is not among the file's media")
    raise RecordError(f"{where} holds {item.type}, and Saccade has no part for it")


def _line(path: str) -> str:
    return f"[media: {path}]"
