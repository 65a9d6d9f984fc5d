"""How calls of typed tools are run: how long one may take, and in how many processes."""

from __future__ import annotations

from pydantic import NonNegativeInt, PositiveFloat

from saccade.core.retry import TOOL_RETRY, RetryPolicy
from saccade.record.settings import Settings


class ToolCallSettings(Settings):
    """The same for every tool of an episode, wherever it runs."""

    seconds: PositiveFloat = 60.0
    """Time limit of a call, from when the tool is loaded and the call begins."""
    retry: RetryPolicy = TOOL_RETRY
    """How often a call that a server cannot do now is asked for again before it is lost; `retry.seconds` is for one try
    beyond the call's own `seconds`, its wait in the server's queue included."""
    workers: NonNegativeInt = 0
    """Worker processes for light tools, and as many for medium ones; 0: one for each core, at most 8. Tools that want
    an accelerator share one worker, since each would hold their weights."""


DEFAULT_CALLS = ToolCallSettings()
