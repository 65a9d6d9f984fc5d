"""A small run folder of real trajectories' shape, and settings that train a tiny checkpoint on it in a second."""

from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from saccade.episode.run_folder import RunFolder
from saccade.record.content import Action, Answer, Code, ImagePart, Message, TextPart
from saccade.record.execution import Execution, ExecutionPicture, Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import FinishReason, Trajectory, Turn
from saccade.training.sft.settings import SftSettings

COLOURS = ("red", "green", "blue", "black")


def picture(number: int, side: int = 64) -> Image.Image:
    image = Image.new("RGB", (side + 8 * (number % 3), side), "white")
    ImageDraw.Draw(image).rectangle((4, 4, 20 + number % 7, 24), fill=COLOURS[number % len(COLOURS)])
    return image


def said(role: Any, *parts: str | ImagePart) -> Message:
    return Message(role=role, parts=tuple(TextPart(text=part) if isinstance(part, str) else part for part in parts))


def turn(text: str, action: Action, observation: Message | None = None, status: Status = Status.OK) -> Turn:
    shown = () if observation is None else observation.media
    pictures = tuple(ExecutionPicture(image=part, source="figure") for part in shown if isinstance(part, ImagePart))
    execution = None if isinstance(action, Answer) else Execution(status=status, pictures=pictures)
    return Turn(
        text=text, action=action, execution=execution, observation=observation, finish_reason=FinishReason.STOP_STRING
    )


def trajectory(run: RunFolder, number: int, *, looks: int | None = None, broken: bool = False) -> Trajectory:
    """A question, `looks` pieces of code with a crop each (the first failing if `broken`), and an answer."""
    colour = COLOURS[number % len(COLOURS)]
    part = run.store.put_image(picture(number))
    crop = run.store.put_image(picture(number).crop((0, 0, 32, 32)))
    turns = []
    for look in range(number % 3 if looks is None else looks):
        code = f"plt.imshow(image.crop((0, 0, 32, {32 + look})))"
        failed = broken and look == 0
        back = said("user", "NameError: name 'plt'") if failed else said("user", "Here:\n", crop, "\nGo on.")
        status = Status.ERROR if failed else Status.OK
        turns.append(turn(f"<think>I crop.</think><code>{code}</code>", Code(code=code), back, status))
    turns.append(turn(f"<answer>{colour}</answer>", Answer(text=colour)))
    task = Task(id=f"colour-{number}", question="Which colour?", media=(NamedMedia(name="image", part=part),))
    prompt = (said("system", "Look closely."), said("user", part, "\nWhich colour has the square?"))
    return Trajectory(id=f"t{number}", task=task, prompt=prompt, turns=tuple(turns))


def write_run(root: Path, count: int, **more: Any) -> RunFolder:
    run = RunFolder(root)
    for number in range(count):
        run.append(trajectory(run, number, **more))
    return run


def settings(checkpoint: Path, *runs: Path, **more: Any) -> SftSettings:
    """Full training in float32 on one thread, four steps of four trajectories, without validation."""
    plain = {
        "data": {"runs": tuple(map(str, runs))},
        "model": {"source": str(checkpoint), "vision": "full"},
        "optimizer": {"learning_rate": 1e-3, "warmup": 0.25},
        "batch": {"trajectories": 4, "tokens": 512},
        "validation": {"every": 0, "fraction": 0.0},
        "keep": {"every": 2, "tensorboard": False},
        "steps": 4,
        "threads": 1,
    }
    for name, values in more.items():
        plain[name] = plain[name] | values if isinstance(plain.get(name), dict) else values
    return SftSettings.model_validate(plain)
