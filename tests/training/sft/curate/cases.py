"""Small trajectories, their runs on the disk, and pipelines over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from saccade.media.store import MediaStore
from saccade.record.codec import read_lines, write_lines
from saccade.record.content import Answer, Code, ImagePart, Message, ParseError, TextPart
from saccade.record.execution import Execution, Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Provenance, Score, StopReason, Trajectory, Turn
from saccade.training.sft.curate.pipeline import CurateReport, DroppedTrajectory, parse_pipeline
from saccade.training.sft.curate.run import curate


def blobs(seed: int, size: tuple[int, int] = (96, 72)) -> Image.Image:
    """Soft coloured blobs: a picture of some structure, another for each seed."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)


def ran(code: str = "print(1)", status: Status = Status.OK) -> Turn:
    return Turn(
        text=f"<code>\n```python\n{code}\n```\n</code>",
        action=Code(code=code),
        execution=Execution(status=status),
        observation=Message(role="user", parts=(TextPart(text="<interpreter>1</interpreter>\n"),)),
    )


def mumbled() -> Turn:
    return Turn(text="hm", action=ParseError(reason="no action"))


def said(text: str) -> Turn:
    return Turn(text=f"<answer>\n\\boxed{{{text}}}\n</answer>", action=Answer(text=text))


class Runs:
    """Run folders under one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.out = root / "out"
        self._written: list[Path] = []

    def put(self, image: Image.Image, run: str = "run") -> ImagePart:
        return MediaStore(self.root / run / "media").put_image(image)

    def trajectory(self, id_: str, *turns: Turn, picture: ImagePart | None = None, **fields: Any) -> Trajectory:
        """A trajectory of the task `task-ID`; fields of the task under `task`, a value of `correct` under `correct`."""
        task: dict[str, Any] = {"id": f"task-{id_}", "question": f"What is {id_}?", "answer": "5"}
        if picture is not None:
            task["media"] = (NamedMedia(name="photo", part=picture),)
        task |= fields.pop("task", {})
        correct = fields.pop("correct", None)
        known: dict[str, Any] = {
            "id": id_,
            "task": Task(**task),
            "provenance": Provenance(dialect="pyvision@1:repo"),
            "turns": turns or (said("5"),),
            "stop": StopReason.ANSWERED,
            "scores": () if correct is None else (Score(name="correct", value=correct),),
        }
        return Trajectory(**{**known, **fields})

    def write(self, *trajectories: Trajectory, run: str = "run") -> Path:
        folder = self.root / run
        folder.mkdir(exist_ok=True)
        write_lines(folder / "trajectories.jsonl", trajectories)
        return folder

    def curate(self, *filters: Mapping[str, Any], runs: Sequence[str] = ("run",), category: str = "source") -> Result:
        """Each call writes a folder of its own, `out`."""
        pipeline = parse_pipeline({"category": category, "filter": [dict(table) for table in filters]})
        if self.out in self._written:
            self.out = self.root / f"out-{len(self._written)}"
        self._written.append(self.out)
        report = curate([self.root / run for run in runs], pipeline, self.out, cache=self.root / "cache")
        return Result(self.out, report)


class Result:
    """What a pipeline wrote."""

    def __init__(self, out: Path, report: CurateReport) -> None:
        self.report = report
        self.kept = list(read_lines(out / "trajectories.jsonl", Trajectory))
        self.ids = [trajectory.id for trajectory in self.kept]
        self.lines = list(read_lines(out / "dropped.jsonl", DroppedTrajectory))
        self.reasons = {line.id: line.reason for line in self.lines}
        self.undecided = [line.id for line in self.lines if line.outcome == "undecided"]
