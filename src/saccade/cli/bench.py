"""`saccade bench`: time and memory of the sandbox beside its peers, on this machine, now."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from saccade.errors import SettingsError

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def bench() -> None:
    """Measure this machine."""


@app.command()
def sandbox(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats and sessions: a minute or two.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write every single value to this file.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ROW", help="Only this row. May be repeated; a wrong name lists all.")
    ] = None,
) -> None:
    """The sandbox beside a Jupyter kernel, smolagents, a subprocess per call and plain exec: the same work, one run.

    A peer that is not installed is named with the command that installs it. Close other programs first: figures of a
    busy machine are marked as such. A full run takes ten minutes or so, most of it waiting for the peers.
    """
    from saccade.bench.measure import FULL, QUICK
    from saccade.bench.present import as_json, footing, heading, table
    from saccade.bench.sandbox import choose, measure

    rows = choose(only)
    if json_file is not None and not json_file.parent.is_dir():
        raise SettingsError(f"{json_file} cannot be written: there is no folder {json_file.parent}.")
    # Where the output is no terminal, nobody can make the window wider afterwards.
    console = Console(width=None if sys.stdout.isatty() else 180)
    with Console(stderr=True).status("starting") as status:
        report = measure(rows, QUICK if quick else FULL, told=lambda what: status.update(f"measuring {what}"))
    console.print(*heading(report), sep="\n", highlight=False, markup=False)
    console.print(table(report))
    console.print(*footing(report), sep="\n", highlight=False, markup=False)
    if json_file is not None:
        json_file.write_text(json.dumps(as_json(report), indent=1) + "\n", encoding="utf-8")
