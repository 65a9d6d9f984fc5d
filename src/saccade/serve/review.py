"""The page on which a person reviews a folder, over HTTP on this machine alone.

Every address but those of the page's own script and style needs the token that the command prints; a request that names
another host is refused. Pages and pictures of the folder are served, no other file. Nothing is asked of other hosts.
"""

from __future__ import annotations

import hmac
import json
import re
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qs

from pydantic import ValidationError

from saccade.errors import SaccadeError
from saccade.record.task import Task
from saccade.sft.curate.filters.reviewed import corrected_task
from saccade.sft.review.decisions import DecisionLog, ReviewDecision, now
from saccade.sft.review.items import ReviewItems

HOST: Final = "127.0.0.1"
_NAMES = frozenset({"127.0.0.1", "localhost"})
_LONGEST = 100_000
"""Bytes of a decision."""
_ASSETS = {"/review.js": "text/javascript", "/review.css": "text/css"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True)
class PageReply:
    """What an address answers."""

    status: HTTPStatus
    kind: str
    body: bytes


@dataclass
class Reviewer:
    """Answers the page's requests."""

    items: ReviewItems
    log: DecisionLog
    token: str
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, path: str, token: str) -> PageReply:
        """The answer to `GET`."""
        if path in _ASSETS:
            return PageReply(HTTPStatus.OK, _ASSETS[path], _asset(path[1:]))
        if not self.knows(token):
            return _text(HTTPStatus.FORBIDDEN, "The token is missing or wrong: open the address that was printed.")
        if path == "/":
            return PageReply(HTTPStatus.OK, "text/html", _asset("review.html"))
        if path == "/items":
            return _json(self._list())
        if match := re.fullmatch(r"/item/(\d{1,9})", path):
            number = int(match[1])
            if number < len(self.items.names):
                with self._lock:
                    shown = self.items.shown(number)
                return _json({**shown, "decision": self._decision(self.items.names[number])})
        if match := re.fullmatch(r"/media/([0-9a-f]{64})", path):
            medium = self.items.media(match[1])
            if medium is not None:
                return PageReply(HTTPStatus.OK, *medium)
        return _text(HTTPStatus.NOT_FOUND, "There is no such page.")

    def post(self, path: str, token: str, body: bytes) -> PageReply:
        """The answer to `POST`: a decision, which is on the disk when the answer is given."""
        if not self.knows(token):
            return _text(HTTPStatus.FORBIDDEN, "The token is missing or wrong.")
        match = re.fullmatch(r"/item/(\d{1,9})", path)
        if match is None or int(match[1]) >= len(self.items.names):
            return _text(HTTPStatus.NOT_FOUND, "There is no such item.")
        try:
            data = json.loads(body)
            if not isinstance(data, dict):
                raise ValueError("it is no JSON object")
            with self._lock:
                self.log.add(self._read(int(match[1]), data))
        except (ValueError, TypeError, RecursionError, ValidationError, SaccadeError) as error:
            return _text(HTTPStatus.BAD_REQUEST, f"That is no decision: {error}")
        return _json({"decision": self._decision(self.items.names[int(match[1])]), "decided": len(self.log)})

    def knows(self, token: str) -> bool:
        """Whether it is the token."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def _read(self, number: int, data: dict[str, Any]) -> ReviewDecision:
        """The decision; an answer or a question that is as it was corrects nothing."""
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

    def _list(self) -> dict[str, Any]:
        named = [(name, self.log.of(name)) for name in self.items.names]
        items = [{"id": name, "verdict": "open" if decision is None else decision.verdict} for name, decision in named]
        return {"folder": str(self.items.folder), "tasks": self.items.of_tasks, "items": items}

    def _decision(self, name: str) -> dict[str, Any] | None:
        decision = self.log.of(name)
        return None if decision is None else decision.model_dump(mode="json")


def serve_review(reviewer: Reviewer, port: int = 0) -> ThreadingHTTPServer:
    """A server that listens already; call `serve_forever`. Port 0 takes a free one. Raises `OSError`."""
    return ThreadingHTTPServer((HOST, port), _handler(reviewer))


def _handler(reviewer: Reviewer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "saccade"
        sys_version = ""

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            token = self.headers.get("X-Token") or parse_qs(query).get("token", [""])[0]
            if self._is_local():
                try:
                    self._send(reviewer.get(path, token))
                except (SaccadeError, OSError) as error:
                    self._send(_text(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)))

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not self._is_local():
                return
            if not length.isdecimal() or int(length) > _LONGEST:
                self._send(_text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A decision has at most {_LONGEST} bytes."))
                return
            body = self.rfile.read(int(length))
            try:
                # A token in a header alone: no form of a stranger's page can send one.
                self._send(reviewer.post(self.path, self.headers.get("X-Token", ""), body))
            except OSError as error:
                self._send(_text(HTTPStatus.INTERNAL_SERVER_ERROR, f"The decision could not be stored: {error}"))

        def _is_local(self) -> bool:
            if self.headers.get("Host", "").rpartition(":")[0] in _NAMES:
                return True
            self._send(_text(HTTPStatus.FORBIDDEN, "This server answers to 127.0.0.1 alone."))
            return False

        def _send(self, reply: PageReply) -> None:
            charset = "; charset=utf-8" if reply.kind.startswith(("text/", "application/json")) else ""
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind + charset)
            self.send_header("Content-Length", str(len(reply.body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Content-Security-Policy", _POLICY)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged: their addresses hold the token."""

    return Handler


def _asset(name: str) -> bytes:
    return (files("saccade.serve") / "review_page" / name).read_bytes()


def _text(status: HTTPStatus, text: str) -> PageReply:
    return PageReply(status, "text/plain", text.encode())


def _json(data: object) -> PageReply:
    return PageReply(HTTPStatus.OK, "application/json", json.dumps(data, ensure_ascii=False).encode())
