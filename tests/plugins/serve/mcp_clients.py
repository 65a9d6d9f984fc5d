"""The official MCP client over both transports, against a real `saccade mcp`."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from PIL import Image

TOKEN = "0123456789abcdef0123456789abcdef"
COMMAND = ["-c", "import sys; from saccade.cli.main import main; sys.exit(main())", "mcp"]


@asynccontextmanager
async def stdio(*options: str) -> AsyncIterator[Client]:
    """A client with a server of its own."""
    server = StdioServerParameters(command=sys.executable, args=[*COMMAND, *options], env=dict(os.environ))
    async with Client(server) as client:
        yield client


@asynccontextmanager
async def http_server(*options: str, token: str = TOKEN) -> AsyncIterator[str]:
    """A server over HTTP; gives its address, and ends it as Ctrl-C does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *COMMAND,
        "--http",
        "--port",
        "0",
        *options,
        env={**os.environ, "SACCADE_MCP_TOKEN": token},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 300)).decode()
        assert line, (await process.communicate())[1].decode()
        yield line.split()[2]
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        out, errors = await asyncio.wait_for(process.communicate(), 300)
    assert process.returncode in (0, 130), errors
    assert token not in (out + errors).decode()
    assert b"Traceback" not in errors, errors.decode()


@asynccontextmanager
async def http(url: str, token: str = TOKEN, mode: Any = "auto") -> AsyncIterator[Client]:
    """A client of the server at an address."""
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=300) as connection:
        async with Client(streamable_http_client(url, http_client=connection), mode=mode) as client:
            yield client


def png(width: int = 40, height: int = 30, colour: str = "red") -> str:
    """A picture as base64."""
    out = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def text(result: Any) -> str:
    """The texts of a result."""
    return "\n".join(item.text for item in result.content if item.type == "text")


def pictures(result: Any) -> list[Image.Image]:
    """The pictures of a result, decoded."""
    return [Image.open(io.BytesIO(base64.b64decode(item.data))) for item in result.content if item.type == "image"]


def session_of(result: Any) -> str:
    """The session that a call opened."""
    first = text(result).split("\n")[0]
    assert first.startswith("session: "), first
    return first.removeprefix("session: ")


def photo(folder: Path, name: str = "photo.png") -> Path:
    """A picture of 40x30 on the disk."""
    Image.new("RGB", (40, 30), "blue").save(folder / name)
    return folder / name
