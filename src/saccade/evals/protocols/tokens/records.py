"""What the token protocol finds: visual and text tokens per sample against accuracy (PyVision-RL, figure 4).

Backends seldom say how many tokens of a prompt are visual. Where they do not, the number is computed from the sizes of
the pictures that were shown, by a named pixel budget, and so is an estimate for any other model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import NonNegativeInt

from saccade.evals.protocols.findings import Findings, Mean, SampleRow
from saccade.record.base import Name, Record


class TokenUsageRow(SampleRow):
    """One sample and the tokens that it used."""

    pictures: NonNegativeInt
    """Shown to the model, each time it was shown."""
    visual: NonNegativeInt | None
    """Visual tokens in the last context; None if the shape of a picture is beyond the budget."""
    estimated: bool
    """Whether `visual` was computed from the pictures' sizes."""
    text: NonNegativeInt | None
    """Text tokens at the end: what was read and written, less `visual`; None if the backend does not say."""
    written: NonNegativeInt | None
    """Tokens that the model wrote in all turns; None if the backend does not say."""
    processed: NonNegativeInt | None
    """Tokens that were read in all turns together, again and again; None if the backend does not say."""


class TokenPoint(Record):
    """Some samples as a point of the figure."""

    label: Name
    samples: NonNegativeInt
    accuracy: Mean | None
    pictures: Mean | None
    visual: Mean | None
    text: Mean | None
    written: Mean | None
    processed: Mean | None


class TokenEconomy(Findings):
    """Accuracy beside the tokens that were spent on it."""

    protocol: Literal["tokens"] = "tokens"
    estimated: NonNegativeInt
    """Samples whose visual tokens were computed by the budget of `about`."""
    total: TokenPoint
    sources: Mapping[str, TokenPoint]
    """By benchmark."""
    spans: tuple[TokenPoint, ...]
    """Samples in quarters by visual tokens, from few to many; fewer where numbers tie."""
    rows: tuple[TokenUsageRow, ...]
