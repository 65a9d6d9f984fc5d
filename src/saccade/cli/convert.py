"""`saccade convert`: training data from one of this field's formats to another."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.json_output import AsJson, print_json
from saccade.cli.progress import count_bar

if TYPE_CHECKING:
    from saccade.sft.formats.base import Refused

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

_SHOWN = 10
"""Refused rows that are printed; all of them are in the file."""


@app.command()
def convert(
    source: Annotated[
        Path,
        typer.Argument(help="Folder of a run, of tasks (with --dialect) or documents; a file of rows, or its folder."),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write; must not exist yet.")],
    from_: Annotated[
        str,
        typer.Option(
            "--from", help="saccade, atif, sharegpt, swift, thyme, thyme-base64, verl, pyvision or pyvision-rl."
        ),
    ],
    to: Annotated[str, typer.Option("--to", help="One of the same.")],
    dialect: Annotated[str | None, typer.Option(help="Dialect of rows; by default the one that they name.")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the pictures. [default: that of the rows]")] = None,
    root: Annotated[str, typer.Option(help="Written before the paths of pictures. [default: nothing]")] = "",
    as_json: AsJson = False,
) -> None:
    """Convert training data. Rows that cannot be converted are listed with the reason; exits with 1 if all are."""
    from saccade.dialects.registry import load_dialect
    from saccade.sft.formats import convert as work
    from saccade.sft.formats.base import ConversionOptions
    from saccade.sft.formats.registry import load_format

    if dialect is not None:
        load_dialect(dialect)
    formats = (load_format(from_), load_format(to))
    with count_bar("Converting") as bar:
        done = work.convert(source, out, formats, ConversionOptions(dialect, images, root), bar.advance)
    if as_json:
        print_json(done)
    else:
        print(f"{done.written} of {done.read} rows: {out}")
    _tell(done.refused, out / work.REFUSED)
    if done.read and not done.written:
        raise typer.Exit(1)


def _tell(refused: tuple[Refused, ...], file: Path) -> None:
    if not refused:
        return
    print(f"{len(refused)} rows were not converted: {file}", file=sys.stderr)
    for item in refused[:_SHOWN]:
        print(f"  row {item.row + 1} {item.id}: {item.reason}", file=sys.stderr)
    if len(refused) > _SHOWN:
        commonest, count = Counter(item.reason for item in refused).most_common(1)[0]
        print(f"  and more; the commonest reason, {count} times: {commonest}", file=sys.stderr)
