"""`saccade eval --batch`: a run by the provider's batch API, and what both ways cost, said before the first request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from saccade.dialects.base import Dialect
from saccade.episode.flow import Plan
from saccade.errors import SettingsError
from saccade.evals.settings import EvalSettings
from saccade.models.base import Model
from saccade.models.batches import HALF, BatchTimes
from saccade.models.hosted import HostedModel
from saccade.record.content import ImagePart, Message, TextPart

FOLDER: Final = "batches"
LOOKED_AT: Final = 3
"""Samples that an estimate looks at."""
_CHARACTERS, _PIXELS, _MOST_MEDIA = 4, 784, 4096
"""Characters and pixels for a token, and most tokens for a picture or a video."""
_TURNS, _REPLY, _SHOWN = 3, 400, 300
"""Turns of an episode at most, tokens that are written in one, and tokens of what comes back."""


def gather(model: Model, settings: EvalSettings, dialect: Dialect, out: Path, times: BatchTimes) -> None:
    """Send from now on the requests of `model` in batches, which are kept in the run folder `out`.

    Raises:
        SettingsError: it has no batch API, or a setting cannot be met by one.
    """
    unmet = {
        "limits.wall_seconds": settings.limits.wall_seconds is not None,
        "sampling.extra_headers": settings.sampling.extra_headers is not None,
        "the dialect hosted": dialect.provider_runs,
    }
    if names := " and ".join(name for name, is_set in unmet.items() if is_set):
        raise SettingsError(f"a batch waits for hours and holds plain requests: --batch cannot meet {names}.")
    if not (isinstance(model, HostedModel) and model.gather(out / FOLDER, times)):
        raise SettingsError(
            f"{settings.model} has no batch API; openai, responses, anthropic and gemini have one. Leave --batch out."
        )


def price_line(model: Model, plans: Sequence[Plan], samples: int) -> str:
    """Say what `samples` such samples cost by single requests and by batches, as far as it can be known before."""
    if not isinstance(model, HostedModel) or model.price is None or not plans:
        return f"The price of {model.name} is not known; by batches it is half."
    read = written = 0.0
    for plan in plans:
        turns = min(plan.limits.turns or _TURNS, _TURNS)
        reply = min(plan.sampling.max_tokens or _REPLY, _REPLY)
        prompt = sum(map(_tokens, plan.opening.messages))
        read += sum(prompt + turn * (reply + _SHOWN) for turn in range(turns)) / len(plans)
        written += turns * reply / len(plans)
    price = model.price
    dollars = samples * (read * price.input + written * price.output) / 1_000_000
    return (
        f"{samples} samples cost about {dollars:.2f} dollars by single requests, and {dollars * HALF:.2f} by batches, "
        f"for about {read:,.0f} tokens read and {written:,.0f} written in each; providers count otherwise."
    )


def _tokens(message: Message) -> int:
    tokens = 0
    for part in message.parts:
        if isinstance(part, TextPart):
            tokens += len(part.text) // _CHARACTERS
        elif isinstance(part, ImagePart):
            tokens += min(part.width * part.height // _PIXELS, _MOST_MEDIA)
        else:
            tokens += _MOST_MEDIA
    return tokens
