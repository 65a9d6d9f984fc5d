"""A sandbox that tests share, and which of the suite's checks over HTTP wait for limits to be reached."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from saccade.sandbox.base import Limits
from saccade.sandbox.local import LocalSandbox


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The local provider is checked for the same in the default suite, so over HTTP they belong to the slow ones."""
    for item in items:
        if "[remote-limits." in item.name or "[remote-concurrency." in item.name:
            item.add_marker(pytest.mark.slow)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def _one_box() -> AsyncIterator[LocalSandbox]:
    async with LocalSandbox(limits=Limits(cpu_seconds=10, wall_seconds=10)) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def box(_one_box: LocalSandbox) -> AsyncIterator[LocalSandbox]:
    """A sandbox for tests that are not about its start, in the loop of the whole run; sessions end with their test."""
    before = set(_one_box._sessions)
    yield _one_box
    for session in set(_one_box._sessions) - before:
        await session.close()
