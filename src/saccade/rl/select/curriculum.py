"""Which tasks the next stage trains on, from how the last checkpoint did: difficulty filters and VISTA's tail patch.

Pure: pass rates in, names of tasks out, in the given order. A task that was never rolled out is in no band.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Self

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from saccade.record.settings import Settings
from saccade.rl.rollout import RolloutGroup


class Band(Settings):
    """Pass rates from `lowest` to `highest`, both included."""

    lowest: Annotated[float, Field(ge=0, le=1)] = 0.0
    highest: Annotated[float, Field(ge=0, le=1)] = 1.0
    fewest: PositiveInt = 1
    """Usable rollouts that a task needs, so that its rate says something."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lowest > self.highest:
            raise ValueError(f"lowest ({self.lowest}) is above highest ({self.highest})")
        return self


TAIL_PATCH: Final = Band(lowest=0.125, highest=0.375)
"""VISTA-R1: hard but learnable, one to three of eight rollouts right."""
UNSOLVED_MOSTLY: Final = Band(highest=0.9, fewest=8)
"""CodeV: what the start model solves in more than 0.9 of eight samples goes."""


def pass_rates(groups: Iterable[RolloutGroup]) -> dict[str, tuple[float, int]]:
    """For each group its share of right rollouts and the number of usable ones; groups without any are left out."""
    counted = ((group.id, group.pass_rate, len(group.usable)) for group in groups)
    return {name: (rate, usable) for name, rate, usable in counted if rate is not None}


def in_band(rates: Mapping[str, tuple[float, int]], band: Band) -> tuple[str, ...]:
    """The tasks whose pass rate lies in the band, in the order of `rates`."""
    return tuple(
        name for name, (rate, usable) in rates.items() if usable >= band.fewest and band.lowest <= rate <= band.highest
    )


def epoch_order(tasks: Iterable[str], seed: int, epoch: int) -> tuple[str, ...]:
    """The tasks in the order of an epoch: a shuffle that depends on the seed, the epoch and the tasks alone."""
    names = sorted(tasks)
    return tuple(names[index] for index in np.random.default_rng([seed, epoch]).permutation(len(names)))
