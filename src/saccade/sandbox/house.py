"""What all sessions of a sandbox share, and how long each step of getting ready may take."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass

from saccade.sandbox.gate import Gate
from saccade.sandbox.limits import Limits
from saccade.sandbox.shared_images import SharedImages
from saccade.sandbox.zygote_client import ZygoteClient

DEATH_SECONDS = 0.5
"""How long the news of a death may take from the kernel through the zygote to us."""
REHEARSE_SECONDS = {False: 0.002, True: 0.02}
"""How long after a fork nothing must happen before a rehearsal without or with a figure. A call that comes
in during one has to wait for its end, and drawing takes longer than a short cell."""
REHEARSING_SESSIONS = 64
"""With more sessions than this memory counts for more: a rehearsal copies pages, and one with a figure many."""
ANSWER_SECONDS = 30.0
"""How long a session may take to become ready; generous, for machines under load. The zygote sees to it that it does
not work for so long."""
ASLEEP_SECONDS = 0.1
"""For how long a session that should get ready must be seen to sleep: it may wait for a processor, but not so."""
LEAST_SECONDS = 1.0
"""How long a call waits for that at least, however short its own limit is."""
REST_SECONDS = {False: 0.05, True: 0.5}
"""How long a rehearsal may take."""


@dataclass(frozen=True)
class House:
    """What all links of a sandbox share."""

    zygote: ZygoteClient
    limits: Limits
    images: SharedImages
    gate: Gate
    links: Sized
    """All links there are."""
