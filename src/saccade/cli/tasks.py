"""`saccade tasks`: what a source of tasks holds, what is wrong with it, how it looks, and a folder of it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.output import AsJson, count_bar, counted, print_json, print_some, teller, visible, waiting
from saccade.errors import SettingsError

if TYPE_CHECKING:
    from saccade.media.store import MediaStore
    from saccade.record.task import Task
    from saccade.tasks.sources.task_set import TaskPool

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

_WORLD_TASKS = 100
"""Tasks of a world where nobody says how many: enough to see what it asks."""

SourceNames = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...",
        help="Worlds, benchmarks, files, folders, TOML files of [[source]] tables; NAME=WEIGHT gives a share.",
    ),
]
Count = Annotated[int | None, typer.Option("--n", min=1, help="Tasks of each source; with weights of all.")]
Data = Annotated[Path | None, typer.Option(help="Folder of the data, where a source needs one.")]
SplitName = Annotated[str, typer.Option("--split", help="Of generated worlds: train, validation or test.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Only tasks with this tag; may be repeated.")]
Seed = Annotated[int, typer.Option(help="Of the choice of tasks.")]


@app.callback()
def tasks() -> None:
    """Handle tasks from any source: count and check them, look at them, write them as one folder."""


@app.command()
def check(
    sources: SourceNames,
    n: Count = None,
    data: Data = None,
    split: SplitName = "train",
    tag: Tags = None,
    quick: Annotated[bool, typer.Option("--quick", help="Look for pictures and videos, and open none.")] = False,
    as_json: AsJson = False,
) -> None:
    """Count tasks by source and tag, and say which rows give none; 1 if there are such rows."""
    from saccade.episode.task_media import grader_problems
    from saccade.tasks.sources.survey import counts, lines, media_problems

    opened = _opened(sources, n, data, split, tag)
    for line in () if as_json else lines(opened):
        print(visible(line))
    wrong = [*grader_problems(opened.parts), *map(str, opened.problems)]
    if not quick:
        with tempfile.TemporaryDirectory(prefix="saccade-check-") as folder:
            problems = counted(media_problems(opened, opened.ids, Path(folder)), "Opening media", len(opened))
            wrong += [problem for problem in problems if problem is not None]
    if as_json:
        print_json({"sources": counts(opened), "broken": wrong})
    print_some(wrong)
    if wrong:
        print(f"broken rows: {len(wrong)}", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def show(
    sources: SourceNames,
    n: Annotated[int, typer.Option("--n", min=1, help="Tasks of each source; with weights of all.")] = 3,
    data: Data = None,
    split: SplitName = "train",
    tag: Tags = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Print some tasks with everything that their source says of them, the gold answer included."""
    from saccade.record.codec import dumps

    with tempfile.TemporaryDirectory(prefix="saccade-show-") as folder:
        for task in _drawn(_opened(sources, n, data, split, tag, seed), n, _store(folder)):
            print(dumps(task) if as_json else visible(_text(task)))


@app.command()
def sample(
    sources: SourceNames,
    out: Annotated[Path, typer.Option(help="The sheet: a .png file, or an .html page.")],
    n: Annotated[int, typer.Option("--n", min=1, help="Tasks of each source; with weights of all.")] = 12,
    data: Data = None,
    split: SplitName = "train",
    tag: Tags = None,
    seed: Seed = 0,
) -> None:
    """Draw a contact sheet: pictures with gold boxes, questions, choices and gold answers."""
    from saccade.tasks.sources.survey import sheet_page, sheet_picture

    if out.suffix not in (".png", ".html"):
        raise SettingsError(f"{out}: a sheet is a .png file or an .html page. Give it one of these suffixes.")
    opened = _opened(sources, n, data, split, tag, seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="saccade-sample-") as folder:
        store = _store(folder)
        chosen = list(counted(_drawn(opened, n, store), "Drawing tasks"))
        if out.suffix == ".png":
            sheet_picture(chosen, store).save(out)
        else:
            out.write_text(sheet_page(" + ".join(sources), opened.lines(), chosen, store), encoding="utf-8")
    print(out)


