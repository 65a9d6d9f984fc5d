"""The live page at `/` and what it asks for: examples, the episode of a question as it is played, and its stop.

The page holds no secret and is given to everybody; all else needs the token, as the rest of the server does. A question
is the body of a Chat Completion and is read as one. Nothing is stored: pictures are in a folder of the request that is
deleted with it, and the finished page goes to the browser that asked, and to nobody else.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import secrets
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from markupsafe import Markup
from PIL import Image, ImageDraw, ImageFilter
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from saccade.core.web import is_origin_of
from saccade.episode.flow import Ask, Call, Event, Run, Wrote
from saccade.errors import RegistryError, SaccadeError, UnavailableError
from saccade.media.store import MediaStore
from saccade.plugins.serve.agent_request import AgentQuestion, RequestError, as_request_error, error_body, read_media
from saccade.plugins.serve.agents import AgentPool, ServedEpisode
from saccade.plugins.serve.openai_chat import read_chat
from saccade.record.content import VideoPart
from saccade.report.live import GrowingEpisode, SoFar
from saccade.report.page import ServedPart, page_html
from saccade.report.picture_book import PictureBook
from saccade.tasks.media import OwnMedia
from saccade.tasks.worlds import Clip, draw_sample, load_world

# An episode as events for the live page: what the model writes, what was run, and the finished page.
#
#     {"kind": "state", "state": …}                `waiting` for a place among the episodes at once, then `opening`
#     {"kind": "begun", "id": …, "notes": […]}     the id stops it; `dialect` is the one it is played in
#     {"kind": "text", "piece": …}                 more of the model's text; `again`: it begins anew
#     {"kind": "shown", "html": …, "pictures": …}  the episode so far; `state` is `asking`, `running` or `ended`
#     {"kind": "done", "page": …, "answer": …}     the page that `saccade show` would write, and how it ended
#     {"kind": "failed", "message": …}
#
# Each is JSON in one server-sent event. The text of `html` is escaped by the templates of the report.


class LiveEvents:
    """Hears one episode and gives it as events."""

    def __init__(self, name: str) -> None:
        """`name` is known to its client only, and stops the episode."""
        self.name = name
        self._heard: deque[Ask | Run | Call | Wrote] = deque()
        self._changed = asyncio.Event()
        self._over = False

    def hear(self, event: Event) -> None:
        """Hear what the loop calls back."""
        if isinstance(event, Ask | Run | Call | Wrote):
            self._heard.append(event)
            self._changed.set()

    async def events(self, play: ServedEpisode) -> AsyncIterator[str]:
        """Yield the events to the last, while `play` is played. Raises what the episode raised."""
        begun = play.begun()
        growing = GrowingEpisode(begun, play.store, f"e{self.name[:12]}")
        play.when_ended(self._end)
        made = begun.provenance
        yield live_event("begun", id=self.name, notes=list(made.notes), dialect=made.dialect)
        while not self._over or self._heard:
            await self._changed.wait()
            self._changed.clear()
            while self._heard:
                event = self._heard.popleft()
                if isinstance(event, Wrote):
                    yield self._text(event.piece)
                else:
                    running = not isinstance(event, Ask)
                    so_far = await asyncio.to_thread(growing.so_far, event.turns, running=running)
                    yield _shown(so_far, "running" if running else "asking")
        trajectory = await play.trajectory()
        so_far, page = await asyncio.to_thread(growing.ended, trajectory)
        yield _shown(so_far, "ended")
        yield live_event(
            "done",
            page=page,
            answer=trajectory.answer,
            stop=trajectory.stop,
            turns=len(trajectory.turns),
            seconds=round(trajectory.seconds, 1),
        )

    def _text(self, piece: str) -> str:
        again = not piece
        while self._heard and isinstance(following := self._heard[0], Wrote):
            self._heard.popleft()
            piece, again = (piece + following.piece, again) if following.piece else ("", True)
        return live_event("text", piece=piece, again=again)

    def _end(self) -> None:
        self._over = True
        self._changed.set()


def live_event(kind: str, **values: Any) -> str:
    """Return one server-sent event, in ASCII: a piece of a model's text may end in the middle of a surrogate pair."""
    return f"data: {json.dumps({'kind': kind, **values})}\n\n"


