"""`saccade tools serve --on verl-tool`: typed tools for trainers on verl-tool, and for VISTA-Gym's client of MultiMath.

    POST /get_observation   trajectory_ids, actions, extra_fields?, finish? -> observations, dones, valids
    POST /solve             question, task, image_base64? -> success, answer, steps, or error
    GET  /health            what verl-tool's router looks for

Wires: TIGER-AI-Lab/verl-tool, verl_tool/servers/tool_server.py; Lucanyc/VISTA-Gym, multimath_server.py. Saccade's own
wire is served next to them. Neither client sends a token, so this is for addresses of this machine (`--no-token`).
Pictures come in `extra_fields`: `images` or `image`, as data URLs or as paths below `server.media_folders`.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self

from fastapi import FastAPI
from pydantic import BaseModel, Field, JsonValue, model_validator

from saccade.cli.web import serve_app
from saccade.core.png import quick_png
from saccade.dialects.vista import VistaDialect
from saccade.errors import MediaError
from saccade.media.store import data_url, from_base64
from saccade.models.base import ToolSpec
from saccade.record.content import Answer, ToolCall
from saccade.record.execution import Execution, Status
from saccade.record.trajectory import FinishReason
from saccade.tools.context import Problem, ProblemKind, ToolResult, failed
from saccade.tools.served_wire import ServedCall, ServedMedium
from saccade.tools.serving import PooledBackend, ToolServeSettings, ToolService, tools_app

_MOST_TRAJECTORIES: Final = 4096
"""Those that never say that they finish are forgotten, the oldest first."""
_SECONDS: Final = 3600.0
"""Their wire has no time limit of a call: that of the tool's group holds."""
_SOLVERS: Final = ("multimath", "gllava")


class ActionRequest(BaseModel):
    """What verl-tool's agent loop sends: one action for each trajectory."""

    trajectory_ids: list[str] = Field(min_length=1)
    actions: list[str] = Field(min_length=1)
    extra_fields: list[dict[str, Any]] | None = None
    finish: list[bool] | None = None
    is_last_step: list[bool] | None = None

    @model_validator(mode="after")
    def _alike(self) -> Self:
        lists = (self.actions, self.extra_fields, self.finish, self.is_last_step)
        if any(one is not None and len(one) != len(self.trajectory_ids) for one in lists):
            raise ValueError("every list must have an entry for each of trajectory_ids")
        return self


class SolveRequest(BaseModel):
    """What VISTA-Gym's client for MultiMath sends; formats of the output and types of problems change nothing here."""

    question: str = Field(min_length=1)
    task: str = "solve"
    output_format: str = "answer_only"
    problem_type: str = "general"
    image_base64: str | None = None


