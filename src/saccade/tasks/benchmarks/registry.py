"""The cards that come with the package, those of installed packages, and a user's own by their path.

Further packages add cards by the entry point group `saccade.cards`: the name is the card's id, the target a `Card`. A
user's own is a TOML file, or a `Card` in code (`file.py:NAME`, `module:NAME`). `:SPLIT` after one of these names
another split than the card's own.
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
from saccade.tasks.benchmarks.splits import card_of_split


def card_ids() -> tuple[str, ...]:
    """The ids of all cards, sorted."""
    return cards().ids()


def load_card(name: str) -> Card:
    """The card of an id, with or without its version, in the TOML file at a path that ends in `.toml`, or in code.

    Raises:
        RegistryError: there is no such card (suggests the nearest), or it is no card.
        SettingsError: the file is no card (names every mistake), or the card has no such split.
    """
    own, split = split_of(name)
    if own.endswith(".toml"):
        return card_of_split(load_settings(Card, own), split)
    return card_of_split(_by_id(own) if cards().code(own) is None else cards().load(own), split)


def recorded_card(source: str) -> Card:
    """The card that a stored run names; no code is run for it. Raises as `load_card`."""
    name, split = split_of(source)
    if name.endswith(".toml"):
        return card_of_split(load_settings(Card, name), split)
    return card_of_split(_by_id(name) if cards().code(name) is None else cards().load_recorded(name), split)


def split_of(wanted: str) -> tuple[str, str]:
    """The name of a card, and the split that follows it; empty for none."""
    code = cards().code(wanted)
    if code is not None:
        return code.name, code.rest or ""
    name, _, split = wanted.rpartition(":")
    return (name, split) if name and (name.endswith(".toml") or cards().has(name)) else (wanted, "")


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
