"""`saccade demo`: cells as a model writes them, run on a picture in the sandbox of this machine.

No model is called: the cells are written here. What comes back is what a model would see. The pictures and a contact
sheet are written to a folder; earlier ones of the same name are replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text

from saccade.cli.demo_scene import Box, Scene, centre, contact_sheet, draw_street
from saccade.errors import DecodeError
from saccade.sandbox.result import RunResult

if TYPE_CHECKING:
    from PIL import Image

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@dataclass(frozen=True, slots=True)
class Cell:
    """One step of the demo: what the model is after, and the code it writes for it."""

    purpose: str
    code: str
    shows: bool = False
    """Whether a picture must come back."""
    fails: bool = False
    """Whether it must fail and be rolled back."""

    def met(self, result: RunResult) -> bool:
        """Whether the sandbox did with the cell what it should."""
        return result.ok is result.committed is not self.fails and bool(result.pictures) is self.shows


@app.command()
def demo(
    image: Annotated[Path | None, typer.Option(help="A photo to look at, instead of the drawn street.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the pictures that come back.")] = Path("runs/demo"),
) -> None:
    """Run a model's cells on a picture and show what comes back."""
    scene = draw_street() if image is None else _photo(image)
    cells = cells_for(scene.look_at)
    results = asyncio.run(run_cells(scene.picture, cells))
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    pictures = [("what the model is shown first", scene.picture)]
    for number, (cell, result) in enumerate(zip(cells, results, strict=True), 1):
        paths = []
        for index, picture in enumerate(result.pictures, 1):
            path = out / f"cell_{number}_{index}.png"
            picture.image().save(path)
            paths.append(path)
            pictures.append((f"cell {number}: {picture.source}", picture.image()))
        console.print(_panel(number, cell, result, paths))
    sheet = out / "contact_sheet.png"
    contact_sheet(pictures).save(sheet)
    console.print(f"All {len(pictures)} pictures on one sheet: {sheet}")
    wrong = [
        number for number, (cell, result) in enumerate(zip(cells, results, strict=True), 1) if not cell.met(result)
    ]
    if wrong:
        console.print(f"Cells {wrong} did not give what they should. Run `saccade doctor`, and please report it.")
        raise typer.Exit(1)


def cells_for(look_at: Box) -> tuple[Cell, ...]:
    """The cells of the demo, for a picture in which `look_at` (`xyxy` pixels) is worth a second look."""
    return (
        Cell(
            "Look at the whole picture.",
            "print(image_clue_0.size, image_clue_0.mode)\nimage_clue_0.reduce(4)",
            shows=True,
        ),
        Cell(
            "Something small is there: crop it.",
            f"crop = image_clue_0.crop({look_at})\nplt.imshow(crop)\nplt.title('crop')\nplt.show()",
            shows=True,
        ),
        Cell(
            "Still small: zoom in.",
            "zoom = crop.resize((crop.width * 4, crop.height * 4), Image.LANCZOS)\nzoom.show()",
            shows=True,
        ),
        Cell(
            "A slip: the names are changed, then the cell fails.",
            "crop = None\nreading = 'half done'\nprint(zoom.getpixel((10**6, 0)))",
            fails=True,
        ),
        Cell(
            "Nothing of the failed cell has stayed.",
            "print('crop:', crop.size)\nprint('reading is known:', 'reading' in globals())",
        ),
    )


async def run_cells(picture: Image.Image, cells: Sequence[Cell]) -> list[RunResult]:
    """Run the cells one after the other in one session of a local sandbox, where `picture` is `image_clue_0`."""
    from saccade.sandbox.base import SessionOptions
    from saccade.sandbox.local import LocalSandbox

    async with LocalSandbox() as box:
        session = await box.open({"image_clue_0": picture}, options=SessionOptions(preload=("plt", "Image")))
        return [await session.run(cell.code) for cell in cells]


def _photo(path: Path) -> Scene:
    from saccade.media.decode import decode

    try:
        data = path.read_bytes()
    except OSError as error:
        raise DecodeError(f"{path} cannot be read: {error.strerror}. Check the path of --image.") from error
    picture = decode(data)
    return Scene(picture, centre(picture))


def _panel(number: int, cell: Cell, result: RunResult, paths: Sequence[Path]) -> Panel:
    colour = "green" if result.ok else "red"
    parts: list[RenderableType] = [Syntax(cell.code, "python", word_wrap=True, background_color="default"), Text()]
    for text in (result.stdout, result.stderr, result.value, result.traceback, *result.notes):
        if text:
            parts.append(Text(text.rstrip("\n")))
    for picture, path in zip(result.pictures, paths, strict=True):
        parts.append(Text(f"picture ({picture.source}) {picture.width}x{picture.height}: {path}", style="cyan"))
    kept = "kept" if result.committed else "rolled back"
    parts.append(Text(f"{result.status.value}, state {kept}, {1000 * result.timings.wall:.1f} ms", style=colour))
    return Panel(Group(*parts), title=f"cell {number}: {cell.purpose}", title_align="left", border_style=colour)
