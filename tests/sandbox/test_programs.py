"""Programs as models write them run in the conventions of every dialect; `programs.txt` holds them."""

from __future__ import annotations

import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image, ImageDraw
from tests.media import clips
from tests.sandbox.providers import linux_only

from saccade.dialects.base import load_dialect
from saccade.record.content import ImagePart
from saccade.record.execution import Status
from saccade.record.task import AnswerType, NamedMedia, Task
from saccade.sandbox.base import Limits
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.result import RunResult

pytestmark = [linux_only, pytest.mark.timeout(300)]

CONVENTIONS = (
    *("pyvision-rl-image", "pyvision@1:repo", "pyvision@1:bound", "codedance@1:paper", "codedance@1:repo"),
    *("codev", "thyme", "native"),
)
DIALECTS = (("pyvision-rl-image", 8), *(pytest.param(name, 1, marks=pytest.mark.slow) for name in CONVENTIONS))
"""Which program of how many is tried; in the default suite a few of them in one dialect."""


@dataclass(frozen=True)
class Program:
    """One of `programs.txt`."""

    name: str
    pictures: int
    output: str
    needs: frozenset[str]
    code: str


def programs() -> list[Program]:
    """All whose packages are installed here."""
    text = (Path(__file__).parent / "programs.txt").read_text(encoding="utf-8")
    found = []
    for part in text.split("\n## ")[1:]:
        head, _, code = part.partition("\n")
        name, pictures, output, *needs = (field.strip() for field in head.split(" | "))
        found.append(Program(name, int(pictures), output, frozenset(" ".join(needs).split()), code.strip() + "\n"))
    packages = {name for program in found for name in program.needs} - {"path", "video"}
    packages |= {"av"}
    absent = {name for name in packages if importlib.util.find_spec(name) is None}
    absent |= {"video"} if "av" in absent else set()
    return [program for program in found if not program.needs & absent]


def scene() -> Image.Image:
    """The picture that the programs look at."""
    image = Image.new("RGB", (640, 480), (220, 220, 220))
    draw = ImageDraw.Draw(image)
    for x in (100, 300, 500):
        draw.ellipse((x - 40, 60, x + 40, 140), fill=(220, 20, 20))
    draw.rectangle((220, 330, 419, 389), fill=(20, 40, 200))
    draw.text((290, 220), "STOP 42", fill="black")
    return image


def wrong(program: Program, result: RunResult) -> str | None:
    """What is not as it should be, or None."""
    if result.status is not Status.OK:
        return f"{program.name}: {result.status.value}: {result.traceback}"
    if program.output not in result.stdout + result.stderr:
        return f"{program.name}: printed {result.stdout!r} {result.stderr!r}"
    if len(result.pictures) < program.pictures:
        return f"{program.name}: {len(result.pictures)} pictures, notes {result.notes}"
    return None


@pytest.mark.parametrize(("name", "every"), DIALECTS)
async def test_every_program_works_in_every_dialect(name: str, every: int) -> None:
    file = io.BytesIO()
    scene().save(file, "PNG")
    part = ImagePart(sha256="0" * 64, width=640, height=480, mime="image/png")
    dialect = load_dialect(name)
    media = (NamedMedia(name="image", part=part),)
    opening = dialect.open(Task(id="t", question="What?", answer="42", answer_type=AnswerType.TEXT, media=media))
    files = dict.fromkeys(opening.files, file.getvalue())
    variable = next(iter(opening.bindings), None)
    chosen = programs()[::every]
    if any("video" in program.needs for program in chosen):
        files["clip.mp4"] = clips.h264(40)
    first = variable or f"Image.open({next(iter(opening.files), '')!r})"
    wrongs = []
    async with LocalSandbox(limits=Limits(wall_seconds=60, cpu_seconds=60, pictures=32)) as box:
        session = await box.open(
            {**dict.fromkeys(opening.bindings, scene()), **opening.strings}, files=files, options=dialect.session
        )
        assert (await session.run(f"from PIL import Image\ngiven = {first}.copy()")).ok
        for program in chosen:
            saved = "image.save(path)" if "path" in program.needs else ""
            begun = await session.run(f"image, path, video = given.copy(), 'given.png', 'clip.mp4'\n{saved}")
            assert begun.ok, begun.traceback
            wrongs.append(wrong(program, await session.run(program.code)))
    assert "\n".join(filter(None, wrongs)) == ""
