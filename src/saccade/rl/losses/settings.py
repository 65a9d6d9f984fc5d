"""The parameters of a loss, without torch: what a recipe holds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat

from saccade.record.settings import Settings


class RlLossSettings(Settings):
    """Clipped policy gradient, distance to a reference, entropy."""

    clip_low: Annotated[float, Field(ge=0, le=1)] = 0.2
    clip_high: NonNegativeFloat = 0.2
    dual_clip: NonNegativeFloat = 0.0
    """Above 1, or 0 for none. verl's default is 3."""
    aggregate: Literal["token-mean", "sequence-mean", "sequence-sum"] = "token-mean"
    scale: PositiveFloat = 1.0
    """Tokens by which a sequence's sum is divided (`sequence-sum`)."""
    kl_weight: NonNegativeFloat = 0.0
    """0 needs no reference policy."""
    kl: str = "k3"
    """How the distance to the reference is estimated, as `saccade.rl.losses.kl` names it: `k1`, `k2`, `k3`, `abs`."""
    entropy_weight: float = 0.0
    """Above 0 keeps the policy random."""
