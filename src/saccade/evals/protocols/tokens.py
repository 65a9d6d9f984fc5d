"""The token protocol: what samples cost, against how often they are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from pydantic import NonNegativeInt

from saccade.errors import MediaError
from saccade.evals.protocols.base import Protocol, Studied
from saccade.evals.protocols.findings import Findings, Mean, Rates, SampleRow, StudiedRun
from saccade.evals.rows import natural
from saccade.media.modes import policy
from saccade.record.base import Name, Record
from saccade.record.content import ImagePart, VideoPart
from saccade.record.trajectory import Trajectory, conversation

# What the token protocol finds: visual and text tokens per sample against accuracy (PyVision-RL, figure 4).
#
# Backends seldom say how many tokens of a prompt are visual. Where they do not, the number is computed from the sizes
# of the pictures that were shown, by a named pixel budget, and so is an estimate for any other model.


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
    """Accuracy next to the tokens that were spent on it."""

    protocol: Literal["tokens"] = "tokens"
    estimated: NonNegativeInt
    """Samples whose visual tokens were computed by the budget of `about`."""
    total: TokenPoint
    sources: Mapping[str, TokenPoint]
    """By benchmark."""
    spans: tuple[TokenPoint, ...]
    """Samples in quarters by visual tokens, from few to many; fewer where numbers tie."""
    lengths: tuple[TokenPoint, ...]
    """Samples in quarters by the tokens that the model wrote, from short to long: what length is worth (VISTA-R1,
    figures 4f and 5, of expert trajectories)."""
    rows: tuple[TokenUsageRow, ...]


_SPANS: Final = 4


def row(studied: Studied) -> TokenUsageRow:
    """Return one sample. Raises `RegistryError` for an unknown pixel budget."""
    trajectory = studied.trajectory
    turns = trajectory.turns
    shown = [part for message in conversation(trajectory.prompt, turns[:-1]) for part in message.media]
    last = turns[-1].tokens if turns else None
    reported = None if last is None else last.context_visual
    visual = _estimated(shown, studied.budget) if reported is None else reported
    sampled = [turn.tokens.sampled for turn in turns]
    contexts = [turn.tokens.context for turn in turns]
    return TokenUsageRow(
        **studied.head,
        pictures=len(shown),
        visual=visual,
        estimated=reported is None,
        text=_text(trajectory, visual),
        written=_sum(sampled),
        processed=_sum(contexts),
    )


def findings(rows: Sequence[TokenUsageRow], about: StudiedRun) -> TokenEconomy:
    """Return the findings of all rows."""
    sources = sorted({row.source for row in rows}, key=natural)
    return TokenEconomy(
        about=about,
        estimated=sum(row.estimated and row.visual is not None for row in rows),
        total=point("all", rows),
        sources={name: point(name or "?", [row for row in rows if row.source == name]) for name in sources},
        spans=tuple(_spans(rows, [row.visual for row in rows])),
        lengths=tuple(_spans(rows, [row.written for row in rows])),
        rows=tuple(rows),
    )


def point(label: str, rows: Sequence[TokenUsageRow]) -> TokenPoint:
    """Return some samples as a point."""
    rates = Rates(rows)
    accuracy = rates.credits([[row.correct for row in rows]])[0]
    pictures, visual, text, written, processed = rates.means(
        [
            [row.pictures for row in rows],
            [row.visual for row in rows],
            [row.text for row in rows],
            [row.written for row in rows],
            [row.processed for row in rows],
        ]
    )
    return TokenPoint(
        label=label,
        samples=len(rows),
        accuracy=accuracy,
        pictures=pictures,
        visual=visual,
        text=text,
        written=written,
        processed=processed,
    )


def _estimated(shown: Sequence[ImagePart | VideoPart], budget: str) -> int | None:
    """Return visual tokens by the sizes of the pictures; None where one cannot be reckoned so."""
    rule = policy(budget)
    if rule is None or any(isinstance(part, VideoPart) for part in shown):
        return None
    try:
        return sum(rule.tokens(part.width, part.height) for part in shown)
    except MediaError:
        return None


def _text(trajectory: Trajectory, visual: int | None) -> int | None:
    """Count the text at the end: the last context and what was written then, less `visual`; None if not a number."""
    last = trajectory.turns[-1].tokens if trajectory.turns else None
    if last is None or last.context is None or visual is None or visual > last.context:
        return None
    return last.context + (last.sampled or 0) - visual


def _sum(numbers: Sequence[int | None]) -> int | None:
    """Return the sum; None if one is not known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None


def _spans(rows: Sequence[TokenUsageRow], amounts: Sequence[int | None]) -> list[TokenPoint]:
    """Return quarters by an amount that each row has or not; samples of one amount stay together."""
    every = [(amount, row) for row, amount in zip(rows, amounts, strict=True) if amount is not None]
    known = sorted(amount for amount, _ in every)
    bounds = sorted({known[len(known) * part // _SPANS - 1] for part in range(1, _SPANS + 1)}) if known else []
    found, low = [], -1
    for high in bounds:
        inside = [row for amount, row in every if low < amount <= high]
        if inside:
            least = min(amount for amount, _ in every if low < amount <= high)
            found.append(point(f"{least}" if least == high else f"{least}-{high}", inside))
        low = high
    return found


PROTOCOL: Final = Protocol("tokens", "Token economy (PyVision-RL)", TokenEconomy, row, findings)
