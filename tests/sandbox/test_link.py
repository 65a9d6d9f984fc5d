"""How a session's end is judged, and that its news may come twice. No process is started here."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.sandbox.providers import linux_only

from saccade.record.execution import Status
from saccade.sandbox.base import Limits
from saccade.sandbox.gate import Gate
from saccade.sandbox.link import KILLED_OUTSIDE, Link
from saccade.sandbox.shared_images import SharedImages
from saccade.sandbox.zygote_client import ZygoteClient

pytestmark = linux_only


@pytest.mark.parametrize(
    ("was_ready", "message", "ended", "fate"),
    [
        (True, {"op": "died", "code": 3, "cpu": 0.5}, False, (Status.LOST, KILLED_OUTSIDE)),
        (True, {"op": "ended", "code": -signal.SIGKILL, "cpu": 0.5}, True, (Status.LOST, KILLED_OUTSIDE)),
        (
            *(True, {"op": "ended", "code": 3, "cpu": 0.5}, True),
            (Status.KILLED, "the process that kept the session's state ended with exit code 3"),
        ),
        (False, {"op": "ended", "code": 3, "cpu": 0.5}, True, (Status.LOST, KILLED_OUTSIDE)),  # it ran nothing yet
        (True, {"op": "ended"}, True, (Status.LOST, KILLED_OUTSIDE)),
    ],
)
async def test_the_end_of_a_session_and_of_a_call_are_told_apart(
    was_ready: bool, message: dict[str, Any], ended: bool, fate: tuple[Status, str]
) -> None:
    zygote = ZygoteClient(lambda *_: None, lambda _: None)
    link = Link(zygote, Limits(), SharedImages(), Gate(), ())
    try:
        link.was_ready = was_ready
        for _ in range(2):  # the same news twice changes nothing
            link.hear(message)
        assert (link.ended, link.end()) == (ended, fate)
    finally:
        await link.close()
