"""`saccade merge`: the shards of an evaluation as one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.json_output import AsJson, print_json
from saccade.cli.progress import waiting

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def merge(
    shards: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders made with --shard.")],
    out: Annotated[Path, typer.Option(help="A new run folder.")],
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Merge although some shards are missing; their tasks are in no figure.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put the shards of an evaluation together and summarise them."""
    from saccade.evals.merge import merge as merged
    from saccade.evals.merge import missing_shards, run_settings
    from saccade.evals.tables import summary_text

    with waiting("Copying samples and media"):
        summary = merged(shards, out, incomplete=incomplete)
    missing = missing_shards([run_settings(shard) for shard in shards])
    if as_json:
        print_json({"summary": summary, "shards": len(shards), "missing": missing, "out": out})
        return
    print(summary_text(summary))
    without = f", without {', '.join(missing)}" if missing else ""
    print(f"\n{len(shards)} shards{without}: {out}")
