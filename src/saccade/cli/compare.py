"""`saccade compare`: two runs of an evaluation over the same tasks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

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
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON, every differing task included.")] = False,
) -> None:
    """Say which of two runs is better, by how much, with what certainty, and in which tasks they differ."""
    import json
    from dataclasses import asdict

    from saccade.evals.compare import compare as compared
    from saccade.evals.rows import read_rows
    from saccade.evals.tables import comparison_text

    comparison = compared(read_rows(first), read_rows(second))
    if as_json:
        data = {**asdict(comparison), "differing": [asdict(pair) for pair in comparison.differing]}
        del data["pairs"]
        print(json.dumps(data, ensure_ascii=False))
    else:
        print(comparison_text(comparison, str(first), str(second)))
    if gallery is not None:
        _write(comparison, (first, second), gallery, sys.stderr if as_json else sys.stdout)


def _write(comparison: Comparison, runs: tuple[Path, Path], target: Path, screen: TextIO) -> None:
    from saccade.report.differences import RunSide, write_differences
    from saccade.report.stored_run import open_run

    first, second = (RunSide(name, open_run(run)) for name, run in zip(_names(runs), runs, strict=True))
    written = write_differences(comparison, (first, second), target)
    beside = f" and {written.folder}" if written.folder is not None else ""
    print(f"\n{written.episodes} episodes: {written.page}{beside}", file=screen)


def _names(runs: tuple[Path, Path]) -> tuple[str, str]:
    """What the page calls the runs: their folders' names, or their paths where these are the same."""
    first, second = (run.resolve().name for run in runs)
    return (first, second) if first != second else (str(runs[0]), str(runs[1]))
