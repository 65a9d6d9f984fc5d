"""`saccade worlds` (list worlds, draw samples into a folder, show a contact sheet) and `saccade demo`.

A folder of samples holds `tasks.jsonl` (records), `media/` (the store they name) and `pictures/` (the same files under
names that people can read). Tasks hold their gold answers.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from PIL import Image, ImageDraw, ImageFont
from pydantic import Field
from rich.console import Console
from rich.table import Table
from rich.text import Text

from saccade.cli.output import AsJson, counted, plain_console, print_json
from saccade.core.disk import one_writer
from saccade.core.registry import install
from saccade.core.settings import Settings
from saccade.dialects.base import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.episode.run_folder import MEDIA, TRAJECTORIES, RunFolder
from saccade.errors import DecodeError, SettingsError, UnavailableError
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.record.codec import read_lines
from saccade.record.content import Answer, Code
from saccade.record.task import EvidenceBox, NamedMedia, Task
from saccade.record.trajectory import CORRECT, Sampling, Score, Trajectory
from saccade.rewards.reward import ExactMatch
from saccade.sandbox.local import LocalSandbox
from saccade.training.sft.synth.makers import Jobs
from saccade.training.sft.synth.settings import SynthSettings

if TYPE_CHECKING:
    from saccade.cli.screen import AskScreen
    from saccade.report.page import Site
    from saccade.tasks.worlds import Knobs, Split, World

# `saccade demo`: whole episodes without a key or a GPU: text, code, what comes back, the answer.
#
# In the first no model is called: its turns are written here; the loop, the dialect and the sandbox are the real ones.
# Then the model that comes with Saccade answers generated questions by itself (see `demo_tiny`). Everything is kept in
# a run folder, and a page is made of it.

# What the demo looks at: a street with a sign too small to read at a glance, drawn with Pillow, always the same.

Box = tuple[int, int, int, int]

SIZE = (3200, 2400)
SIGN_TEXT = ("MARKET LANE", "open 7-19 h")


@dataclass(frozen=True, slots=True)
class DemoScene:
    """A picture and where in it one should look again, as `xyxy` pixels."""

    picture: Image.Image
    look_at: Box


def draw_street() -> DemoScene:
    """Return a street of houses with a lamp post; its sign is about one per cent of the picture's width."""
    picture = Image.new("RGB", SIZE, (176, 206, 235))
    draw = ImageDraw.Draw(picture)
    random = Random(7)
    draw.ellipse((2520, 180, 2800, 460), fill=(255, 244, 200))
    left = -80
    while left < SIZE[0]:
        width = random.randrange(380, 620)
        _house(draw, random, (left, random.randrange(420, 900), left + width, 1800))
        left += width + 12
    draw.rectangle((0, 1800, SIZE[0], 1960), fill=(186, 182, 174))
    draw.rectangle((0, 1960, SIZE[0], SIZE[1]), fill=(84, 86, 92))
    for start in range(60, SIZE[0], 420):
        draw.rectangle((start, 2160, start + 220, 2184), fill=(232, 228, 208))
    _car(draw, 620)
    _car(draw, 1480)
    return DemoScene(picture, _sign(draw, 2216, 1120))


def centre(picture: Image.Image) -> Box:
    """Return the middle third of a picture, at least one pixel wide and high."""
    width, height = picture.size
    left, top = width // 3, height // 3
    return left, top, max(left + 1, width - left), max(top + 1, height - top)


