"""`saccade view`: runs in the browser while they grow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def view(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, or one with runs in it.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")] = 8765,
    open_it: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser. [default: do not]")
    ] = False,
) -> None:
    """Serve a run, or all runs of a folder, as pages that follow an evaluation while it runs."""
    from saccade.cli.web import serve_app
    from saccade.errors import SettingsError
    from saccade.report.live_server import HOST, viewer

    if not folder.is_dir():
        raise SettingsError(f"{folder} is no folder. Name the folder of a run, or one with runs in it.")
    line = f"{{url}}/ shows {str(folder).replace('{', '{{').replace('}', '}}')}; Ctrl-C ends it"
    raise typer.Exit(serve_app(viewer(folder), HOST, port, line, grace_seconds=1, opened="{url}/" if open_it else ""))
