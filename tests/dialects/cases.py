"""Tasks and executions that the tests of all dialects share, and messages in a short plain form."""

import hashlib
import json
from pathlib import Path
from typing import Any

from saccade.record.content import ImagePart, Message, TextPart, VideoPart
from saccade.record.execution import Execution, ExecutionPicture, PictureSource, Status
from saccade.record.task import AnswerType, NamedMedia, Task

GOLDEN = Path(__file__).parent / "golden"


def image(name: str, width: int = 640, height: int = 480) -> ImagePart:
    return ImagePart(sha256=hashlib.sha256(name.encode()).hexdigest(), width=width, height=height)


PHOTO, PLAN, PLOT, CROP = (image(name) for name in ("photo", "plan", "plot", "crop"))
CLIP = VideoPart(sha256="c" * 64, width=1280, height=720, frames=300, fps=29.97, seconds=10.01)
NAMES = {PHOTO: "photo", PLAN: "plan", PLOT: "plot", CROP: "crop", CLIP: "clip"}
SECRET = "the gold answer"


def task(question: str = "What is it?", pictures: tuple[ImagePart, ...] = (PHOTO,)) -> Task:
    media = tuple(NamedMedia(name=f"{NAMES[part]}.png", part=part) for part in pictures)
    return Task(id="t", question=question, media=media, answer=SECRET, program="print('secret program')")


def choice_task() -> Task:
    return Task(
        id="c",
        question="Which?",
        media=(NamedMedia(name="photo.png", part=PHOTO),),
        choices=("red", "blue"),
        answer="blue",
        answer_type=AnswerType.CHOICE,
    )


def video_task() -> Task:
    return Task(id="v", question="What is it?", media=(NamedMedia(name="clip.mp4", part=CLIP),), answer=SECRET)


def ok(stdout: str = "", *pictures: ImagePart, source: PictureSource = "figure", **more: Any) -> Execution:
    shown = tuple(ExecutionPicture(image=picture, source=source) for picture in pictures)
    return Execution(status=Status.OK, stdout=stdout, pictures=shown, committed=True, **more)


TRACE = 'Traceback (most recent call last):\n  File "<cell 1>", line 2, in <module>\n    int("x")\n'
ERROR = Execution(
    status=Status.ERROR, stdout="before\n", traceback=TRACE + "ValueError: invalid literal for int() with base 10: 'x'"
)
TIMEOUT = Execution(status=Status.TIMEOUT, traceback="The call took longer than 20 seconds and was ended.")


def plain(message: Message) -> dict[str, Any]:
    """A message as role and parts: text as it is, media by name."""
    parts = [part.text if isinstance(part, TextPart) else {part.kind: NAMES[part]} for part in message.parts]
    return {"role": message.role, "parts": parts}


def golden(name: str) -> dict[str, Any]:
    found = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found
