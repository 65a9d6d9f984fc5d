"""`saccade cards`: the benchmarks that are known, what a card says, and whether the data on this disk are that."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.output import AsJson, counted, print_json, print_some, teller
from saccade.errors import SettingsError

if TYPE_CHECKING:
    from saccade.tasks.benchmarks.card import Card
    from saccade.tasks.benchmarks.registry import DataSetCheck

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

Wanted = Annotated[str, typer.Argument(help="A card: its id, or the path of a .toml file.")]

_FILES_SHOWN = 8


@app.callback()
def cards() -> None:
    """Show benchmarks as cards: where the data come from, how they are read, how answers are graded."""


@app.command("list")
def list_cards(as_json: AsJson = False) -> None:
    """Name every card, its size (`show` says why some have no single one), and its metric."""
    from saccade.cli.list import print_parts

    print_parts("cards", as_json=as_json)


@app.command()
def show(wanted: Wanted, as_json: AsJson = False) -> None:
    """Print a card with all its settings."""
    from saccade.core.settings import settings_toml
    from saccade.tasks.benchmarks.registry import load_card

    card = load_card(wanted)
    if as_json:
        print_json(card)
    else:
        print(settings_toml(card), end="")


@app.command()
def check(
    data: Annotated[Path, typer.Argument(help="The data set's folder, or the one above it.")],
    card: Annotated[str | None, typer.Option(help="The card; by default the one that reads the folder.")] = None,
    complete: Annotated[
        bool, typer.Option("--whole", help="Fail also if there are not as many tasks as the card expects.")
    ] = False,
    store: Annotated[
        Path | None, typer.Option(help="Keep the media in this store; by default they are not kept.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a data set is, read all its rows, and say what is there and what is missing; 1 if rows are broken."""
    from saccade.evals.benchmarks import check_graders
    from saccade.tasks.benchmarks.registry import load_card

    say = teller(as_json)
    name, data = (card, data) if card else _recognised(data, say)
    chosen = load_card(name)
    check_graders(chosen)
    if store is not None:
        findings = _read(chosen, data, store)
    else:
        with tempfile.TemporaryDirectory(prefix="saccade-check-") as folder:
            findings = _read(chosen, data, Path(folder))
    splits = _splits(chosen, data)
    if as_json:
        print_json(_findings(findings, splits))
    else:
        for line in (
            *findings.lines(),
            *(f"split         {split}: {'also' if there else 'not'} here ({name})" for split, name, there in splits),
        ):
            print(line)
    print_some(findings.problems)
    if findings.problems or (complete and not findings.complete):
        raise typer.Exit(1)


def _recognised(data: Path, say: Callable[[str], None]) -> tuple[str, Path]:
    """Return the card of a folder and the folder: the card of its name, else the one that reads it or what is in it.

    Says what else could read it.
    """
    from saccade.tasks.benchmarks.registry import card_matches, cards, sets_below

    own = data.resolve().name
    matches = card_matches(data) if data.is_dir() else []
    if own in cards().names() and not any(item.card.name == own for item in matches):
        return own, data
    if data.is_dir() and own not in cards().names() and not any(item.named for item in matches[:1]):
        below = sets_below(data)
        if len({match.card.id for match in below.values()}) > 1:
            held = "\n".join(f"  {path}: {match.name}" for path, match in below.items())
            raise SettingsError(
                f"{data} holds several data sets. Check one of them; for eval and training name {data} with --data:\n"
                f"{held}"
            )
        if below and not (matches and matches[0].likely and not matches[0].guessed):
            data = next(iter(below))
            matches = card_matches(data)
    if not matches:
        held = ", ".join(sorted(path.name for path in data.iterdir())[:_FILES_SHOWN]) if data.is_dir() else "no folder"
        raise SettingsError(
            f"no card reads {data} (it holds: {held or 'nothing'}). Name one with --card (`saccade cards list` has "
            "all, `saccade cards show NAME` says which files it wants and how to get them), or read the folder as "
            "your own data: `saccade tasks check`."
        )
    matches.sort(key=lambda item: item.card.name == own, reverse=True)
    best, others = matches[0], list(dict.fromkeys(item.name for item in matches[1:] if item.likely))
    verb = "may be" if best.guessed and best.card.name != own else "is"
    say(f"{data} {verb} {best.name}: {', '.join(sorted({file.name for file in best.files})[:_FILES_SHOWN])}")
    if verb == "may be":
        say(f"guessed       by the form of its rows alone; for questions of your own: saccade tasks check {data}")
    if names := [name for name in others if name.partition(":")[0] != best.card.id][:_FILES_SHOWN]:
        say(f"read also by  {', '.join(names)} (name one with --card)")
    return best.name, data


def _splits(card: Card, data: Path) -> list[tuple[str, str, bool]]:
    """Return the further splits of the card: how each is called, what names it, and whether it lies there."""
    from saccade.tasks.benchmarks.registry import card_ids, load_card, other_splits

    if card.id not in card_ids():
        return []
    complete = load_card(card.id)
    folder = data / card.name if (data / card.name).is_dir() else data
    return [
        (split, complete.id if split == complete.split else f"{complete.id}:{split}", there)
        for split, there in other_splits(complete, folder)
        if split != card.split
    ]


def _findings(findings: DataSetCheck, splits: list[tuple[str, str, bool]]) -> dict[str, object]:
    return {
        "card": findings.card.name,
        "tasks": findings.tasks,
        "expected": findings.card.size.tasks,
        "whole": findings.complete,
        "broken": [str(problem) for problem in findings.problems],
        "answer_types": findings.answer_types,
        "choice_counts": findings.choice_counts,
        "gold_positions": findings.gold_positions,
        "tags": findings.tags,
        "other_splits": [{"split": split, "name": name, "here": there} for split, name, there in splits],
    }


def _read(card: Card, data: Path, store: Path) -> DataSetCheck:
    from saccade.media.store import MediaStore
    from saccade.tasks.benchmarks.benchmark import open_benchmark
    from saccade.tasks.benchmarks.registry import survey

    benchmark = open_benchmark(card, data)
    items = counted(benchmark.tasks(MediaStore(store)), f"Reading {card.id}", benchmark.count())
    return survey(benchmark.card, items)
