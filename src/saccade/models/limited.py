"""A model that is asked a limited number of things at once, however many ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from saccade.models.base import Completion, MediaReader, Model, Request


class LimitedModel:
    """Asks `model` at most `at_once` things side by side; further ones wait for their turn. For one event loop."""

    def __init__(self, model: Model, at_once: int) -> None:
        self.name = model.name
        self._model = model
        self._room = asyncio.Semaphore(at_once)

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """What the model says. Raises what it raises."""
        async with self._room:
            return await self._model.complete(request, media, on_text=on_text)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()