def _shown(so_far: SoFar, state: str) -> str:
    return live_event("shown", html=so_far.html, pictures=so_far.pictures, state=state)


# Only the server's own page may use what is made for it: a page of another site that a person has open may not.
#
# A browser says of each request from which site's page it comes, and no page can make it say otherwise. Programs that
# are no browser say nothing of the kind; the token is what tells them apart.


def check_own_page(request: Request) -> None:
    """Raises `RequestError` if a browser sent it for a page that this server did not give."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        own = site in ("same-origin", "none")
    else:  # browsers leave it out of requests to a plain http:// address of another machine
        own = origin is None or is_origin_of(origin, request.headers.get("host", ""))
    if not own:
        raise RequestError("only the page of this server itself may ask this.", code="other_origin", status=403)


# What the faces of a server of agents share of HTTP: bodies within a limit, events, clients that go away.

_log = logging.getLogger(__name__)
_LARGE = 1 << 20
"""Bytes of a body from which on it is read as JSON in a thread."""
_PATIENCE = 0.25
"""Seconds after which one looks whether the client is still there. Not from the beginning: the task that waits for its
going costs as much as reading the request, and a short episode is over before it is of use."""
T = TypeVar("T")


class EventStream(StreamingResponse):
    """Server-sent events; what gives them is closed with them, also when the client goes away."""

    def __init__(self, events: AsyncGenerator[str, None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"cache-control": "no-store"})
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Not the base's own watching: it notices a client that is gone at the next event only, maybe minutes later.
        async with aclosing(self._events):
            with suppress(ClientDisconnect):
                await unless_gone(receive, self.stream_response(send))


async def unless_gone(receive: Receive, work: Awaitable[T]) -> T:
    """Return the result of `work`, which is cancelled when the client goes away; `ClientDisconnect` is raised then."""
    own = asyncio.current_task()
    assert own is not None
    gone = False
    leaving: asyncio.Task[None] | None = None

    async def leave() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        own.cancel()

    def watch() -> None:
        nonlocal leaving
        leaving = asyncio.create_task(leave())

    # Not a task for the work: this is on the way of every request.
    soon = asyncio.get_running_loop().call_later(_PATIENCE, watch)
    try:
        return await work
    except asyncio.CancelledError:
        if gone and not own.uncancel():
            raise ClientDisconnect from None
        raise
    finally:
        soon.cancel()
        if leaving is not None:
            leaving.cancel()


async def read_json(scope: Scope, receive: Receive, pool: AgentPool, most: int | None = None) -> Any:
    """Return the body, of at most `most` bytes.

    Stops reading as soon as it is over that, or over the time that it may take.

    Raises:
        RequestError: it is larger, slower, or no JSON, or had to make room for another.
        ClientDisconnect: the client has gone.
    """
    kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    # A page of another origin can send other types without being asked.
    if kind.partition(b";")[0].strip().lower() != b"application/json":
        raise RequestError("the content type must be application/json.", code="unsupported_media_type", status=415)
    seconds, client = pool.settings.request_seconds, (scope.get("client") or ("",))[0]
    try:
        async with pool.readings.one(client, seconds) as moved:
            body = await _within(receive, most or pool.settings.max_body_bytes, moved)
    except TimeoutError:
        message = (
            f"the request did not arrive within {seconds:g} s, or others needed its place while it stood still. Send "
            "smaller pictures, or use a faster connection."
        )
        raise RequestError(message, code="request_timeout", status=408) from None
    try:
        return await asyncio.to_thread(_read, body) if len(body) > _LARGE else _read(body)
    except ValueError as error:
        raise RequestError(f"the body is no JSON: {error}.", code="invalid_json") from None


def _read(body: bytes) -> Any:
    # Stricter than `json`: no NaN, no half of a surrogate pair, which no answer could be written with.
    return from_json(body, allow_inf_nan=False)


async def _within(receive: Receive, most: int, moved: Callable[[], None]) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part, more = message.get("body", b""), message.get("more_body", False)
        moved()
        size += len(part)
        if size > most:
            raise RequestError(
                f"the request is over this server's limit of {most:,} bytes. Send smaller pictures.",
                code="request_too_large",
                status=413,
            )
        parts.append(part)
    return b"".join(parts)


def as_sent(error: Exception) -> RequestError:
    """Return any error as one that can be sent; a fault of ours is logged."""
    if not isinstance(error, SaccadeError):
        _log.error("A request failed by a fault of the server.", exc_info=error)
    return as_request_error(error)


# Five come from generated worlds, on seeds of the test split; the scan is drawn here. None shows anything real.

_THUMBNAIL: Final = 320
"""Longest side in pixels."""
_SCAN: Final = 448
"""Side of the scan in pixels."""


@dataclass(frozen=True, slots=True)
class ExampleMedium:
    """A picture or video as it is sent."""

    data: bytes
    mime: str
    thumbnail: Image.Image


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its media."""

    question: str
    media: tuple[ExampleMedium, ...]
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class _World:
    name: str
    seed: int
    knobs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self) -> Example:
        world = load_world(self.name)
        sample = draw_sample(world, "test", self.seed, world.knobs.model_validate(self.knobs))
        return Example(sample.question, tuple(map(_medium, sample.media.values())), sample.choices)


