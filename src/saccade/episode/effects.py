"""What the loop asks its driver to do, and what the driver says in return. Frozen data, nothing runs here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from saccade.models.base import Completion, Request
from saccade.record.action import ToolCall
from saccade.record.content import ImagePart
from saccade.record.execution import Execution
from saccade.record.trajectory import StopReason
from saccade.record.turn import Turn


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model. Answered by `Said`."""

    request: Request
    turns: tuple[Turn, ...] = ()
    """The episode so far; so in every effect."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run code in the episode's session. Answered by `Ran`."""

    code: str
    bindings: Mapping[str, ImagePart] = field(default_factory=dict)
    """Variables to bind first: pictures that were shown since the last call."""
    turns: tuple[Turn, ...] = ()
    """The last one is the one that asks for this; so for `Call`."""


@dataclass(frozen=True, slots=True)
class Call:
    """Call a typed tool. Answered by `Ran`."""

    call: ToolCall
    pictures: Mapping[str, ImagePart]
    """The pictures that the tool may look at, by the names that the model knows, oldest first."""
    shown: int
    """Pictures shown so far: the number of the next one."""
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """What the model wrote, and the seconds that it took."""

    completion: Completion
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Ran:
    """What the sandbox or the tool gave back, and the seconds that it took."""

    execution: Execution
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """The driver could not do what it was asked, or must end the episode. May answer anything."""

    reason: StopReason
    detail: str = ""
    """For a person."""


Effect = Ask | Run | Call
"""What the loop asks its driver for."""
Reply = Said | Ran | Stopped
"""What the driver sends back."""


@dataclass(frozen=True, slots=True)
class Wrote:
    """A piece of the model's text, as it comes; an empty one means that the text begins again."""

    piece: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a person should know of the episode, such as that it continues an earlier one."""

    text: str


Event = Effect | Reply | Wrote | Notice
"""What somebody who watches an episode hears, in the order in which it happens."""