class VerlToolFace:
    """Answers both wires by the tools of a service."""

    def __init__(self, service: ToolService) -> None:
        self._service = service
        tools = service.backend.offered.tools
        self._own = {name: tool.name for tool in tools for name in (tool.name, *tool.aliases)}
        self._dialect = VistaDialect(tools=tuple(ToolSpec(tool.name, "", {}) for tool in tools))
        self._folders = [Path(folder).resolve() for folder in service.limits.media_folders]
        self._trajectories: OrderedDict[str, list[ServedMedium]] = OrderedDict()
        """The pictures of each."""
        self._running, self._started = 0, time.monotonic()

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route("/get_observation", self.get_observation, methods=["POST"])
        app.add_api_route("/solve", self.solve, methods=["POST"])
        app.add_api_route("/health", self.health, methods=["GET"])

    async def health(self) -> dict[str, JsonValue]:
        """Return what verl-tool's own server says of itself; its router wants the word `healthy`."""
        return {
            "status": "healthy",
            "tools": [*sorted(set(self._own.values()))],
            "concurrent_requests": self._running,
            "active_tasks": self._running,
            "max_concurrent": self._service.limits.max_waiting,
            "thread_pool_size": 0,
            "uptime_seconds": time.monotonic() - self._started,
        }

    async def get_observation(self, request: ActionRequest) -> dict[str, JsonValue]:
        """Do the actions of a batch, all at once."""
        begun = time.monotonic()
        self._running += 1
        try:
            ends = request.finish or [False] * len(request.actions)
            extras = request.extra_fields or [{}] * len(request.actions)
            each = zip(request.trajectory_ids, request.actions, extras, ends, strict=True)
            done = await asyncio.gather(*(self._act(*one) for one in each))
        finally:
            self._running -= 1
        observations, dones, valids = ([item[at] for item in done] for at in range(3))
        spent = (time.monotonic() - begun) * 1000
        return {
            "observations": observations, "dones": dones, "valids": valids,
            "processing_time_ms": spent, "queue_time_ms": 0.0,
        }  # fmt: skip

    async def solve(self, request: SolveRequest) -> dict[str, JsonValue]:
        """Have a problem solved by MultiMath, or by G-LLaVA where only that is served."""
        name = next((name for name in _SOLVERS if name in self._own), "")
        if not name:
            return {"success": False, "error": f"none of {', '.join(_SOLVERS)} is served here"}
        pictures: list[ServedMedium] = []
        try:
            if request.image_base64 is not None:
                await self._keep(pictures, _decoded(request.image_base64))
        except MediaError as error:
            return {"success": False, "error": str(error)}
        arguments: dict[str, JsonValue] = {"question": request.question, "task": request.task}
        result = await self._call(name, arguments, pictures, request.question, "")
        if not result.ok or result.value is None:
            return {"success": False, "error": _reason(result)}
        return {"success": True, "answer": result.value["answer"], "steps": [*result.text.splitlines()]}

    async def _act(self, name: str, action: str, extra: dict[str, Any], end: bool) -> tuple[JsonValue, bool, bool]:
        """Return observation, whether the trajectory ends, and whether the action was one."""
        if end or extra.get("finish"):
            self._trajectories.pop(name, None)
            return "", True, True
        read = self._dialect.parse(action, FinishReason.STOP)
        if isinstance(read, Answer):
            return _invalid("This is an answer, which no tool is called for.", self._own), False, False
        if not isinstance(read, ToolCall):
            return _invalid(getattr(read, "reason", "There is no tool call."), self._own), False, False
        if read.name not in self._own:
            return _invalid(f"There is no tool named {read.name[:60]!r}.", self._own), False, False
        pictures = self._trajectories.setdefault(name, [])
        self._trajectories.move_to_end(name)
        while len(self._trajectories) > _MOST_TRAJECTORIES:
            self._trajectories.popitem(last=False)
        try:
            if not pictures:
                for given in _pictures(extra):
                    await self._keep(pictures, await asyncio.to_thread(self._bytes, given))
        except MediaError as error:
            return {"obs": "", "error": str(error)}, True, False
        question = _question(extra)
        result = await self._call(read.name, dict(read.arguments), pictures, question, name)
        if result.status is Status.LOST:  # an outage is no observation to learn from: it ends the trajectory
            return {"obs": "", "error": _reason(result)}, True, False
        for picture in result.pictures:
            await self._keep(pictures, await asyncio.to_thread(quick_png, picture.image))
        return await asyncio.to_thread(self._observed, result), False, result.ok

    def _observed(self, result: ToolResult) -> JsonValue:
        told = {"value": result.text} if result.ok else {"traceback": f"ToolError: {result.text}"}
        text = self._dialect.observe(Execution(status=result.status, **told), 0).message.text
        if not result.pictures:
            return text
        urls = [data_url(quick_png(item.image)) for item in result.pictures]
        return {"obs": text + "<image>" * len(urls), "image": [*urls]}

    async def _call(
        self, name: str, arguments: dict[str, JsonValue], pictures: list[ServedMedium], question: str, episode: str
    ) -> ToolResult:
        media = tuple(pictures)
        if self._service.media.missing(media):
            why = "pictures of this trajectory were deleted to make room: raise server.media_bytes"
            return failed(name, Status.LOST, Problem(ProblemKind.TOOL_FAILURE, "", why))
        call = ServedCall(
            arguments=arguments, alias=name, media=media, label="image_", first=len(media),
            question=question, episode=episode, seconds=_SECONDS,
        )  # fmt: skip
        return await self._service.backend.call(self._own[name], call, self._service.media)

    async def _keep(self, pictures: list[ServedMedium], data: bytes) -> None:
        """Add a picture. Raises `MediaError` if it is none."""
        name = sha256(data).hexdigest()
        await self._service.media.put("image", name, data)
        pictures.append(ServedMedium(name=f"image_{len(pictures)}", kind="image", sha256=name))

    def _bytes(self, picture: str) -> bytes:
        """Return a picture that a client named. Raises `MediaError` for what it may not name, or is not there."""
        if picture.startswith("data:"):
            return _decoded(picture.partition(",")[2])
        path = Path(picture).resolve()
        if not any(path.is_relative_to(folder) for folder in self._folders):
            raise MediaError(
                f"the path {picture[:200]} is below none of server.media_folders. Name its folder there, or send a "
                "data URL."
            )
        try:
            return path.read_bytes()
        except OSError as error:
            raise MediaError(f"{picture[:200]} cannot be read: {error.strerror}") from error


def _decoded(text: str) -> bytes:
    try:
        return from_base64(text)
    except ValueError as error:
        raise MediaError(f"a picture is not in base64: {error}") from error


def _pictures(extra: dict[str, Any]) -> list[str]:
    given = extra.get("images") or extra.get("image") or []
    return [one for one in ([given] if isinstance(given, str) else given) if isinstance(one, str)]


def _question(extra: dict[str, Any]) -> str:
    """Return the question with its choices, as VISTA's trainer sends both."""
    choices = extra.get("choices") or []
    lines = [f"{chr(65 + at)}. {choice}" for at, choice in enumerate(choices)] if isinstance(choices, list) else []
    return "\n".join([str(extra.get("question") or ""), *lines])


def _invalid(reason: str, names: dict[str, str]) -> JsonValue:
    return {"obs": "", "invalid_reason": reason, "available_tools": ", ".join(sorted(set(names.values())))}


def _reason(result: ToolResult) -> str:
    return result.text or ("" if result.problem is None else result.problem.detail)


def verl_tool_app(service: ToolService, token: str | None) -> Any:
    """Return the application: both foreign wires, and Saccade's own."""
    return tools_app(service, token, more=VerlToolFace(service).add_to)


def serve_verl_tool(settings: ToolServeSettings, token: str | None, host: str, port: int, line: str) -> int:
    """Processes of this machine, behind the wires of verl-tool and of VISTA-Gym's own client too."""
    return serve_app(verl_tool_app(ToolService(PooledBackend(settings), settings.server), token), host, port, line)
