"""The page of the papers' data says of every set what its card says."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tasks.benchmarks.test_cards import TRAINING, VISTA

from saccade.tasks.benchmarks.benchmark import card_of_split
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.registry import card_ids, load_card

PAGE = Path(__file__).parents[3] / "docs" / "data-sets.md"


def sizes(card: Card) -> str:
    """Every split with its size, or what is known of it."""
    names = dict.fromkeys([card.split, *card.splits])
    cards = [(name, card_of_split(card, name)) for name in names]
    return "; ".join(f"{name}: {each.size.tasks or each.size.source}" for name, each in cards)


def line(card: Card) -> str:
    loaders = dict.fromkeys(f"`{item.loader.id.partition('@')[0]}`" for item in (card, *card.forms))
    graders = dict.fromkeys(
        f"`{grader.id.partition('@')[0]}`{' + judge' if grader.headline == 'judge' else ''}"
        for grader in card.graders.values()
    )
    licence = card.source.licence.replace("see the source", "not known here")
    source = f"[{card.source.name}]({card.source.url})"
    return f"| `{card.name}` | {source} | {', '.join(loaders)} | {sizes(card)} | {', '.join(graders)} | {licence} |"


@pytest.mark.parametrize("name", [*TRAINING, "pixmo-count", *(f"vista-{name}" for name in VISTA)])
def test_the_page_says_what_the_card_says(name: str) -> None:
    assert line(load_card(name)) in PAGE.read_text(encoding="utf-8").splitlines()


def test_the_page_says_which_cards_have_met_a_real_file() -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    met = {
        f"| `{card.name}` | {form.loader.met} |"
        for card in map(load_card, card_ids())
        for form in (card, *card.forms)
        if form.loader.met
    }
    begin = page.index("| card | real files that were read |")
    listed = page[begin + 2 : page.index("| all others | none: rows made by hand after the form |")]
    assert sorted(listed) == sorted(met)


@pytest.mark.parametrize("name", card_ids())
def test_every_form_says_where_it_is_known_from(name: str) -> None:
    card = load_card(name)
    assert [form.loader.known_from for form in (card, *card.forms) if not form.loader.known_from] == []
