"""Tools of a real MCP server, offered to a model: pictures in and out, mistakes, limits, a server that dies."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from tests.episode.support import stored_task

from saccade.dialects.registry import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.episode.workbench import equipped
from saccade.errors import RegistryError, ToolLostError, UnavailableError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Answer, ToolCall
from saccade.record.execution import Status
from saccade.tools.context import Numbering, ProblemKind, ToolContext
from saccade.tools.mcp import McpConnection, close_connections
from saccade.tools.setup import ToolCallSettings
from saccade.tools.toolbox import Toolbox, check_recorded_tools

SERVER = f"mcp:{shlex.join([sys.executable, str(Path(__file__).parent / 'mcp_server.py')])}"


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    yield
    close_connections()


@pytest.fixture(scope="module")
def box() -> Toolbox:
    return Toolbox.of(SERVER, calls=ToolCallSettings(seconds=20))


@pytest.fixture
def scene(picture: Image.Image) -> ToolContext:
    return ToolContext({"image_0": picture}, numbering=Numbering("image_", 1))


def test_pictures_go_in_by_name_and_come_out(box: Toolbox, scene: ToolContext, picture: Image.Image) -> None:
    assert [tool.name for tool in box.definitions] == ["mirror", "size_of", "add", "sleep", "fail", "die"]
    assert box.definitions[0].description.startswith("Mirror a picture left to right. Where it takes a picture")
    assert "Where" not in box.definitions[2].description
    result = box.call("mirror", {"image_base64": "image_0", "task": "turn it"}, scene)
    assert result.ok, result
    assert result.text == "mirrored\nNew image image_1: 100 × 60 pixels."
    mirrored = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    assert result.pictures[0].image.convert("RGB").tobytes() == mirrored.tobytes()
    assert box.call("size_of", {"path": "image_0"}, scene).text == "100x60"
    assert box.call("add", {"a": 2, "b": 3}, scene).text == "5"


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("add", {"a": 1}, ProblemKind.SCHEMA),
        ("add", {"a": 1, "b": "x"}, ProblemKind.ARGUMENT_FORMAT),
        ("add", [1, 2], ProblemKind.SCHEMA),
        ("fail", {}, ProblemKind.TOOL_FAILURE),
        ("mirror", {"image_base64": "no picture"}, ProblemKind.TOOL_FAILURE),
        ("ad", {}, ProblemKind.SCHEMA),
    ],
)
def test_mistakes_are_typed(box: Toolbox, scene: ToolContext, tool: str, arguments: object, kind: ProblemKind) -> None:
    result = box.call(tool, arguments, scene)
    assert result.status is Status.ERROR
    assert result.problem is not None
    assert result.problem.kind is kind
    assert result.text


def test_a_limit_and_a_server_that_dies_and_comes_again(scene: ToolContext) -> None:
    # A server of its own: one that sleeps answers nobody else.
    box = Toolbox.of(f"{SERVER} own", calls=ToolCallSettings(seconds=5))
    hurried = Toolbox.of(f"{SERVER} own", calls=ToolCallSettings(seconds=0.3))
    lost = box.call("die", {}, scene)
    assert (lost.status, lost.text) == (Status.LOST, "")
    assert box.call("add", {"a": 1, "b": 1}, scene).text == "2"
    assert hurried.call("sleep", {"seconds": 2}, scene).status is Status.TIMEOUT
    with pytest.raises(UnavailableError, match="after mcp:"):
        Toolbox.of("mcp:/nowhere/at/all")


async def test_an_episode_with_an_mcp_tool(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    dialect, tools = await asyncio.to_thread(equipped, load_dialect("vista"), [SERVER, "crop"])
    name = Plan(task := stored_task(store), dialect).opening.label
    call = dialect.write(ToolCall(name="mirror", arguments={"image_base64": f"{name}0"}), "I mirror it.")
    done = dialect.write(Answer(text="done"), "Seen.")
    played = await run_episode(Plan(task, dialect), ScriptedModel([call, done]), None, store, tools=tools)
    assert played.answer == "done"
    assert played.turns[0].execution is not None
    assert len(played.turns[0].execution.pictures) == 1


def test_a_file_whose_tool_is_not_whole_says_what_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "half.py"
    file.write_text("from saccade.tools.base import Tool\nclass Half(Tool):\n    name = 'half'\n")
    with pytest.raises(RegistryError, match=r"half\.py has no tool that is whole: Half lacks run\."):
        Toolbox.of(str(file))


def test_a_file_of_tools_gives_all_of_them(tmp_path: Path, scene: ToolContext) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from saccade.tools.crop import Crop\n"
        "class Mine(Crop):\n    name, aliases = 'mine', ()\n"
        "class Other(Crop):\n    name, aliases = 'other', ()\n"
    )
    box = Toolbox.of(str(file))
    assert [tool.name for tool in box.definitions] == ["mine", "other"]
    assert box.call("other", {"box": [0, 0, 20, 20]}, scene).ok
    (tmp_path / "none.py").write_text("from saccade.tools.crop import Crop\n")
    with pytest.raises(RegistryError, match="has no tool"):
        Toolbox.of(str(tmp_path / "none.py"))


@pytest.mark.parametrize("name", ["mcp:sh -c id", "mcp:https://a.example", "http://a.example", "a.py", "a.py:Tool"])
def test_records_and_clients_name_no_program_and_no_server(name: str) -> None:
    check_recorded_tools(["crop"])
    with pytest.raises(RegistryError):
        check_recorded_tools([name])


async def test_a_server_that_cannot_be_started_is_lost_and_says_why() -> None:
    with pytest.raises(ToolLostError, match=r"--x cannot be used: FileNotFoundError: .*no-such-program"):
        await McpConnection("/no-such-program --x").client()


async def test_a_server_that_never_answers_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.tools.mcp._OPEN_SECONDS", 0.2)
    program = tmp_path / "silent.py"
    program.write_text("import sys; sys.stdin.read()")
    connection = McpConnection(f"{sys.executable} {program}")
    with pytest.raises(ToolLostError, match=r"silent\.py did not answer in 0\.2 s"):
        await connection.client()
