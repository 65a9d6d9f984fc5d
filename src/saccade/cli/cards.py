"""`saccade cards`: the benchmarks that are known, what a card says, and whether the data on this disk are that."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.errors import SettingsError

if TYPE_CHECKING:
    from saccade.tasks.benchmarks.card import Card
    from saccade.tasks.benchmarks.check import DataSetCheck

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

Wanted = Annotated[str, typer.Argument(help="A card: its id, or the path of a .toml file.")]

_BROKEN_SHOWN = 20


@app.callback()
def cards() -> None:
    """Benchmarks as cards: where the data come from, how they are read, how answers are graded."""


@app.command("list")
def list_cards() -> None:
    """Name every card, its size (`show` says why some have no single one), and its metric."""
    from saccade.cli.list import lines, parts_of

    for line in lines(list(parts_of("cards"))):
        print(line)


@app.command()
def show(wanted: Wanted) -> None:
    """Print a card with all its settings."""
    from saccade.record.settings import settings_toml
    from saccade.tasks.benchmarks.registry import load_card

    print(settings_toml(load_card(wanted)), end="")


@app.command()
def check(
    data: Annotated[Path, typer.Argument(help="The data set's folder, or the one above it.")],
    card: Annotated[str | None, typer.Option(help="The card; by default the one named like the folder.")] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Fail also if there are not as many tasks as the card expects.")
    ] = False,
    store: Annotated[
        Path | None, typer.Option(help="Keep the media in this store; by default they are not kept.")
    ] = None,
) -> None:
    """Read all rows of a data set, and say what was found beside what its card expects; 1 if rows are broken."""
    from saccade.evals.benchmarks import check_graders
    from saccade.tasks.benchmarks.registry import cards, load_card

    named = cards().names()
    if card is None and data.resolve().name not in named:
        raise SettingsError(f"no card is named like {data}; name one with --card ({', '.join(sorted(named))})")
    chosen = load_card(card or data.resolve().name)
    check_graders(chosen)
    if store is not None:
        findings = _read(chosen, data, store)
    else:
        with tempfile.TemporaryDirectory(prefix="saccade-check-") as folder:
            findings = _read(chosen, data, Path(folder))
    for line in findings.lines():
        print(line)
    for problem in findings.problems[:_BROKEN_SHOWN]:
        print(f"  {problem}", file=sys.stderr)
    if len(findings.problems) > _BROKEN_SHOWN:
        print(f"  and {len(findings.problems) - _BROKEN_SHOWN} more", file=sys.stderr)
    if findings.problems or (whole and not findings.whole):
        raise typer.Exit(1)


def _read(card: Card, data: Path, store: Path) -> DataSetCheck:
    from rich.markup import escape
    from rich.progress import track

    from saccade.cli.plain import plain_console
    from saccade.media.store import MediaStore
    from saccade.tasks.benchmarks.benchmark import open_benchmark
    from saccade.tasks.benchmarks.check import survey

    benchmark = open_benchmark(card, data)
    screen = plain_console(stderr=True)
    items = benchmark.tasks(MediaStore(store))
    if screen.is_terminal:
        items = track(items, escape(f"Reading {card.id}"), total=benchmark.count(), console=screen, transient=True)  # type: ignore[assignment]
    return survey(card, items)
