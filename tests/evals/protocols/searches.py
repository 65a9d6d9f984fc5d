"""Eight tasks that ask for a sign in one picture, and a model that plays each of them in another way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from saccade.episode.flow import Plan
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.codec import write_lines
from saccade.record.content import Answer, Code
from saccade.record.task import EvidenceBox, NamedMedia, Task

GOLD = (100.0, 100.0, 140.0, 140.0)

SCRIPTS: dict[str, tuple[str | None, str]] = {
    "t0": ("image.crop((90, 90, 150, 150)).save('part.png')", "red"),
    "t1": ("image.crop((300, 200, 380, 280)).save('part.png')", "red"),
    "t2": (None, "red"),
    "t3": ("image.crop((80, 80, 160, 160)).resize((320, 320)).save('part.png')", "blue"),
    "t4": ("imge.crop((90, 90, 150, 150)).save('part.png')", "blue"),
    "t5": ("for n, x in enumerate((0, 95)):\n    image.crop((x, 95, x + 50, 145)).save(f'{n}.bmp')", "red"),
    "t6": ("print('The colour: red')", "blue"),
    "t7": ("image.rotate(90, expand=True).save('turned.png')", "red"),
}
"""Task -> its code, and its answer; `red` is right."""


def noise(seed: int = 0) -> Image.Image:
    """A picture every part of which is found at one place alone."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (300, 400, 3), dtype=np.uint8))


def write_search_tasks(folder: Path) -> Path:
    store = MediaStore(folder / "media")
    photo = NamedMedia(name="photo", part=store.put_image(noise()))
    tasks = [
        Task(
            id=name,
            question="What colour is the sign?",
            media=(photo,),
            answer="red",
            evidence=(EvidenceBox(image="photo", xyxy=GOLD),),
            source="even" if number % 2 == 0 else "odd",
        )
        for number, name in enumerate(SCRIPTS)
    ]
    write_lines(folder / "tasks.jsonl", tasks)
    return folder


def scripted(plan: Plan) -> ScriptedModel:
    code, answer = SCRIPTS[plan.task.id]
    said = [] if code is None else [plan.dialect.write(Code(code=code), "Look.")]
    return ScriptedModel([*said, plan.dialect.write(Answer(text=answer), "So.")], name="scripted")
