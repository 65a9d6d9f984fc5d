"""Pictures into the arguments of an MCP tool, and out of its results.

MCP has no type for a picture in an argument. So an argument whose whole value is the name of a picture of the episode
is filled with that picture, as PNG: base64 where the schema says `contentEncoding: base64` or the argument's name ends
in `base64`, `data` or `bytes`; the path of a temporary file where its name ends in `path` or `file` and the server is a
program of this machine; a data URL otherwise.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from PIL import Image

from saccade.png import quick_png
from saccade.tools.context import ToolContext

MOST_PIXELS: Final = 40_000_000
"""Of a picture that a server sends; a larger one is left out, with a line that says so."""


def filled(
    arguments: Mapping[str, Any], schema: Mapping[str, Any], context: ToolContext, folder: Path | None
) -> dict[str, Any]:
    """`arguments` with pictures in place of their names; without a `folder` no paths are given. Raises `MediaError`."""
    properties = schema.get("properties", {})
    return {
        name: _picture(name, properties.get(name, {}), context, value, folder)
        if isinstance(value, str) and value in context.images
        else value
        for name, value in arguments.items()
    }


def wants_text(schema: Mapping[str, Any]) -> bool:
    """Whether any argument may be a text, and so a picture."""
    return any(_may_be_text(given) for given in schema.get("properties", {}).values())


def taken(data: str) -> Image.Image | str:
    """The picture that a server sent as base64, or why it is left out."""
    try:
        image = Image.open(io.BytesIO(base64.b64decode(data)))
        if image.width * image.height > MOST_PIXELS:
            return f"(A picture of {image.width} × {image.height} pixels was left out: it is too large.)"
        image.load()
        return image.convert("RGB") if image.mode not in ("L", "RGB", "RGBA") else image
    except (ValueError, OSError, Image.DecompressionBombError) as error:
        return f"(A picture was left out: it cannot be read, {type(error).__name__}.)"


def _may_be_text(schema: Mapping[str, Any] | bool) -> bool:
    if isinstance(schema, bool):  # true: anything at all
        return schema
    return "string" in str(schema.get("type", schema.get("anyOf", "")))


def _picture(name: str, schema: Mapping[str, Any] | bool, context: ToolContext, value: str, folder: Path | None) -> str:
    png = quick_png(context.image(value).image)
    if folder is not None and name.lower().endswith(("path", "file")):
        path = folder / f"{value}.png"
        path.write_bytes(png)
        return str(path)
    encoded = base64.b64encode(png).decode()
    is_base64 = not isinstance(schema, bool) and schema.get("contentEncoding") == "base64"
    if is_base64 or name.lower().endswith(("base64", "data", "bytes")):
        return encoded
    return f"data:image/png;base64,{encoded}"
