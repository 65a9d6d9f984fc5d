"""`saccade curate`: runs through a pipeline of filters, and a table of what each left out."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.errors import SettingsError
from saccade.recipes.find import recipe_list

if TYPE_CHECKING:
    from saccade.sft.curate.report import CurateReport, FilterReport

app = typer.Typer(add_completion=False, rich_markup_mode=None)

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="A filter's parameter, as in --set score.at_least=0.5; may be repeated."),
]


@app.command()
def curate(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE...", help="Folders of runs, read in this order; or sources of tasks."),
    ] = None,
    pipeline: Annotated[
        str | None, typer.Option(help="Name of a pipeline (`list` names them), or a TOML file with [[filter]] tables.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; must not exist yet.")] = None,
    change: SetOption = None,
    cache: Annotated[Path, typer.Option(help="Folder in which judges keep their replies.")] = Path("runs/judge-cache"),
    list_filters: Annotated[bool, typer.Option("--list", help="Name the filters and their parameters.")] = False,
) -> None:
    """Filter the trajectories of runs, or tasks, into a new folder, and report what each filter left out."""
    if list_filters:
        _list()
        return
    if pipeline == "list":
        print(recipe_list("curate"))
        return
    if not sources or pipeline is None or out is None:
        raise SettingsError("curate needs a run or more, --pipeline NAME and --out FOLDER (or --list for the filters)")
    from saccade.sft.curate import run
    from saccade.sft.curate.pipeline import load_pipeline
    from saccade.sft.curate.sources import SourceRuns

    chosen = load_pipeline(pipeline, change or ())
    opened = SourceRuns(sources)
    for line in opened.lines():
        print(f"from {line}")
    with _bar(opened.count()) as advance:
        report = run.curate(sources, chosen, out, cache=cache, on_read=advance)
    _table(report)
    for item in report.filters:
        if item.seen and item.beside == item.seen:
            print(f"{item.label} saw none of them: all are of other sources and tags than it is for.")
    print(f"{report.kept} of {report.read} {'tasks' if opened.of_tasks else 'trajectories'}: {out}")
    if report.broken:
        print(f"{len(report.broken)} rows gave no task, the first: {report.broken[0]}", file=sys.stderr)
    print(f"What was left out, and why: {out / 'dropped.jsonl'}, {out / 'report.json'}")


def _list() -> None:
    from saccade.sft.curate.registry import FILTERS, load_filter

    for entry in FILTERS.ids():
        kind = load_filter(entry)
        first = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        print(f"{entry}\n    {first}")
        for name, field in kind.model_fields.items():
            value = "needed" if field.is_required() else repr(field.get_default(call_default_factory=True))
            print(f"        {name} = {value}")


@contextmanager
def _bar(total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on the terminal's error stream; nothing where there is no terminal."""
    from rich.progress import Progress

    from saccade.cli.plain import plain_console

    with Progress(console=plain_console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        work = progress.add_task("Curating", total=total)
        yield lambda: progress.advance(work)


def _table(report: CurateReport) -> None:
    from rich.table import Table

    from saccade.cli.plain import plain_console

    table = Table(box=None, pad_edge=False)
    for name in ("filter", "seen", "kept", "dropped", "undecided", "other branch"):
        table.add_column(name, justify="left" if name == "filter" else "right", no_wrap=True)
    table.add_column("reasons, with an example", overflow="fold")
    for item in report.filters:
        counts = (item.seen, item.kept, item.dropped, item.undecided, item.beside)
        table.add_row(item.label, *map(str, counts), _reasons(item))
    console = plain_console()
    console.print(table, markup=False)
    first, last = report.filters[0], report.filters[-1]
    kept = {count.category: count.kept for count in last.categories}
    by = Table(report.category, "read", "kept", box=None, pad_edge=False)
    for count in first.categories:
        by.add_row(count.category, str(count.seen), str(kept.get(count.category, 0)))
    console.print()
    console.print(by, markup=False)


def _reasons(item: FilterReport) -> str:
    return "\n".join(f"{reason.count} {reason.reason} ({reason.examples[0]})" for reason in item.reasons)