_SIGNS: Final = {"kinds": ("dot",), "megapixels": (1.0, 1.4), "detail": 24, "dot_percent": 100, "plate_percent": 220}
_EASY: Final = {"signs": 7, "conjunction": 0, "clutter": 20, "grain": 0}


def _scan() -> Example:
    """Return a slice of a head that nobody has: ovals of nearly one grey, and in it a spot that is hardly brighter."""
    draw = ImageDraw.Draw(picture := Image.new("L", (_SCAN, _SCAN), 12))
    for inset, grey in ((26, 150), (44, 30), (52, 96)):
        draw.ellipse((inset + 24, inset, _SCAN - inset - 24, _SCAN - inset), fill=grey)
    for left, top, right, bottom, grey in (
        (172, 150, 214, 262, 84),
        (234, 150, 276, 262, 84),
        (196, 290, 252, 330, 88),
    ):
        draw.ellipse((left, top, right, bottom), fill=grey)
    draw.ellipse((282, 268, 320, 302), fill=103)
    pixels = np.asarray(picture.filter(ImageFilter.GaussianBlur(3)), np.float64)
    pixels += np.random.default_rng(31).normal(0, 2.5, pixels.shape)
    picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).convert("RGB")
    question = (
        "This drawn scan has hardly any contrast. In which quarter of it is a spot that is brighter than the rest?"
    )
    return Example(question, (_medium(picture),), ("top left", "top right", "bottom left", "bottom right"))


@dataclass(frozen=True, slots=True)
class _Entry:
    family: str
    draw: Callable[[], Example]
    seconds: int
    """Time of the bundled model on two cores, about."""
    tiny: bool = True
    """Whether the bundled model learned this kind of question."""
    dialects: Mapping[str, str] = field(default_factory=dict)
    """By model, where the example needs another than the model's usual one."""


_EXAMPLES: Final[Mapping[str, _Entry]] = {
    "sketch": _Entry("Sketch", _World("geometry", 60002), 3),
    "puzzle": _Entry("Puzzle", _World("path-follow", 60003), 5),
    "difference": _Entry("Spot the difference", _World("spot-difference", 60003), 5),
    "video": _Entry("Video", _World("video-events", 60001), 8, dialects={"tiny": "tiny:video"}),
    "search": _Entry("Visual search", _World("visual-search", 60002, {**_SIGNS, **_EASY}), 13),
    "medical": _Entry("Medical", _scan, 75, tiny=False),
}
"""The quick ones first."""


