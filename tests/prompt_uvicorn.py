"""A server in the process of a test that ends as soon as it is told.

uvicorn looks ten times a second whether it shall end, and again for what it still waits for. Here it looks a hundred
times: hundreds of tests would wait a quarter of a second each.
"""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
import uvicorn.server


class _Asyncio:
    """The module `asyncio` as `uvicorn.server` sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


def prompt_server(app: Any, **settings: Any) -> uvicorn.Server:
    """A server of `app` that has not started; `settings` are uvicorn's."""
    uvicorn.server.asyncio = _Asyncio()  # type: ignore[attr-defined]
    return uvicorn.Server(uvicorn.Config(app, **settings))
