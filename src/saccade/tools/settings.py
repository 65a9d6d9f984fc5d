"""How calls of typed tools are run: how long one may take, and in how many processes."""

from __future__ import annotations

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat

from saccade.record.settings import Settings


class ToolCallSettings(Settings):
    """The same for every tool of an episode, wherever it runs."""

    seconds: PositiveFloat = 60.0
    """Time limit of a call, from when the tool is loaded and the call begins."""
    retry_seconds: NonNegativeFloat = 120.0
    """How long a call that a server cannot do now is asked for again, with growing pauses, before it is lost."""
    workers: NonNegativeInt = 0
    """Worker processes for light tools, and as many for medium ones; 0: one for each core, at most 8. Tools that want
    an accelerator share one worker, since each would hold their weights."""


DEFAULT_CALLS = ToolCallSettings()
