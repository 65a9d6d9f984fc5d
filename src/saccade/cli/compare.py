"""`saccade compare`: two runs of an evaluation over the same tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.json_output import AsJson, print_json, teller
from saccade.cli.progress import waiting

if TYPE_CHECKING:
    from saccade.evals.compare import Comparison

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="Run folder.")],
    second: Annotated[Path, typer.Argument(help="Run folder.")],
    gallery: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with every episode of the tasks that differ.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which of two runs is better, by how much, with what certainty, and in which tasks they differ."""
    from dataclasses import asdict

    from saccade.evals.compare import compare as compared
    from saccade.evals.rows import read_rows
    from saccade.evals.tables import comparison_text

    with waiting("Reading runs"):
        comparison = compared(read_rows(first), read_rows(second))
    if as_json:
        data = {**asdict(comparison), "differing": [asdict(pair) for pair in comparison.differing]}
        del data["pairs"]
        print_json(data)
    else:
        print(comparison_text(comparison, str(first), str(second)))
    if gallery is not None:
        _write(comparison, (first, second), gallery, teller(as_json))


def _write(comparison: Comparison, runs: tuple[Path, Path], target: Path, say: Callable[[str], None]) -> None:
    from saccade.report.differences import RunSide, write_differences
    from saccade.report.stored_run import open_run

    first, second = (RunSide(name, open_run(run)) for name, run in zip(_names(runs), runs, strict=True))
    with waiting("Drawing episodes"):
        written = write_differences(comparison, (first, second), target)
    beside = f" and {written.folder}" if written.folder is not None else ""
    say(f"\n{written.episodes} episodes: {written.page}{beside}")


def _names(runs: tuple[Path, Path]) -> tuple[str, str]:
    """What the page calls the runs: their folders' names, or their paths where these are the same."""
    first, second = (run.resolve().name for run in runs)
    return (first, second) if first != second else (str(runs[0]), str(runs[1]))
