"""Another split of a benchmark than the one that its card reads: `chartqa:train`.

A card may list its other splits. Where it does not, files named after the card's own split (`data/test-*.parquet`,
`test.jsonl`) have the name of the other one in its place, as data sets on the hub do.
"""

from __future__ import annotations

import re

from saccade.errors import SettingsError
from saccade.record.suggest import did_you_mean
from saccade.tasks.benchmarks.card import Card, Size


def card_of_split(card: Card, split: str) -> Card:
    """The card for `split`; its tasks have the split in their ids unless it is the card's own.

    Raises:
        SettingsError: neither the card nor the names of its files know of splits.
    """
    if split in ("", card.split):
        return card
    listed = card.splits.get(split)
    if listed is not None:
        reading = {"files": listed.files, "media": listed.media or card.loader.media}
        size = Size(tasks=listed.tasks, source=listed.source)
        only = {**card.only, **listed.only}
    else:
        files = tuple(_renamed(pattern, card.split, split) for pattern in card.loader.files)
        known = [name for name, pattern in zip(files, card.loader.files, strict=True) if name != pattern]
        if not known:
            names = [card.split, *card.splits]
            hint = did_you_mean(split, names) or f"It has: {', '.join(names)}."
            raise SettingsError(f"{card.id} has no split {split!r}. {hint}")
        reading = {"files": tuple(known), "media": tuple(_renamed(m, card.split, split) for m in card.loader.media)}
        size = Size(source=f"the card says nothing of the split {split}")
        only = dict(card.only)
    loader = card.loader.model_copy(update=reading)
    return card.model_copy(update={"loader": loader, "split": split, "part": split, "size": size, "only": only})


def _renamed(pattern: str, own: str, other: str) -> str:
    return re.sub(rf"(?<![A-Za-z]){re.escape(own)}(?![A-Za-z])", other, pattern)
