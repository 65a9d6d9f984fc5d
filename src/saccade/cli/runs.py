"""`saccade runs`: the evaluations in a folder, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.json_output import AsJson, print_json
from saccade.cli.progress import waiting

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(help="Folder with runs of `saccade eval` in it or below it.")] = Path(
        "runs"
    ),
    as_json: AsJson = False,
) -> None:
    """List the evaluations in a folder: model, sources, percent right, samples, cost, date, state."""
    from dataclasses import asdict

    from saccade.errors import SettingsError
    from saccade.evals.listing import list_runs, runs_text

    if not folder.is_dir():
        raise SettingsError(f"{folder} is no folder. Name the one in which runs lie.")
    with waiting("Reading runs"):
        listed = list_runs(folder)
    if as_json:
        print_json([{**asdict(run), "state": run.state} for run in listed])
    elif listed:
        print(runs_text(listed))
    else:
        raise SettingsError(f"{folder} holds no run of `saccade eval`. Name the folder in which runs lie.")
