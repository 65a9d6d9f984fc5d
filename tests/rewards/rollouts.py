"""Small rollouts in which every fact that rewards read can be set."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from saccade.record.content import Action, Answer, Code, ImagePart, ParseError, ToolCall
from saccade.record.execution import Execution, ExecutionFile, ExecutionPicture, Status
from saccade.record.task import EvidenceBox, NamedMedia, Task
from saccade.record.trajectory import Score, StopReason, Trajectory, Turn
from saccade.rewards.reward import JudgeVerdict, Reward, RewardGroup, RewardPreset


def part(name: str, width: int = 400, height: int = 300) -> ImagePart:
    digest = sha256(name.encode()).hexdigest()
    return ImagePart(sha256=digest, width=width, height=height, mode="RGB", mime="image/png")


PHOTO = part("photo")
TASK = Task(id="t", question="What colour is the sign?", media=(NamedMedia(name="photo", part=PHOTO),), answer="red")
GOLD = EvidenceBox(image="photo", xyxy=(100, 100, 140, 140))
SEARCH = TASK.model_copy(update={"evidence": (GOLD,)})


def ran(code: str = "crop()", *pictures: str, status: Status = Status.OK, stdout: str = "1\n", **fields: Any) -> Turn:
    """A turn of code; `pictures` are names, equal names are equal pictures."""
    shown = tuple(ExecutionPicture(image=part(name), source="show") for name in pictures)
    execution = Execution(status=status, pictures=shown, stdout=stdout, **fields)
    text = f"<think>Look.</think>\n<code>\n```python\n{code}\n```\n</code>"
    return Turn(text=text, action=Code(code=code), execution=execution)


def called(*pictures: str, name: str = "crop", **fields: Any) -> Turn:
    """A turn of VISTA's protocol."""
    shown = tuple(ExecutionPicture(image=part(picture), source="tool") for picture in pictures)
    execution = Execution(**{"status": Status.OK, "pictures": shown, "value": "done", **fields})
    text = f'<think>Look.</think><tool_call>{{"tool": "{name}"}}</tool_call>'
    return Turn(text=text, action=ToolCall(name=name, arguments={}), execution=execution)


def answered(text: str = "red") -> Turn:
    return Turn(text=f"<think>It is red.</think>\n<answer>{text}</answer>", action=Answer(text=text))


def boxed(text: str = "red") -> Turn:
    return Turn(text=f"So.\n<answer>\n\\boxed{{{text}}}\n</answer>", action=Answer(text=text))


def wrote(text: str, action: Action | None = None) -> Turn:
    return Turn(text=text, action=action or ParseError(reason="no action"))


def rollout(*turns: Turn, correct: float | None = 1.0, task: Task = TASK, **fields: Any) -> Trajectory:
    """A rollout of `task` with the score `correct`."""
    over = bool(turns) and isinstance(turns[-1].action, Answer)
    known = {
        "id": "r",
        "task": task,
        "turns": turns,
        "stop": StopReason.ANSWERED if over else StopReason.TURN_LIMIT,
        "scores": (Score(name="correct", value=correct),),
    }
    return Trajectory(**{**known, **fields})


def lost(*turns: Turn) -> Trajectory:
    return rollout(*turns, stop=StopReason.SANDBOX_LOST)


def scored(preset: RewardPreset, *trajectories: Trajectory, verdicts: Any = ()) -> tuple[Reward, ...]:
    """Rewards of one group; a verdict is a score or None."""
    rows = tuple(
        tuple(
            None if value is None else value if isinstance(value, JudgeVerdict) else JudgeVerdict(score=value)
            for value in row
        )
        for row in verdicts
    )
    return preset(RewardGroup(trajectories, rows))


def file(path: str) -> ExecutionFile:
    return ExecutionFile(path=path, size=10)
