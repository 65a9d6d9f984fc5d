"""Plays one episode for each request: models and sandboxes are shared, pictures, files and sessions never.

The media of a request are in a folder of its own, which is deleted with it. When a request is left, its episode is
cancelled and its session ends before the context is left.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shutil
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Self

from saccade.dialects.base import DIALECTS, Dialect
from saccade.episode.ask import AskSettings, check_speaks, planned, suited
from saccade.episode.drive import EventCallback, begun, run_episode, unwatched
from saccade.episode.flow import Ask, Event, Plan
from saccade.errors import SaccadeError
from saccade.media.store import MediaStore, data_url
from saccade.models.base import Model
from saccade.models.registry import check_sampling
from saccade.plugins.serve.agent_request import (
    AgentQuestion,
    AgentServeSettings,
    RequestError,
    as_request_error,
    not_served,
)
from saccade.record.content import ImagePart
from saccade.record.trajectory import EpisodeLimits, Trajectory, Turn
from saccade.report.words import short_model
from saccade.sandbox.base import Limits, Sandbox
from saccade.tasks.media import FrameSettings, OwnMedia, Taken, take
from saccade.tools.toolbox import Toolbox, check_recorded_tools

# Counters of a server of agents, in the text format of Prometheus. They hold no text of any request.

_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper ends of the classes of request times, in seconds."""


class AgentMetrics:
    """Counts what a server does; only the event loop touches it."""

    def __init__(self) -> None:
        self.active = 0
        """Episodes that are being played."""
        self.waiting = 0
        """Requests that wait for their turn."""
        self._ends: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._turns = self._calls = 0
        self._classes = [0] * (len(_BUCKETS) + 1)
        self._seconds = 0.0

    def note(self, trajectory: Trajectory | None, seconds: float) -> None:
        """Note that an episode ended after `seconds`; None: it was left, or failed."""
        self._ends["left" if trajectory is None or trajectory.stop is None else trajectory.stop.value] += 1
        self._seconds += seconds
        self._classes[bisect_left(_BUCKETS, seconds)] += 1
        if trajectory is not None:
            self._turns += len(trajectory.turns)
            self._calls += sum(len(turn.executions) for turn in trajectory.turns)
            self._tokens["prompt"] += sum(turn.tokens.context or 0 for turn in trajectory.turns)
            self._tokens["completion"] += sum(turn.tokens.sampled or 0 for turn in trajectory.turns)

    def refuse(self, status: int) -> None:
        """Note that a request was answered with an error before its episode began."""
        self._refusals[str(status)] += 1

    def text(self) -> str:
        count = sum(self._ends.values())
        lines = [
            *_gauge("saccade_requests_active", "Episodes that are being played.", self.active),
            *_gauge("saccade_requests_waiting", "Requests that wait for their turn.", self.waiting),
            *_counter("saccade_episodes", "Episodes, by how they ended.", "stop", self._ends),
            *_counter("saccade_refusals", "Requests refused before an episode, by status.", "status", self._refusals),
            *_counter("saccade_tokens", "Tokens of the models.", "kind", self._tokens),
            *_head("saccade_turns_total", "Turns of the models.", "counter"),
            f"saccade_turns_total {self._turns}",
            *_head("saccade_calls_total", "Calls of code and tools.", "counter"),
            f"saccade_calls_total {self._calls}",
            *_head("saccade_episode_seconds", "Time of an episode.", "histogram"),
            *(
                f'saccade_episode_seconds_bucket{{le="{end:g}"}} {number}'
                for end, number in zip(_BUCKETS, accumulate(self._classes[:-1]), strict=True)
            ),
            f'saccade_episode_seconds_bucket{{le="+Inf"}} {count}',
            f"saccade_episode_seconds_sum {self._seconds:.6f}",
            f"saccade_episode_seconds_count {count}",
        ]
        return "\n".join(lines) + "\n"


def _head(name: str, words: str, kind: str) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]


def _gauge(name: str, words: str, value: int) -> list[str]:
    return [*_head(name, words, "gauge"), f"{name} {value}"]


def _counter(name: str, words: str, label: str, counts: Counter[str]) -> list[str]:
    lines = [f'{name}_total{{{label}="{key}"}} {number}' for key, number in sorted(counts.items())]
    return [*_head(f"{name}_total", words, "counter"), *lines]


