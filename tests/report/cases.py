"""Small episodes to make pages of, with real pictures in a store."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from saccade.media.store import MediaStore
from saccade.record.content import Action, Answer, Code, ImagePart, Message, TextPart, ToolCall
from saccade.record.execution import (
    Execution,
    ExecutionFile,
    ExecutionPicture,
    ExecutionRepair,
    ExecutionTimings,
    Status,
)
from saccade.record.task import AnswerType, EvidenceBox, NamedMedia, Task
from saccade.record.trajectory import (
    EpisodeLimits,
    FinishReason,
    Provenance,
    Sampling,
    Score,
    StopReason,
    TokenCounts,
    Trajectory,
    Turn,
)

SIZE = (400, 300)


def noise(size: tuple[int, int] = SIZE, seed: int = 0) -> Image.Image:
    """No part of it comes twice."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@dataclass
class Scene:
    """A store with one picture of noise, and what can be said about it."""

    root: Path
    picture: Image.Image = field(default_factory=noise)

    def __post_init__(self) -> None:
        self.store = MediaStore(self.root / "media")
        self.part = self.store.put_image(self.picture)

    def put(self, image: Image.Image) -> ImagePart:
        return self.store.put_image(image)

    def task(self, **fields: Any) -> Task:
        known: dict[str, Any] = {
            "id": "noise",
            "question": "What is in the corner?",
            "media": (NamedMedia(name="photo", part=self.part),),
        }
        return Task(**{**known, **fields})

    def episode(self, *turns: Turn, dialect: str = "pyvision@1:repo", **fields: Any) -> Trajectory:
        known: dict[str, Any] = {
            "id": "noise#0",
            "task": self.task(),
            "provenance": Provenance(dialect=dialect),
            "turns": turns,
            "stop": StopReason.ANSWERED if turns and isinstance(turns[-1].action, Answer) else StopReason.TURN_LIMIT,
            "seconds": 3.5,
        }
        return Trajectory(**{**known, **fields})

    def ran(self, code: str, *images: Image.Image, status: Status = Status.OK, committed: bool = True) -> Turn:
        """A turn of code and the pictures that came back."""
        pictures = tuple(ExecutionPicture(image=self.put(image), source="show") for image in images)
        execution = Execution(status=status, pictures=pictures, committed=committed)
        return Turn(
            text=f"<code>\n```python\n{code}\n```\n</code>",
            action=Code(code=code),
            execution=execution,
            observation=Message(role="user", parts=tuple(picture.image for picture in pictures)),
        )

    def called(self, name: str, arguments: dict[str, Any], *images: Image.Image) -> Turn:
        turn = self.ran("", *images)
        call = ToolCall(name=name, arguments=arguments)
        return turn.model_copy(update={"action": call, "text": f'<tool_call>{{"name": "{name}"}}</tool_call>'})


def answered(text: str = "a cat") -> Turn:
    return Turn(text=f"I see it.\n<answer>\n\\boxed{{{text}}}\n</answer>", action=Answer(text=text))


def filled(scene: Scene, text: str) -> Trajectory:
    """An episode with `text` in every field that takes text."""
    execution = Execution(
        status=Status.ERROR,
        stdout=text,
        stderr=text,
        value=text,
        traceback=text,
        pictures=(ExecutionPicture(image=scene.part, source="file", path=text),),
        files=(ExecutionFile(path=text, size=3),),
        repairs=(ExecutionRepair(name=text[:200], note=text),),
        notes=(text,),
        timings=ExecutionTimings(wall=0.2),
        layers=(text,),
    )
    said = Message(role="user", parts=(TextPart(text=text), scene.part))
    actions: list[Action] = [
        Code(code=text),
        Code(code=f"x = '''{text}'''"),
        ToolCall(name=text, arguments={text: text}),
    ]
    turns = [
        Turn(
            text=f"{text}\n```python\n{text}\n```\n{text}",
            action=action,
            execution=execution,
            observation=said,
            request=said,
        )
        for action in actions
    ]
    last = Turn(
        text=text,
        action=Answer(text=text),
        finish_reason=FinishReason.LENGTH,
        tokens=TokenCounts(context=10, context_visual=4, sampled=5),
        dollars=0.01,
    )
    name = text[:200]
    task = scene.task(
        id=name,
        question=text,
        media=(NamedMedia(name=name, part=scene.part),),
        choices=(text, "other"),
        answer=text,
        answer_type=AnswerType.CHOICE,
        evidence=(EvidenceBox(image=name, xyxy=(10, 10, 60, 50), label=text),),
        source=text,
        split=text,
    )
    return Trajectory(
        id=name,
        task=task,
        group=text,
        prompt=(said,),
        turns=(*turns, last),
        stop=StopReason.ANSWERED,
        stop_detail=text,
        scores=(Score(name=name, value=0.5, detail=text), Score(name="correct", value=1.0)),
        created=datetime(2026, 1, 2, tzinfo=UTC),
        provenance=Provenance(
            saccade=text,
            dialect=text,
            model=text,
            model_revision=text,
            state_policy=text,
            repairs=(text,),
            layers=(text,),
            settings=text,
            sampling=Sampling(temperature=0.5),
            limits=EpisodeLimits(turns=3),
        ),
    )