@app.command()
def write(
    sources: SourceNames,
    out: Annotated[Path, typer.Option(help="Folder to write; must not exist yet.")],
    n: Count = None,
    data: Data = None,
    split: SplitName = "train",
    tag: Tags = None,
    seed: Seed = 0,
    to: Annotated[str, typer.Option(help="A form of others: harbor.  [default: Saccade's own]")] = "",
    option: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Of that form. harbor: requirement, what pip installs."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write tasks with their media as one folder that every command takes, or in a form of others."""
    from saccade.tasks.sources.survey import LEFT_OUT, write_tasks

    if option and not to:
        raise SettingsError("--set is for a form of others. Name one with --to, or leave it out.")
    opened = _opened(sources, n, data, split, tag, seed)
    if to:
        _write_form(to, option or [], opened, n, out, as_json=as_json)
        return
    names = opened.ordered(n)
    with count_bar("Writing tasks", len(names)) as bar:
        written = write_tasks(opened, names, out, bar.advance)
    say = teller(as_json)
    for line in opened.lines():
        say(f"from {line}")
    if as_json:
        print_json({"tasks": written.tasks, "left_out": written.left_out, "out": out})
    else:
        print(f"{written.tasks} tasks: {out}")
    if written.left_out:
        print(f"left out, rows that give no task: {len(written.left_out)}; {out / LEFT_OUT} says why", file=sys.stderr)


def _write_form(to: str, overrides: list[str], opened: TaskPool, n: int | None, out: Path, *, as_json: bool) -> None:
    """Write tasks in a form of others; one that has no place in it is left out, with a line that says why."""
    from saccade.core.settings import load_settings
    from saccade.errors import DataError
    from saccade.tasks.sources.survey import TASK_FORMS

    form = TASK_FORMS.load(to)
    settings = load_settings(form.settings, None, overrides)
    written, left_out = 0, []
    with tempfile.TemporaryDirectory(prefix="saccade-tasks-") as folder:
        store = _store(folder)
        names = opened.ordered(n)
        for name in counted(names, "Writing tasks", len(names)):
            try:
                form.write(opened.make(name, store), store, out, settings)
            except DataError as error:
                left_out.append(str(error))
                print(visible(f"left out: {error}"), file=sys.stderr)
            else:
                written += 1
    if as_json:
        print_json({"tasks": written, "left_out": left_out, "out": out})
    else:
        print(f"{written} tasks: {out}")
    if not written:
        raise typer.Exit(1)


def _opened(
    sources: list[str], n: int | None, data: Path | None, split: str, tags: list[str] | None, seed: int | None = None
) -> TaskPool:
    from saccade.tasks.sources.folder import as_split
    from saccade.tasks.sources.resolve import SourceDefaults
    from saccade.tasks.sources.task_set import expanded, open_tasks

    listed = expanded(sources)
    changes: dict[str, object] = {} if seed is None else {"seed": seed}
    if tags:
        changes["tags"] = tuple(tags)
    weighted = len(listed) > 1 and any(source.weight is not None for source in listed)
    wanted = SourceDefaults(
        split=as_split(split),
        data=data,
        most=None if weighted else n,
        world_tasks=n if weighted and n else _WORLD_TASKS,
        world_tags=True,
    )
    with waiting("Opening sources"):
        return open_tasks([source.model_copy(update=changes) for source in listed], wanted)


def _drawn(opened: TaskPool, n: int, store: MediaStore) -> Iterator[Task]:
    for name in opened.ordered(n):
        yield opened.make(name, store)


def _store(folder: str) -> MediaStore:
    from saccade.media.store import MediaStore

    return MediaStore(Path(folder) / "media")


def _text(task: Task) -> str:
    lines = [task.id, f"  question    {task.question}"]
    lines += [f"  choices     {' | '.join(task.choices)}"] if task.choices else []
    lines.append(f"  answer      {'(not known)' if task.answer is None else task.answer}")
    lines.append(f"  graded      {task.grader or f'by type of answer: {task.answer_type.value}'}")
    for item in task.media:
        lines.append(f"  media       {item.name}: {item.part.kind}, {item.part.width}x{item.part.height} pixels")
    lines += [f"  gold box    {box.image} {box.xyxy} {box.label}".rstrip() for box in task.evidence]
    lines += [f"  tags        {', '.join(task.tags)}"] if task.tags else []
    lines += [f"  reward      {', '.join(f'{own.name} = {own.value}' for own in task.reward)}"] if task.reward else []
    return "\n".join(lines)
