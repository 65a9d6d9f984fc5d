"""The plan of a supervised run's memory."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from tests.tasks.sources.files import jsonl, picture
from tests.training.sft.train.support import settings, write_run

from saccade.cli.main import main
from saccade.core.recipes import find_recipe, recipe_names
from saccade.core.settings import load_settings
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory
from saccade.training.parallel import Processes
from saccade.training.sft.run import plan_memory, train, validation_tasks
from saccade.training.sft.settings import SftSettings

SEVEN = "model.source=Qwen/Qwen2.5-VL-7B-Instruct"


@pytest.mark.slow
def test_a_plan_needs_no_data_and_no_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    given = ["sft", "plain", "--model", str(tmp_path), "--plan"]
    assert main([*given, "--gpu-memory", "8"]) == 0
    said = capsys.readouterr().out
    assert "activations" in said
    assert "It fits." in said
    assert main([*given, "--gpu-memory", "2.2", "--set", "batch.tokens=400000"]) == 2
    assert "batch.tokens" in capsys.readouterr().err


@pytest.mark.parametrize("name", recipe_names("sft"))
def test_shipped_recipes_say_what_decides_the_memory(name: str) -> None:
    """In the file itself: a default may change, and who reads a recipe need not know it."""
    said = tomllib.loads(find_recipe("sft", name).read_text())
    assert said["data"]["most_tokens"] <= said["batch"]["tokens"], "or the longest row is a pass of its own"
    assert said["model"]["gradient_checkpointing"]
    assert isinstance(said["model"]["shard"], bool)
    assert said["batch"]["trajectories"] > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", recipe_names("sft"))
def test_shipped_recipes_fit_eight_gpus_of_80_gib(name: str) -> None:
    settings = load_settings(SftSettings, find_recipe("sft", name), [SEVEN])
    plan_memory(settings, 8, "cuda").check(80.0)
    if settings.model.shard:
        with pytest.raises(SettingsError, match="shard"):
            plan_memory(settings, 1, "cuda").check(80.0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_adapters_fit_one_gpu_of_32_gib() -> None:
    plan_memory(load_settings(SftSettings, find_recipe("sft", "lora"), [SEVEN]), 1, "cuda").check(32.0)


def test_tasks_of_any_sources_are_played_and_graded_while_a_run_trains(tiny: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "runs", 4)
    picture(tmp_path / "photos" / "a.png")
    rows = [{"image": "a.png", "question": f"{number}?", "answer": str(number)} for number in range(3)]
    jsonl(tmp_path / "photos" / "questions.jsonl", rows)
    validation = {
        "every": 1,
        "source": [str(tmp_path / "photos"), "pixel-colour"],
        "tasks": 1,
        "k": 2,
        "dialect": "codedance",
        "sampling": {"temperature": 1.0, "max_tokens": 4},
    }
    given = settings(tiny, tmp_path / "runs", steps=2, validation=validation)
    train(given, tmp_path / "out")
    lines = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [line["played"] for line in lines if "played" in line] == [4, 4]
    assert all(0 <= line["played_accuracy"] <= 1 for line in lines if "played" in line)
    for step in (1, 2):
        kept = list(read_lines(tmp_path / "out" / "validation" / str(step) / "trajectories.jsonl", Trajectory))
        assert {item.task.source for item in kept} == {"photos", "pixel-colour@1"}
        assert len({(item.task.id, item.rollout) for item in kept}) == 4
    assert len((tmp_path / "out" / "samples.jsonl").read_text().splitlines()) == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dialect": "", "source": "maze"}, "validation.dialect must"),
        ({"dialect": "codedance", "source": "maze", "k": 2}, "greedy answers to one task are the same"),
        ({"dialect": "codedance", "source": "mase"}, "Did you mean 'maze'"),
        ({"session": {"wall_seconds": 9.0}}, "validation.source is empty"),
        (
            {"dialect": "codedance", "source": "maze", "sandbox": "http://there", "session": {"memory_bytes": 2**30}},
            "its limits are its server's",
        ),
    ],
)
def test_what_cannot_be_played_is_refused_before_the_first_step(
    tiny: Path, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    write_run(tmp_path / "runs", 2)
    given = settings(tiny, tmp_path / "runs", steps=1, validation={"every": 1, **change})
    with pytest.raises(SettingsError, match=message):
        train(given, tmp_path / "out")
    assert not (tmp_path / "out" / "metrics.jsonl").exists()


def test_tasks_are_played_with_the_limits_and_the_prompt_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("User prompt:\nMine: {query}")
    given = SftSettings.model_validate(
        {
            "data": {"prompt_file": str(tmp_path / "mine.txt")},
            "validation": {"dialect": "codedance", "source": "pixel-colour", "session": {"wall_seconds": 7.0}},
        }
    )
    played = validation_tasks(given, {}, tmp_path, Processes(cpu=True))
    assert played is not None
    task = played.tasks.make(played.tasks.ids[0], MediaStore(tmp_path / "media"))
    assert f"Mine: {task.question}" in played.dialect.open(task).messages[-1].text
    assert played.dialect.sandbox.wall_seconds == 7.0
