"""Tools of an MCP server at an address that wants a token: the official package's streamable HTTP server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from tests.models.listening import listening
from tests.tools.mcp_server import server

from saccade.errors import UnavailableError
from saccade.tools.context import Numbering, ToolContext
from saccade.tools.mcp import TOKEN_VARIABLE, close_connections
from saccade.tools.setup import ToolCallSettings
from saccade.tools.toolbox import Toolbox

TOKEN = "a-token-of-the-test"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    made = server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and Request(scope).headers.get("authorization") != f"Bearer {TOKEN}":
            refused: Response = PlainTextResponse("who are you", 401)
            await refused(scope, receive, send)
        else:
            await made(scope, receive, send)

    with listening(guarded, "on") as url:
        yield f"mcp:{url}/mcp"
        close_connections()


def test_without_the_token_the_tools_are_not_to_be_had(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with pytest.raises(UnavailableError, match=r"http://127\.0\.0\.1"):
        Toolbox.of(address, calls=ToolCallSettings(seconds=5))


def test_an_address_with_a_token_gives_its_tools(
    address: str, picture: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    box = Toolbox.of(address, calls=ToolCallSettings(seconds=20))
    assert "mirror" in [tool.name for tool in box.definitions]
    scene = ToolContext({"image_0": picture}, numbering=Numbering("image_", 1))
    mirrored = box.call("mirror", {"image_base64": "image_0"}, scene)
    assert mirrored.ok, mirrored
    assert mirrored.pictures[0].image.size == picture.size
    assert box.call("add", {"a": 2, "b": 3}, scene).text == "5"
