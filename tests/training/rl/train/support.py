"""A toy run: a noisy dialect with two turns and pictures, and a reward for one kind of letter."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.training.rl.policies import Noise, Talkative

from saccade.episode.run_folder import MEDIA
from saccade.media.store import MediaStore
from saccade.record.codec import write_lines
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Score, Trajectory
from saccade.rewards.reward import Reward, RewardGroup, reward_each
from saccade.training.launch import complete, launch, launched
from saccade.training.rl.settings import RlSettings

WANTED = "e"


def letters(group: RewardGroup) -> tuple[Reward, ...]:
    """Share of the sampled tokens that hold the wanted letter."""

    def one(number: int, trajectory: Trajectory) -> Reward:
        text = "".join(turn.text for turn in trajectory.turns)
        count = sum(len(turn.token_ids or ()) for turn in trajectory.turns)
        return Reward(parts=(Score(name="letters", value=text.count(WANTED) / count),))

    return reward_each(group, one)


def write_tasks(root: Path, count: int) -> Path:
    store = MediaStore(root / MEDIA)
    tasks = []
    for number in range(count):
        part = store.put_image(Image.new("RGB", (56, 56 + 28 * (number % 2)), ("red", "green", "blue")[number % 3]))
        media = (NamedMedia(name="image", part=part),)
        tasks.append(Task(id=f"t{number}", question="Which colour?", media=media, answer="red"))
    write_lines(root / "tasks.jsonl", tasks)
    return root


def rl_settings(checkpoint: Path, tasks: Path, **more: Any) -> RlSettings:
    recipe: dict[str, Any] = {
        "dialect": "direct@1",
        "rollout": {"group_size": 4, "sampling": {"temperature": 1.0, "max_tokens": 6}, "limits": {"turns": 2}},
        "reward": {"preset": "pyvision-rl@1:paper"},
        "rounds": {"tasks": 2, "groups": 1, "rounds": 1},
        "optimizer": {"learning_rate": 1e-2},
        "steps": 4,
    }
    plain: dict[str, Any] = {
        "recipe": recipe | more.pop("recipe", {}),
        "model": {"source": str(checkpoint)},
        "tasks": {"source": str(tasks)},
        "validation": {"every": 0},
        "keep": {"every": 1, "tensorboard": False},
        "rollouts": {"every": 1},
        "threads": 1,
    }
    return RlSettings.model_validate(plain | more)


def metrics(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def untimed(out: Path) -> list[dict[str, Any]]:
    timed = ("second", "mfu", "bandwidth")
    return [{k: v for k, v in line.items() if not any(part in k for part in timed)} for line in metrics(out)]


def toy(monkeypatch: pytest.MonkeyPatch, *, talkative: bool = False) -> None:
    """Runs speak noise, and are paid for letters."""
    dialect = Talkative() if talkative else Noise()
    monkeypatch.setattr("saccade.training.rl.run.load_dialect", lambda name: dialect)
    monkeypatch.setattr("saccade.training.rl.recipe.load_reward", lambda name, parameters: letters)


def toy_run(settings: Path, out: Path) -> None:
    """Begin the run, or go on with it."""
    from saccade.core.settings import load_settings
    from saccade.training.rl.run import train

    toy(pytest.MonkeyPatch())
    train(load_settings(RlSettings, settings), out, resume=out.exists())


def main(settings: str, out: str, processes: str = "1") -> None:
    if launched():
        complete(toy_run, (Path(settings), Path(out)))
    elif processes == "1":
        toy_run(Path(settings), Path(out))
    else:
        launch(toy_run, (Path(settings), Path(out)), int(processes))


if __name__ == "__main__":
    main(*sys.argv[1:])