_ADDRESS: Final = re.compile(r"https?://[^\s'\"<>)]+[^\s'\"<>).,:;]")


def short_names(specs: Iterable[str]) -> dict[str, str]:
    """Return `specs` (`provider:name@address`) by short names, none of which holds an address or a folder.

    Of several that share one the later ones have their provider before it, or a number behind it.
    """
    named: dict[str, str] = {}
    for spec in specs:
        short = short_model(spec)
        others = itertools.chain((f"{spec.partition(':')[0]}:{short}",), (f"{short}-{at}" for at in itertools.count(2)))
        named[next(name for name in itertools.chain((short,), others) if name not in named)] = spec
    return named


_SPEECHES: Final = 256
"""Kinds of requests that are remembered."""


@dataclass(frozen=True, slots=True)
class _Speech:
    """How a model is spoken to."""

    settings: AskSettings
    dialect: Dialect
    tools: Toolbox | None


class ServedEpisode:
    """An episode that is being played."""

    def __init__(self, store: MediaStore, plan: Plan, model: str) -> None:
        """`model` is the name by which the trajectory before the first turn calls it."""
        self.store = store
        self._plan, self._model = plan, model
        self._turns: asyncio.Queue[Turn | None]
        self._seen = 0
        self._episode: Coroutine[Any, Any, Trajectory]
        self._task: asyncio.Task[Trajectory] | None = None
        self.outcome: Trajectory | None = None
        """The whole episode, once it has ended by itself; None also if it was left or raised."""

    def begun(self) -> Trajectory:
        """Return the trajectory before the first turn."""
        return begun(self._plan, self._model)

    def watch(self, event: Event) -> None:
        """Hears the loop: when it asks again, the turn before is complete."""
        if isinstance(event, Ask):
            self._add(event.turns)

    def start(self, episode: Coroutine[Any, Any, Trajectory], *, heard: bool) -> None:
        """Play `episode`: from now on in its own task if it is `heard` meanwhile, else once its end is asked for."""
        self._episode = episode
        if heard:
            self._turns = asyncio.Queue()
            self._task = asyncio.create_task(episode)
            self._task.add_done_callback(self._ended)

    def when_ended(self, then: Callable[[], None]) -> None:
        """Call `then` once it has ended, however it did; for an episode that is heard."""
        assert self._task is not None
        self._task.add_done_callback(lambda _: then())

    async def turns(self) -> AsyncIterator[Turn]:
        while (turn := await self._turns.get()) is not None:
            yield turn

    async def trajectory(self) -> Trajectory:
        """Return the whole episode, once it has ended. Raises what it raised."""
        if self._task is not None:
            return await self._task
        self.outcome = await self._episode
        return self.outcome

    async def leave(self) -> None:
        """Cancel it, and wait until its session has ended."""
        if self._task is None:
            self._episode.close()  # it has ended, or nobody has asked for it
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._task

    def data_url(self, part: ImagePart) -> str:
        return data_url(self.store.get_bytes(part.sha256))

    def _add(self, turns: tuple[Turn, ...]) -> None:
        for turn in turns[self._seen :]:
            self._turns.put_nowait(turn)
        self._seen = max(self._seen, len(turns))

    def _ended(self, task: asyncio.Task[Trajectory]) -> None:
        if not task.cancelled() and task.exception() is None:
            self.outcome = task.result()
            self._add(self.outcome.turns)
        self._turns.put_nowait(None)


