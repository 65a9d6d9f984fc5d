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
from threading import Lock
from typing import Any, Final
from urllib.parse import parse_qs

from markupsafe import Markup
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from saccade.core.local_page import local_app
from saccade.errors import SaccadeError
from saccade.record.task import Task
from saccade.training.sft.curate.filters.mixture import corrected_task
from saccade.training.sft.review import DecisionLog, Rating, RatingLog, ReviewDecision, ReviewItems, Sheet, now

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
        return hmac.compare_digest(token.encode(), self.token.encode())

    def items_data(self) -> dict[str, Any]:
        named = [(name, self.log.of(name)) for name in self.items.names]
        items = [{"id": name, "verdict": "open" if decision is None else decision.verdict} for name, decision in named]
        return {"folder": str(self.items.folder), "tasks": self.items.of_tasks, "items": items}

    def item_data(self, number: int) -> dict[str, Any]:
        with self._lock:
            shown = self.items.shown(number)
        return {**shown, "decision": self._decision(number)}

    def decide(self, number: int, body: bytes) -> dict[str, Any]:
        """Store a decision; it is on the disk when this returns.

        Raises `ValueError`, `TypeError`, `RecursionError`, `ValidationError`, `SaccadeError`: it is none; `OSError`: it
        could not be stored.
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


_RATING_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; media-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_PAGE: Final = Markup(
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
    '<link rel="icon" href="data:,"><link rel="stylesheet" href="/review.css"></head><body>{body}</body></html>'
)
_HEAD: Final = Markup(
    '<header><h1>Sheet {number} of {count}</h1><p role="status">{done} of {count} rated by {rater}</p><nav>'
    '<a href="/sheet/{previous}?token={token}">← Previous</a> <a href="/sheet/{next}?token={token}">Next →</a> '
    '<a href="/?token={token}">Next open</a></nav></header><p>{question}</p>'
)
_RATE: Final = Markup(
    "<fieldset><legend>How good are the steps of trajectory {letter}, its calls and its reasoning?</legend>{choices}"
    '<label>Note <input type="text" name="note{place}" value="{note}"></label></fieldset>'
)
_WORDS: Final = ("1 useless", "2 poor", "3 fair", "4 good", "5 excellent")


@dataclass
class Raters:
    """The sheets of one rater, and where ratings are kept."""

    runs: list[ReviewItems]
    logs: list[RatingLog]
    sheets: list[Sheet]
    rater: str
    token: str
    _lock: Lock = field(default_factory=Lock)

    def is_rated(self, sheet: Sheet) -> bool:
        return all(self.logs[entry.run].of(self.rater, entry.id) for entry in sheet.entries)

    def next_open(self) -> int | None:
        """Return the first sheet that is not rated; None if all are."""
        return next((at for at, sheet in enumerate(self.sheets) if not self.is_rated(sheet)), None)

    def rate(self, number: int, given: dict[str, list[str]]) -> None:
        """Store the ratings of a sheet; they are on the disk when this returns.

        Raises `KeyError`, `ValueError`: a trajectory has none, or one that is not 1 to 5; `OSError`: it could not be
        stored.
        """
        sheet = self.sheets[number]
        ratings = [
            Rating(
                id=entry.id, task=sheet.task, source=sheet.source, rater=self.rater, rated=now(),
                rating=int(given[f"rating{at}"][0]), note=given.get(f"note{at}", [""])[0],
            )
            for at, entry in enumerate(sheet.entries)
        ]  # fmt: skip
        with self._lock:
            for entry, rating in zip(sheet.entries, ratings, strict=True):
                self.logs[entry.run].add(rating)

    def page(self, number: int, problem: str = "") -> str:
        sheet = self.sheets[number]
        with self._lock:
            shown = [self.runs[entry.run].shown(entry.number) for entry in sheet.entries]
        first = shown[0]
        count = len(self.sheets)
        choices = "; ".join(first["choices"])
        head = _HEAD.format(
            number=number + 1, count=count, done=sum(map(self.is_rated, self.sheets)), rater=self.rater,
            previous=(number - 1) % count, next=(number + 1) % count, token=self.token,
            question=first["question"] + (f" ({choices})" if choices else ""),
        )  # fmt: skip
        parts = [head, self._media(first["media"]), Markup("<p>Gold answer: {}</p>").format(first["answer"])]
        if problem:
            parts.append(Markup('<p id="problem" role="alert">{}</p>').format(problem))
        parts.append(
            Markup('<form method="post" class="sheet"><input type="hidden" name="token" value="{}">').format(self.token)
        )
        for at, (entry, view) in enumerate(zip(sheet.entries, shown, strict=True)):
            before = self.logs[entry.run].of(self.rater, entry.id)
            parts += [self._trajectory(at, view), _asked(at, before)]
        parts.append(Markup("<button>Store and go on</button></form>"))
        return _PAGE.format(title=f"Rate {number + 1}", body=Markup("").join(parts))

    def _trajectory(self, at: int, view: dict[str, Any]) -> Markup:
        turns = [
            Markup('<div class="turn"><pre>{}</pre><pre class="back">{}</pre>{}</div>').format(
                "\n".join([turn["text"], *turn["calls"]]), turn["back"], self._media(turn["pictures"])
            )
            for turn in view["turns"]
        ]
        end = Markup("<p>Answer: {}</p>").format("none" if view["final"] is None else view["final"])
        return Markup("<h2>Trajectory {}</h2>{}{}").format(_letter(at), Markup("").join(turns), end)

    def _media(self, media: list[dict[str, Any]]) -> Markup:
        tags = {
            "image": '<figure><img src="/media/{sha}?token={token}" alt=""></figure>',
            "video": '<figure><video controls src="/media/{sha}?token={token}"></video></figure>',
        }
        found = [Markup(tags[one["kind"]]).format(sha=one["sha256"], token=self.token) for one in media]
        return Markup("").join(found)


def _letter(at: int) -> str:
    return chr(ord("A") + at)


def _asked(at: int, before: Rating | None) -> Markup:
    choices = Markup(" ").join(
        Markup('<label><input type="radio" name="rating{}" value="{}" required{}> {}</label>').format(
            at, value, Markup(" checked") if before is not None and before.rating == value else "", words
        )
        for value, words in enumerate(_WORDS, 1)
    )
    return _RATE.format(letter=_letter(at), choices=choices, place=at, note="" if before is None else before.note)


def rating_app(raters: Raters) -> Starlette:
    """Make the application of the page."""

    def known(token: str) -> None:
        if not hmac.compare_digest(token.encode(), raters.token.encode()):
            raise HTTPException(403, "The token is missing or wrong: open the address that was printed.")

    def numbered(request: Request) -> int:
        number: int = request.path_params["number"]
        if number >= len(raters.sheets):
            raise HTTPException(404, "There is no such sheet.")
        return number

    def style(_: Request) -> Response:
        return Response(asset_file("review.css"), media_type="text/css")

    def start(request: Request) -> Response:
        known(request.query_params.get("token", ""))
        number = raters.next_open()
        if number is None:
            done = Markup("<p>All {} sheets are rated by {}. Thank you; end the command with Ctrl-C.</p>")
            return HTMLResponse(_PAGE.format(title="Done", body=done.format(len(raters.sheets), raters.rater)))
        return RedirectResponse(f"/sheet/{number}?token={raters.token}", 303)

    def sheet(request: Request) -> Response:
        known(request.query_params.get("token", ""))
        return HTMLResponse(raters.page(numbered(request)))

    async def rate(request: Request) -> Response:
        number, body = numbered(request), await read_body(request, "A sheet")
        given = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
        known(given.get("token", [""])[0])  # in the body: no page of a stranger knows it
        try:
            await run_in_threadpool(raters.rate, number, given)
        except (KeyError, ValueError, ValidationError):
            page = await run_in_threadpool(raters.page, number, "Give every trajectory a rating from 1 to 5.")
            return HTMLResponse(page, 400)
        return RedirectResponse(f"/?token={raters.token}", 303)

    def media(request: Request) -> Response:
        known(request.query_params.get("token", ""))
        return stored(raters.runs, request.path_params["sha256"])

    return local_app(
        [
            Route("/review.css", style),
            Route("/", start),
            Route("/sheet/{number:int}", sheet, methods=["GET"]),
            Route("/sheet/{number:int}", rate, methods=["POST"]),
            Route("/media/{sha256:str}", media),
        ],
        {"Referrer-Policy": "no-referrer", "Content-Security-Policy": _RATING_POLICY},
    )
