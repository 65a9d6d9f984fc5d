"""The cards that come with the package, those of installed packages, and a user's own by their path.

Further packages add cards by the entry point group `saccade.cards`: the name is the card's id, the target a `Card`.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

from saccade.errors import RegistryError
from saccade.record.registry import Registry
from saccade.record.settings import load_settings
from saccade.tasks.benchmarks.card import Card


def card_ids() -> tuple[str, ...]:
    """The ids of all cards, sorted."""
    return _known().ids()


def load_card(wanted: str) -> Card:
    """The card of an id, with or without its version, or in the TOML file at a path that ends in `.toml`.

    Raises:
        RegistryError: there is no such card; suggests the nearest.
        SettingsError: the file is no card; names every mistake.
    """
    if wanted.endswith(".toml"):
        return load_settings(Card, wanted)
    known = _known()
    entry = known.resolve(wanted)
    card = _shipped()[entry] if entry in _shipped() else known.load(entry)
    if not isinstance(card, Card) or card.id != entry:
        raise RegistryError(f"{entry} of cards is no Card of that id; correct its target")
    return card


def _known() -> Registry:
    # The package's own cards are files; no target is imported for them.
    return Registry("cards", dict.fromkeys(_shipped(), f"{__name__}:load_card"))


@cache
def _shipped() -> dict[str, Card]:
    folder = files("saccade.tasks.benchmarks").joinpath("cards")
    cards = [_read(file) for file in folder.iterdir() if file.name.endswith(".toml")]
    by_id = {card.id: card for card in cards}
    if len(by_id) < len(cards):
        raise RegistryError("two cards of the package have one id; reinstall it")
    return by_id


def _read(file: Traversable) -> Card:
    with as_file(file) as path:
        return load_settings(Card, Path(path))
