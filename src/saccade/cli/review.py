"""`saccade review`: a person keeps, drops or corrects the items of a folder, in the browser."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from saccade.sft.curate.report import CurateReport

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "Every decision is on the disk at once, in review.jsonl of the folder, so the same command resumes. With --out no "
    "page is served: what was kept so far is written as a new folder, corrections included. In a pipeline the filter "
    "`reviewed` does the same."
)


@app.command(epilog=EPILOG)
def review(
    folder: Annotated[Path, typer.Argument(help="A run, or a folder of tasks (`saccade tasks write`).")],
    out: Annotated[Path | None, typer.Option(help="Write what was kept to this new folder, and serve no page.")] = None,
    open_items: Annotated[
        str, typer.Option("--undecided", help="With --out, what becomes of items that are open: leave_out or keep.")
    ] = "leave_out",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    open_it: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser. [default: do not]")
    ] = False,
) -> None:
    """Look through a run or through tasks by hand: keep, drop, or correct the gold answer."""
    if out is not None:
        report = _written(folder, out, open_items)
        print(f"{report.kept} of {report.read} kept: {out}")
        for reason in report.filters[-1].reasons:
            print(f"  {reason.reason}: {reason.count}")
        return
    from saccade.cli.web import serve_app
    from saccade.report.live_server import HOST
    from saccade.serve.review import Reviewer, review_app
    from saccade.sft.review.decisions import DecisionLog
    from saccade.sft.review.items import ReviewItems

    items = ReviewItems.open(folder)
    reviewer = Reviewer(items, DecisionLog(folder), secrets.token_urlsafe(16))
    address = f"{{url}}/?token={reviewer.token}"
    decided = f"{len(items.names)} items, {len(reviewer.log)} decided. Ctrl-C ends it; decisions are kept."
    opened = address if open_it else ""
    app = review_app(reviewer)
    raise typer.Exit(serve_app(app, HOST, port, f"{decided}\n{address}", grace_seconds=1, opened=opened))


def _written(folder: Path, out: Path, undecided: str) -> CurateReport:
    from saccade.sft.curate.pipeline import parse_pipeline
    from saccade.sft.curate.run import curate

    step = {"name": "reviewed", "reviews": [str(folder)], "undecided": undecided}
    return curate([folder], parse_pipeline({"filter": [step]}, where="saccade review"), out, cache=folder)
