"""Folders that a person reviews in tests: a run and tasks, and a server for them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from tests.serving import served
from tests.training.sft.curate.cases import Runs, blobs, ran, said

from saccade.media.store import MediaStore
from saccade.record.codec import write_lines
from saccade.record.task import AnswerType, EvidenceBox, NamedMedia, Task
from saccade.training.sft.review import DecisionLog, ReviewItems
from saccade.training.sft.review_server import Reviewer, review_app

TOKEN = "secret-token"
HOSTILE = "</textarea><script>alert(1)</script><img src=x onerror=alert(2)>"


def run_folder(root: Path) -> Path:
    runs = Runs(root)
    picture = runs.put(blobs(1))
    return runs.write(
        runs.trajectory("a", ran(), said("5"), picture=picture, correct=1.0),
        runs.trajectory("b", said(HOSTILE), correct=0.0, task={"question": HOSTILE}),
        runs.trajectory("c", said("7"), correct=0.0),
    )


def task_folder(root: Path) -> Path:
    folder = root / "tasks"
    part = MediaStore(folder / "media").put_image(blobs(2))
    box = EvidenceBox(image="photo", xyxy=(10, 20, 40, 50))
    photo = NamedMedia(name="photo", part=part)
    write_lines(
        folder / "tasks.jsonl",
        [
            Task(id="t1", question="Which?", answer="red", media=(photo,), evidence=(box,)),
            Task(id="t2", question="A?", answer="x", choices=("x", "y"), answer_type=AnswerType.CHOICE),
            Task(id="t3", question="B?", answer="z"),
        ],
    )
    return folder


def reviewing(folder: Path) -> AbstractContextManager[int]:
    """The port on which a folder is reviewed."""
    return served(review_app(Reviewer(ReviewItems.open(folder), DecisionLog(folder), TOKEN)))