class Readings:
    """Requests that are being read. Where there are too many, the client with most of them loses the slowest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[str, dict[asyncio.Timeout, None]] = {}
        """Client -> its requests, the one that has stood still longest first."""

    @asynccontextmanager
    async def one(self, client: str, seconds: float) -> AsyncIterator[Callable[[], None]]:
        """Read a request in the block; what it is given is to be called at every part. Raises `TimeoutError`."""
        async with asyncio.timeout(seconds) as limit:
            own = self._open.setdefault(client, {})
            own[limit] = None

            def moved() -> None:
                if limit in own:
                    own[limit] = own.pop(limit)

            try:
                if sum(map(len, self._open.values())) > self._most:
                    greediest = max(self._open.values(), key=lambda requests: len(requests))
                    slowest = next(iter(greediest))
                    self._forget(slowest)
                    slowest.reschedule(0)
                yield moved
            finally:
                self._forget(limit)

    def _forget(self, limit: asyncio.Timeout) -> None:
        for client, own in list(self._open.items()):
            own.pop(limit, None)
            if not own:
                del self._open[client]


class Slots:
    """Places among the episodes at once: an async context that may be entered by many, since it knows none of them."""

    def __init__(self, settings: AgentServeSettings, metrics: AgentMetrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._free = asyncio.Semaphore(settings.max_requests)

    @property
    def taken(self) -> bool:
        return self._free.locked()

    def check(self) -> None:
        """Raise `RequestError` if too many wait for a place already."""
        metrics = self._metrics
        if self.taken and metrics.waiting >= self._settings.max_waiting:
            raise RequestError(
                f"{metrics.active} requests are being answered and {metrics.waiting} wait, as many as this server "
                "allows. Try again later.",
                code="rate_limit_exceeded",
                status=429,
            )

    async def __aenter__(self) -> None:
        """Wait for a place; `check` first."""
        self.check()
        metrics = self._metrics
        metrics.waiting += 1
        try:
            await self._free.acquire()
        finally:
            metrics.waiting -= 1
        metrics.active += 1

    async def __aexit__(self, *exc: object) -> None:
        self._metrics.active -= 1
        self._free.release()


class AgentPool:
    """Models by name, with the settings under which each is asked. Use it as an async context."""

    def __init__(
        self,
        models: Mapping[str, Model],
        base: AskSettings,
        settings: AgentServeSettings,
        *,
        sandbox: Sandbox | None = None,
    ) -> None:
        """`models` are by their full names, and are closed in the end.

        A `sandbox` stands in place of the one that `base` names.
        """
        self.specs = short_names(models)
        """Full names by the short ones under which clients know the models."""
        self.private = False
        """Whether no client may learn where a model is: no address, no folder."""
        self.models, self.settings = {name: models[spec] for name, spec in self.specs.items()}, settings
        self.metrics = AgentMetrics()
        self._base = base
        self._given = sandbox
        self._numbers = itertools.count()
        """Of the requests, which name their folders."""
        self._slots = Slots(settings, self.metrics)
        self.readings = Readings(settings.max_requests + settings.max_waiting)
        self._boxes: dict[Limits, Sandbox] = {}
        self._speeches: dict[object, _Speech] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="saccade-serve-"))
        for model in self.models.values():
            self._stack.push_async_callback(model.close)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    def take(self, media: OwnMedia, store: MediaStore) -> Taken:
        """Put a client's picture or video into `store`, as a question would. Raises as `saccade.tasks.media.take`."""
        return take(media, store.limited(self._base.media.limits), self._base.media)

    def slot(self) -> Slots:
        """Return a place among the episodes at once, as an async context; it raises what `Slots` does."""
        return self._slots

    @asynccontextmanager
    async def playing(
        self, asked: AgentQuestion, *, watch: EventCallback = unwatched, cancel: asyncio.Event | None = None
    ) -> AsyncIterator[ServedEpisode]:
        """Begin an episode and yield it; it ends with the context.

        `watch` hears it in place of what `asked` needs to stream its turns; after `cancel` it ends as cancelled.

        Raises:
            RequestError: the model is not served here, or a limit is above the server's.
            SaccadeError: a dialect, a tool, a picture or a setting cannot be used. Nothing was asked or run.
        """
        name = next((one for one, spec in self.specs.items() if asked.model in (one, spec)), None)
        if name is None:
            raise not_served(asked.model, self.models)
        model = self.models[name]
        try:
            speech = self._speech(asked, self.specs[name])
        except SaccadeError as error:
            sent = as_request_error(error)
            said = self._told(str(sent).replace(self.specs[name], name))
            raise RequestError(said, param=sent.param, code=sent.code, status=sent.status) from error
        root = os.path.join(self._folder, str(next(self._numbers)))  # made by the first picture
        store = MediaStore(root, limits=speech.settings.media.limits)
        try:
            plan = await self._plan(asked, speech, store)
            play, start = ServedEpisode(store, plan, name if self.private else model.name), time.monotonic()
            if watch is unwatched and asked.stream:
                watch = play.watch
            box = self._box(speech.settings, plan)

            async def episode() -> Trajectory:
                done = await run_episode(plan, model, box, store, tools=speech.tools, watch=watch, cancel=cancel)
                if not self.private:
                    return done
                made = done.provenance.model_copy(update={"model": name})
                return done.model_copy(update={"provenance": made, "stop_detail": self._told(done.stop_detail)})

            play.start(episode(), heard=watch is not unwatched)
            try:
                yield play
            finally:
                await play.leave()
                self.metrics.note(play.outcome, time.monotonic() - start)
        finally:
            if store.written:
                await asyncio.to_thread(shutil.rmtree, root)

    def _told(self, text: str) -> str:
        return _ADDRESS.sub("its address", text) if self.private else text

    async def _plan(self, asked: AgentQuestion, speech: _Speech, store: MediaStore) -> Plan:
        made = (asked.question, speech.settings, speech.dialect, store)
        # In a thread where there are media to decode: large ones take seconds.
        return await asyncio.to_thread(planned, *made) if asked.question.media else planned(*made)

    def _speech(self, asked: AgentQuestion, spec: str) -> _Speech:
        """Return how the model is spoken to for such a request; requests that ask for the same share it."""
        options = asked.options
        key = (spec, asked.sampling, options.dialect, options.limits, options.tools, options.frames)
        if key not in self._speeches:
            settings = self._settings(asked, spec)
            check_sampling(settings.model, settings.sampling)
            dialect, tools = settings.spoken()
            check_speaks(settings.model, dialect)
            if len(self._speeches) >= _SPEECHES:
                self._speeches.pop(next(iter(self._speeches)))
            self._speeches[key] = _Speech(settings, dialect, tools)
        return self._speeches[key]

    def _settings(self, asked: AgentQuestion, spec: str) -> AskSettings:
        options = asked.options
        if options.dialect:
            DIALECTS.check_recorded(options.dialect)  # a client names no code of this machine
        check_recorded_tools(options.tools or ())
        sampling = {**self._base.sampling.model_dump(), **asked.sampling.model_dump(exclude_none=True)}
        changes: dict[str, object] = {
            "model": spec,
            "sampling": type(asked.sampling).model_validate(sampling),
            "limits": self._limits(options.limits),
            "frames": self._frames(options.frames),
        }
        changes |= {"dialect": options.dialect} if options.dialect else {}
        changes |= {"tools": options.tools} if options.tools else {}
        settings, _ = suited(self._base.model_copy(update=changes))
        return settings

    def _limits(self, wanted: EpisodeLimits) -> EpisodeLimits:
        own = self._base.limits
        most = {
            **own.model_dump(exclude_none=True),
            "turns": own.turns or self.settings.max_turns,
            "wall_seconds": own.wall_seconds or self.settings.request_seconds,
        }
        given = wanted.model_dump(exclude_none=True)
        for name, value in given.items():
            if name in most and value > most[name]:
                message = f"limits.{name} is {value:g}, and this server allows {most[name]:g}. Ask for less."
                raise RequestError(message, param=f"saccade.limits.{name}")
        always = {**own.model_dump(exclude_none=True), "wall_seconds": most["wall_seconds"]}
        return EpisodeLimits.model_validate({**always, **given})

    def _frames(self, wanted: FrameSettings) -> FrameSettings:
        own, given = self._base.frames, wanted.model_dump(exclude_unset=True)
        for name, most in (("count", own.most), ("most", own.most), ("pixels", own.pixels)):
            if (given.get(name) or 0) > most:
                message = f"frames.{name} is {given[name]:,}, and this server allows {most:,}. Ask for less."
                raise RequestError(message, param=f"saccade.frames.{name}")
        if "fps" in given or "count" in given:
            given = {"fps": None, "count": None, **given}
        return own.model_copy(update=given)

    def _box(self, settings: AskSettings, plan: Plan) -> Sandbox:
        if self._given is not None:
            return self._given
        limits = plan.dialect.sandbox
        if limits not in self._boxes:
            self._boxes[limits] = settings.provider(plan.dialect)
            self._stack.push_async_callback(self._boxes[limits].close)
        return self._boxes[limits]
