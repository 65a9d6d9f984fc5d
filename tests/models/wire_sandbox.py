"""The providers' own sandboxes in the forms of their references: files, containers, calls; behaviours for the server.

The server keeps files and containers as the services do, refuses names that it does not know, and can refuse to give a
file.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from PIL import Image
from starlette.datastructures import UploadFile
from tests.models.listening import listening
from tests.models.wire_server import Behaviour, WireServer


def png(colour: str = "red", size: tuple[int, int] = (4, 3)) -> bytes:
    buffer = BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


@dataclass
class SandboxServer(WireServer):
    """A server with files (Anthropic's) and containers with files (OpenAI's)."""

    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Id -> name and bytes."""
    containers: dict[str, dict[str, tuple[str, bytes, str]]] = field(default_factory=dict)
    """Container -> id of a file -> path, bytes and source."""
    leaves: dict[str, bytes] = field(default_factory=dict)
    """Path -> bytes of what code leaves in every container."""
    seen: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of every request for files and containers."""
    withheld: set[str] = field(default_factory=set)
    """Ids of files whose bytes are not given."""
    undeletable: bool = False

    def uploaded(self, name: str, data: bytes) -> dict[str, Any]:
        self.files[f"file_{len(self.seen)}"] = (name, data)
        return self.about(f"file_{len(self.seen)}")

    def about(self, file_id: str) -> dict[str, Any]:
        name, data = self.files[file_id]
        plain = {"id": file_id, "type": "file", "filename": name, "size_bytes": len(data)}
        return {**plain, "mime_type": "image/png", "created_at": "2026-01-01T00:00:00Z", "downloadable": True}

    def container_file(self, container: str, file_id: str) -> dict[str, Any]:
        path, data, source = self.containers[container][file_id]
        where = {"id": file_id, "container_id": container, "object": "container.file", "created_at": 1}
        return {**where, "path": path, "bytes": len(data), "source": source}


def _missing(what: str) -> Response:
    return JSONResponse({"type": "error", "error": {"type": "not_found_error", "message": f"no {what}"}}, 404)


async def _sent_file(request: Request) -> tuple[str, bytes]:
    async with request.form() as form:
        sent = form["file"]
        assert isinstance(sent, UploadFile)
        return str(sent.filename), await sent.read()


@contextmanager
def sandbox_running() -> Iterator[SandboxServer]:
    app, server = FastAPI(), SandboxServer()
    for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/models/{call}", "/v1beta/models/{call}"):
        app.post(path)(server.answer)
    _files(app, server)
    _containers(app, server)
    with listening(app) as server.url:
        yield server


def _files(app: FastAPI, server: SandboxServer) -> None:
    @app.post("/v1/files")
    async def upload(request: Request) -> Response:
        server.seen.append(("POST", request.url.path))
        return JSONResponse(server.uploaded(*await _sent_file(request)))

    @app.get("/v1/files/{name}")
    async def about(name: str) -> Response:
        return JSONResponse(server.about(name)) if name in server.files else _missing(name)

    @app.get("/v1/files/{name}/content")
    async def content(name: str) -> Response:
        return _missing(name) if name in server.withheld else Response(server.files[name][1])

    @app.delete("/v1/files/{name}")
    async def delete(name: str) -> Response:
        if server.undeletable:
            return _missing(name)
        server.seen.append(("DELETE", name))
        del server.files[name]
        return JSONResponse({"id": name, "type": "file_deleted"})


def _containers(app: FastAPI, server: SandboxServer) -> None:
    @app.post("/v1/containers")
    async def create(request: Request) -> Response:
        body = json.loads(await request.body())
        assert body["expires_after"]["anchor"] == "last_active_at"
        name = f"cntr_{len(server.seen)}"
        server.seen.append(("POST", name))
        left = {
            f"cfile_{number}": (path, data, "assistant") for number, (path, data) in enumerate(server.leaves.items())
        }
        server.containers[name] = dict(left)
        return JSONResponse({"id": name, "object": "container", "created_at": 1, "name": "x", "status": "running"})

    @app.post("/v1/containers/{name}/files")
    async def add(name: str, request: Request) -> Response:
        filename, data = await _sent_file(request)
        file_id = f"cfile_in_{len(server.containers[name])}"
        server.containers[name][file_id] = (f"/mnt/data/{filename}", data, "user")
        return JSONResponse(server.container_file(name, file_id))

    @app.get("/v1/containers/{name}/files")
    async def listed(name: str) -> Response:
        data = [server.container_file(name, file_id) for file_id in server.containers[name]]
        return JSONResponse({"object": "list", "data": data, "has_more": False, "first_id": None, "last_id": None})

    @app.get("/v1/containers/{name}/files/{file_id}/content")
    async def content(name: str, file_id: str) -> Response:
        return _missing(file_id) if file_id in server.withheld else Response(server.containers[name][file_id][1])

    @app.delete("/v1/containers/{name}")
    async def delete(name: str) -> Response:
        if server.undeletable:
            return _missing(name)
        server.seen.append(("DELETE", name))
        del server.containers[name]
        return Response(status_code=204)


# OpenAI's code interpreter.


def interpreted(code: str | None, *outputs: dict[str, Any], status: str = "completed", at: int = 1) -> dict[str, Any]:
    call = {"type": "code_interpreter_call", "id": f"ci_{at}", "container_id": "cntr_0", "status": status}
    return {**call, "code": code, "outputs": list(outputs) or None}


def logs(text: str) -> dict[str, Any]:
    return {"type": "logs", "logs": text}


def image(data: bytes) -> dict[str, Any]:
    return {"type": "image", "url": f"data:image/png;base64,{base64.b64encode(data).decode()}"}


# Gemini's code execution.


def ran(code: str, output: str, outcome: str = "OUTCOME_OK", **ids: str) -> list[dict[str, Any]]:
    asked = {"executableCode": {"language": "PYTHON", "code": code, **ids}}
    return [asked, {"codeExecutionResult": {"outcome": outcome, "output": output, **ids}}]


def drawn(data: bytes) -> dict[str, Any]:
    return {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(data).decode()}}


# Anthropic's code execution: blocks of a message, streamed.


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(name: str, given: dict[str, Any], at: int = 1) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": f"srvtoolu_{at}", "name": name, "input": given}


def result(name: str, content: dict[str, Any], at: int = 1) -> dict[str, Any]:
    return {"type": f"{name}_tool_result", "tool_use_id": f"srvtoolu_{at}", "content": content}


def bash_result(out: str, err: str = "", code: int = 0, files: tuple[str, ...] = (), at: int = 1) -> dict[str, Any]:
    left = [{"type": "bash_code_execution_output", "file_id": name} for name in files]
    content = {"type": "bash_code_execution_result", "stdout": out, "stderr": err, "return_code": code, "content": left}
    return result("bash_code_execution", content, at)


def blocks(*content: dict[str, Any], reason: str = "end_turn", container: str = "container_1") -> Behaviour:
    """A message of these blocks, texts and inputs in pieces."""
    usage = {"input_tokens": 500, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 1}
    held = {"id": container, "expires_at": "2026-01-01T00:00:00Z"}
    start = {"id": "m", "type": "message", "role": "assistant", "model": "served-2", "content": [], "usage": usage}
    sent: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "stop_reason": None, "stop_sequence": None}}
    ]
    for index, block in enumerate(content):
        deltas: list[dict[str, Any]] = []
        opened = dict(block)
        if block["type"] == "text":
            opened["text"] = ""
            deltas = [{"type": "text_delta", "text": letter} for letter in block["text"]]
        elif block["type"] == "thinking":
            opened |= {"thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "server_tool_use":
            opened["input"] = {}
            arguments = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in (arguments[:5], arguments[5:])]
        sent.append({"type": "content_block_start", "index": index, "content_block": opened})
        sent += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        sent.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": reason, "stop_sequence": None, "container": held}
    sent += [{"type": "message_delta", "delta": ended, "usage": {"output_tokens": 10}}, {"type": "message_stop"}]

    async def lines() -> Any:
        for item in sent:
            yield f"event: {item['type']}\ndata: {json.dumps(item)}\n\n"

    async def behave(_: dict[str, Any]) -> Response:
        return StreamingResponse(lines(), media_type="text/event-stream")

    return behave
