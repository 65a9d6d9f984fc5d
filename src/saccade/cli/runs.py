"""`saccade runs`: the evaluations in a folder, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(help="Folder with runs of `saccade eval` in it or below it.")] = Path(
        "runs"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="The runs as JSON.")] = False,
) -> None:
    """List the evaluations in a folder: model, sources, percent right, samples, cost, date, state."""
    import json
    from dataclasses import asdict

    from saccade.errors import SettingsError
    from saccade.evals.listing import list_runs, runs_text

    if not folder.is_dir():
        raise SettingsError(f"{folder} is no folder. Name the one in which runs lie.")
    listed = list_runs(folder)
    if as_json:
        print(json.dumps([{**asdict(run), "state": run.state} for run in listed], ensure_ascii=False, default=str))
    elif listed:
        print(runs_text(listed))
    else:
        raise SettingsError(f"{folder} holds no run of `saccade eval`. Name the folder in which runs lie.")