def examples() -> list[dict[str, Any]]:
    """Return the examples as JSON: `name`, `family`, `seconds`, `tiny`, `dialects`, `question`, `choices`, `media`
    (types), `thumbnail`.

    One that cannot be drawn here, since a package or its world is missing, has `name`, `family`, `seconds`, `problem`.
    """
    return [_listed(name, entry) for name, entry in _EXAMPLES.items()]


def example_medium(name: str, number: int) -> ExampleMedium | None:
    """Medium `number` of an example; None if there is none. Raises `UnavailableError` if it cannot be drawn here."""
    media = _drawn(name).media if name in _EXAMPLES else ()
    return media[number] if 0 <= number < len(media) else None


def _listed(name: str, entry: _Entry) -> dict[str, Any]:
    try:
        drawn = _drawn(name)
    except (RegistryError, UnavailableError) as error:
        return {"name": name, "family": entry.family, "seconds": entry.seconds, "problem": str(error)}
    return {
        "name": name,
        "family": entry.family,
        "seconds": entry.seconds,
        "tiny": entry.tiny,
        "dialects": entry.dialects,
        "question": drawn.question,
        "choices": drawn.choices,
        "media": [medium.mime for medium in drawn.media],
        "thumbnail": _data_url(drawn.media),
    }


@cache
def _drawn(name: str) -> Example:
    return _EXAMPLES[name].draw()


def _medium(medium: Image.Image | Clip) -> ExampleMedium:
    if isinstance(medium, Clip):
        return ExampleMedium(medium.data, medium.mime, _middle_frame(medium))
    out = io.BytesIO()
    medium.save(out, "PNG")
    small = medium.convert("RGB")
    small.thumbnail((_THUMBNAIL, _THUMBNAIL))
    return ExampleMedium(out.getvalue(), "image/png", small)


def _middle_frame(clip: Clip) -> Image.Image:
    from saccade.media.video import Uniform, sample_frames

    with tempfile.TemporaryDirectory(prefix="saccade-example-") as folder:
        (path := Path(folder, "clip")).write_bytes(clip.data)
        return sample_frames(path, Uniform(3))[1].image


def _data_url(media: tuple[ExampleMedium, ...]) -> str:
    """Return the pictures side by side."""
    width = sum(medium.thumbnail.width for medium in media) + 6 * (len(media) - 1)
    sheet = Image.new("RGB", (width, max(medium.thumbnail.height for medium in media)), "white")
    left = 0
    for medium in media:
        sheet.paste(medium.thumbnail, (left, 0))
        left += medium.thumbnail.width + 6
    out = io.BytesIO()
    sheet.save(out, "WEBP", quality=82)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"


