"""The providers' batch endpoints, in the forms of their references; batches end when they are told to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.datastructures import UploadFile
from tests.models.listening import listening

TIME = "2026-11-27T00:00:00Z"
Answer = Callable[[dict[str, Any]], Any]


@dataclass
class BatchServer:
    """Batches by name, each with its requests; `answer` gives the body of an answer, an error, or None for none."""

    url: str = ""
    answer: Answer = lambda request: None
    done: bool = True
    """Whether a batch has ended when it is asked after."""
    failed: str = ""
    """Why batches fail as a whole."""
    batches: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    asked: int = 0
    """How often a batch was asked after."""
    marks: dict[str, Any] = field(default_factory=dict)
    """Name -> what was sent with the batch for it to be known by."""
    held: bool = False
    """Whether it is not said yet that a batch was made."""
    listed: int | None = 200
    """Status of the list of batches; None: it is empty."""

    async def keep(self, requests: list[dict[str, Any]], prefix: str, mark: Any = None) -> str:
        name = f"{prefix}{len(self.batches) + 1}"
        self.batches[name], self.marks[name] = requests, mark
        while self.held:
            await asyncio.sleep(0.02)
        return name

    def listing(self, field: str, items: list[dict[str, Any]]) -> JSONResponse:
        """Return the newest first."""
        if self.listed not in (200, None):
            return JSONResponse({"error": {"message": "no list here", "code": self.listed}}, self.listed)
        return JSONResponse({field: items[::-1] if self.listed else [], "has_more": False})


def _openai(app: FastAPI, server: BatchServer) -> None:
    def batch(name: str) -> dict[str, Any]:
        server.asked += 1
        frame = {"id": name, "object": "batch", "endpoint": "e", "input_file_id": "f", "completion_window": "24h",
                 "created_at": 1}  # fmt: skip
        if server.failed:
            data = [{"code": "invalid", "message": server.failed}]
            return {**frame, "status": "failed", "errors": {"object": "list", "data": data}}
        if not server.done:
            return {**frame, "status": "in_progress"}
        lines: dict[str, list[str]] = {"output": [], "error": []}
        for request in server.batches[name]:
            body = server.answer(request["body"])
            if body is None:
                error = {"code": "batch_expired", "message": "This request could not be executed in time."}
                line = {"custom_id": request["custom_id"], "response": None, "error": error}
            else:
                status = 400 if "error" in body else 200
                response = {"status_code": status, "request_id": "r", "body": body}
                line = {"custom_id": request["custom_id"], "response": response, "error": None}
            bad = body is None or "error" in body
            lines["error" if bad else "output"].append(json.dumps(line, ensure_ascii=False))
        for kind, texts in lines.items():
            server.files[f"{kind}-{name}"] = "\n".join(texts).encode()
        named = {f"{kind}_file_id": f"{kind}-{name}" if texts else None for kind, texts in lines.items()}
        return {**frame, "status": "completed", **named}

    @app.post("/v1/files")
    async def upload(request: Request) -> Any:
        form = await request.form()
        file = form["file"]
        assert isinstance(file, UploadFile)
        assert form["purpose"] == "batch"
        name = f"file-{len(server.files)}"
        server.files[name] = await file.read()
        await form.close()
        return {"id": name, "object": "file", "bytes": 1, "created_at": 1, "filename": "f", "purpose": "batch"}

    @app.post("/v1/batches")
    async def create(request: Request) -> Any:
        body = await request.json()
        requests = [json.loads(line) for line in server.files[body["input_file_id"]].decode().splitlines()]
        assert all(line["method"] == "POST" and line["url"] == body["endpoint"] for line in requests)
        name = await server.keep(requests, "batch_", body["metadata"])
        return {"id": name, "object": "batch", "endpoint": "e", "input_file_id": "f", "completion_window": "24h",
                "created_at": 1, "status": "validating"}  # fmt: skip

    @app.get("/v1/batches/{name}")
    async def retrieve(name: str) -> Any:
        return batch(name)

    @app.get("/v1/files/{name}/content")
    async def content(name: str) -> Response:
        return Response(server.files[name])


def _anthropic(app: FastAPI, server: BatchServer) -> None:
    def batch(name: str, state: str) -> dict[str, Any]:
        known = len(server.batches[name])
        counts = {"processing": known, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
        results = f"{server.url}/v1/messages/batches/{name}/results" if state == "ended" else None
        made = datetime.now(UTC).isoformat()
        return {"id": name, "type": "message_batch", "processing_status": state, "created_at": made, "expires_at": TIME,
                "request_counts": counts, "results_url": results}  # fmt: skip

    @app.post("/v1/messages/batches")
    async def create(request: Request) -> Any:
        return batch(await server.keep((await request.json())["requests"], "msgbatch_"), "in_progress")

    @app.get("/v1/messages/batches")
    async def listing() -> JSONResponse:
        return server.listing("data", [batch(name, "in_progress") for name in server.batches])

    @app.get("/v1/messages/batches/{name}")
    async def retrieve(name: str) -> Any:
        server.asked += 1
        return batch(name, "ended" if server.done else "in_progress")

    @app.get("/v1/messages/batches/{name}/results")
    async def results(name: str) -> Response:
        lines = []
        for request in reversed(server.batches[name]):  # in any order
            body = server.answer(request["params"])
            if body is None:
                result: dict[str, Any] = {"type": "expired"}
            elif "error" in body:
                error = {"type": "invalid_request_error", **body["error"]}
                result = {"type": "errored", "error": {"type": "error", "error": error, "request_id": "r"}}
            else:
                result = {"type": "succeeded", "message": body}
            lines.append(json.dumps({"custom_id": request["custom_id"], "result": result}))
        return Response("\n".join(lines), media_type="application/x-jsonl")


def _gemini(app: FastAPI, server: BatchServer) -> None:
    def batch(name: str) -> dict[str, Any]:
        if server.failed:
            error = {"code": 3, "message": server.failed}
            return {"name": name, "metadata": {"state": "BATCH_STATE_FAILED"}, "done": True, "error": error}
        if not server.done:
            return {"name": name, "metadata": {"state": "BATCH_STATE_RUNNING"}}
        answers = []
        for request in server.batches[name]:
            body = server.answer(request["request"])
            given = {"error": {"code": 4, "message": "expired"}} if body is None else {"response": body}
            given = {"error": {"code": 3, **body["error"]}} if body is not None and "error" in body else given
            answers.append({**given, "metadata": request["metadata"]})
        output = {"inlinedResponses": {"inlinedResponses": answers}}
        return {"name": name, "done": True, "metadata": {"state": "BATCH_STATE_SUCCEEDED", "output": output}}

    @app.post("/v1/models/{call}")
    @app.post("/v1beta/models/{call}")
    async def create(call: str, request: Request) -> Any:
        assert call.endswith(":batchGenerateContent")
        sent = (await request.json())["batch"]
        requests = sent["inputConfig"]["requests"]["requests"]
        name = await server.keep(requests, "batches/g", sent["displayName"])
        return {"name": name, "metadata": {"state": "BATCH_STATE_PENDING"}}

    @app.get("/v1/batches")
    @app.get("/v1beta/batches")
    async def listing(limit: int = 0) -> JSONResponse:
        jobs = [{"name": name, "metadata": {"displayName": mark}} for name, mark in server.marks.items()]
        made = {"object": "batch", "endpoint": "e", "input_file_id": "f", "completion_window": "24h", "created_at": 1}
        listed = [{**made, "id": name, "status": "completed", "metadata": mark} for name, mark in server.marks.items()]
        return server.listing(*(("data", listed) if limit else ("operations", jobs)))  # OpenAI's has the same path

    @app.get("/v1/batches/g{number}")
    @app.get("/v1beta/batches/g{number}")
    async def retrieve(number: str) -> Any:
        server.asked += 1
        return batch(f"batches/g{number}")


@contextmanager
def batch_server() -> Iterator[BatchServer]:
    app, server = FastAPI(), BatchServer()

    @app.exception_handler(AssertionError)
    async def refused(request: Request, error: AssertionError) -> JSONResponse:
        return JSONResponse({"error": {"message": f"broken rule: {error}"}}, 400)

    for add in (_gemini, _openai, _anthropic):
        add(app, server)
    with listening(app) as server.url:
        yield server
