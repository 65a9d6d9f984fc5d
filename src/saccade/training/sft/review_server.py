"""The page on which a person reviews a folder, over HTTP on this machine only.

Every address but those of the page's own script and style needs the token that the command prints; a request that names
another host is refused. Pages and pictures of the folder are served, no other file. Nothing is asked of other hosts.
"""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from saccade.core.local_page import local_app
from saccade.errors import SaccadeError
from saccade.record.task import Task
from saccade.training.sft.curate.filters.mixture import corrected_task
from saccade.training.sft.review import DecisionLog, ReviewDecision, ReviewItems, now

_LONGEST = 100_000
"""Bytes of a body."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass
class Reviewer:
    """The items of a folder and the decisions on them, for the page."""

    items: ReviewItems
    log: DecisionLog
    token: str
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def knows(self, token: str) -> bool:
        """Tell whether it is the token."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def items_data(self) -> dict[str, Any]:
        """Return the folder and its items, with the verdict on each."""
        named = [(name, self.log.of(name)) for name in self.items.names]
        items = [{"id": name, "verdict": "open" if decision is None else decision.verdict} for name, decision in named]
        return {"folder": str(self.items.folder), "tasks": self.items.of_tasks, "items": items}

    def item_data(self, number: int) -> dict[str, Any]:
        """Return an item as the page shows it, with its decision."""
        with self._lock:
            shown = self.items.shown(number)
        return {**shown, "decision": self._decision(number)}

    def decide(self, number: int, body: bytes) -> dict[str, Any]:
        """Store a decision; it is on the disk when this returns.

        Raises:
            ValueError, TypeError, RecursionError, ValidationError, SaccadeError: it is none.
            OSError: it could not be stored.
        """
        data = json.loads(body)
        if not isinstance(data, dict):
            raise ValueError("it is no JSON object")
        with self._lock:
            self.log.add(self._read(number, data))
        return {"decision": self._decision(number), "decided": len(self.log)}

    def _read(self, number: int, data: dict[str, Any]) -> ReviewDecision:
        """Return the decision; an answer or a question that is as it was corrects nothing."""
        item = self.items.read(number)
        task = item if isinstance(item, Task) else item.task
        given = {name: data.get(name) for name in ("answer", "question")}
        changed = {name: value for name, value in given.items() if value not in (None, getattr(task, name))}
        if "question" in changed and not self.items.of_tasks:
            raise ValueError("the question of an episode that was played cannot be corrected, only its gold answer")
        decision = ReviewDecision.model_validate(
            {"id": item.id, "verdict": data.get("verdict"), "note": data.get("note", ""), "decided": now(), **changed}
        )
        corrected_task(task, decision.answer, decision.question)
        return decision

    def _decision(self, number: int) -> dict[str, Any] | None:
        decision = self.log.of(self.items.names[number])
        return None if decision is None else decision.model_dump(mode="json")


def review_app(reviewer: Reviewer) -> Starlette:
    """Make the application of the page."""

    def known(request: Request, *, in_address: bool = True) -> None:
        token = request.headers.get("x-token") or (request.query_params.get("token", "") if in_address else "")
        if not reviewer.knows(token):
            raise HTTPException(403, "The token is missing or wrong: open the address that was printed.")

    def numbered(request: Request) -> int:
        number: int = request.path_params["number"]
        if number >= len(reviewer.items.names):
            raise HTTPException(404, "There is no such item.")
        return number

    def asset(request: Request) -> Response:
        name = request.url.path[1:]
        return Response(asset_file(name), media_type="text/css" if name.endswith(".css") else "text/javascript")

    def page(request: Request) -> Response:
        known(request)
        return HTMLResponse(asset_file("review.html"))

    def items(request: Request) -> Response:
        known(request)
        return JSONResponse(reviewer.items_data())

    def item(request: Request) -> Response:
        known(request)
        return JSONResponse(reviewer.item_data(numbered(request)))

    def media(request: Request) -> Response:
        known(request)
        return stored([reviewer.items], request.path_params["sha256"])

    async def decide(request: Request) -> Response:
        known(request, in_address=False)  # no form of a stranger's page can send a header
        number = numbered(request)
        body = await read_body(request, "A decision")
        try:
            return JSONResponse(await run_in_threadpool(reviewer.decide, number, body))
        except OSError as error:
            raise HTTPException(500, f"The decision could not be stored: {error}") from error
        except (ValueError, TypeError, RecursionError, ValidationError, SaccadeError) as error:
            raise HTTPException(400, f"That is no decision: {error}") from error

    return local_app(
        [
            Route("/review.js", asset),
            Route("/review.css", asset),
            Route("/", page),
            Route("/items", items),
            Route("/item/{number:int}", item, methods=["GET"]),
            Route("/item/{number:int}", decide, methods=["POST"]),
            Route("/media/{sha256:str}", media),
        ],
        {"Referrer-Policy": "no-referrer", "Content-Security-Policy": _POLICY},
    )


async def read_body(request: Request, what: str) -> bytes:
    """Return the body of a request; one that is too long is refused."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST:
            raise HTTPException(413, f"{what} has at most {_LONGEST} bytes.")
    return body


def stored(runs: Sequence[ReviewItems], sha256: str) -> Response:
    """Return a picture or video of the first of `runs` that has shown it."""
    found = next((one for run in runs if (one := run.media(sha256))), None)
    if found is None:
        raise HTTPException(404)
    return Response(found[1], media_type=found[0])


def asset_file(name: str) -> bytes:
    """Return a file of the page."""
    return (files("saccade.training.sft") / "review_page" / name).read_bytes()
