"""The MCP tools of the environment: each call is one turn of the loop, written in the dialect of the server.

`run_python` and `answer` are there wherever the dialect can say them, and each typed tool that the server offers. What
comes back is what the loop shows an agent: its text and its pictures, and the whole observation as structured content.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from fastmcp.exceptions import ToolError as McpToolError
from fastmcp.tools.base import Tool as McpTool
from fastmcp.tools.base import ToolResult as McpToolResult
from mcp.types import ContentBlock, ImageContent, TextContent
from pydantic import Field

from saccade.dialects.base import Dialect
from saccade.dialects.registry import load_dialect
from saccade.record.action import Action, Answer, Code, ToolCall
from saccade.serve.openenv.settings import OpenEnvSettings
from saccade.serve.openenv.wire import LookObservation
from saccade.tools.arguments import ToolModel, check_arguments
from saccade.tools.problem import CallProblem, ProblemKind


class CodeArguments(ToolModel):
    """Arguments of `run_python`."""

    code: str = Field(min_length=1, description="The code of one cell.")


class AnswerArguments(ToolModel):
    """Arguments of `answer`."""

    text: str = Field(min_length=1, description="The answer alone.")


_CODE = (
    "Runs Python in an isolated notebook that keeps its variables until the episode ends. Gives back what is printed "
    "and every picture that is shown."
)
_ANSWER = "Answers the question, which ends the episode."


class TurnTool(McpTool):  # type: ignore[misc]
    """A tool whose call is one turn."""

    written: Callable[[dict[str, Any]], str] = Field(exclude=True)
    """Arguments -> the text of the turn; raises `CallProblem` for wrong ones."""
    play: Callable[[str], LookObservation] = Field(exclude=True)

    async def run(self, arguments: dict[str, Any]) -> McpToolResult:
        """Play the turn. Wrong arguments are an error of MCP, and no turn."""
        try:
            text = self.written(arguments)
        except CallProblem as error:
            raise McpToolError(f"invalid arguments: {error.problem.message}") from None
        seen = await asyncio.to_thread(self.play, text)
        structured = seen.model_dump(mode="json", exclude={"metadata"})
        return McpToolResult(content=_content(seen), structured_content=structured)


def turn_tools(settings: OpenEnvSettings, play: Callable[[str], LookObservation]) -> Iterator[TurnTool]:
    """The tools that the dialect of `settings` has words for; `play` plays a turn."""
    dialect, toolbox = settings.prepared(load_dialect(settings.dialect))
    for name, kind, words, sample in (
        ("run_python", CodeArguments, _CODE, Code(code="1")),
        ("answer", AnswerArguments, _ANSWER, Answer(text="1")),
    ):
        if _can_say(dialect, sample):
            parameters = kind.model_json_schema()
            yield TurnTool(
                name=name, description=words, parameters=parameters, written=_checked(dialect, kind), play=play
            )
    for tool in () if toolbox is None else toolbox.definitions:
        yield TurnTool(
            name=tool.name,
            description=tool.description,
            parameters=dict(tool.parameters),
            written=_call(dialect, tool.name),
            play=play,
        )


def _checked(dialect: Dialect, kind: type[CodeArguments | AnswerArguments]) -> Callable[[dict[str, Any]], str]:
    def written(arguments: dict[str, Any]) -> str:
        given = check_arguments(kind, arguments)
        action = Code(code=given.code) if isinstance(given, CodeArguments) else Answer(text=given.text)
        return _said(dialect, action)

    return written


def _call(dialect: Dialect, name: str) -> Callable[[dict[str, Any]], str]:
    # Wrong arguments of a typed tool are the agent's mistake, which the loop shows it.
    return lambda arguments: _said(dialect, ToolCall(name=name, arguments=arguments))


def _said(dialect: Dialect, action: Action) -> str:
    try:
        return dialect.write(action)
    except ValueError as error:
        raise CallProblem(ProblemKind.SCHEMA, f"dialect {dialect.id} cannot say this: {error}") from error


def _can_say(dialect: Dialect, action: Action) -> bool:
    try:
        dialect.write(action)
    except ValueError:
        return False
    return True


def _content(seen: LookObservation) -> list[ContentBlock]:
    content: list[ContentBlock] = []
    for message in seen.messages:
        for part in message.content:
            if part.type == "text" and part.text:
                content.append(TextContent(type="text", text=part.text))
            elif part.picture is not None:
                shown = seen.pictures[part.picture]
                content.append(ImageContent(type="image", data=shown.data, mimeType=shown.mime))
    if seen.done:
        content.append(TextContent(type="text", text=f"The episode is over: {seen.stop}."))
    return content
