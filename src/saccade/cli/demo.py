"""`saccade demo`: whole episodes without a key or a GPU: text, code, what comes back, the answer.

In the first no model is called: its turns are written here; the loop, the dialect and the sandbox are the real ones.
Then the model that comes with Saccade answers generated questions by itself (see `demo_tiny`). Everything is kept in a
run folder, and a page is made of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from saccade.cli.demo_scene import SIGN_TEXT, Box, DemoScene, centre, draw_street
from saccade.cli.plain import plain_console
from saccade.errors import DecodeError, UnavailableError
from saccade.record.trajectory import Trajectory

if TYPE_CHECKING:
    from saccade.cli.ask_screen import AskScreen
    from saccade.episode.run_folder import RunFolder
    from saccade.media.store import MediaStore
    from saccade.report.site import Site

DIALECT = "codedance"
"""Its sandbox rolls a failed call back, which the demo shows."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


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
    """What must be printed."""


@app.command()
def demo(
    image: Annotated[Path | None, typer.Option(help="A photo to look at, instead of the drawn street.")] = None,
    out: Annotated[Path, typer.Option(help="Run folder for the episode and its page.")] = Path("runs/demo"),
) -> None:
    """Play an episode on a picture and make a page of it."""
    from saccade.cli.ask_screen import AskScreen
    from saccade.episode.run_folder import RunFolder
    from saccade.report.site import Site

    scene = draw_street() if image is None else _photo(image)
    steps = steps_for(scene.look_at)
    question = "What is written on the small sign?" if image is None else "What is in the middle of the picture?"
    answer = " / ".join(SIGN_TEXT) if image is None else "(The turns of this demo are written beforehand.)"
    folder = RunFolder(out)
    console = plain_console(highlight=False)
    console.print("The turns are written beforehand; the loop, the dialect and the sandbox are real.", style="dim")
    screen = AskScreen(console)
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
    """What the model that comes with Saccade does, where it can be had; its episodes go onto the page."""
    from saccade.cli.demo_tiny import play_tiny, print_tiny
    from saccade.episode.run_folder import MEDIA, TRAJECTORIES
    from saccade.media.store import MediaStore
    from saccade.record.codec import read_lines

    # A place of its own for each time, so that nothing of an earlier demo is lost.
    number = next(number for number in count() if not (out / f"tiny-{number}").exists())
    folder = out / f"tiny-{number}"
    try:
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
    """The turns of the demo, for a picture in which `look_at` (`xyxy` pixels) is worth a second look."""
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
    """The episode, played through the loop in a local sandbox."""
    from saccade.dialects.registry import load_dialect
    from saccade.episode.drive import run_episode
    from saccade.episode.plan import Plan
    from saccade.models.scripted import ScriptedModel
    from saccade.record.action import Answer, Code
    from saccade.record.task import EvidenceBox, NamedMedia, Task
    from saccade.sandbox.local import LocalSandbox

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
    """Numbers, from 1, of the turns that did not do what they should; the answer is the last."""
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
