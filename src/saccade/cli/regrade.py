"""`saccade regrade`: the scores of a stored run, computed anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_SHOWN = 20
"""Changed samples that are listed."""


@app.command()
def regrade(
    run: Annotated[Path, typer.Argument(help="Run folder of `saccade eval`.")],
    grader: Annotated[
        str, typer.Option(help="Grader of all samples.  [default: each sample's own, in its newest version]")
    ] = "",
) -> None:
    """Grade a stored run anew, without the model, and say which samples changed."""
    from saccade.evals.regrade import regrade as regraded
    from saccade.evals.tables import summary_text

    found = regraded(run, grader)
    print(summary_text(found.summary))
    print(f"\n{len(found.changes)} of {found.samples} scores changed")
    for change in found.changes[:_SHOWN]:
        print(f"  {change.id}: {change.before} -> {change.after}; gold {change.gold!r}, answer {change.answer!r:.80}")
    if len(found.changes) > _SHOWN:
        print(f"  and {len(found.changes) - _SHOWN} more")
