"""`saccade compare`: two runs of an evaluation over the same tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="Run folder.")],
    second: Annotated[Path, typer.Argument(help="Run folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON, every differing task included.")] = False,
) -> None:
    """Say which of two runs is better, by how much, how sure that is, and in which tasks they differ."""
    import json
    from dataclasses import asdict

    from saccade.evals.compare import compare as compared
    from saccade.evals.rows import read_rows
    from saccade.evals.tables import comparison_text

    found = compared(read_rows(first), read_rows(second))
    if as_json:
        data = {**asdict(found), "differing": [asdict(pair) for pair in found.differing]}
        del data["pairs"]
        print(json.dumps(data, ensure_ascii=False))
    else:
        print(comparison_text(found, str(first), str(second)))
