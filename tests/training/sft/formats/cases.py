"""Episodes in several dialects, as their own objects write them, and conversions of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from saccade.dialects.base import load_dialect
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines, write_lines
from saccade.record.content import Action, Answer, Code, ImagePart, ToolCall
from saccade.record.execution import Execution, ExecutionPicture, Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import FinishReason, Provenance, Score, StopReason, Trajectory, Turn
from saccade.training.sft.formats.base import ConversionOptions, Converted, convert, load_format

CODE = ("pyvision@1:repo", "pyvision-rl-image@1", "codedance@1", "codev@1", "thyme@1:eval")
ALL = (*CODE, "deepeyes@1:train", "vista@1", "native@1")


def picture(seed: int) -> Image.Image:
    return Image.new("RGB", (64 + seed % 7, 48), (seed * 37 % 256, seed * 91 % 256, seed * 11 % 256))


class Scene:
    """A store of pictures, and episodes that show them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run = root / "run"
        self.store = MediaStore(self.run / "media")

    def put(self, seed: int) -> ImagePart:
        return self.store.put_image(picture(seed))

    def execution(self, stdout: str, *seeds: int) -> Execution:
        shown = tuple(ExecutionPicture(image=self.put(seed), source="figure") for seed in seeds)
        return Execution(status=Status.OK, stdout=stdout, pictures=shown, committed=True)

    def episode(
        self, dialect_id: str, steps: Sequence[tuple[str, Execution]], answer: str = "5", **task: Any
    ) -> Trajectory:
        """What the model of a dialect writes and sees in `steps` of thought and outcome, and then its answer."""
        known: dict[str, Any] = {
            "id": "t",
            "question": "How many?",
            "media": (NamedMedia(name="photo", part=self.put(0)),),
            "answer": "5",
            "source": "made up",
        }
        task_ = Task(**{**known, **task})
        dialect = load_dialect(dialect_id)
        opening = dialect.open(task_)
        shown, turns = opening.pictures, []
        for number, (thought, execution) in enumerate(steps):
            observation = dialect.observe(execution, shown)
            shown = observation.pictures
            turns.append(
                self.turn(dialect_id, acting(dialect_id, number), thought, not turns).model_copy(
                    update={"execution": execution, "observation": observation.message}
                )
            )
        turns.append(self.turn(dialect_id, Answer(text=answer), "So.", not turns))
        return Trajectory(
            id=f"{task_.id}#0",
            task=task_,
            provenance=Provenance(dialect=dialect.id, model="m"),
            prompt=opening.messages,
            turns=tuple(turns),
            stop=StopReason.ANSWERED,
            scores=(Score(name="correct", value=1.0),),
            seconds=2.0,
        )

    def turn(self, dialect_id: str, action: Action, thought: str, first: bool) -> Turn:
        dialect: Any = load_dialect(dialect_id)
        more = {"first": first} if dialect_id.startswith("thyme") else {}
        text = dialect.write(action, thought, **more)
        return Turn(text=text, action=dialect.parse(text, FinishReason.STOP))

    def two_looks(self, dialect_id: str, **task: Any) -> Trajectory:
        """A call that shows a picture, one that prints, and the answer."""
        steps = [("Look.", self.execution("", 1)), ("Count.", self.execution("5\n"))]
        return self.episode(dialect_id, steps, **task)

    def write(self, *trajectories: Trajectory) -> Path:
        self.run.mkdir(exist_ok=True)
        write_lines(self.run / "trajectories.jsonl", trajectories)
        return self.run

    def convert(self, source: Path, from_: str, to: str, **options: Any) -> tuple[Path, Converted]:
        target = self.root / f"{len(list(self.root.iterdir()))}-{to}"
        formats = (load_format(from_), load_format(to))
        return target, convert(source, target, formats, ConversionOptions(**options))


def acting(dialect_id: str, number: int) -> Action:
    if dialect_id.startswith("deepeyes"):
        return ToolCall(name="image_zoom_in_tool", arguments={"bbox_2d": [1, 2, 30 + number, 40]})
    if dialect_id.startswith("vista"):
        return ToolCall(name="crop", arguments={"image": "image_0", "box": [1, 2, 30 + number, 40]})
    return Code(code=f"print({number})")


def read(run: Path) -> list[Trajectory]:
    return list(read_lines(run / "trajectories.jsonl", Trajectory))


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
