"""`saccade curate`: runs through a pipeline of filters, and a table of what each left out."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.json_output import AsJson, print_json, teller
from saccade.cli.list import print_recipes
from saccade.cli.progress import count_bar
from saccade.errors import SettingsError

if TYPE_CHECKING:
    from saccade.sft.curate.report import CurateReport, FilterReport

app = typer.Typer(add_completion=False, rich_markup_mode=None)

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A filter's parameter, as in score.at_least=0.5; may be repeated."
    ),
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
    as_json: AsJson = False,
) -> None:
    """Filter the trajectories of runs, or tasks, into a new folder, and report what each filter left out."""
    if list_filters:
        _list(as_json)
        return
    if pipeline == "list":
        print_recipes("curate", as_json=as_json)
        return
    if not sources or pipeline is None or out is None:
        raise SettingsError("curate needs a run or more, --pipeline NAME and --out FOLDER (or --list for the filters)")
    from saccade.sft.curate import run
    from saccade.sft.curate.pipeline import load_pipeline
    from saccade.sft.curate.sources import SourceRuns

    chosen = load_pipeline(pipeline, change or ())
    opened = SourceRuns(sources)
    say = teller(as_json)
    for line in opened.lines():
        say(f"from {line}")
    with count_bar("Curating", opened.count()) as bar:
        report = run.curate(sources, chosen, out, cache=cache, on_read=bar.advance)
    if as_json:
        print_json({**report.model_dump(mode="json"), "out": out})
    else:
        _table(report)
    for item in report.filters:
        if item.seen and item.beside == item.seen:
            say(f"{item.label} saw none of them: all are of other sources and tags than it is for.")
    say(f"{report.kept} of {report.read} {'tasks' if opened.of_tasks else 'trajectories'}: {out}")
    if report.broken:
        print(f"{len(report.broken)} rows gave no task, the first: {report.broken[0]}", file=sys.stderr)
    say(f"What was left out, and why: {out / 'dropped.jsonl'}, {out / 'report.json'}")


def _list(as_json: bool) -> None:
    from saccade.sft.curate.registry import FILTERS, load_filter

    listed = []
    for entry in FILTERS.ids():
        kind = load_filter(entry)
        first = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        parameters = {
            name: "needed" if field.is_required() else repr(field.get_default(call_default_factory=True))
            for name, field in kind.model_fields.items()
        }
        listed.append({"filter": entry, "what": first, "parameters": parameters})
        if not as_json:
            print(
                f"{entry}\n    {first}", *(f"{name} = {value}" for name, value in parameters.items()), sep="\n        "
            )
    if as_json:
        print_json(listed)


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
