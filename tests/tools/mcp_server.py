"""A small MCP server over stdio: mirrors a picture, adds, sleeps, fails, dies."""

from __future__ import annotations

import base64
import io
import os
import time

from mcp.server import MCPServer
from mcp_types import CallToolResult, ImageContent, TextContent
from PIL import Image, ImageOps

server = MCPServer("looking")


@server.tool()
def mirror(image_base64: str) -> CallToolResult:
    """Mirror a picture left to right"""
    picture = ImageOps.mirror(Image.open(io.BytesIO(base64.b64decode(image_base64))))
    out = io.BytesIO()
    picture.save(out, "PNG")
    shown = ImageContent(data=base64.b64encode(out.getvalue()).decode(), mime_type="image/png")
    return CallToolResult(content=[TextContent(text="mirrored"), shown])


@server.tool()
def size_of(path: str) -> str:
    """Size of a picture."""
    with Image.open(path) as picture:
        return f"{picture.width}x{picture.height}"


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def sleep(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "slept"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("as told")


@server.tool()
def die() -> str:
    """Die."""
    os._exit(3)


if __name__ == "__main__":
    server.run("stdio")
