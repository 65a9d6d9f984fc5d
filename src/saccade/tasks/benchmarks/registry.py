"""The cards that come with the package, those of installed packages, and a user's own by their path.

Further packages add cards by the entry point group `saccade.cards`: the name is the card's id, the target a `Card`. A
user's own is a TOML file, or a `Card` in code (`file.py:NAME`, `module:NAME`).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

from saccade.errors import RegistryError
from saccade.record.registry import Registry, is_a
from saccade.record.settings import load_settings
from saccade.tasks.benchmarks.card import Card


def card_ids() -> tuple[str, ...]:
    """The ids of all cards, sorted."""
    return cards().ids()


def load_card(name: str) -> Card:
    """The card of an id, with or without its version, in the TOML file at a path that ends in `.toml`, or in code.

    Raises:
        RegistryError: there is no such card (suggests the nearest), or it is no card.
        SettingsError: the file is no card; names every mistake.
    """
    if name.endswith(".toml"):
        return load_settings(Card, name)
    return _by_id(name) if cards().code(name) is None else cards().load(name)


def recorded_card(source: str) -> Card:
    """The card that a stored run names; no code is run for it. Raises as `load_card`."""
    if source.endswith(".toml"):
        return load_settings(Card, source)
    return _by_id(source) if cards().code(source) is None else cards().load_recorded(source)


@cache
def cards() -> Registry[Card]:
    """The cards by their ids; those of the package itself are files, for which nothing is imported."""
    return Registry("cards", dict.fromkeys(_shipped(), f"{__name__}:load_card"), is_a(Card, "a card"))


def _by_id(name: str) -> Card:
    entry = cards().resolve(name)
    card = _shipped()[entry] if entry in _shipped() else cards().load(entry)
    if card.id != entry:
        raise RegistryError(f"{entry} of cards is the card {card.id}; correct its target")
    return card


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
