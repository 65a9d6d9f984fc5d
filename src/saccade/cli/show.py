"""`saccade show`: a run's episodes as a page that can be looked at, kept and sent on.

The page is one file with everything in it; it needs no network and no Saccade.
"""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.json_output import AsJson, print_json
from saccade.cli.progress import counted
from saccade.errors import RecordError, SettingsError
from saccade.record.suggest import did_you_mean

if TYPE_CHECKING:
    from saccade.record.trajectory import Trajectory

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def show(
    path: Annotated[Path, typer.Argument(help="Folder of a run, or a .jsonl file of trajectories.")],
    out: Annotated[Path | None, typer.Option(help="File to write. [default: index.html in the run's folder]")] = None,
    open_it: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open the page in the browser. [default: where there is a screen]"),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Show only the episodes of the task of this id.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a page of a run's episodes, and open it."""
    from saccade.report.site import Site
    from saccade.report.stored_run import open_run
    from saccade.report.wire_view import wires_of

    run = open_run(path)
    target = out if out is not None else run.file.parent / "index.html"
    if target.is_dir():
        target = target / "index.html"
    site = Site(target, run.store)
    shown = 0
    for trajectory in _of_task(counted(run.trajectories(), "Episodes", run.count()), task):
        site.add(trajectory, wires_of(run.file.parent, trajectory.id, run.problems))
        shown += 1
    for problem in run.problems:
        print(f"saccade: {problem}", file=sys.stderr)
    if not shown and run.problems:
        raise RecordError(f"{run.file} holds no episode that can be shown; see above.")
    written = site.finish(tuple(run.problems))
    beside = f" and {written.folder}" if written.folder is not None else ""
    if as_json:
        print_json(written)
    else:
        print(f"{written.episodes} episode{'' if written.episodes == 1 else 's'}: {written.page}{beside}")
    if _wants_browser() if open_it is None else open_it:
        webbrowser.open(written.page.resolve().as_uri())


def _of_task(trajectories: Iterable[Trajectory], task: str | None) -> Iterator[Trajectory]:
    """Those of `task`, or all. Raises `SettingsError` in the end if a task was named and has none."""
    others = set()
    is_there = False
    for trajectory in trajectories:
        if task is None or trajectory.task.id == task:
            is_there = True
            yield trajectory
        else:
            others.add(trajectory.task.id)
    if task is not None and not is_there:
        raise SettingsError(f"no episode is of the task {task!r}. {did_you_mean(task, others)}".rstrip())


def _wants_browser() -> bool:
    """Whether somebody sits before a screen."""
    if os.environ.get("CI") or not sys.stdout.isatty():
        return False
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
