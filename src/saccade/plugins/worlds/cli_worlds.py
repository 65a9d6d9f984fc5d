"""`saccade worlds`: list the generated worlds, draw samples of one into a folder, show a contact sheet.

A folder of samples holds `tasks.jsonl` (records), `media/` (the store they name) and `pictures/` (the same files under
names that people can read). Tasks hold their gold answers.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from saccade.cli.output import AsJson, counted, print_json
from saccade.errors import SettingsError

if TYPE_CHECKING:
    from saccade.media.store import MediaStore
    from saccade.record.task import Task
    from saccade.tasks.worlds import Knobs, Split, World

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

WorldArgument = Annotated[str, typer.Argument(help="A world, as `saccade worlds list` names it.")]
CountOption = Annotated[int, typer.Option("--n", min=1, help="How many samples.")]
Start = Annotated[int, typer.Option(min=0, help="Index of the first sample.")]
SplitName = Annotated[str, typer.Option("--split", help="train, validation or test.")]
KnobOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A knob, as in signs=12; may be repeated.")
]


@app.callback()
def worlds() -> None:
    """Show worlds that draw tasks from a seed, with the gold answer and where it can be seen."""


@app.command("list")
def list_worlds(
    knobs: Annotated[bool, typer.Option("--knobs", help="Also the knobs of every world and their defaults.")] = False,
    as_json: AsJson = False,
) -> None:
    """Name every world and what it asks."""
    from saccade.cli.list import lines, parts_of
    from saccade.tasks.worlds import load_world

    parts = list(parts_of("worlds"))
    if as_json:
        own = {part.id: dict(load_world(part.id).knobs()) for part in parts if not part.problem}
        print_json([{**asdict(part), "knobs": own.get(part.id)} for part in parts])
        return
    for part, line in zip(parts, lines(parts), strict=True):
        print(line)
        if knobs and not part.problem:
            for name, value in load_world(part.id).knobs():
                print(f"    {name} = {value!r}")


@app.command()
def sample(
    name: WorldArgument,
    out: Annotated[Path, typer.Option(help="Folder to write to; made if missing.")],
    n: CountOption = 16,
    split: SplitName = "train",
    start: Start = 0,
    turn: KnobOption = None,
    as_json: AsJson = False,
) -> None:
    """Draw samples into a folder: records, media, and files to look at."""
    from saccade.media.store import MediaStore
    from saccade.record.codec import write_lines
    from saccade.tasks.worlds import make_task

    world, knobs, part = _chosen(name, split, turn)
    pictures = out / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    store = MediaStore(out / "media")
    drawn = (make_task(world, part, index, store, knobs) for index in range(start, start + n))
    tasks = counted(drawn, f"Drawing {world.id}", n)
    write_lines(out / "tasks.jsonl", (_named(task, store, pictures) for task in tasks))
    if as_json:
        print_json({"world": world.id, "split": part, "tasks": n, "file": out / "tasks.jsonl", "pictures": pictures})
        return
    print(f"{n} tasks of {world.id}, split {part}: {out / 'tasks.jsonl'}, files to look at in {pictures}")


@app.command()
def sheet(
    name: WorldArgument,
    out: Annotated[Path | None, typer.Option(help="The PNG file; by default runs/sheets/NAME.png.")] = None,
    n: CountOption = 12,
    split: SplitName = "train",
    start: Start = 0,
    turn: KnobOption = None,
) -> None:
    """Draw one contact sheet of samples with their gold boxes and answers."""
    from saccade.tasks.worlds import contact_sheet, draw_sample

    world, knobs, part = _chosen(name, split, turn)
    target = out or Path("runs/sheets") / f"{world.id.partition('@')[0]}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    indices = counted(range(start, start + n), f"Drawing {world.id}", n)
    contact_sheet([draw_sample(world, part, index, knobs) for index in indices]).save(target)
    print(target)


def _chosen(name: str, split: str, turn: list[str] | None) -> tuple[World[Any], Knobs, Split]:
    from saccade.core.settings import load_settings
    from saccade.tasks.worlds import SPLITS, Split, load_world

    if split not in get_args(Split):
        raise SettingsError(f"there is no split {split!r}; name one of {', '.join(SPLITS)}")
    world = load_world(name)
    return world, load_settings(world.knobs, overrides=turn or ()), SPLITS[SPLITS.index(split)]


def _named(task: Task, store: MediaStore, pictures: Path) -> Task:
    """Return the task; its media now also are in `pictures`, as links where the file system has them."""
    from saccade.media.decode import suffix_of

    for item in task.media:
        stem = f"{task.id}_{item.name}".replace("/", "_").replace("@", "-")
        target = pictures / f"{stem}{suffix_of(item.part.mime)}"
        target.unlink(missing_ok=True)
        try:
            os.link(store.path(item.part.sha256), target)
        except OSError:
            shutil.copyfile(store.path(item.part.sha256), target)
    return task
