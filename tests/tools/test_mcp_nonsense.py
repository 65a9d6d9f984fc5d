"""A server of MCP that breaks its protocol: refused before an episode, or a typed result of the call, never a crash."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from saccade.errors import ToolError, UnavailableError
from saccade.record.execution import Status
from saccade.tools.context import ProblemKind, ToolContext
from saccade.tools.mcp import close_connections
from saccade.tools.setup import ToolCallSettings
from saccade.tools.toolbox import Toolbox

SERVER = Path(__file__).parent / "nonsense_server.py"
FINE = '{"result": {"content": [{"type": "text", "text": "fine"}]}}'
TEXT = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    close_connections()


def box_of(tools: dict[str, Any], answer: str = FINE) -> Toolbox:
    command = shlex.join([sys.executable, str(SERVER), json.dumps(tools), answer])
    return Toolbox.of(f"mcp:{command}", calls=ToolCallSettings(seconds=20))


def one(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"tools": [{"name": "odd", "inputSchema": schema, **more}]}


def taking(given: Any) -> dict[str, Any]:
    return one({"type": "object", "properties": {"a": given}})


@pytest.mark.parametrize(
    ("tools", "error", "says"),
    [
        (taking({"type": "strnig"}), ToolError, "odd of the MCP server .* is no JSON Schema: .*strnig.* Correct it"),
        (taking({"pattern": "(["}), ToolError, "no JSON Schema: .*regex"),
        (taking({"minLength": "x"}), ToolError, "no JSON Schema: .*integer"),
        ({"tools": [{"name": "", "inputSchema": TEXT}]}, ToolError, "a tool without a name"),
        ({"tools": []}, ToolError, "offers no tools"),
        ({"tools": [{"nom": "x"}]}, UnavailableError, "gives no list of tools: .*name"),
        (one({}), UnavailableError, "gives no list of tools: "),
    ],
)
def test_a_list_of_tools_that_is_none_is_refused(tools: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=f"(?s){says}"):
        box_of(tools)


def test_a_list_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.tools.mcp._LIST_SECONDS", 1.0)
    with pytest.raises(UnavailableError, match="no end of it came in 1 s"):
        box_of({"tools": [], "nextCursor": "again"})


@pytest.mark.parametrize(
    ("tools", "answer", "kind", "says"),
    [
        (one(TEXT), '{"result": {"foo": 1}}', ProblemKind.TOOL_FAILURE, "no result of this tool"),
        (one(TEXT), '{"result": {"content": [], "structuredContent": {"v": NaN}}}', ProblemKind.TOOL_FAILURE, "JSON"),
        (
            one(TEXT, outputSchema={"type": "object", "required": ["w"]}),
            '{"result": {"content": [], "structuredContent": {"v": 1}}}',
            ProblemKind.TOOL_FAILURE,
            "'w' is a required property",
        ),
        (one(TEXT), '{"error": {"code": -32603, "message": "my trouble"}}', ProblemKind.TOOL_FAILURE, "my trouble"),
        (one(TEXT), '{"error": {"code": -32602, "message": "bad a"}}', ProblemKind.ARGUMENT_FORMAT, "bad a"),
        (taking({"$ref": "#/$defs/none"}), FINE, ProblemKind.TOOL_FAILURE, "does not exist"),
        (taking({"$ref": "http://a.example/b.json"}), FINE, ProblemKind.TOOL_FAILURE, "Unresolvable"),
    ],
)
def test_an_answer_that_is_none_fails_the_call_alone(
    tools: dict[str, Any], answer: str, kind: ProblemKind, says: str
) -> None:
    result = box_of(tools, answer).call("odd", {"a": "b"}, ToolContext({}))
    assert (result.status, result.value) == (Status.ERROR, None)
    assert result.problem is not None
    assert result.problem.kind is kind
    assert says in result.problem.message + result.problem.detail


def test_a_schema_may_be_true() -> None:
    context = ToolContext({"image_0": Image.new("RGB", (4, 4))})
    box = box_of(taking(True))
    assert "the picture's name" in box.definitions[0].description
    assert box.call("odd", {"a": "image_0"}, context).text == "fine"