def _house(draw: ImageDraw.ImageDraw, random: Random, box: Box) -> None:
    left, top, right, bottom = box
    wall = random.choice([(196, 140, 112), (214, 196, 160), (160, 170, 180), (180, 120, 110), (206, 206, 196)])
    draw.rectangle(box, fill=wall)
    draw.polygon([(left - 10, top), ((left + right) // 2, top - 150), (right + 10, top)], fill=(112, 70, 62))
    for y in range(top + 60, bottom - 340, 190):
        for x in range(left + 46, right - 90, 120):
            glass = random.choice([(92, 116, 140), (120, 144, 168), (246, 226, 150)])
            draw.rectangle((x, y, x + 70, y + 110), fill=glass, outline=(240, 238, 230), width=6)
    door = (left + right) // 2
    draw.rectangle((door - 50, bottom - 220, door + 50, bottom), fill=(78, 58, 48))


def _car(draw: ImageDraw.ImageDraw, left: int) -> None:
    draw.rounded_rectangle((left, 1900, left + 520, 2050), 50, fill=(170, 52, 48))
    draw.rounded_rectangle((left + 100, 1810, left + 410, 1930), 50, fill=(150, 44, 42))
    draw.rectangle((left + 130, 1834, left + 245, 1900), fill=(198, 220, 232))
    draw.rectangle((left + 265, 1834, left + 380, 1900), fill=(198, 220, 232))
    for x in (left + 120, left + 400):
        draw.ellipse((x - 54, 1996, x + 54, 2104), fill=(30, 30, 32))


def _sign(draw: ImageDraw.ImageDraw, x: int, y: int) -> Box:
    draw.rectangle((x - 7, y, x + 7, 1900), fill=(52, 54, 58))
    draw.ellipse((x - 34, y - 70, x + 34, y), fill=(255, 240, 190))
    box = (x + 8, y + 120, x + 128, y + 168)
    draw.rectangle(box, fill=(24, 74, 140), outline=(240, 240, 240), width=2)
    for line, text in enumerate(SIGN_TEXT):
        draw.text(
            (x + 68, y + 134 + 20 * line), text, fill=(250, 250, 250), font=ImageFont.load_default(14), anchor="mm"
        )
    return x - 60, y + 80, x + 200, y + 208


DIALECT = "codedance"
"""Its sandbox rolls a failed call back, which the demo shows."""

demo_verb = typer.Typer(add_completion=False, rich_markup_mode=None)


@dataclass(frozen=True, slots=True)
class DemoStep:
    """One turn of the demo: what the model thinks, and the code it writes."""

    thought: str
    code: str
    shows: bool = False
    """Whether a picture must come back."""
    fails: bool = False
    """Whether it must fail and be rolled back."""
    prints: str = ""
    """Text that must be printed."""


@demo_verb.command()
def demo(
    image: Annotated[Path | None, typer.Option(help="A photo to look at, instead of the drawn street.")] = None,
    out: Annotated[Path, typer.Option(help="Run folder for the episode and its page.")] = Path("runs/demo"),
) -> None:
    """Play an episode on a picture and make a page of it."""
    from saccade.cli.screen import AskScreen
    from saccade.report.page import Site

    scene = draw_street() if image is None else _photo(image)
    steps = steps_for(scene.look_at)
    question = "What is written on the small sign?" if image is None else "What is in the middle of the picture?"
    answer = " / ".join(SIGN_TEXT) if image is None else "(The turns of this demo are written beforehand.)"
    console = plain_console(highlight=False)
    console.print("The turns are written beforehand; the loop, the dialect and the sandbox are real.", style="dim")
    screen = AskScreen(console)
    with one_writer(out):
        folder = RunFolder(out)
        trajectory = asyncio.run(play(scene, question, steps, answer, folder, screen))
        folder.append(trajectory)
        screen.ended(trajectory)
        site = Site(out / "index.html", folder.store)
        site.add(trajectory)
        if image is None:
            _tiny(out, folder.store, console, site)
        console.print(f"The episodes as a page: {site.finish().page}")
    wrong = failures(trajectory, steps)
    if wrong:
        console.print(f"Turns {wrong} did not give what they should. Run `saccade doctor`, and please report it.")
        raise typer.Exit(1)


def _tiny(out: Path, store: MediaStore, console: Console, site: Site) -> None:
    """Run the model that comes with Saccade, where it can be had; its episodes go onto the page."""
    # A place of its own for each time, so that nothing of an earlier demo is lost.
    number = next(number for number in count() if not (out / f"tiny-{number}").exists())
    folder = out / f"tiny-{number}"
    try:
        episodes = 2 * TASKS * len(FAMILIES)
        console.print(
            f"saccade-tiny plays {episodes} episodes, half of them without code; this takes a while.", style="dim"
        )
        with plain_console(stderr=True).status("saccade-tiny looks, writes and runs") as status:
            rows = asyncio.run(play_tiny(folder, lambda name, done, right: status.update(Text(f"tiny: {name}"))))
    except UnavailableError as error:
        console.print(f"Left out, the bundled model saccade-tiny: {error}", style="yellow", markup=False)
        return
    print_tiny(console, rows)
    for kept in sorted(folder.glob(f"*/{TRAJECTORIES}")):
        own = MediaStore(kept.parent / MEDIA)
        for trajectory in read_lines(kept, Trajectory):
            for part in trajectory.media():
                store.put_blob(own.get_bytes(part.sha256))
            site.add(trajectory)


def steps_for(look_at: Box) -> tuple[DemoStep, ...]:
    """Return the turns of the demo, for a picture in which `look_at` (`xyxy` pixels) is worth a second look."""
    return (
        DemoStep(
            "The picture is large. First a smaller copy of all of it.",
            "print(input_image.size, input_image.mode)\ninput_image.reduce(4)",
            shows=True,
        ),
        DemoStep(
            "Something small is there. I cut it out.",
            "import matplotlib.pyplot as plt\n"
            f"crop = input_image.crop({look_at})\nplt.imshow(crop)\nplt.title('crop')\nplt.show()",
            shows=True,
        ),
        DemoStep(
            "Still small: I enlarge it four times.",
            "zoom = crop.resize((crop.width * 4, crop.height * 4))\nzoom.show()",
            shows=True,
        ),
        DemoStep(
            "A slip: names are changed, and then the code fails.",
            "crop = None\nreading = 'half done'\nprint(zoom.getpixel((10**6, 0)))",
            fails=True,
        ),
        DemoStep(
            "Nothing of the failed code should have stayed.",
            "print('crop:', crop.size)\nprint('reading is known:', 'reading' in globals())",
            prints="reading is known: False",
        ),
    )


async def play(
    scene: DemoScene, question: str, steps: tuple[DemoStep, ...], answer: str, folder: RunFolder, screen: AskScreen
) -> Trajectory:
    """Return the episode, played through the loop in a local sandbox."""
    from saccade.models.scripted import ScriptedModel

    dialect = load_dialect(DIALECT)
    task = Task(
        id="demo",
        question=question,
        media=(NamedMedia(name="street", part=folder.store.put_image(scene.picture)),),
        evidence=(EvidenceBox(image="street", xyxy=scene.look_at),),
        source="demo",
    )
    texts = [dialect.write(Code(code=step.code), step.thought) for step in steps]
    model = ScriptedModel([*texts, dialect.write(Answer(text=answer), "Now I can read it.")])
    plan = Plan(task, dialect, rollout=folder.next_rollout(task.id))
    async with LocalSandbox(limits=dialect.sandbox) as box:
        return await run_episode(plan, model, box, folder.store, watch=screen)


def failures(trajectory: Trajectory, steps: tuple[DemoStep, ...]) -> list[int]:
    """Return numbers, from 1, of the turns that did not do what they should; the answer is the last."""
    wrong = []
    for number, step in enumerate(steps):
        turn = trajectory.turns[number] if number < len(trajectory.turns) else None
        done = turn.execution if turn is not None else None
        good = (
            done is not None
            and (done.status == "ok") is done.committed is not step.fails
            and bool(done.pictures) is step.shows
            and step.prints in done.stdout
        )
        if not good:
            wrong.append(number + 1)
    return wrong if trajectory.answer is not None else [*wrong, len(steps) + 1]


def _photo(path: Path) -> DemoScene:
    from saccade.media.decode import decode

    try:
        data = path.read_bytes()
    except OSError as error:
        raise DecodeError(f"{path} cannot be read: {error.strerror}. Check the path of --image.") from error
    picture = decode(data)
    return DemoScene(picture, centre(picture))


# The second half of the demo: the model that comes with Saccade answers generated questions that it has never seen.
#
# Nothing is written beforehand here: the model reads the question, looks or writes a program, and answers from what
# came back. A few tasks of some families, with code and without; docs/tiny.md has the table over all families and more
# tasks.


TASKS = 5
"""Of each family."""
_SIGNS: dict[str, Any] = {"megapixels": (1.0, 1.4), "detail": 24, "dot_percent": 100, "plate_percent": 220}
_SIGNS |= {"signs": 7, "conjunction": 0, "clutter": 20, "grain": 0}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "visual search": ("visual-search", _SIGNS | {"kinds": ("dot",)}),
    "counting shapes": ("shape-count", {}),
    "line crossings": ("line-crossings", {}),
    "nested squares": ("nested-squares", {}),
    "rows and columns": ("grid-count", {}),
    "touching circles": ("touching-circles", {}),
}
"""World and knobs by name."""

Tell = Callable[[str, int, int], None]
"""Hears the family, how many of its tasks were played, and how many of those were right."""


def _quiet(name: str, done: int, right: int) -> None:
    pass


async def play_tiny(out: Path, tell: Tell = _quiet) -> list[ExamRow]:
    """Return some tasks of the test split of each family; their episodes are kept in folders below `out`.

    Raises:
        UnavailableError: a package or the weights are not there.
    """
    missing = [f"`{name}`" for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        raise UnavailableError(f"not installed: {', '.join(missing)}. Run: {install('local')}")
    from saccade.models.registry import load_model

    model = load_model("tiny")
    rows = []
    for name, (world, knobs) in FAMILIES.items():
        exam = Exam(name=name, worlds=(world,), knobs={world: knobs})
        rows.append(await hold_exam(exam, TASKS, model, out, tell))
    await model.close()
    return rows


def print_tiny(console: Console, rows: list[ExamRow]) -> None:
    """Print how many were right, with code and without."""
    title = "saccade-tiny on tasks that it has not seen (the programs are its own; docs/tiny.md has more)"
    table = Table(title=title, title_justify="left")
    for column in ("family", "tasks", "right without code", "right with code"):
        table.add_column(column)
    for row in rows:
        table.add_row(row.name, str(row.tasks), str(row.without_code), str(row.with_code))
    console.print(table)


# The exam of a tiny model: tasks of seeds that no demonstration has, with code and without, one row for each family.
# Greedy, so the same weights give the same table on one machine; every episode is kept in a run folder.


WITHOUT_CODE = "tiny:direct"
_MOST_TOKENS = 700
"""Of a turn: longer than the longest program of a demonstration."""


class Exam(Settings):
    """One line of the table: a family of tasks on seeds that no demonstration has."""

    name: str
    worlds: tuple[str, ...] = Field(min_length=1)
    dialect: str = "tiny:look"
    knobs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    target: float | None = Field(None, ge=0, le=1)
    """Share of right answers that is aimed at."""


@dataclass(frozen=True, slots=True)
class ExamRow:
    """Result of one exam."""

    name: str
    tasks: int
    with_code: int
    """Right answers."""
    without_code: int | None
    """None where the dialect has no form without code."""
    target: float | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def hold_exam(exam: Exam, n: int, model: Model, out: Path, tell: Tell = _quiet, *, start: int = 0) -> ExamRow:
    """Ask `n` tasks of the test split of each world of `exam`, from number `start` on, into run folders under `out`.

    Raises:
        SettingsError: a knob is wrong, or `out` holds other episodes already.
    """
    settings = SynthSettings.model_validate(
        {"sources": exam.worlds, "dialect": exam.dialect, "n": n, "start": start, "split": "test", "knobs": exam.knobs}
    )
    total = n * len(exam.worlds)
    right = await _sat(exam.name, settings, model, out / exam.name, tell)
    if "video" in exam.dialect:
        return ExamRow(exam.name, total, right, None, exam.target)
    direct = settings.model_copy(update={"dialect": WITHOUT_CODE})
    guessed = await _sat(f"{exam.name} without code", direct, model, out / f"{exam.name}-without-code", tell)
    return ExamRow(exam.name, total, right, guessed, exam.target)


async def _sat(name: str, settings: SynthSettings, model: Model, out: Path, tell: Tell) -> int:
    dialect = load_dialect(settings.dialect)
    folder = RunFolder(out)
    listed = Jobs(settings)
    grade = ExactMatch()
    right = 0
    async with LocalSandbox(limits=dialect.sandbox) as sandbox:
        for number, job in enumerate(listed, 1):
            task = listed.make(job, folder.store)
            plan = Plan(task, dialect, sampling=Sampling(temperature=0.0, max_tokens=_MOST_TOKENS))
            played = await run_episode(plan, model, sandbox, folder.store)
            (part,) = grade(played)
            folder.append(played.with_scores([Score(name=CORRECT, value=part.value)]))
            right += part.value == 1.0
            tell(name, number, right)
    return right


worlds_verb = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

WorldArgument = Annotated[str, typer.Argument(help="A world, as `saccade worlds list` names it.")]
CountOption = Annotated[int, typer.Option("--n", min=1, help="How many samples.")]
Start = Annotated[int, typer.Option(min=0, help="Index of the first sample.")]
SplitName = Annotated[str, typer.Option("--split", help="train, validation or test.")]
KnobOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A knob, as in signs=12; may be repeated.")
]


@worlds_verb.callback()
def worlds() -> None:
    """Show worlds that draw tasks from a seed, with the gold answer and where it can be seen."""


@worlds_verb.command("list")
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


@worlds_verb.command()
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


@worlds_verb.command()
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
