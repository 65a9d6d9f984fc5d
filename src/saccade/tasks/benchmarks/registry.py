"""Find the cards that come with the package, those of installed packages, and a user's own by their path.

Further packages add cards by the entry point group `saccade.cards`: the name is the card's id, the target a `Card`. A
user's own is a TOML file, or a `Card` in code (`file.py:NAME`, `module:NAME`). `:SPLIT` after one of these names
another split than the card's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

from saccade.core.registry import Registry, is_a
from saccade.core.settings import load_settings
from saccade.errors import RegistryError
from saccade.tasks.benchmarks.benchmark import Benchmark, card_of_split
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.loaders.base import load_loader
from saccade.tasks.benchmarks.make_task import task_id
from saccade.tasks.benchmarks.values import RowProblem, as_text, first_value


def card_ids() -> tuple[str, ...]:
    """Return the ids of all cards, sorted."""
    return cards().ids()


def load_card(name: str) -> Card:
    """Return the card of an id, with or without its version, in the TOML file at a path that ends in `.toml`, or in
    code.

    Raises:
        RegistryError: there is no such card (suggests the nearest), or it is no card.
        SettingsError: the file is no card (names every mistake), or the card has no such split.
    """
    own, split = split_of(name)
    if own.endswith(".toml"):
        return card_of_split(load_settings(Card, own), split)
    return card_of_split(_by_id(own) if cards().code(own) is None else cards().load(own), split)


def recorded_card(source: str) -> Card:
    """Return the card that a stored run names; no code is run for it. Raises as `load_card`."""
    name, split = split_of(source)
    if name.endswith(".toml"):
        return card_of_split(load_settings(Card, name), split)
    return card_of_split(_by_id(name) if cards().code(name) is None else cards().load_recorded(name), split)


def split_of(wanted: str) -> tuple[str, str]:
    """Return the name of a card, and the split that follows it; empty for none."""
    code = cards().code(wanted)
    if code is not None:
        return code.name, code.rest or ""
    name, _, split = wanted.rpartition(":")
    return (name, split) if name and (name.endswith(".toml") or cards().has(name)) else (wanted, "")


@cache
def cards() -> Registry[Card]:
    """Return the cards by their ids. Those of the package are files, which are read when they are named."""
    return Registry("cards", dict.fromkeys(_shipped(), f"{__name__}:load_card"), is_a(Card, "a card"))


@cache
def cards_of_group(group: str) -> tuple[Card, ...]:
    """Return the cards that name a group of benchmarks, in the order of their ids."""
    return tuple(card for card in map(load_card, card_ids()) if group in card.groups)


def _by_id(name: str) -> Card:
    entry = cards().resolve(name)
    card = _read(entry) if entry in _shipped() else cards().load(entry)
    if card.id != entry:
        raise RegistryError(f"{entry} of cards is the card {card.id}; correct its target or the name of its file")
    return card


@cache
def _shipped() -> dict[str, Traversable]:
    """Return the id of each card of the package -> its file: `vstar.toml` is `vstar@1`, `vstar@2.toml` is `vstar@2`."""
    names = {
        file.name.removesuffix(".toml"): file for file in files("saccade.tasks.benchmarks").joinpath("cards").iterdir()
    }
    return {name if "@" in name else f"{name}@1": file for name, file in names.items() if file.name.endswith(".toml")}


@cache
def _read(entry: str) -> Card:
    with as_file(_shipped()[entry]) as path:
        return load_settings(Card, Path(path))


# What published models made of the very rows of a benchmark, where its files say so: right or wrong, by task.


def published_answers(benchmark: Benchmark) -> dict[str, dict[str, bool]]:
    """Return task id -> model -> whether it was right, from the card's field `published`; empty where the card names
    none.

    Files spell one model in several ways (`sonnet3.5`, `Sonnet-3.5`); here it has the spelling that comes first.

    Raises:
        DataError: a file of the data cannot be read.
        UnavailableError: what reads it is not installed.
    """
    card = benchmark.card
    if not card.fields.published:
        return {}
    answers: dict[str, dict[str, bool]] = {}
    spelled: dict[str, str] = {}
    for row in load_loader(card.loader.id).rows(benchmark.files):
        if isinstance(row, RowProblem):
            continue
        own, published = first_value(row.fields, card.fields.id), first_value(row.fields, card.fields.published)
        if own is not None and isinstance(published, Mapping):
            by_model = {str(model): right for model, right in published.items() if isinstance(right, bool)}
            answers[task_id(card, as_text(own, "id"))] = {
                spelled.setdefault(_plain(model), model): right for model, right in by_model.items()
            }
    return answers


def _plain(model: str) -> str:
    return "".join(letter for letter in model.casefold() if letter.isalnum())