PAGE: Final = "/"
"""The address that needs no token."""
_SCRIPTS: Final = ("store.js", "runs.js", "composer.js")
_GONE: Final = 499
_CHECKS: Final = 2
"""Files that are checked at once."""
_HEADERS: Final = {
    "content-security-policy": "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_Answer = Callable[[Request], Awaitable[Response]]


class LivePage:
    """Answers the page's requests over one pool."""

    def __init__(self, pool: AgentPool) -> None:
        self._pool = pool
        self._played: dict[str, asyncio.Event] = {}
        """By the name that its client alone knows, how an episode is stopped."""
        self._checks = asyncio.Semaphore(_CHECKS)

    def routes(self) -> list[Route]:
        return [
            Route(PAGE, _page),
            Route("/live/about", self._guarded(self._about)),
            Route("/live/examples", self._guarded(self._examples)),
            Route("/live/examples/{name}/{number:int}", self._guarded(self._example)),
            Route("/live/ask", self._guarded(self._ask), methods=["POST"]),
            Route("/live/check", self._guarded(self._check), methods=["POST"]),
            Route("/live/stop", self._guarded(self._stop), methods=["POST"]),
        ]

    def _guarded(self, answer: _Answer) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def guarded(request: Request) -> Response:
            try:
                check_own_page(request)
                response = await answer(request)
            except ClientDisconnect:
                return Response(status_code=_GONE)
            except Exception as error:
                sent = as_sent(error)
                self._pool.metrics.refuse(sent.status)
                response = JSONResponse(error_body(sent), sent.status)
            response.headers.update(_HEADERS)
            return response

        return guarded

    async def _about(self, _: Request) -> Response:
        settings, private = self._pool.settings, self._pool.private
        models = [{"name": name, "full": "" if private else spec} for name, spec in self._pool.specs.items()]
        return JSONResponse({"models": models, "bytes": settings.max_body_bytes, "media": settings.max_media})

    async def _examples(self, _: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(examples))

    async def _example(self, request: Request) -> Response:
        medium = await asyncio.to_thread(example_medium, request.path_params["name"], request.path_params["number"])
        if medium is None:
            raise RequestError("there is no such example.", code="not_found", status=404)
        return Response(medium.data, media_type=medium.mime)

    async def _ask(self, request: Request) -> Response:
        self._pool.slot().check()
        body = await read_json(request.scope, request.receive, self._pool)
        asked = read_chat(body, self._pool.settings, allow_urls=False, specs=self._pool.specs)
        return EventStream(self._events(asked))

    async def _events(self, asked: AgentQuestion) -> AsyncGenerator[str, None]:
        live, cancel, begun = LiveEvents(secrets.token_hex(16)), asyncio.Event(), False
        try:
            if self._pool.slot().taken:
                yield live_event("state", state="waiting")
            async with self._pool.slot():
                yield live_event("state", state="opening")
                async with self._pool.playing(asked, watch=live.hear, cancel=cancel) as play:
                    begun = True
                    self._played[live.name] = cancel
                    async for event in live.events(play):
                        yield event
        except Exception as error:
            sent = as_sent(error)
            if not begun:
                self._pool.metrics.refuse(sent.status)
            yield live_event("failed", message=str(sent))
        finally:
            self._played.pop(live.name, None)

    async def _check(self, request: Request) -> Response:
        body = await read_json(request.scope, request.receive, self._pool)
        media = read_media(body, "the file")
        async with self._checks:
            return JSONResponse(await asyncio.to_thread(_looked_at, media, self._pool))

    async def _stop(self, request: Request) -> Response:
        body = await read_json(request.scope, request.receive, self._pool, 1024)
        cancel = self._played.get(body["id"]) if isinstance(body, dict) and isinstance(body.get("id"), str) else None
        if cancel is None:
            raise RequestError("no such episode is being played.", code="not_found", status=404)
        cancel.set()
        return JSONResponse({"stopped": True})


def _looked_at(media: OwnMedia, pool: AgentPool) -> dict[str, str]:
    """Return what a file holds, and a picture of it, which the browser may not be able to make."""
    with tempfile.TemporaryDirectory(prefix="saccade-check-") as folder:
        parts = pool.take(media, store := MediaStore(folder)).parts
        book = PictureBook(store, thumbnail=_THUMBNAIL, large=_THUMBNAIL)
        sources = book.sources.get(book.add(parts[0]).key)
    first = parts[0]
    holds = f"{first.width}×{first.height}"
    if isinstance(first, VideoPart):
        holds += f", {first.seconds:.1f} s"
    elif len(parts) > 1:
        holds = f"{len(parts)} pages"
    return {"holds": holds, "thumbnail": sources.thumb if sources else ""}


async def _page(_: Request) -> Response:
    return HTMLResponse(_html(), headers=_HEADERS)


@cache
def _html() -> str:
    script = "".join(_asset(name) for name in _SCRIPTS)
    footer = "Served by saccade serve. This page asks nobody but its own server, which keeps nothing."
    served = ServedPart(footer, _asset("live.css"), script, allows="media-src data:; ")
    return page_html("Look again", Markup(_asset("live.html")), {}, served=served)  # our own file


def _asset(name: str) -> str:
    return (files("saccade.plugins.serve") / "live_page" / name).read_text(encoding="utf-8")
