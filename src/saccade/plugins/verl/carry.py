"""Carry scored rollouts from the workers that play to the sampler, in the extra fields of verl's output."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from saccade.training.rl.rollout import Rollout

FIELD: Final = "saccade"


@dataclass(frozen=True, slots=True)
class Carried:
    """A rollout and what playing its group took."""

    rollout: Rollout
    decoding: float
    """Seconds of the group's in which a turn was at a server."""
    waiting: float
    """Other seconds of the group's."""
    replayed: int
    """Rollouts of the group that were played again."""


def packed(carried: Carried) -> dict[str, bytes]:
    """Pack as an extra field."""
    return {FIELD: pickle.dumps(carried)}


def unpacked(fields: Mapping[str, Any]) -> Carried:
    """Unpack from the extra fields of an agent loop's output; both ends are processes of one run."""
    carried = pickle.loads(fields[FIELD])
    assert isinstance(carried, Carried)
    return carried
