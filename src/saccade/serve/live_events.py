"""An episode as events for the live page: what the model writes, what was run, and the finished page.

    {"kind": "begun", "id": …, "notes": […]}     the id stops it
    {"kind": "text", "piece": …}                 more of the model's text; `again`: it begins anew
    {"kind": "shown", "html": …, "pictures": …}  the episode so far; `state` is `asking`, `running` or `ended`
    {"kind": "done", "page": …, "answer": …}     the page that `saccade show` would write, and how it ended
    {"kind": "failed", "message": …}

Each is JSON in one server-sent event. The text of `html` is escaped by the templates of the report.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from saccade.episode.effects import Ask, Call, Event, Run, Wrote
from saccade.report.growing import GrowingEpisode, SoFar
from saccade.serve.agents import ServedEpisode


class LiveEvents:
    """Hears one episode and gives it as events."""

    def __init__(self, name: str) -> None:
        """`name` is known to its client alone, and stops the episode."""
        self.name = name
        self._heard: deque[Ask | Run | Call | Wrote] = deque()
        self._changed = asyncio.Event()
        self._over = False

    def hear(self, event: Event) -> None:
        """The callback of the loop."""
        if isinstance(event, Ask | Run | Call | Wrote):
            self._heard.append(event)
            self._changed.set()

    async def events(self, play: ServedEpisode) -> AsyncIterator[str]:
        """The events to the last, while `play` is played. Raises what the episode raised."""
        begun = play.begun()
        growing = GrowingEpisode(begun, play.store, f"e{self.name[:12]}")
        play.when_ended(self._end)
        yield live_event("begun", id=self.name, notes=list(begun.provenance.notes))
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
        """`piece` and all the text behind it that is there already, as one event."""
        again = not piece
        while self._heard and isinstance(following := self._heard[0], Wrote):
            self._heard.popleft()
            piece, again = (piece + following.piece, again) if following.piece else ("", True)
        return live_event("text", piece=piece, again=again)

    def _end(self) -> None:
        self._over = True
        self._changed.set()


def live_event(kind: str, **values: Any) -> str:
    """One server-sent event, in ASCII: a piece of a model's text may end in the middle of a surrogate pair."""
    return f"data: {json.dumps({'kind': kind, **values})}\n\n"


def _shown(so_far: SoFar, state: str) -> str:
    return live_event("shown", html=so_far.html, pictures=so_far.pictures, state=state)
