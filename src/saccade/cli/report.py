"""`saccade report`: evaluations and training runs as one page of tables, figures and episodes."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.json_output import AsJson, print_json
from saccade.cli.progress import count_bar

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "A run is a folder of `saccade eval`, `saccade rl` or `saccade sft`; runs of one kind are shown side by side. "
    "The page is one file with everything in it; if the episodes have too many pictures for it, they are in a folder "
    "beside it. For a folder of evaluations the page is a list of them. docs/report.md says what the figures mean. "
    "Exit codes: 0 written; 2 a folder is not a run, or cannot be read."
)


@app.command(epilog=EPILOG)
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write. [default: report.html in the first run's folder]")
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page. [default: the names of the runs]")] = "",
    open_it: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser. [default: do not]")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a page of evaluations and training runs: tables, figures, and every episode."""
    from saccade.report.runs.open import open_runs
    from saccade.report.write import write_report

    if len(runs) == 1 and _holds_runs(runs[0]):
        _list(runs[0], out, open_it, as_json=as_json)
        return
    opened = open_runs(runs)
    for run in opened.evals:
        run.stored.check_readable()
    first = runs[0] if runs[0].is_dir() else runs[0].parent
    target = out if out is not None else first / "report.html"
    if target.is_dir():
        target = target / "report.html"
    with count_bar("Episodes") as bar:
        written = write_report(opened, target, title=title, watch=bar.reach)
    for run in opened.episodes:
        for problem in run.stored.problems:
            print(f"saccade: {problem}", file=sys.stderr)
    beside = f" and {written.folder}" if written.folder is not None else ""
    if as_json:
        print_json(written)
    else:
        print(f"{written.episodes} episode{'' if written.episodes == 1 else 's'}: {written.page}{beside}")
    if open_it:
        webbrowser.open(written.page.resolve().as_uri())


def _holds_runs(folder: Path) -> bool:
    """Whether `folder` is no run and has evaluations below it."""
    from saccade.evals.listing import is_run, list_runs
    from saccade.report.runs.training_run import METRICS

    return folder.is_dir() and not is_run(folder) and not (folder / METRICS).is_file() and bool(list_runs(folder))


def _list(folder: Path, out: Path | None, open_it: bool, *, as_json: bool) -> None:
    from saccade.evals.listing import list_runs
    from saccade.report.episodes import write_page
    from saccade.report.runs_page import report_beside, runs_page

    target = folder / "index.html" if out is None else out / "index.html" if out.is_dir() else out
    listed = list_runs(folder)
    href = report_beside(folder) if target.parent.resolve() == folder.resolve() else lambda run: ""
    write_page(target, runs_page(listed, href))
    if as_json:
        print_json({"runs": len(listed), "page": target})
    else:
        print(f"{len(listed)} runs: {target}; runs with a report.html are links (saccade report RUN makes it)")
    if open_it:
        webbrowser.open(target.resolve().as_uri())
