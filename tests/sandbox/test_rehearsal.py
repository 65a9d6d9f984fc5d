"""A leaf that waits does what the last call did, so that the next one finds its memory copied."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.sandbox.providers import linux_only

from saccade.sandbox.local import LocalSandbox

pytestmark = [linux_only, pytest.mark.asyncio(loop_scope="session")]


async def test_what_the_last_call_did_is_rehearsed_and_leaves_nothing(
    box: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await box.open()
    sent: list[Mapping[str, Any]] = []
    tell = session._link._tell
    monkeypatch.setattr(session._link, "_tell", lambda message, fds=(): (sent.append(message), tell(message, fds)))
    look = "import sys\nprint(sorted(globals()), sys.exc_info())"
    seen = []
    for code in ("1", "1 / 0", look):
        result = await session.run(code)
        seen.append(result.stdout)
        await asyncio.sleep(0.3)
    assert (await session.run(look)).stdout == seen[-1]
    rehearsed = [(message["figure"], message["error"]) for message in sent if message["op"] == "rehearse"]
    assert rehearsed == [(False, False), (False, True), (False, False)]
