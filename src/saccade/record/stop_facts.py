"""The one table of stop reasons: the words for each, the limit that set it, and what it says of a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from saccade.record.trajectory import StopReason


class Broken(StrEnum):
    """What broke a rollout through its own doing."""

    TIMEOUT = "timeout"
    RUNTIME_DEATH = "runtime_death"
    """The program's process died, or asked for too much memory."""
    EXECUTION_ERROR = "execution_error"
    """The code raised, or a tool refused the call."""
    NO_ACTION = "no_action"
    """The last turn holds no action."""
    OVER_LENGTH = "over_length"
    OVER_IMAGES = "over_images"
    """Too many pictures or pixels."""


@dataclass(frozen=True, slots=True)
class StopFacts:
    """What a stop reason means."""

    words: str
    """A sentence for whoever looks at the episode."""
    limit: str = ""
    """The field of `EpisodeLimits` that set it; empty if none did."""
    broken: Broken | None = None
    """What it says of a rollout; None for nothing against it."""


STOPS: Final[Mapping[StopReason, StopFacts]] = {
    StopReason.ANSWERED: StopFacts("The model gave its answer."),
    StopReason.TURN_LIMIT: StopFacts("The limit of turns was reached before an answer.", "turns"),
    StopReason.CONTEXT_LIMIT: StopFacts("The context was full before an answer.", "context_tokens", Broken.OVER_LENGTH),
    StopReason.IMAGE_LIMIT: StopFacts(
        "The limit of pictures was reached before an answer.", "images", Broken.OVER_IMAGES
    ),
    StopReason.PIXEL_LIMIT: StopFacts(
        "The limit of pixels was reached before an answer.", "pixels", Broken.OVER_IMAGES
    ),
    StopReason.WALL_LIMIT: StopFacts("The limit of time was reached before an answer.", "wall_seconds", Broken.TIMEOUT),
    StopReason.FAILED_CALL_LIMIT: StopFacts("More calls failed than the limit allows.", "failed_calls"),
    StopReason.NO_ACTION: StopFacts("The model stopped without code, a call or an answer.", broken=Broken.NO_ACTION),
    StopReason.CANCELLED: StopFacts("The episode was cancelled."),
    StopReason.MODEL_LOST: StopFacts("The model's backend failed. This is an outage, not a mistake of the model."),
    StopReason.MODEL_REFUSED: StopFacts("The model's backend refused the request. This is no mistake of the model."),
    StopReason.SANDBOX_LOST: StopFacts("The sandbox failed. This is an outage, not a mistake of the model."),
    StopReason.TOOL_LOST: StopFacts("A tool's process or server failed. This is an outage, no mistake of the model."),
}
"""Every stop reason."""
