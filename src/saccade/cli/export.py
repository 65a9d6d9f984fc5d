"""`saccade export`: the samples of a run as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    out: Annotated[Path | None, typer.Option(help="The file.  [default: samples.FORMAT in the run folder]")] = None,
    form: Annotated[
        str, typer.Option("--format", help="jsonl, csv, tsv, parquet or xlsx.  [default: the suffix of --out]")
    ] = "",
) -> None:
    """Write one line per sample, with VLMEvalKit's columns and some of Saccade's own."""
    from saccade.evals.export import export as exported
    from saccade.evals.rows import read_rows

    target = out or run / f"samples.{form or 'jsonl'}"
    rows = read_rows(run)
    exported(rows, target, form)
    print(f"{len(rows)} samples: {target}")
