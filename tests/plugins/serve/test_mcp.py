"""`saccade mcp` with the official client over stdio and HTTP: tools, sessions, files, and who may reach what."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from PIL import Image
from tests.fake_sandboxes import FakeSandbox, FakeSession

from saccade.cli.main import main
from saccade.plugins.serve.mcp_server import mcp_server
from saccade.plugins.serve.vision_session import McpSettings
from saccade.sandbox.local import LocalSandbox
from saccade.tools.toolbox import Toolbox

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


pytest.importorskip("mcp")


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux")


@asynccontextmanager
async def connected(transport: str, *options: str) -> AsyncIterator[Client]:
    if transport == "stdio":
        async with stdio(*options) as client:
            yield client
    else:
        async with http_server(*options) as url:
            async with http(url, mode="legacy" if transport == "http-legacy" else "auto") as client:
                yield client


@asynccontextmanager
async def inside(sandbox: Any = None, **settings: Any) -> AsyncIterator[Client]:
    """A client of a server in this process."""
    server = mcp_server(sandbox or LocalSandbox(), Toolbox.of("crop"), McpSettings(**settings))
    async with Client(server) as client:
        yield client


@pytest.mark.few(1)
@pytest.mark.parametrize("transport", ["stdio", "http", "http-legacy"])
async def test_an_agent_looks_again(transport: str, tmp_path: Path) -> None:
    photo(tmp_path)
    async with connected(transport, "--folder", str(tmp_path), "--tools", "crop") as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert listed.keys() == {"run_python", "upload", "view", "branch", "reset", "close_session", "crop"}
        assert listed["crop"].input_schema["required"][0] == "session"

        up = await client.call_tool("upload", {"path": "photo.png"})
        session = session_of(up)
        assert not up.is_error
        assert [picture.size for picture in pictures(up)] == [(40, 30)]

        run = await client.call_tool("run_python", {"session": session, "code": "a = image_0.size\nimage_0.rotate(90)"})
        assert "image_1: " in text(run)
        assert pictures(run)[0].getpixel((5, 10)) == (0, 0, 255)

        cut = await client.call_tool("crop", {"session": session, "image": "image_1", "box": [0, 0, 20, 10]})
        assert "image_2" in text(cut)
        assert pictures(cut)[0].width >= 20
        known = await client.call_tool("run_python", {"session": session, "code": "print(a, image_2.size)"})
        assert text(known).startswith("(40, 30) (")

        wrong = await client.call_tool("run_python", {"session": session, "code": "a = 1\nraise ValueError('no')"})
        assert wrong.is_error
        assert "ValueError: no" in text(wrong)
        after = await client.call_tool("run_python", {"session": session, "code": "a"})
        assert text(after) == "(40, 30)"


async def test_by_default_an_agent_is_told_little() -> None:
    async with Client(mcp_server(FakeSandbox(), Toolbox(()), McpSettings())) as client:
        tools = (await client.list_tools()).tools
        assert {"run_python", "upload", "view"} <= {tool.name for tool in tools}
        assert len(tools) <= 6
        assert sum(len(tool.model_dump_json(exclude_none=True)) for tool in tools) <= 6000
        other = await client.call_tool("crop", {"session": "x", "box": [0, 0, 1, 1]})
        assert "`saccade mcp --tools crop` would offer it" in text(other)
    silent = subprocess.run([sys.executable, *COMMAND], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert (silent.stdout, silent.stderr) == (b"", b"")


async def test_a_file_that_code_does_not_find_has_to_be_uploaded(tmp_path: Path) -> None:
    photo(tmp_path, "my photo.png")
    async with inside(folders=(tmp_path,)) as client:

        async def said(code: str) -> str:
            return text(await client.call_tool("run_python", {"code": code}))

        for code in (
            "Image.open('my photo.png')",
            f"open({str(tmp_path / 'my photo.png')!r})",
            "cv2.imread('x/my photo.png')",
        ):
            assert re.search("Call upload with this session and the path '.*my photo.png' first", await said(code))
        assert "upload puts a picture or a video into it" in await said("open('/home/me/other.png')")
        assert "upload" not in await said("1 / 0")


async def test_a_picture_is_viewed_again_whole_and_in_part() -> None:
    async with inside() as client:
        session = session_of(await client.call_tool("upload", {"data": png(40, 30)}))

        async def view(**asked: Any) -> Any:
            return await client.call_tool("view", {"session": session, **asked})

        whole = await view(image="image_0")
        assert (pictures(whole)[0].size, text(whole)) == ((40, 30), "image_0: 40x30 pixels")
        part = await view(image="image_0", box=[10, 5, 100, 25])
        assert (pictures(part)[0].size, text(part)) == ((30, 20), "image_0, [10, 5, 40, 25]: 30x20 pixels")
        for asked, word in (
            ({"image": "image_7"}, "There are: image_0"),
            ({"image": "image_0", "box": [9, 9, 3, 3]}, "empty"),
            ({"image": "image_0", "box": [0.1, 0.1, 0.5, 1]}, "in pixels of image_0, which is 40 × 30"),
        ):
            wrong = await view(**asked)
            assert wrong.is_error
            assert word in text(wrong)


async def test_branches_reset_and_close() -> None:
    async with inside() as client:
        session = session_of(await client.call_tool("run_python", {"code": "n = 1"}))
        await client.call_tool("upload", {"session": session, "data": png()})
        made = text(await client.call_tool("branch", {"session": session, "count": 2})).split("\n")
        one, two = (line.removeprefix("session: ") for line in made)
        await client.call_tool("run_python", {"session": one, "code": "n = 2; image_0.rotate(45)"})
        seen = await client.call_tool("run_python", {"session": two, "code": "print(n, 'image_1' in dir())"})
        assert text(seen) == "1 False"

        done = await client.call_tool("reset", {"session": one})
        assert text(done) == "The session starts anew, with image_0."
        gone = await client.call_tool("run_python", {"session": one, "code": "print(image_0.size, 'n' in dir())"})
        assert text(gone) == "(40, 30) False"

        await client.call_tool("close_session", {"session": two})
        closed = await client.call_tool("run_python", {"session": two, "code": "1"})
        assert closed.is_error
        assert "no such session" in text(closed)
        assert text(await client.call_tool("run_python", {"session": session, "code": "n"})) == "1"


async def test_a_client_cannot_reach_the_session_of_another_nor_a_stranger_the_server() -> None:
    async with http_server() as url, http(url) as mine, http(url) as other:
        session = session_of(await mine.call_tool("run_python", {"code": "secret = 'of mine'"}))
        own = session_of(await other.call_tool("run_python", {"code": "secret = 'of other'"}))
        assert session != own
        for guess in ("", "0" * 32, session[:-1], session.upper(), own[:16] + session[16:], "../" + session):
            tried = await other.call_tool("run_python", {"session": guess, "code": "secret"})
            assert tried.is_error, guess
            assert "of mine" not in text(tried)
        read = "import glob; print([p for p in glob.glob('/tmp/**', recursive=True) if 'saccade-session' in p])"
        assert text(await other.call_tool("run_python", {"session": own, "code": read})) == "[]"
        shown = [await other.list_tools(), await other.call_tool("run_python", {"session": own, "code": "dir()"})]
        assert session not in str(shown)
        assert text(await mine.call_tool("run_python", {"session": session, "code": "secret"})) == "'of mine'"
        await refuses_strangers(url)


async def test_files_outside_the_folders_cannot_be_read(tmp_path: Path) -> None:
    within, outside = tmp_path / "in", tmp_path / "out"
    within.mkdir()
    outside.mkdir()
    photo(outside, "private.png")
    (within / "link.png").symlink_to(outside / "private.png")
    async with inside(folders=(within,)) as client:
        (within / "loop.png").symlink_to("loop.png")
        stolen = (str(outside / "private.png"), "../out/private.png", "link.png", "/etc/passwd", "none.png", ".")
        for path in (*stolen, "~nobody-of-that-name/x", "a\0b", "x" * 5000, "loop.png", ""):
            tried = await client.call_tool("upload", {"path": path})
            assert tried.is_error, path
            assert "no file" in text(tried)
    async with inside() as client:
        tried = await client.call_tool("upload", {"path": str(outside / "private.png")})
        assert tried.is_error
        assert "without --folder" in text(tried)


@pytest.mark.parametrize(
    ("tool", "arguments", "word"),
    [
        ("run_python", {}, "'code' is missing"),
        ("run_python", {"code": 3}, "'code' is wrong"),
        ("run_python", {"code": "1", "sesion": "x"}, "no argument 'sesion'"),
        ("upload", {}, "Give either"),
        ("upload", {"data": "AAAA", "path": "x"}, "Give either"),
        ("upload", {"data": "???"}, "not base64"),
        ("upload", {"data": "data:image/png;base64,QU\nFB"}, "neither a picture"),
        ("view", {"session": "x" * 32, "image": "image_0"}, "no such session"),
        ("upload", {"data": "AAAA"}, "neither a picture"),
        ("crop", {"box": [0, 0, 1, 1]}, "needs `session`"),
        ("branch", {"session": "x" * 32}, "no such session"),
        ("nothing", {}, "There is no tool 'nothing'"),
    ],
)
async def test_a_wrong_call_is_an_error_to_read(tool: str, arguments: dict[str, Any], word: str) -> None:
    sandbox = FakeSandbox()
    async with inside(sandbox) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert word in text(result)
    assert sandbox.opened == 0


_NOISE = "import numpy as np\nnoise = np.random.RandomState(0).randint(0, 255, ({height}, {width}, {bands}), 'u1')\n"


def size_of(result: Any) -> tuple[int, int]:
    """Characters of text, and of pictures as they are sent."""
    blocks = result.content
    return sum(len(block.text) for block in blocks if block.type == "text"), sum(
        len(block.data) for block in blocks if block.type == "image"
    )


async def test_one_result_stays_small_and_says_what_was_cut() -> None:
    async with inside(result_picture_bytes=200_000) as client:

        async def run(code: str) -> Any:
            return await client.call_tool("run_python", {"code": code})

        long = await run("for i in range(50_000): print('line', i)")
        assert 20_000 < size_of(long)[0] < 21_000
        assert "line 0\n" in text(long)
        assert "line 49999" in text(long)
        [part] = re.findall(r"\[[\d,]+ of [\d,]+ characters were cut out here.* (print\(.*\]\)) goes on", text(long))
        rest = await client.call_tool("run_python", {"session": session_of(long), "code": part})
        head = text(long).partition("\n[")[0].splitlines()[1:]
        assert "".join(f"line {i}" for i in range(50_000)).startswith("".join(head + text(rest).splitlines()))
        raised = await run("raise ValueError('x' * 500_000)")
        assert raised.is_error
        assert size_of(raised)[0] < 21_000
        short = await run("print('a' * 19_000)")
        assert "cut out" not in text(short)

        for width, height, bands, count in ((500, 375, 3, 8), (500, 375, 4, 2), (1200, 800, 3, 1), (40, 1500, 3, 5)):
            code = _NOISE.format(height=height, width=width, bands=bands)
            code += f"for k in range({count}):\n    Image.fromarray(np.roll(noise, k, 0)).show()"
            noisy = await run(code)
            assert size_of(noisy)[1] <= 200_000
            shown = pictures(noisy)
            assert len(shown) == count
            assert "the pictures of one result have 200,000 bytes at most" in text(noisy)
            assert all(abs(one.width / one.height - width / height) < 0.1 * width / height for one in shown)

        plain = await run("for k in range(3): Image.new('RGB', (320, 240), (k, 0, 0)).show()")
        assert [one.size for one in pictures(plain)] == [(320, 240)] * 3
        assert "at most" not in text(plain)

        # What small pictures leave is for the large one.
        code = _NOISE.format(height=200, width=160, bands=3)
        mixed = await run(code + "Image.fromarray(noise).show()\nfor k in range(9): Image.new('RGB', (9, 9)).show()")
        assert pictures(mixed)[0].size == (160, 200)


async def test_of_many_pictures_the_last_are_named() -> None:
    async with inside(result_picture_bytes=60_000, result_characters=1000) as client:
        code = "for k in range(5): Image.new('RGB', (9, 9), (k, 0, 0)).show()"
        many = await client.call_tool("run_python", {"code": code})
        assert len(pictures(many)) == 3
        assert "2 more pictures, image_3 to image_4, are not shown here; `view` shows each." in text(many)
        later = await client.call_tool("view", {"session": session_of(many), "image": "image_4"})
        assert len(pictures(later)) == 1


async def test_limits_of_sessions_pictures_and_size() -> None:
    sandbox = FakeSandbox()
    few = {"max_sessions": 2, "max_pictures": 2, "shown_pixels": 28 * 28, "max_upload_bytes": 2000, "idle_seconds": 1}
    async with inside(sandbox, **few) as client:
        first = await client.call_tool("upload", {"data": png(100, 50)})
        session = session_of(first)
        assert pictures(first)[0].width < 60
        assert "100x50 pixels, shown here scaled down to" in text(first)
        await client.call_tool("upload", {"data": png(), "session": session})
        full = await client.call_tool("upload", {"data": png(), "session": session})
        assert "2 pictures" in text(full)
        large = await client.call_tool("upload", {"data": "A" * 4000})
        assert "more than 2,000 bytes" in text(large)
        failed = await client.call_tool("upload", {"data": "AAAA"})  # the session that it opened is closed again
        assert failed.is_error
        await client.call_tool("run_python", {"code": "1"})
        third = await client.call_tool("run_python", {"code": "1"})
        assert "2 sessions are open" in text(third)
        assert len(sandbox.live) == 1
        for _ in range(100):
            await asyncio.sleep(0.1)
            if not sandbox.live:
                break
        assert not sandbox.live
        assert "no such session" in text(await client.call_tool("reset", {"session": session}))
    assert sandbox.closed


async def test_branches_at_once_stay_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    branch = FakeSession.branch

    async def slow(session: FakeSession, n: int) -> Any:
        await asyncio.sleep(0.05)
        return await branch(session, n)

    monkeypatch.setattr(FakeSession, "branch", slow)
    sandbox = FakeSandbox()
    async with inside(sandbox, max_sessions=4) as client:
        asked = {"session": session_of(await client.call_tool("run_python", {"code": "1"})), "count": 2}
        tried = await asyncio.gather(*(client.call_tool("branch", asked) for _ in range(3)))
        assert [one.is_error for one in tried].count(True) == 2
        assert len(sandbox.live) == 3
        await client.call_tool("run_python", {"code": "1"})
        assert len(sandbox.live) == 4


async def refuses_strangers(url: str) -> None:
    """Without the token, and to a page of another host."""
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic 0123456789abcdef"}):
        async with httpx2.AsyncClient(headers=headers) as connection:
            assert (await connection.post(url, json={})).status_code == 401
    with pytest.raises((MCPError, ExceptionGroup, httpx2.HTTPError)):
        async with http(url, token="wrong" * 8):
            pass
    right = {"authorization": "Bearer 0123456789abcdef0123456789abcdef", "host": "evil.example"}
    async with httpx2.AsyncClient(headers=right) as connection:
        elsewhere = await connection.post(url, json={})
        assert (elsewhere.status_code, elsewhere.json()["error"]["code"]) == (421, -32600)


@pytest.mark.parametrize(
    "options", [["--token-file", "t"], ["--no-token"], ["--folder", "/nowhere"], ["--tools", "no"]]
)
def test_options_that_cannot_work_are_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", *options]) == 2
    assert "saccade: " in capsys.readouterr().err


def test_the_lines_for_agents_start_one_server() -> None:
    root = Path(__file__).parents[3]
    [block] = re.findall(r"```\n(claude mcp add .*?)```", (root / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block in (root / "docs" / "mcp.md").read_text(encoding="utf-8")
    claude, codex, gemini, settings = block.splitlines()
    server = json.loads(settings)["mcpServers"]["saccade"]
    command = " ".join([server["command"], *server["args"]])
    assert command == "saccade mcp --folder ."  # which the example of docs/mcp.md starts
    assert claude == f"claude mcp add saccade -- {command}"
    assert codex == f"codex mcp add saccade -- {command}"
    # Gemini CLI takes what follows `--` as further arguments of the command before it.
    assert gemini.replace(" -- ", " ") == f"gemini mcp add saccade {command}"
    assert " -- --folder" in gemini
